"""Plays the kubelet's device manager: which cards and slices each pod gets; and what exec, logs and ports of each pod lead to.

Whole cards are given by index, shares from the card with the most free ones, as the plugin prefers. A pod for which nothing is
left is rejected as the kubelet rejects it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstow.cluster.demand import pod_demand, resource_names
from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.live.client import ApiClient
from ragstow.live.failures import Conflict, Right
from ragstow.rules.index.stack import GpuStack
from ragstow.sharing.aftermath import aftermath
from ragstow.sharing.host import Cut, Host
from rig import kwok
from rig.machines import Guest, Machine, Uses, World

COMPONENT = "ragstow.dev/component"
_PREFIX = "nvidia.com/"


@dataclass(frozen=True)
class Said:
    """A log of the pods with these labels."""

    labels: Mapping[str, str]
    text: str
    previous: str | None
    namespace: str | None = None
    name: str | None = None

    def of(self, pod: Pod) -> bool:
        """Whether it is this pod's."""
        if self.name is not None and (pod.namespace, pod.name) != (self.namespace, self.name):
            return False
        return all(pod.labels.get(key) == value for key, value in self.labels.items())


@dataclass(frozen=True)
class _Given:
    """What a pod was given: resource -> ids of devices of its node."""

    node: str
    ids: Mapping[str, list[str]]


