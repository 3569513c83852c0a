"""A simulated GPU cluster: a real control plane, a saved cluster in it, and what kubelets and vendors' programs do played."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controlplane_build import folder
from controlplane_support import ControlPlane, control_plane, need_controlplane
from ragstow import facts as known
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.inventory.assume import parse
from ragstow.live import rbac
from ragstow.live.client import ApiClient
from ragstow.live.kubeconfig import Choice, access
from ragstow.live.transport import Transport
from ragstow.plan.cardfacts import CardFacts, card_facts
from ragstow.plan.hosts import host_of
from ragstow.plan.situation import Situation
from ragstow.sharing.host import Host
from rig import kwok
from rig.guests import COMPONENT, Guests, Said
from rig.load import load_running
from rig.machines import World, machine
from rig.stack import GpuPrograms
from rig.troubles import Trouble, stage

_WAIT_SECONDS = 90
_LEAST_MIB = 512


@dataclass
class Rig:
    """The cluster and the means to break it. `uses` says how many MiB the pods of a component use of each of their devices."""

    plane: ControlPlane
    client: ApiClient
    world: World
    guests: Guests
    programs: GpuPrograms
    uses: dict[str, int] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> str:
        """The kubeconfig with one context for each user."""
        return str(self.plane.kubeconfig)

    def arguments(self, user: str = "admin") -> list[str]:
        """kubectl's flags for a user."""
        return ["--kubeconfig", self.kubeconfig, "--context", user]

    def wait(self, what: str, true: Callable[[], bool], seconds: float = _WAIT_SECONDS) -> None:
        """Wait until something is so."""
        end = time.monotonic() + seconds
        while not true():
            assert self.programs.crash is None, f"the loop of the programs ended: {self.programs.crash!r}"
            assert time.monotonic() < end, f"{what}: not so after {seconds:g} s; {self.programs.failures[-3:]}"
            time.sleep(0.1)

    def settle(self) -> None:
        """Wait until all pods are ready or ended and all nodes ready, and no program is at work."""
        self.wait("all pods ready", lambda: self._quiet() and self._quiet())

    def _quiet(self) -> bool:
        nodes = self.objects("nodes")
        pods = self.objects("pods")
        return (
            self.programs.settled()
            and all(_condition(node, "Ready") for node in nodes)
            and all(not (node["spec"].get("taints") or ()) or _tainted_as_wanted(node) for node in nodes)
            and all(pod["status"].get("phase") in ("Succeeded", "Failed") or _condition(pod, "Ready") for pod in pods)
            and all(
                daemonset["status"].get("observedGeneration") == daemonset["metadata"]["generation"]
                and daemonset["status"].get("desiredNumberScheduled") == daemonset["status"].get("numberReady")
                for daemonset in self.objects("daemonsets")
            )
        )

    def objects(self, plural: str) -> list[dict[str, Any]]:
        """All objects of a kind that is served once under this plural."""
        groups = {"daemonsets": "apps", "deployments": "apps", "statefulsets": "apps", "replicasets": "apps"}
        resource = self.client.resources().plural(groups.get(plural, ""), plural)
        assert resource is not None
        return list(self.client.list(resource))

    def node(self, name: str) -> dict[str, Any]:
        """One node."""
        return next(node for node in self.objects("nodes") if node["metadata"]["name"] == name)

    def patch_node(self, name: str, change: Mapping[str, Any]) -> None:
        """A merge patch of a node."""
        resource = self.client.resources().plural("", "nodes")
        assert resource is not None
        self.client.patch(resource, name, "", change)

    def helm(self) -> tuple[Path, dict[str, str]]:
        """A folder with a scripted `helm`, and the environment that it needs."""
        kept = self.plane.data / "helm"
        (kept / "bin").mkdir(parents=True, exist_ok=True)
        program = kept / "bin" / "helm"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent / "helm.py"} "$@"\n')
        program.chmod(0o755)
        values = {"RAG_RIG_HELM": kept, "RAG_RIG_KUBECTL": folder() / "kubectl", "RAG_RIG_KUBECONFIG": self.kubeconfig}
        return kept / "bin", {name: str(value) for name, value in values.items()}

    # What breaks

    def steal(self, node: str, card: int, mib: int, slice_: int | None = None) -> None:
        """Somebody outside of any pod takes memory of a card or slice; 0 gives it back."""
        with self.world.changed() as world:
            found = world.card(node, card)
            if slice_ is None:
                found.stolen_mib = mib
            else:
                assert found.mig is not None
                found.mig[slice_].stolen_mib = mib

    def driver(self, node: str, driver: str, libraries: str | None = None) -> None:
        """The node runs another driver; with `libraries` that differ, containers see a mismatch."""
        with self.world.changed() as world:
            world.nodes[node].driver = driver
            world.nodes[node].libraries = libraries or driver

    def card_dies(self, node: str, card: int, *, dead: bool = True) -> None:
        """A card falls off the bus, or comes back."""
        with self.world.changed() as world:
            world.card(node, card).healthy = not dead

    def trouble(self, kind: Trouble, labels: Mapping[str, str], **how: Any) -> str:
        """From now on pods with these labels have this trouble, those that run too; returns what `relief` takes."""
        item = stage(kind, labels, **how)
        self.plane.kubectl("create", "-f", "-", stdin=json.dumps(item))
        self._poke(labels)
        return str(item["metadata"]["name"])

    def relief(self, name: str) -> None:
        """The trouble is over for pods that start from now on."""
        self.plane.kubectl("delete", "stages.kwok.x-k8s.io", name)

    def says(self, labels: Mapping[str, str], text: str, previous: str | None = None) -> None:
        """Pods with these labels have this log, and this one of the instance before."""
        self.guests.said.append(Said(labels, text, previous))
        time.sleep(1)

    def serves(self, component: str, port: int, address: tuple[str, int]) -> None:
        """A port of the pods of a component leads to this address."""
        self.guests.endpoints.setdefault(component, {})[port] = address

    def uses_as_planned(self, plan: Mapping[str, Any]) -> None:
        """Every pod uses of its cards what the plan says it will."""
        for component in plan["components"]:
            sizing = component.get("sizing")
            if sizing:
                self.uses[component["name"]] = int(sizing["totalBytes"]) >> 20

    def _poke(self, labels: Mapping[str, str]) -> None:
        """Make KWOK look at pods again: it does when they change."""
        resource = self.client.resources().plural("", "pods")
        assert resource is not None
        time.sleep(1)
        for pod in self.objects("pods"):
            meta = pod["metadata"]
            if all((meta.get("labels") or {}).get(key) == value for key, value in labels.items()):
                mark = {"metadata": {"annotations": {"rig.test/poked": datetime.now(UTC).isoformat()}}}
                self.client.patch(resource, meta["name"], meta["namespace"], mark)


