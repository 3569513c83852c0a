"""Who ran out of GPU memory because of a neighbour on the card, and who only because of itself. Shared by the two memory rules.

Which card a share sits on is the kubelet's secret: neighbours are the other holders of GPU devices on the node.
"""

from __future__ import annotations

import re

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.engines import is_device
from ragstow.rules.index.texts import Hit

OVERSUBSCRIBED, INSUFFICIENT = "gpu-memory-oversubscribed", "gpu-memory-insufficient"
SHARED = frozenset({"time-slicing", "mps", "hami", "kai"})
UNCAPPED = frozenset({"time-slicing", "kai"})
"""Sharing that limits nobody's memory: what one takes, all the others lack."""
FRACTIONS = ("gpu-fraction", "gpu-memory")
"""Annotations with which KAI's pods ask for part of a card."""
_OWN = re.compile(r"this process has (?P<own>[\d.]+) (?P<unit>[GM])iB memory in use")
_TOTAL = re.compile(r"total capacity (?:of )?(?P<total>[\d.]+) GiB")
_PROCESS = re.compile(r"Process \d+ has [\d.]+ [GM]iB memory in use")
_ALL_OF_IT = 0.85


def crowded(context: Context) -> tuple[Hit, ...]:
    """The texts that speak of a neighbour's memory: those that prove it, and a plain lack of memory on a card without caps that
    others hold too, unless the process itself says that it fills the card."""
    return context.remember(
        "crowded",
        lambda: tuple(hit for hit in context.texts.of_cause(OVERSUBSCRIBED, INSUFFICIENT) if _by_others(context, hit)),
    )


def neighbours(context: Context, pod: Pod) -> list[Pod]:
    """Other pods on the node that hold GPU devices."""
    return [
        other
        for other in context.snapshot.pods
        if other.node == pod.node
        and other.key != pod.key
        and not other.finished
        and (
            any(is_device(name) and count for name, count in context.requests(other).items())
            or any(name in other.annotations for name in FRACTIONS)
        )
    ]


def _by_others(context: Context, hit: Hit) -> bool:
    pod = hit.text.pod
    sharing = _sharing(context, pod)
    if hit.signature.cause == OVERSUBSCRIBED:
        several = sharing == "unknown" and len(_PROCESS.findall(hit.text.value)) > 1
        return hit.signature.strong or sharing in SHARED or several
    return (
        (hit.signature.free_memory or not hit.signature.strong)
        and pod is not None
        and sharing in UNCAPPED
        and not _fills_the_card(hit.text.value)
        and bool(neighbours(context, pod))
    )


def _sharing(context: Context, pod: Pod | None) -> str:
    if pod is None:
        return "unknown"
    if any(name in pod.annotations for name in FRACTIONS):
        return "kai"
    node = context.inventory.find(pod.node)
    if node is not None:
        return node.sharing
    # Without the node its resource's name tells: what is renamed to .shared is shared, by time in all but few clusters.
    return "time-slicing" if any(name.endswith(".shared") for name in context.requests(pod)) else "unknown"


def _fills_the_card(text: str) -> bool:
    own, total = _OWN.search(text), _TOTAL.search(text)
    if own is None or total is None:
        return False
    gib = float(own["own"]) / (1 if own["unit"] == "G" else 1024)
    return gib > _ALL_OF_IT * float(total["total"])
