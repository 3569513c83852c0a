"""The device plugin of a node: the pod that runs it, or the DaemonSet that would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragstow.cluster.objects import KubeObject, Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts.stack import Stack
from ragstow.inventory import rawspec
from ragstow.inventory.rawspec import Spec

_ROLE = "device-plugin"
_VENDOR_IMAGE, _VENDOR_COMMAND = "k8s-device-plugin", "nvidia-device-plugin"


@dataclass(frozen=True, slots=True)
class PluginPod:
    """The pod (or the pod template) that a node's device plugin runs as; `vendor` is False for a cloud's own plugin."""

    vendor: bool
    owner: KubeObject
    spec: Spec
    container: Spec

    @property
    def namespace(self) -> str:
        """Where it and its ConfigMaps are."""
        return self.owner.namespace

    @property
    def ref(self) -> str:
        """The DaemonSet behind the pod where it is known: pods come and go."""
        above = self.owner.controller
        return f"{above.kind} {self.namespace}/{above.name}" if above is not None else self.owner.ref

    @property
    def arguments(self) -> tuple[str, ...]:
        """The plugin's own command line; empty where a script starts it."""
        command, args = rawspec.words(self.container, "command"), rawspec.words(self.container, "args")
        if command and not command[0].endswith(_VENDOR_COMMAND):
            return ()
        line = (*command[1:], *args)
        return line if not line or line[0].startswith("-") else ()

    @property
    def environment(self) -> Mapping[str, str]:
        """Literal environment of the plugin's container."""
        return rawspec.environment(self.container)


class Plugins:
    """Finds the plugin node by node; made once for a snapshot."""

    def __init__(self, snapshot: Snapshot, programs: Stack, pods_by_node: Mapping[str, Iterable[Pod]]) -> None:
        self._programs = programs
        self._on = {
            node: found
            for node, pods in pods_by_node.items()
            if (found := next((made for pod in pods if (made := self._plugin(pod, pod.spec)) is not None), None)) is not None
        }
        specs = [
            (item, rawspec.mapping(rawspec.mapping(rawspec.mapping(item.raw.get("spec")).get("template")).get("spec")))
            for item in snapshot.of("DaemonSet", "apps")
        ]
        self.templates = tuple(found for item, spec in specs if (found := self._plugin(item, spec)) is not None)

    def on(self, node: Node, *, serves: bool) -> PluginPod | None:
        """The plugin of a node: its pod there; where no plugin pod is in the data at all, the only DaemonSet of one.

        Args:
            node: the node.
            serves: whether the node offers GPU resources, so that a plugin must be there although its pod is not in the data.
        """
        if node.name in self._on:
            return self._on[node.name]
        return self.templates[0] if serves and not self._on and len(self.templates) == 1 else None

    def _plugin(self, owner: KubeObject, spec: Spec) -> PluginPod | None:
        listed = [*rawspec.containers(spec)]
        named = [(str(item.get("name") or ""), str(item.get("image") or "")) for item in listed]
        # Helpers of feature discovery and of the MPS daemon run the plugin's image: a container of a known name decides.
        if all(program.role != _ROLE for program in self._programs.programs_of(named)):
            return None
        for container, (name, image) in zip(listed, named, strict=True):
            program = self._programs.program(name, image)
            if program is not None and program.role == _ROLE:
                vendor = _VENDOR_IMAGE in image or name.startswith(_VENDOR_COMMAND)
                return PluginPod(vendor, owner, spec, container)
        return None
