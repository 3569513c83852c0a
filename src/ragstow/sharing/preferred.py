"""Which devices the plugin prefers when the kubelet asks (GetPreferredAllocation), as the set of all answers it may give.

Shares and MIG devices are chosen greedily; ties fall by chance. Whole cards follow their NVLink topology, which no Kubernetes
object shows: there the answer is unknown unless there is no choice (k8s-device-plugin internal/rm/allocate.go).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ragstow.sharing.devices import Device
from ragstow.sharing.machine import Platform
from ragstow.sharing.pluginconfig import Config

NOT_ENOUGH = "not enough available devices to satisfy allocation"
_MOST_OUTCOMES = 20_000


@dataclass(frozen=True, slots=True)
class Preferred:
    """All answers as device uuid -> how many of its ids are taken; which share of a device is taken is always chance.

    `known` is False where the topology decides; `complete` is False where there are too many answers to list.
    """

    outcomes: tuple[Mapping[str, int], ...] = ()
    known: bool = True
    complete: bool = True
    error: str | None = None


def preferred(
    config: Config,
    platform: Platform,
    devices: Mapping[str, Device],
    available: Sequence[str],
    required: Collection[str],
    size: int,
) -> Preferred:
    """The possible answers.

    Args:
        config: the configuration in force.
        platform: what the machine is (only with NVML does the configured policy count).
        devices: all devices of the resource.
        available: ids that are free, the required ones among them.
        required: ids that must be in the answer.
        size: how many ids are asked for.
    """
    whole = all(not device.is_mig and device.uuid not in ("all", "tegra") for device in devices.values())
    if platform == "nvml" and whole and not any("::" in item for item in available):
        return _whole(devices, available, required, size)
    known = [item for item in dict.fromkeys(available) if item in devices and item not in required]
    needed = size - len(required)
    if len(known) < needed:
        return Preferred(error=NOT_ENOUGH)
    free: dict[str, int] = {}
    for item in known:
        free[devices[item].uuid] = free.get(devices[item].uuid, 0) + 1
    total: dict[str, int] = {}
    for device in devices.values():
        total[device.uuid] = total.get(device.uuid, 0) + 1
    packed = platform == "nvml" and config.plugin.get("sharedDevicesAllocationPolicy") == "packed"
    start = tuple(sorted(free))
    taken = _greedy(start, [total[uuid] - free[uuid] for uuid in start], [free[uuid] for uuid in start], needed, packed)
    base: dict[str, int] = {}
    for item in required:
        uuid = devices[item].uuid if item in devices else item
        base[uuid] = base.get(uuid, 0) + 1
    outcomes = []
    for counts in sorted(taken)[:_MOST_OUTCOMES]:
        made = dict(base)
        for uuid, count in zip(start, counts, strict=True):
            if count:
                made[uuid] = made.get(uuid, 0) + count
        outcomes.append(made)
    return Preferred(tuple(outcomes), complete=len(taken) < _MOST_OUTCOMES)


def _whole(devices: Mapping[str, Device], available: Sequence[str], required: Collection[str], size: int) -> Preferred:
    if size == len(set(available)) and set(required) <= set(available):
        return Preferred(({devices[item].uuid: 1 for item in sorted(set(available)) if item in devices},))
    return Preferred(known=False, complete=False)


def _greedy(uuids: tuple[str, ...], held: list[int], free: list[int], needed: int, packed: bool) -> set[tuple[int, ...]]:
    """How many are taken of each device, over all ways in which ties may fall."""
    states: set[tuple[int, ...]] = {(0,) * len(uuids)}
    for _ in range(max(needed, 0)):
        following: set[tuple[int, ...]] = set()
        for state in states:
            # Fewest (or most) shares in use first, then the device picked from least in this round.
            ranks = {
                index: ((-1 if packed else 1) * (held[index] + state[index]), state[index])
                for index in range(len(uuids))
                if state[index] < free[index]
            }
            best = min(ranks.values())
            for index, rank in ranks.items():
                if rank == best:
                    following.add((*state[:index], state[index] + 1, *state[index + 1 :]))
        states = set(sorted(following)[:_MOST_OUTCOMES])
    return states
