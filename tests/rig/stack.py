"""Plays what vendors' programs do on nodes: MIG manager, GPU Operator, device plugin with feature discovery.

One loop looks at the cluster a few times a second, as any controller does, and acts only through the API server. What a node
offers follows from the very objects in the cluster (node labels, the ConfigMap that the DaemonSet mounts, the policy), worked
out by the model of these programs in `ragstow.sharing`, which is itself tested against recordings of the real ones. With the
configuration that it was loaded with, a node offers exactly what it offered then.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragstow.cluster.build import build
from ragstow.cluster.objects import Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import ClusterError, Reason, TimeoutReached
from ragstow.facts import Facts
from ragstow.inventory.inforce import CONFIG_LABEL, in_force
from ragstow.inventory.plugin import PluginPod, Plugins
from ragstow.live.client import ApiClient
from ragstow.rules.index.stack import GpuStack
from ragstow.sharing import migapply, migname, migparted
from ragstow.sharing.aftermath import aftermath
from ragstow.sharing.host import Cut, Host
from ragstow.sharing.miglayout import Placement
from rig import gpu_operator, volumes
from rig.guests import Guests
from rig.machines import World, cut

MIG_CONFIG = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
_DEPLOY = "nvidia.com/gpu.deploy."
_PAUSED = "paused-for-mig-change"
_PAUSABLE = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm")
_DISCOVERED = re.compile(
    r"nvidia\.com/(gpu\.(product|count|replicas|sharing-strategy|memory|multiprocessors|family|compute\..*|slices\..*|engines\..*)"
    r"|mig-.+\..+|mig\.strategy|mig\.capable|mps\.capable)"
)
_POLL_SECONDS = 0.3

Content = tuple[str | None, tuple[Cut, ...]]
"""Text of the plugin's file, and how the cards are cut."""


@dataclass
class Stage:
    """What is going on at one node."""

    host: Host
    cuts: tuple[Cut, ...]
    mig_config: str | None
    offered: Mapping[str, int]
    labels: Mapping[str, str]
    content: Content | None = None
    plugin_uid: str = ""
    plugin_label: str = ""
    pending: tuple[str, float] | None = None
    """Plugin instance that is starting or reloading, and when it is done."""
    recut: tuple[str, float] | None = None
    """The layout that the MIG manager is applying, and when it is done."""
    first: Content | None = None
    first_offer: Mapping[str, int] = field(default_factory=dict)
    first_labels: Mapping[str, str] = field(default_factory=dict)


