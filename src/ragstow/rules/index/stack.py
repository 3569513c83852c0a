"""Where the programs of the GPU stack run: which workloads and pods are device plugins, drivers, schedulers.

Recognised by container and image (facts), never by labels: the plugin's, GFD's and the MPS daemon's pods share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts.stack import Stack

_KINDS = (("apps", "DaemonSet"), ("apps", "Deployment"), ("apps", "StatefulSet"))


class GpuStack:
    """Stack look-ups over one snapshot. A pod or workload may have several roles: one for each of its containers."""

    def __init__(self, snapshot: Snapshot, programs: Stack) -> None:
        self._snapshot = snapshot
        self._programs = programs

    @cached_property
    def _workloads(self) -> Mapping[str, tuple[KubeObject, ...]]:
        table: dict[str, list[KubeObject]] = {}
        for group, kind in _KINDS:
            for item in self._snapshot.of(kind, group):
                for role in self.roles(item):
                    table.setdefault(role, []).append(item)
        return {role: tuple(items) for role, items in table.items()}

    @cached_property
    def _pods(self) -> Mapping[str, tuple[Pod, ...]]:
        table: dict[str, list[Pod]] = {}
        for pod in self._snapshot.pods:
            for role in self.roles(pod):
                table.setdefault(role, []).append(pod)
        return {role: tuple(pods) for role, pods in table.items()}

    @cached_property
    def _on_nodes(self) -> Mapping[tuple[str, str | None], tuple[Pod, ...]]:
        table: dict[tuple[str, str | None], list[Pod]] = {}
        for role, pods in self._pods.items():
            for pod in pods:
                table.setdefault((role, pod.node), []).append(pod)
        return {key: tuple(pods) for key, pods in table.items()}

    def roles(self, item: KubeObject) -> tuple[str, ...]:
        """The roles of a pod or of a workload's pods, each once, in the order of their containers."""
        return tuple(program.role for program in self._programs.programs_of(_containers(item)))

    def workloads(self, *roles: str) -> tuple[KubeObject, ...]:
        """The DaemonSets, Deployments and StatefulSets with one of these roles."""
        return tuple({id(item): item for role in roles for item in self._workloads.get(role, ())}.values())

    def pods(self, *roles: str, node: str | None = None) -> tuple[Pod, ...]:
        """The pods with one of these roles, on one node if it is named."""
        listed = (self._pods.get(role, ()) if node is None else self._on_nodes.get((role, node), ()) for role in roles)
        return tuple({pod.key: pod for pods in listed for pod in pods}.values())


def template(workload: KubeObject) -> Mapping[str, Any]:
    """The pod spec inside a workload ({} where there is none)."""
    spec: Any = workload.raw.get("spec") or {}
    inner: Any = (spec.get("template") or {}).get("spec") if isinstance(spec, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _containers(item: KubeObject) -> list[tuple[str, str]]:
    if isinstance(item, Pod):
        return [(c.name, c.image) for c in (*item.containers, *item.init_containers)]
    spec = template(item)
    listed = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [(str(c.get("name") or ""), str(c.get("image") or "")) for c in listed if isinstance(c, Mapping)]
