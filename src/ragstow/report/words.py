"""What all reports say in the same words: the verdict, titles, amounts, unknown things put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstow.verification.model import Check, Unknown, Verification

GIB = 2**30

TITLES = {
    "component-replicas": "as many pods as planned",
    "pod-ready": "pod is ready",
    "pod-node": "pod is on a planned node",
    "gpu-visible": "the container sees its GPU",
    "gpu-product": "the planned card",
    "gpu-slice": "the planned slice",
    "gpu-memory-total": "memory of the card or slice",
    "gpu-memory-used": "memory in use within the plan",
    "gpu-health": "no fault of the card",
    "gpu-driver": "driver equal in container, host and label",
    "gpu-cuda": "driver new enough for the image",
    "gpu-neighbours": "shares its device with nobody it must not",
    "gpu-together": "components that belong together share a card",
    "gpu-apart": "components that must be apart are",
    "gpu-cap": "the memory cap holds",
    "node-ready": "node is ready",
    "node-devices": "all devices of the node are healthy",
    "node-allocatable": "GPU resources as planned",
    "node-labels": "labels of the node as planned",
    "node-sharing": "cards shared as planned",
    "node-mig-state": "MIG manager is done",
    "stack-pod": "GPU stack runs",
    "stack-log": "no known failure in logs of the GPU stack",
    "pod-log": "no known failure in the pod's log",
    "endpoint-health": "the port answers",
    "endpoint-models": "the planned model is served",
    "endpoint-chat": "a chat completion",
    "endpoint-completion": "a completion",
    "endpoint-embedding": "an embedding",
    "endpoint-rerank": "a ranking",
    "embedding-dimension": "length of the vectors",
    "embedding-distinct": "different texts have different vectors",
    "embedding-length": "vectors are normalised",
    "embedding-repeatable": "the same text has the same vector",
    "embedding-replicas-agree": "replicas give the same vector",
    "service-backends": "Services lead to the pods",
    "store": "the vector store keeps and finds",
    "store-clean": "nothing of the test is left in the store",
    "store-replicas-agree": "replicas of the store agree",
    "rag-embed": "round trip: embed two documents",
    "rag-store": "round trip: store them",
    "rag-nearest": "round trip: the right one is nearest",
    "rag-rerank": "round trip: the right one ranks first",
    "rag-answer": "round trip: the answer cites the right one",
    "kubelet-log": "no known failure in the kubelet's log",
}
"""What each check asks, for people; a check that is not here is shown by its name."""


def title(name: str) -> str:
    """What a check asks."""
    return TITLES.get(name, name.replace("-", " "))


def verdict(found: Verification) -> str:
    """One line: passed or not, and of how many."""
    count, failed, missing = len(found.checks), len(found.failed), len(found.missing)
    extra = len(found.unknown) - missing
    if failed:
        text = f"FAILED: {failed} of {count} {'check' if count == 1 else 'checks'}"
    elif missing:
        text = f"NOT VERIFIED: {missing} {'check that is' if missing == 1 else 'checks that are'} needed could not be made"
        text += f"; {count} passed" if count else ""
    elif not count:
        text = "NOT VERIFIED: nothing could be checked"
    else:
        text = f"passed: {count} {'check' if count == 1 else 'checks'}"
    also = [f"{missing} needed ones could not be made"] if failed and missing else []
    also += [f"{extra} more could not be made"] if extra else []
    return text + (f" ({', '.join(also)})" if also else "")


def gib(value: int | None) -> str:
    """An amount of memory."""
    return "-" if value is None else f"{value / GIB:.1f} GiB"


@dataclass(frozen=True, slots=True)
class Missing:
    """Unknown things of one kind: one of them, and the objects of all."""

    first: Unknown
    objects: tuple[str, ...]


def grouped(items: Sequence[Unknown]) -> tuple[Missing, ...]:
    """Unknown things with the same check and the same reason together, needed ones first."""
    table: dict[tuple[bool, str, str], list[Unknown]] = {}
    for item in items:
        table.setdefault((not item.needed, item.check, item.missing), []).append(item)
    rows = sorted(table.items(), key=lambda pair: pair[0][0])
    return tuple(Missing(group[0], tuple(dict.fromkeys(str(item.object) for item in group))) for _, group in rows)


def passed_by_name(found: Verification) -> tuple[tuple[str, tuple[Check, ...]], ...]:
    """The checks that passed, by name, in the order in which names come up."""
    table: dict[str, list[Check]] = {}
    for check in found.checks:
        if check.passed:
            table.setdefault(check.name, []).append(check)
    return tuple((name, tuple(checks)) for name, checks in table.items())