class GpuPrograms:
    """The loop. Its settings may be changed while it runs.

    Args:
        client: an administrator.
        facts: tables of facts.
        hosts: the nodes with GPUs as they were loaded.
        world: the machines on disk.
        guests: the device manager.
        delay_seconds: how long a plugin takes to start, and the MIG manager to cut.
    """

    def __init__(
        self, client: ApiClient, facts: Facts, hosts: Mapping[str, Host], world: World, guests: Guests, delay_seconds: float
    ) -> None:
        self.delay_seconds = delay_seconds
        self.mig_fails: set[str] = set()
        """Nodes whose MIG manager ends with `failed`."""
        self.mig_hangs: set[str] = set()
        """Nodes whose MIG manager stays at `pending`."""
        self.plugin_dead: set[str] = set()
        """Nodes whose plugin runs and offers nothing."""
        self.failures: list[str] = []
        """Calls that failed; the loop goes on."""
        self.crash: BaseException | None = None
        """Why the loop ended; whoever waits for something looks at it."""
        self._client = client
        self._facts = facts
        self._world = world
        self._guests = guests
        self._ended = threading.Event()
        self._nodes = {name: _at_start(host) for name, host in hosts.items()}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start playing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the end of the loop."""
        self._ended.set()
        self._thread.join()

    def settled(self) -> bool:
        """Whether nothing is going on at any node."""
        return all(
            stage.host.server == "dra"
            or (stage.pending is None and stage.recut is None and (stage.plugin_uid != "" or name in self.plugin_dead))
            for name, stage in self._nodes.items()
        )

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._look()
            except (ClusterError, TimeoutReached) as error:
                # An API server that is restarted, an object that went meanwhile: the next look sees how it is.
                self.failures.append(str(error))
            except BaseException as error:  # a test must not wait for a loop that is gone
                self.crash = error
                raise
            self._ended.wait(_POLL_SECONDS)

    def _look(self) -> None:
        snapshot = self._read()
        gpu_operator.sync(self._client, snapshot)
        volumes.provide(self._client, snapshot)
        stack = GpuStack(snapshot, self._facts.stack)
        on: dict[str, list[Pod]] = {}
        for pod in snapshot.pods:
            if pod.node is not None and not pod.finished and pod.deleted is None:
                on.setdefault(pod.node, []).append(pod)
        plugins = Plugins(snapshot, self._facts.stack, on)
        for node in snapshot.nodes:
            stage = self._nodes.get(node.name)
            if stage is None:
                continue
            if stack.pods("mig-manager", node=node.name):
                self._mig_manager(stage, node, bool(stack.pods("device-plugin", node=node.name)))
            plugin = plugins.on(node, serves=False)
            self._plugin(stage, node, snapshot, plugin if plugin is not None and plugin.owner.kind == "Pod" else None)
        self._guests.look(snapshot, stack)

    def _read(self) -> Snapshot:
        objects: list[Mapping[str, Any]] = []
        for group, plural in (
            ("", "nodes"), ("", "pods"), ("", "configmaps"), ("apps", "daemonsets"), ("nvidia.com", "clusterpolicies"),
            ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceslices"),
            ("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("storage.k8s.io", "storageclasses"),
        ):  # fmt: skip
            resource = self._client.resources().plural(group, plural)
            if resource is not None:
                objects += self._client.list(resource)
        return build(objects)

    # MIG manager

    def _mig_manager(self, stage: Stage, node: Node, plugin_runs: bool) -> None:
        now = time.monotonic()
        wanted = node.labels.get(MIG_CONFIG)
        if stage.recut is None:
            if wanted is None or wanted == stage.mig_config:
                return
            paused = {f"{_DEPLOY}{name}": _PAUSED for name in _PAUSABLE if node.labels.get(f"{_DEPLOY}{name}") == "true"}
            self._label(node, {MIG_STATE: "pending", **paused})
            stage.recut = (wanted, now + self.delay_seconds)
            return
        layout, done = stage.recut
        if plugin_runs or now < done or node.name in self.mig_hangs:
            return
        state = self._recut(stage, node, layout)
        back = {key: "true" for key, value in node.labels.items() if key.startswith(_DEPLOY) and value == _PAUSED}
        self._label(node, {**back, MIG_STATE: state})
        stage.mig_config = layout
        stage.recut = None

    def _recut(self, stage: Stage, node: Node, layout: str) -> str:
        """Cut the cards; the state that is left."""
        text = self._mig_file()
        if node.name in self.mig_fails or text is None:
            return "failed"
        spec = migparted.read(text)
        if isinstance(spec, migparted.Failure):
            return "failed"
        entries = migparted.select(spec, layout)
        if isinstance(entries, migparted.Failure):
            return "failed"
        cuts: list[Cut] = list(stage.cuts)
        for index, gpu in enumerate(stage.host.gpus):
            geometry = self._facts.mig.of(gpu)
            ids = geometry.card.pci_device_ids if geometry is not None else ()
            for entry in entries:
                if not entry.applies(index, f"0x{ids[0] if ids else '0000'}10DE"):
                    continue
                if not entry.mig_enabled:
                    cuts[index] = None
                    continue
                if geometry is None:
                    return "failed"
                profiles = tuple(
                    migapply.CardProfile(item.role, migname.parse(item.name), Placement(item.starts, item.size, item.max))
                    for item in geometry.profiles
                )
                applied = migapply.apply(profiles, entry.mig_devices or {})
                if isinstance(applied, str):
                    return "failed"
                cuts[index] = dict(applied.result)
        if tuple(cuts) == stage.cuts:
            return "success"
        if self._guests.busy(node.name):
            return "failed"
        stage.cuts = tuple(cuts)
        with self._world.changed() as world:
            cut(world.nodes[node.name], stage.host, stage.cuts, self._facts)
        return "success"

    def _mig_file(self) -> str | None:
        return gpu_operator.mig_file(self._client)

    # Device plugin and feature discovery

    def _plugin(self, stage: Stage, node: Node, snapshot: Snapshot, plugin: PluginPod | None) -> None:
        now = time.monotonic()
        if plugin is None or node.name in self.plugin_dead:
            stage.plugin_uid, stage.pending = "", None
            self._offer(stage, node, dict.fromkeys(_gpu(node.capacity), 0), None, {})
            return
        label = node.labels.get(CONFIG_LABEL, "")
        instance = f"{plugin.owner.uid} {label}"
        if stage.plugin_uid != instance and (stage.pending is None or stage.pending[0] != instance):
            stage.pending = (instance, now + self.delay_seconds)
        if stage.pending is not None and now >= stage.pending[1]:
            stage.plugin_uid, stage.pending = instance, None
            content, readable = self._content(snapshot, node, plugin), True
            if content is None:
                # The config-manager ends: who was running keeps what it had, who starts offers nothing.
                readable = stage.content is not None
            else:
                stage.content = (content[0], stage.cuts)
            if stage.first is None:
                stage.first = stage.content
            if not readable:
                return
        if not stage.plugin_uid or stage.content is None:
            return
        self._offer(stage, node, *self._offered(stage, node))

    def _content(self, snapshot: Snapshot, node: Node, plugin: PluginPod) -> tuple[str | None] | None:
        """The text that the plugin reads now (None: no file); None where the config-manager finds no such key."""
        found = in_force(snapshot, node, plugin)
        if found is None or found.config_map is None or found.key is None:
            return (None,)
        config_map = snapshot.get("ConfigMap", found.config_map[1], found.config_map[0])
        data = (config_map.raw.get("data") or {}) if config_map is not None else {}
        return (str(data[found.key]),) if found.key in data else None

    def _offered(self, stage: Stage, node: Node) -> tuple[Mapping[str, int], Mapping[str, str] | None, Mapping[str, int]]:
        """Devices of each resource, labels (None: as they are), and how many of the devices are on dead cards."""
        assert stage.content is not None
        if stage.content == stage.first:
            offered, labels = stage.first_offer, stage.first_labels
        else:
            after = aftermath(stage.host, stage.content[0], stage.content[1], self._facts)
            if isinstance(after, Reason):
                return dict.fromkeys(_gpu(node.capacity), 0), None, {}
            offered, labels = after.resources, after.labels
        return offered, labels, self._guests.lost(node.name, stage.content, stage.host)

    def _offer(
        self, stage: Stage, node: Node, offered: Mapping[str, int], labels: Mapping[str, str] | None, lost: Mapping[str, int]
    ) -> None:
        names = sorted({*_gpu(node.capacity), *offered})
        # Capacity counts dead devices too, and keeps what a plugin that is gone had offered.
        capacity = {name: offered.get(name, 0) for name in names} if labels is not None else _gpu(node.capacity)
        wanted = {name: max(0, offered.get(name, 0) - lost.get(name, 0)) for name in names}
        if _gpu(node.allocatable) != wanted or _gpu(node.capacity) != capacity:
            texts = [{name: str(count) for name, count in amounts.items()} for amounts in (wanted, capacity)]
            self._status(node, {"allocatable": texts[0], "capacity": texts[1]})
        if labels is not None and stage.host.gfd:
            mine = {key: value for key, value in labels.items() if _DISCOVERED.fullmatch(key)}
            gone = {key: None for key in node.labels if _DISCOVERED.fullmatch(key) and key not in mine}
            changed = {key: value for key, value in mine.items() if node.labels.get(key) != value}
            if changed or gone:
                self._label(node, {**changed, **gone})
        self._guests.serves(node.name, stage.host, stage.content)

    def _label(self, node: Node, labels: Mapping[str, str | None]) -> None:
        resource = self._client.resources().plural("", "nodes")
        assert resource is not None
        self._client.patch(resource, node.name, "", {"metadata": {"labels": dict(labels)}})

    def _status(self, node: Node, status: Mapping[str, Any]) -> None:
        from ragstow.live.failures import Right

        path = f"/api/v1/nodes/{node.name}/status"
        kind = "application/merge-patch+json"
        self._client.transport.json("PATCH", path, Right("patch", "nodes/status"), body={"status": status}, content_type=kind)


def _gpu(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in sorted(amounts.items()) if name.startswith("nvidia.com/")}


def _at_start(host: Host) -> Stage:
    made = Stage(host, host.layout, host.labels.get(MIG_CONFIG), host.resources, host.labels)
    made.first_offer, made.first_labels = host.resources, host.labels
    return made
