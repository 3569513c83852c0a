"""The container of a component: command, environment, ports, probes, resources and mounts."""

from __future__ import annotations

import math
from typing import Any

from ragstow.render import flags
from ragstow.render.model import Item, Manifest

MIB = 1024 * 1024
PERIOD_SECONDS = 10
MODELS, DATA, SHM, CLAIM = "models", "data", "shm", "gpu"


def container(item: Item, unit_name: str, headless: str | None = None) -> Manifest:
    """The one container of a component's pod.

    Args:
        item: the component.
        unit_name: the name of its workload.
        headless: the headless Service of a StatefulSet; the replicas of a store find each other there.
    """
    serving = item.serving
    command = list(serving.command) if serving else []
    args = flags.arguments(item)
    extra_env: list[Manifest] = []
    if serving and serving.peers and headless and item.component.replicas > 1:
        peers = serving.peers
        script = (
            peers.script.replace("{peers}", headless).replace("{first}", f"{unit_name}-0").replace("{port}", str(peers.port))
        )
        command, args = list(peers.command), [script, *args]
        extra_env = [{"name": key, "value": value} for key, value in peers.env.items()]
    return {
        "name": item.name,
        "image": item.image,
        **({"command": command} if command else {}),
        **({"args": args} if args else {}),
        **_listed("env", [*extra_env, *environment(item)]),
        **_listed("ports", ports(item)),
        "resources": resources(item),
        **probes(item),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        **_listed("volumeMounts", mounts(item)),
    }


def environment(item: Item) -> list[Manifest]:
    """Environment variables: the engine's, the token by name of its Secret, then the user's (which win by coming last)."""
    serving, component = item.serving, item.component
    made: dict[str, Manifest] = {}
    for name, value in serving.env.items() if serving else ():
        made[name] = {"name": name, "value": value}
    token = item.service.model_token_secret
    if token is not None and serving is not None and serving.token_env and component.model:
        reference = {"secretKeyRef": {"name": token.name, "key": token.key}}
        made[serving.token_env] = {"name": serving.token_env, "valueFrom": reference}
    for variable in component.env:
        made.pop(variable.name, None)
        if variable.value_from is not None:
            made[variable.name] = {"name": variable.name, "valueFrom": dict(variable.value_from)}
        else:
            made[variable.name] = {"name": variable.name, "value": variable.value or ""}
    return list(made.values())


def ports(item: Item) -> list[Manifest]:
    """Named container ports; the one that serves comes first."""
    if item.port is None:
        return []
    made = [{"name": port_name(item), "containerPort": item.port, "protocol": "TCP"}]
    if item.serving is not None:
        more = dict(item.serving.more_ports)
        if item.serving.peers and item.component.replicas > 1:
            more["peers"] = item.serving.peers.port
        made += [{"name": name, "containerPort": number, "protocol": "TCP"} for name, number in more.items()]
    return made


def port_name(item: Item) -> str:
    """What the serving port is called."""
    return item.serving.port_name if item.serving is not None else "http"


def resources(item: Item) -> Manifest:
    """Requests equal to limits for everything, so the pod is Guaranteed (the API server demands it for extended resources).

    With a DRA claim the container names the claim instead of an extended resource.
    """
    amounts: dict[str, str] = {"cpu": str(item.component.cpu), "memory": str(item.component.memory)}
    if item.slot.resource is not None:
        amounts[item.slot.resource] = str(item.slot.count)
    made: Manifest = {"requests": amounts, "limits": dict(amounts)}
    if item.slot.mode == "dra":
        made["claims"] = [{"name": CLAIM}]
    return made


def start_seconds(item: Item) -> int:
    """How long a start may take: the engine's own time, and its weights at the slowest line that is planned for."""
    serving = item.serving
    seconds = serving.start_seconds if serving else 300
    if item.component.footprint is not None:
        return max(seconds, 1800)  # a private server that we know nothing about but its memory
    sizing = item.planned.sizing
    if serving is None or sizing is None or serving.load_mib_per_second is None:
        return seconds
    weights_mib = sizing.weights_bytes * max(sizing.cards, 1) / MIB
    return seconds + math.ceil(weights_mib / serving.load_mib_per_second)


def probes(item: Item) -> Manifest:
    """Start-up, readiness and liveness; a container that only has a port is probed on the socket."""
    if item.port is None:
        return {}
    serving = item.serving

    def probe(path: str | None) -> Manifest:
        return {"httpGet": {"path": path, "port": port_name(item)}} if path else {"tcpSocket": {"port": port_name(item)}}

    health = serving.health if serving else None
    ready = (serving.ready or health) if serving else None
    live = (serving.live or health) if serving else None
    tries = math.ceil(start_seconds(item) / PERIOD_SECONDS)
    return {
        "startupProbe": {**probe(health), "periodSeconds": PERIOD_SECONDS, "failureThreshold": tries, "timeoutSeconds": 5},
        "readinessProbe": {**probe(ready), "periodSeconds": 10, "failureThreshold": 3, "timeoutSeconds": 5},
        "livenessProbe": {**probe(live), "periodSeconds": 20, "failureThreshold": 6, "timeoutSeconds": 10},
    }


def needs_shm(item: Item) -> bool:
    """Whether the pod gets a /dev/shm of its own; under MPS the device plugin mounts the daemon's there."""
    return item.has_gpu and item.slot.mode != "mps" and item.serving is not None and item.serving.shm_mib is not None


def mounts(item: Item) -> list[Manifest]:
    """Volume mounts for model files, a store's data and shared memory."""
    serving = item.serving
    made: list[Manifest] = []
    if serving is not None and serving.model_dir and item.component.model:
        made.append({"name": MODELS, "mountPath": serving.model_dir})
    if serving is not None and serving.data_dir:
        made.append({"name": DATA, "mountPath": serving.data_dir})
    if needs_shm(item):
        made.append({"name": SHM, "mountPath": "/dev/shm"})
    if not made and item.component.cache is not None:
        made.append({"name": MODELS, "mountPath": "/models"})
    return made


def _listed(key: str, items: list[Any]) -> Manifest:
    return {key: items} if items else {}