class Guests:
    """Devices of pods, and the objects that tell KWOK what their exec, logs and ports are."""

    def __init__(self, client: ApiClient, facts: Facts, world: World, folder: Path, uses: Uses) -> None:
        self.uses = uses
        self.endpoints: dict[str, dict[int, tuple[str, int]]] = {}
        """Component -> port of its pods -> where it leads."""
        self.said: list[Said] = []
        self._client = client
        self._facts = facts
        self._world = world
        self._folder = folder
        self._served: dict[str, dict[str, list[tuple[str, str]]]] = {}
        """Node -> resource -> (id, uuid)."""
        self._contents: dict[str, object] = {}
        self._given: dict[str, _Given] = {}
        """By uid of the pod."""
        self._told: dict[str, object] = {}
        """Uid of a pod -> what KWOK was told of it."""
        self._lock = threading.RLock()

    def serves(self, node: str, host: Host, content: tuple[str | None, tuple[Cut, ...]] | None) -> None:
        """A plugin serves a node with this configuration."""
        with self._lock:
            if content is None or self._contents.get(node) == content:
                return
            self._contents[node] = content
            self._served[node] = self._devices(node, host, content)

    def _devices(self, node: str, host: Host, content: tuple[str | None, tuple[Cut, ...]]) -> dict[str, list[tuple[str, str]]]:
        after = aftermath(host, content[0], content[1], self._facts)
        if isinstance(after, Reason):
            return {}
        machine = self._world.nodes[node]
        return {
            name: [(key, _uuid(machine, device.index)) for key, device in served.items()]
            for name, served in after.devices.items()
        }

    def lost(self, node: str, content: tuple[str | None, tuple[Cut, ...]], host: Host) -> dict[str, int]:
        """Resource -> how many of its devices are on dead cards."""
        with self._lock:
            machine = self._world.nodes[node]
            dead = {card.uuid for card in machine.cards if not card.healthy}
            dead |= {item.uuid for card in machine.cards if not card.healthy for item in card.mig or ()}
            if not dead:
                return {}
            devices = self._devices(node, host, content)
            return {name: sum(uuid in dead for _, uuid in items) for name, items in devices.items()}

    def busy(self, node: str) -> bool:
        """Whether a pod holds a card or slice of the node."""
        with self._lock:
            return any(guest.node == node and guest.devices for guest in self._world.pods.values())

    def look(self, snapshot: Snapshot, stack: GpuStack) -> None:
        """Give devices to pods that came, take them from pods that went."""
        with self._lock:
            there = {pod.uid: pod for pod in snapshot.pods if pod.node in self._world.nodes and not pod.finished}
            for uid in [uid for uid in self._given if uid not in there]:
                del self._given[uid]
            guests: dict[str, Guest] = {}
            for uid, pod in sorted(there.items(), key=lambda item: (item[1].created or "", item[1].key)):
                uuids = self._uuids(snapshot, pod, uid)
                if uuids is None:
                    continue
                sees_all = bool(stack.roles(pod))
                used = self.uses(pod.raw) if uuids else 0
                guests[f"{pod.namespace}/{pod.name}"] = Guest(str(pod.node), uuids, sees_all, used)
            if guests != self._world.pods:
                with self._world.changed() as world:
                    world.pods = guests
            for pod in snapshot.pods:
                if pod.node is not None and not pod.finished:
                    self._tell(pod)

    def _uuids(self, snapshot: Snapshot, pod: Pod, uid: str) -> list[str] | None:
        wanted = {name: pod_demand(pod, name) for name in sorted(resource_names(pod)) if name.startswith(_PREFIX)}
        claims = _claimed(snapshot, pod)
        node = str(pod.node)
        if uid not in self._given:
            found: dict[str, list[str]] = {}
            for name, count in wanted.items():
                if not count or claims:
                    continue
                ids = self._choose(node, name, count)
                if ids is None:
                    if pod.status.get("phase") in (None, "Pending"):
                        self._reject(pod, name, count)
                    return None
                found[name] = ids
            self._given[uid] = _Given(node, found)
        table = {key: uuid for items in self._served.get(node, {}).values() for key, uuid in items}
        mine = [table.get(item, item) for items in self._given[uid].ids.values() for item in items]
        return list(dict.fromkeys([*mine, *claims]))

    def _choose(self, node: str, name: str, count: int) -> list[str] | None:
        dead = {card.uuid for card in self._world.nodes[node].cards if not card.healthy}
        here = {item for given in self._given.values() if given.node == node for items in given.ids.values() for item in items}
        free = [(key, uuid) for key, uuid in self._served.get(node, {}).get(name, ()) if key not in here and uuid not in dead]
        chosen: list[str] = []
        while len(chosen) < count:
            if not free:
                return None
            room: dict[str, int] = {}
            for _, uuid in free:
                room[uuid] = room.get(uuid, 0) + 1
            best = max(free, key=lambda item: room[item[1]])
            chosen.append(best[0])
            free.remove(best)
        return chosen

    def _reject(self, pod: Pod, name: str, count: int) -> None:
        why = f"Allocate failed due to requested number of devices unavailable for {name}. Requested: {count}, Available: 0"
        status = {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": f"Pod was rejected: {why}, which is unexpected",
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        right = Right("patch", "pods/status")
        kind = "application/merge-patch+json"
        self._client.transport.json("PATCH", path, right, body={"status": status}, content_type=kind)

    # What KWOK must know of a pod

    def _tell(self, pod: Pod) -> None:
        said = next((item for item in reversed(self.said) if item.of(pod)), None)
        ports = self.endpoints.get(pod.labels.get(COMPONENT, ""), {})
        news = (said, tuple(sorted(ports.items())))
        if self._told.get(pod.uid) == news:
            return
        first = pod.uid not in self._told
        self._told[pod.uid] = news
        where = {
            "RAG_RIG_WORLD": str(self._world.path),
            "RAG_RIG_POD": f"{pod.namespace}/{pod.name}",
            "RAG_RIG_NODE": str(pod.node),
        }
        if first:
            self._put(kwok.execution(pod.namespace, pod.name, where))
        if ports:
            self._put(kwok.forwards(pod.namespace, pod.name, sorted(ports.items())))
        if said is not None:
            files: dict[str, tuple[Path, Path | None]] = {}
            for container in (*pod.containers, *pod.init_containers):
                base = self._folder / f"{pod.uid}-{container.name}"
                files[container.name] = (_log(base.with_suffix(".log"), said.text), None)
                if said.previous is not None:
                    files[container.name] = (files[container.name][0], _log(base.with_suffix(".previous"), said.previous))
            self._put(kwok.logs(pod.namespace, pod.name, files))

    def _put(self, item: dict[str, Any]) -> None:
        meta = item["metadata"]
        path = f"/apis/{kwok.GROUP}/v1alpha1/namespaces/{meta['namespace']}/{kwok.KINDS[item['kind']][0]}"
        right = Right("create", kwok.KINDS[item["kind"]][0], kwok.GROUP)
        try:
            self._client.transport.json("POST", path, right, body=item)
        except Conflict:
            there = self._client.transport.json("GET", f"{path}/{meta['name']}", right)
            there["spec"] = item["spec"]
            self._client.transport.json("PUT", f"{path}/{meta['name']}", right, body=there)


def _uuid(machine: Machine, index: str) -> str:
    card, colon, number = index.partition(":")
    found = machine.cards[int(card)]
    return (found.mig or [])[int(number)].uuid if colon else found.uuid


def _claimed(snapshot: Snapshot, pod: Pod) -> list[str]:
    """Uuids of the devices that the pod's claims were given."""
    names = [str(item.get("resourceClaimName")) for item in pod.status.get("resourceClaimStatuses") or ()]
    names += [
        item["resourceClaimName"] for item in pod.raw["spec"].get("resourceClaims") or () if item.get("resourceClaimName")
    ]
    extended = pod.status.get("extendedResourceClaimStatus") or {}
    names += [extended["resourceClaimName"]] if extended.get("resourceClaimName") else []
    uuids = {
        (str(slice_.raw["spec"]["pool"]["name"]), str(device["name"])): str(device["attributes"]["uuid"]["string"])
        for slice_ in snapshot.of("ResourceSlice", "resource.k8s.io")
        for device in slice_.raw["spec"].get("devices") or ()
        if "uuid" in (device.get("attributes") or {})
    }
    found = []
    for name in dict.fromkeys(names):
        claim = snapshot.get("ResourceClaim", name, pod.namespace, "resource.k8s.io")
        allocation = ((claim.raw.get("status") or {}).get("allocation") or {}) if claim is not None else {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            key = (str(result["pool"]), str(result["device"]))
            if key in uuids:
                found.append(uuids[key])
    return found


def _log(path: Path, text: str) -> Path:
    """A log file as container runtimes write it."""
    path.write_text("".join(f"2026-12-01T00:00:00.000000000Z stdout F {line}\n" for line in text.splitlines()))
    return path
