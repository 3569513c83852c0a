"""Manifests as `lint` sees them: objects with the file and line of every field, and the pod specs inside them.

Reading files is the command's work; judging is the rules'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from ragstow.cluster.objects import KubeObject
from ragstow.facts.store import Facts
from ragstow.rules.context import Context

T = TypeVar("T")

_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object that somebody wrote. `lines` maps a path of keys and indexes to its line (1-based)."""

    object: KubeObject
    file: str | None = None
    first_line: int = 1
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    base: tuple[str | int, ...] = ()
    """Where the object stands in its document: ("items", 3) inside a List."""

    def line(self, *path: str | int) -> int:
        """The line of a field, or of the nearest part of its path that has one."""
        whole = (*self.base, *path)
        for end in range(len(whole), -1, -1):
            found = self.lines.get(whole[:end])
            if found is not None:
                return found
        return self.first_line


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod spec inside a manifest: the object it is part of, where it stands, its metadata and itself."""

    manifest: Manifest
    path: tuple[str | int, ...]
    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]

    def containers(self) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
        """(path from the object, container) of init containers, then containers."""
        for key in ("initContainers", "containers"):
            listed = self.spec.get(key)
            for index, container in enumerate(listed if isinstance(listed, Sequence) else ()):
                if isinstance(container, Mapping):
                    yield (*self.path, key, index), container


def pod_spec(manifest: Manifest) -> PodSpec | None:
    """The pod spec of an object that has one."""
    path = _TEMPLATES.get(manifest.object.kind)
    if path is None:
        return None
    value: Any = manifest.object.raw
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(value.get("spec"), Mapping):
        return None
    metadata = value.get("metadata")
    return PodSpec(manifest, (*path, "spec"), metadata if isinstance(metadata, Mapping) else {}, value["spec"])


@dataclass(frozen=True)
class LintContext:
    """What a rule sees when it lints: the manifests, the facts, and the cluster they are meant for where one is given."""

    manifests: tuple[Manifest, ...]
    facts: Facts
    cluster: Context | None = None

    _memory: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def remember(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gave when it was first asked for under this key: for look-ups that several rules share."""
        if key not in self._memory:
            self._memory[key] = make()
        found: T = self._memory[key]
        return found

    @cached_property
    def pod_specs(self) -> tuple[PodSpec, ...]:
        """Every pod spec in the manifests, in order."""
        return tuple(found for found in map(pod_spec, self.manifests) if found is not None)

    def of(self, *kinds: str) -> tuple[Manifest, ...]:
        """The manifests of these kinds."""
        return tuple(item for item in self.manifests if item.object.kind in kinds)