@contextmanager
def gpu_cluster(
    saved: str | Path | Snapshot, *, load_seconds: float = 1.0, delay_seconds: float = 1.0, assumed: Sequence[str] = ()
) -> Iterator[Rig]:
    """A saved cluster that lives, for the time of the `with` block.

    Args:
        saved: what `--from` takes.
        load_seconds: how long GPU pods load before they are ready.
        delay_seconds: how long plugins take to start and the MIG manager to cut.
        assumed: `--assume`, for nodes whose labels name no product.
    """
    need_controlplane(own=True)
    snapshot = saved if isinstance(saved, Snapshot) else read(str(saved))
    facts = known.load()
    hosts = _hosts(snapshot, facts, assumed)
    with control_plane(kinds=kwok.definitions()) as plane:
        client = ApiClient(Transport(access(Choice(kubeconfig=str(plane.kubeconfig)), {})))
        _roles(plane)
        _programs(plane)
        uses: dict[str, int] = {}
        world = World(plane.data / "world.json")
        (plane.data / "empty.log").touch()
        defaults = [
            *kwok.stages(load_seconds),
            kwok.made(
                "ClusterExec", "all", {"execs": [{"local": {"envs": [{"name": "RAG_RIG_WORLD", "value": str(world.path)}]}}]}
            ),
            kwok.made(
                "ClusterLogs",
                "all",
                {"logs": [{"logsFile": str(plane.data / "empty.log"), "previousLogsFile": str(plane.data / "empty.log")}]},
            ),
        ]
        plane.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": defaults}))
        with world.changed():
            for name, host in hosts.items():
                world.nodes[name] = machine(host, facts, _uuids(snapshot, name))
        # Before anybody runs who would change the objects while they are made.
        load_running(client, snapshot)
        plane.start_controllers(crds=tuple(kwok.KINDS), path=str(plane.data / "bin"))
        guests = Guests(client, facts, world, plane.data, lambda pod: _used(pod, uses))
        programs = GpuPrograms(client, facts, hosts, world, guests, delay_seconds)
        programs.start()
        try:
            rig = Rig(plane, client, world, guests, programs, uses)
            rig.settle()
            yield rig
        finally:
            programs.stop()
            client.close()


def _hosts(snapshot: Snapshot, facts: known.Facts, assumed: Sequence[str]) -> dict[str, Host]:
    situation = Situation("", "", snapshot, facts, parse(assumed, snapshot, facts))
    found = {}
    for name, node in situation.nodes.items():
        gpus = situation.gpus[name]
        card = card_facts(gpus, facts)
        host = host_of(situation, node, gpus, card) if isinstance(card, CardFacts) and gpus.cards else None
        if host is not None:
            found[name] = host
    return found


def _uuids(snapshot: Snapshot, node: str) -> dict[int, str]:
    devices = sorted(
        (str(device["name"]), str(device["attributes"]["uuid"]["string"]))
        for slice_ in snapshot.of("ResourceSlice", "resource.k8s.io")
        if slice_.raw["spec"].get("nodeName") == node
        for device in slice_.raw["spec"].get("devices") or ()
        if "uuid" in (device.get("attributes") or {})
    )
    return {index: uuid for index, (_, uuid) in enumerate(devices)}


def _used(pod: Mapping[str, Any], uses: Mapping[str, int]) -> int:
    return uses.get((pod["metadata"].get("labels") or {}).get(COMPONENT, ""), _LEAST_MIB)


def _roles(plane: ControlPlane) -> None:
    users = {"read": "reader", "verify": "verifier", "apply": "applier"}
    documents = [
        document
        for level in rbac.LEVELS
        for document in rbac.documents(level, subjects=[rbac.subject(f"user:{users[level]}") or {}])
    ]
    plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))


def _programs(plane: ControlPlane) -> None:
    """The folder that comes first on KWOK's PATH."""
    folder = plane.data / "bin"
    folder.mkdir()
    script = Path(__file__).parent / "nvidia_smi.py"
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {script} "$@"\n')
    program.chmod(0o755)


def _condition(item: Mapping[str, Any], kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in item["status"].get("conditions") or ())


def _tainted_as_wanted(node: Mapping[str, Any]) -> bool:
    return not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints") or ())
