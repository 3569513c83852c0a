"""What a change of sharing does to the other pods of a node, in sentences; worked out from labels and resources."""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.facts import Facts
from ragstow.sharing.aftermath import Aftermath
from ragstow.sharing.host import Cut, Host

_PRODUCT, _MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"


def effects(host: Host, after: Aftermath, cuts: Sequence[Cut], facts: Facts) -> tuple[str, ...]:
    """Sentences about what others on this node will notice; none where nothing changes.

    Args:
        host: the node as it is.
        after: the node as it will be.
        cuts: how each card will be cut.
        facts: MIG geometry (which cards are reset).
    """
    said: list[str] = []
    before = {name: count for name, count in host.resources.items() if count}
    now = {name: count for name, count in after.resources.items() if count}
    said += [
        f"{name} is no longer offered: pods that ask for it are not placed here any more" for name in before if name not in now
    ]
    for name in before:
        if name in now and now[name] != before[name]:
            said.append(f"{name}: {now[name]} instead of {before[name]}")
    for key, what in (
        (_PRODUCT, "node selectors on the present value stop matching"),
        (_MEMORY, "it describes slices, not cards"),
    ):
        old, new = host.labels.get(key), after.labels.get(key)
        if old is not None and new is not None and old != new:
            said.append(f"label {key} becomes {new} (now {old}): {what}")
    said += _resets(host, cuts, facts)
    if said and "nvidia.com/mps.capable" in after.labels:
        if after.labels["nvidia.com/mps.capable"] == "true":
            said.append("cards go to compute mode EXCLUSIVE_PROCESS: programs that do not go through MPS cannot use them")
        elif host.labels.get("nvidia.com/mps.capable") == "true":
            said.append("the MPS control daemon leaves the node and ends its clients")
    if said:
        said.append("the device plugin restarts or reloads; running pods keep their devices")
        if not host.named_configs and host.install in ("chart", "static", "operator"):
            said.append("the plugin has one configuration for all its nodes until it is given named ones")
    return tuple(said)


def _resets(host: Host, cuts: Sequence[Cut], facts: Facts) -> list[str]:
    toggled = [
        index
        for index, (old, new) in enumerate(zip(host.layout, cuts, strict=True))
        if (old is None) != (new is None) and _resets_gpu(host, index, facts)
    ]
    changed = [index for index, (old, new) in enumerate(zip(host.layout, cuts, strict=True)) if old != new]
    said = []
    if toggled:
        cards = ", ".join(map(str, toggled))
        said.append(f"turning MIG on or off resets card {cards}: nothing may run there, and a cloud machine may have to reboot")
    if changed:
        said.append(
            "the MIG manager stops the plugin, feature discovery and monitoring on the node while it works; it drains no pods"
        )
    return said


def _resets_gpu(host: Host, index: int, facts: Facts) -> bool:
    geometry = facts.mig.of(host.gpus[index])
    return geometry is not None and geometry.card.toggle_resets_gpu
