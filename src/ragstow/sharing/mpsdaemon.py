"""What the MPS control daemon makes of a configuration on a machine: which resources it serves, and each client's limits.

The plugin serves a resource under MPS only while that resource's daemon answers (cmd/mps-control-daemon/mps).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragstow.sharing.devices import Device, Ended, device_map, mig_resources
from ragstow.sharing.machine import Machine
from ragstow.sharing.verdict import Verdict

MOST_CLIENTS, MOST_CLIENTS_OLD = 48, 16
_SINCE = (7, 5)


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon: the resource, the share of threads in percent, and the memory limit of a client by device index, MiB
    (devices whose memory is unknown have none)."""

    resource: str
    active_thread_percentage: int
    pinned_memory_mib: Mapping[str, int]


def most_clients(compute_capability: tuple[int, int] | None) -> int:
    """How many clients one card may have: 48 from compute capability 7.5 on, 16 below (mps/device.go; 7.0 is below)."""
    return MOST_CLIENTS if compute_capability is not None and compute_capability >= _SINCE else MOST_CLIENTS_OLD


def daemons(verdict: Verdict, machine: Machine) -> tuple[Daemon, ...] | str:
    """The daemons in the order of their resources' names, or the text with which the control daemon ends.

    No daemon means that nothing is ever served under an MPS configuration.

    Args:
        verdict: the daemon's own reading of the file (`verdict.daemon`).
        machine: the node.
    """
    config = verdict.effective
    if config is None:
        return verdict.failure.text if verdict.failure is not None else ""
    if config.sharing.strategy != "mps":
        return ()
    try:
        patterns = mig_resources(config, machine, [])
    except Ended as error:
        return f"unable to add default resources to config: {error}"
    if not machine.nvml:
        return "failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"
    try:
        resources = device_map(config, machine, patterns, [])
    except Ended as error:
        return str(error)
    made = []
    for name in sorted(resources):
        groups = tuple(resources[name].groups.values())
        if not any(factors for _, factors in groups):
            continue
        for device, factors in groups:
            most = most_clients(_capability(device))
            if not device.is_mig and max(factors, default=1) > most:
                return f"invalid MPS configuration: invalid device maximum allowed replicas exceeded: {max(factors)} > {most}"
        made.append(Daemon(name, 100 // (len(resources[name]) // len(groups)), _limits(groups)))
    return tuple(made)


def _capability(device: Device) -> tuple[int, int] | None:
    major, dot, minor = device.compute_capability.partition(".")
    return (int(major), int(minor)) if dot else None


def _limits(groups: tuple[tuple[Device, tuple[int, ...]], ...]) -> dict[str, int]:
    return {
        device.index: device.memory_bytes // max(factors, default=1) // 2**20
        for device, factors in sorted(groups, key=lambda group: group[0].index)
        if device.memory_bytes
    }
