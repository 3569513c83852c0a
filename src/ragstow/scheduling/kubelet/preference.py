"""What plugins answer to GetPreferredAllocation: given what is offered, what must be in and how many, the ids they prefer.

`lowest`, `highest`, `spread`, `short`, `empty`, `foreign` and `error` are the rules of a plugin made for recording.
`distributed` and `packed` are the NVIDIA plugin's for shares and slices; they are `sharing`'s, and their ties fall by chance.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.scheduling.kubelet.model import Plugin
from ragstow.sharing import preferred as nvidia
from ragstow.sharing.devices import Device
from ragstow.sharing.pluginconfig import Config

_NVIDIA = ("distributed", "packed")


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
    if rule in _NVIDIA:
        return (*taken, *_nvidia(plugin, available, must_include, size))
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


def chance(plugin: Plugin, available: Sequence[str], must_include: Sequence[str], size: int) -> tuple[str, ...]:
    """Ids that the plugin's answer may hold besides those of `must_include`, where its own ties leave that to chance; empty
    where the answer is determined."""
    if plugin.preference not in _NVIDIA:
        return ()
    made = _outcomes(plugin, available, must_include, size)
    cards = {card for outcome in made.outcomes for card in outcome}
    pool = tuple(item for item in available if item not in must_include and card_of(item) in cards)
    return pool if len(pool) > size - len(must_include) else ()


def _nvidia(plugin: Plugin, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
    """The first of the possible answers, with the lowest ids of each card."""
    made = _outcomes(plugin, available, must_include, size)
    if made.error is not None:
        raise PreferenceFailed(made.error)
    if not made.outcomes:
        return []
    left = dict(made.outcomes[-1])  # outcomes ascend by counts: the last takes from the first cards
    for item in must_include:
        left[card_of(item)] = left.get(card_of(item), 0) - 1
    chosen: list[str] = []
    for item in sorted(set(available) - set(must_include)):
        if left.get(card_of(item), 0) > 0:
            left[card_of(item)] -= 1
            chosen.append(item)
    return chosen


def _outcomes(plugin: Plugin, available: Sequence[str], must_include: Sequence[str], size: int) -> nvidia.Preferred:
    devices = {
        device.id: Device(device.id, card_of(device.id), "0:0" if device.id.startswith("MIG-") else "0", 0, "")
        for device in plugin.devices
    }
    config = Config(plugin={"sharedDevicesAllocationPolicy": plugin.preference})
    return nvidia.preferred(config, "nvml", devices, available, must_include, size)
