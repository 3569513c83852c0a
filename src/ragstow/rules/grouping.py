"""Groups what belongs to one defect: 200 pods with one cause are one finding with a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ragstow.rules.context import Context
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Confidence, Evidence, ObjectRef

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a defect shows: the node or workload (None: unknown), the objects to name, the pods it keeps from running."""

    node: str | None
    workload: ObjectRef | None
    objects: tuple[ObjectRef, ...]
    pods: tuple[str, ...]
    kind: str = "node"

    @property
    def words(self) -> str:
        """How a sentence names the place."""
        if self.workload is not None:
            return str(self.workload)
        return f"node {self.node}" if self.node and self.kind == "node" else f"a {self.kind} that the data do not name"


def by_node(hits: Iterable[Hit]) -> Iterator[tuple[Site, tuple[Hit, ...]]]:
    """Signatures found, by the node they were said on; those of unknown nodes together, last."""
    for name, members in _grouped(hits, _node_name):
        pods = _pods(members)
        objects = [ObjectRef("Node", "", name)] if name is not None else []
        yield Site(name, None, (*objects, *pods), tuple(map(_key, pods))), members


def by_workload(context: Context, hits: Iterable[Hit]) -> Iterator[tuple[Site, tuple[Hit, ...]]]:
    """Signatures found, by the workload whose pods said them; those that belong to nobody together, last."""

    def workload(hit: Hit) -> ObjectRef | None:
        if hit.text.pod is not None:
            return context.owners.workload(hit.text.pod)
        return hit.text.about

    for ref, members in _grouped(hits, workload):
        pods = _pods(members)
        objects = [ref] if ref is not None else []
        node = next((hit.text.node.name for hit in members if hit.text.node is not None), None)
        yield Site(node, ref, tuple(dict.fromkeys((*objects, *pods))), tuple(map(_key, pods)), "pod"), members


def said_by(context: Context, hit: Hit, role: str) -> bool:
    """Whether a text is about a pod of a program of the GPU stack; a pod that only an event names is known by its name."""
    if hit.text.pod is not None:
        return role in context.stack.roles(hit.text.pod)
    return hit.text.about is not None and hit.text.about.kind == "Pod" and role in hit.text.about.name


def evidence(hits: Sequence[Hit], most: int = 3) -> tuple[Evidence, ...]:
    """The first few texts as evidence."""
    return tuple(dict.fromkeys(hit.text.evidence for hit in hits))[:most]


def sure(hits: Sequence[Hit]) -> Confidence:
    """How sure these texts make: certain with one that proves it and whose owner is known, else likely, else possible."""
    if any(hit.signature.strong and hit.text.certain for hit in hits):
        return "certain"
    return "likely" if any(hit.signature.strong for hit in hits) else "possible"


def _node_name(hit: Hit) -> str | None:
    """The node, or what its pod says where the data do not hold the node."""
    if hit.text.node is not None:
        return hit.text.node.name
    return hit.text.pod.node if hit.text.pod is not None else None


def _grouped(hits: Iterable[Hit], key: Callable[[Hit], T | None]) -> list[tuple[T | None, tuple[Hit, ...]]]:
    groups: dict[T | None, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(key(hit), []).append(hit)
    return sorted(
        ((name, tuple(members)) for name, members in groups.items()), key=lambda item: (item[0] is None, str(item[0]))
    )


def _pods(hits: Iterable[Hit]) -> tuple[ObjectRef, ...]:
    """The pods that texts are from; a pod that only an event names is one of them."""
    refs = (hit.text.about if hit.text.pod is None else ObjectRef.of(hit.text.pod) for hit in hits)
    return tuple(dict.fromkeys(ref for ref in refs if ref is not None and ref.kind == "Pod"))


def _key(pod: ObjectRef) -> str:
    return f"{pod.namespace}/{pod.name}"
