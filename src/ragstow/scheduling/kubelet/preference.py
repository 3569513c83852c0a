"""What plugins answer to GetPreferredAllocation: given what is offered, what must be in and how many, the ids they prefer.

`lowest`, `highest`, `spread`, `short`, `empty`, `foreign` and `error` are the rules of a plugin made for recording;
`distributed` and `packed` are the NVIDIA plugin's for replicas (internal/rm/allocate.go). A rule may leave a choice open.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.scheduling.kubelet.model import Plugin


class PreferenceFailed(Exception):
    """The plugin answers with an error; the text is the plugin's."""


def preferred(plugin: Plugin, available: Sequence[str], must_include: Sequence[str], size: int) -> tuple[str, ...]:
    """The ids the plugin prefers, in its order.

    Args:
        plugin: the plugin; its `preference` names the rule and must not be "".
        available: what the kubelet offers, the ids already taken among them.
        must_include: what is taken already.
        size: how many ids are wanted in all.

    Raises:
        PreferenceFailed: the rule answers with an error.
    """
    rule = plugin.preference
    rest = sorted(set(available) - set(must_include))
    taken = sorted(must_include)
    left = size - len(taken)
    if rule == "error":
        raise PreferenceFailed("no preference today")
    if rule == "empty":
        return ()
    if rule == "foreign":
        strange = [device.id for device in plugin.devices if device.id not in set(available)]
        return (*taken, *strange, "no-such-device", *rest[-1:])
    if rule == "spread":
        return (*taken, *_spread(rest, left))
    if rule in ("distributed", "packed"):
        return (*taken, *_replicas(plugin, rest, left, most_taken_first=rule == "packed"))
    if rule == "short":
        return (*taken, *rest)[: max(size - 1, 0)]
    if rule == "highest":
        rest.reverse()
    return (*taken, *rest[: max(left, 0)])


def card_of(device_id: str) -> str:
    """The card (or slice) behind a replica's id: what stands before "::"."""
    return device_id.partition("::")[0]


def _spread(rest: list[str], count: int) -> list[str]:
    """Next the replica whose card has most unassigned replicas left, lowest id on a tie."""
    chosen: list[str] = []
    pool = list(rest)
    while pool and len(chosen) < count:
        left: dict[str, int] = {}
        for item in pool:
            left[card_of(item)] = left.get(card_of(item), 0) + 1
        best = min(pool, key=lambda item: (-left[card_of(item)], item))
        pool.remove(best)
        chosen.append(best)
    return chosen


def _replicas(plugin: Plugin, rest: list[str], count: int, *, most_taken_first: bool) -> list[str]:
    """Replica by replica from the card with fewest (packed: most) replicas in use; the original breaks ties by chance, here
    the lowest id does. In use = not offered, or chosen before."""
    total: dict[str, int] = {}
    for device in plugin.devices:
        total[card_of(device.id)] = total.get(card_of(device.id), 0) + 1
    chosen: list[str] = []
    pool = list(rest)
    while pool and len(chosen) < count:
        left: dict[str, int] = {}
        for item in pool:
            left[card_of(item)] = left.get(card_of(item), 0) + 1

        def used(item: str, left: dict[str, int] = left) -> int:
            return total.get(card_of(item), 0) - left[card_of(item)]

        best = min(pool, key=lambda item: (-used(item) if most_taken_first else used(item), item))
        pool.remove(best)
        chosen.append(best)
    return chosen
