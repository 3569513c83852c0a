"""The frozen Snapshot: what a cluster was at one moment.

It only holds and finds objects; reading files is `read`, making one from raw objects is `build`. "What if" is a new
snapshot that shares the unchanged objects (`replace`). It must not interpret GPUs, schedule or print.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ragstow.cluster.objects import KubeObject, Node, Pod
from ragstow.errors import Place


@dataclass(frozen=True, slots=True)
class Problem:
    """An object or a file that could not be used; the rest of the snapshot still is."""

    code: str
    message: str
    place: Place
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Where and when the cluster was read; `kind` is "folder", "file", "archive", "stdin", "live" or "memory"."""

    kind: str
    location: str
    taken_at: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects of a cluster, by kind, in the order `build` was given them (`read` sorts them by kind, namespace and name).

    `objects` maps (api group, kind) to objects by (namespace, name). `version` is the API server's gitVersion where known.
    `attachments` are the texts under `logs/` and `files/` of a saved folder, by relative path. `applied` are manifests whose
    live object is in `objects` too.
    """

    objects: Mapping[tuple[str, str], Mapping[tuple[str, str], KubeObject]]
    source: Source
    version: str | None = None
    problems: tuple[Problem, ...] = ()
    attachments: Mapping[str, str] = field(default_factory=dict)
    applied: tuple[KubeObject, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in the order read."""
        return tuple(node for node in self.of("Node") if isinstance(node, Node))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods in the order read."""
        return tuple(pod for pod in self.of("Pod") if isinstance(pod, Pod))

    @property
    def everything(self) -> tuple[KubeObject, ...]:
        """All objects, kind by kind."""
        return tuple(item for table in self.objects.values() for item in table.values())

    def of(self, kind: str, group: str = "") -> tuple[KubeObject, ...]:
        """All objects of a kind (`group` is the API group without version, "" for core) in the order read."""
        return tuple(self.objects.get((group, kind), {}).values())

    def get(self, kind: str, name: str, namespace: str = "", group: str = "") -> KubeObject | None:
        """One object, or None."""
        return self.objects.get((group, kind), {}).get((namespace, name))

    def replace(self, put: Iterable[KubeObject] = (), remove: Iterable[KubeObject] = ()) -> Snapshot:
        """A new snapshot with `remove` taken out and `put` added or replaced; unchanged kinds are shared, order is kept."""
        changed: dict[tuple[str, str], dict[tuple[str, str], KubeObject]] = {}

        def table(item: KubeObject) -> dict[tuple[str, str], KubeObject]:
            key = (item.group, item.kind)
            if key not in changed:
                changed[key] = dict(self.objects.get(key, {}))
            return changed[key]

        for item in remove:
            table(item).pop((item.namespace, item.name), None)
        for item in put:
            table(item)[(item.namespace, item.name)] = item
        return Snapshot({**self.objects, **changed}, self.source, self.version, self.problems, self.attachments, self.applied)
