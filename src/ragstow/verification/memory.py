"""Memory in use against the plan, and who shares a device with whom: what only all pods together can tell.

A pod without hostPID sees no process of others, but the memory of the whole card or slice: what foreigners use shows as memory
above the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstow.verification.model import Check, Evidence, Memory, ObjectRef, Outcome, Unknown
from ragstow.verification.pods import exec_command
from ragstow.verification.seen import Device, Look, devices
from ragstow.verification.targets import MIB, Target

GIB = 2**30
_SHOWN_PROCESSES = 3
_SLACK = 0.03
_WEIGHTS_THERE = 0.8
"""Of the weights: a ready engine has them on its card, or it does not work there."""
_LEAST_SLACK_BYTES = 256 * MIB
"""Above the upper end of the band: what the driver keeps of an idle card (up to some hundred MiB), the MPS server (30 MiB)."""


@dataclass(frozen=True, slots=True)
class Use:
    """A pod on one of its devices."""

    target: Target
    look: Look
    device: Device


def uses(seen: Sequence[tuple[Target, Look]]) -> tuple[Use, ...]:
    """Every pod on every device that it sees."""
    return tuple(Use(target, look, device) for target, look in seen for device in devices(look.reading))


def by_device(found: Sequence[Use]) -> Mapping[str, tuple[Use, ...]]:
    """Uses by node and UUID of the card or slice; a device without UUID is nobody else's."""
    table: dict[str, list[Use]] = {}
    for use in found:
        key = f"{use.target.pod.node} {use.device.uuid or f'{use.target.pod.key} {use.device.index}'}"
        table.setdefault(key, []).append(use)
    return {key: tuple(items) for key, items in table.items()}


def check_memory(seen: Sequence[tuple[Target, Look]], holders: Mapping[str, Sequence[str]]) -> Outcome:
    """Memory used of each device against what the pods on it were sized for.

    Args:
        seen: the pods that could be looked into.
        holders: node -> pods of others ("namespace/name") that hold a share of a card there, so that they may sit beside ours.
    """
    checks: list[Check] = []
    unknown: list[Unknown] = []
    rows: list[Memory] = []
    remarks: list[str] = []
    for group in by_device(uses(seen)).values():
        pods = {use.target.pod.key: use for use in group}
        first = next(iter(pods.values()))
        used = max((use.device.used_mib for use in pods.values() if use.device.used_mib is not None), default=None)
        if used is None:
            unknown += [_unsaid(use) for use in pods.values()]
            continue
        rows += [_row(use, used, len(pods) - 1) for use in pods.values()]
        band = [use.target.expected.band for use in pods.values()]
        known = [item for item in band if item is not None]
        if len(known) < len(band):
            continue
        checks_, unknown_ = _judge(tuple(pods.values()), used, holders.get(first.target.pod.node or "", ()))
        checks += checks_
        unknown += unknown_
        weights = _weights(tuple(pods.values()))
        if used * MIB < weights * _WEIGHTS_THERE and not _all_ready(tuple(pods.values())):
            names = ", ".join(use.target.pod.name for use in pods.values())
            remarks.append(
                f"{names}: {_gib(used * MIB)} in use, the weights alone take {_gib(weights)}: is the model on the GPU?"
            )
    return Outcome(tuple(checks), tuple(unknown), tuple(rows), tuple(remarks))


def _judge(group: Sequence[Use], used: int, foreign: Sequence[str]) -> tuple[list[Check], list[Unknown]]:
    high = sum((use.target.expected.band or (0, 0))[1] for use in group)
    limit = high + max(int(high * _SLACK), _LEAST_SLACK_BYTES)
    peak = sum(use.target.expected.peak_bytes or 0 for use in group)
    weights = _weights(group)
    empty = used * MIB < weights * _WEIGHTS_THERE and _all_ready(group)
    right = used * MIB <= limit and not empty
    together = f" together with {len(group) - 1} more of the service" if len(group) > 1 else ""
    said = f"{_gib(used * MIB)} used{together}"
    shared = group[0].target.expected.sharers > 1 or group[0].target.expected.mode in ("time-slicing", "mps", "unknown")
    checks, unknown = [], []
    for use in group:
        ref = ObjectRef.of(use.target.pod)
        if not right and not empty and foreign and shared:
            missing = f"{said}, sized {_gib(peak)}; pods of others may share this card: {', '.join(foreign[:5])}"
            command = "nvidia-smi (on the node or in its driver pod: it lists all processes)"
            unknown.append(Unknown("gpu-memory-used", ref, missing, command, component=use.target.component))
            continue
        hint = ""
        if empty:
            hint = (
                f"the weights alone take {_gib(weights)}: the model of this ready pod is not on its GPU "
                "(the engine's log says where it runs)"
            )
        elif not right:
            hint = (
                f"{_gib(used * MIB - high)} more than planned: a process outside this service uses the card "
                "(nvidia-smi on the node shows it), or the component takes more than sized"
            )
        checks.append(
            Check(
                "gpu-memory-used",
                ref,
                f"at least {_gib(weights)} (weights), sized {_gib(peak)}"
                if empty
                else f"at most {_gib(limit)} (sized {_gib(peak)}, up to {_gib(high)})",
                said,
                right,
                _evidence(use, used, processes=not right),
                hint,
                use.target.component,
            )
        )
    return checks, unknown


def _weights(group: Sequence[Use]) -> int:
    return sum(use.target.expected.weights_bytes for use in group)


def _all_ready(group: Sequence[Use]) -> bool:
    """Whether every pod is ready: one that still loads its model has less on the card."""
    conditions = [use.target.pod.status.get("conditions") for use in group]
    return all(
        any(item.get("type") == "Ready" and item.get("status") == "True" for item in listed if isinstance(item, Mapping))
        for listed in (found if isinstance(found, list) else () for found in conditions)
    )


def _evidence(use: Use, used: int, *, processes: bool) -> tuple[Evidence, ...]:
    """The line with the amount; and the largest processes, where the container sees any (hostPID: those of others too)."""
    found = use.look.evidence("rows", f"{used} MiB") or use.look.evidence("table", f"{used}MiB")
    answer = use.look.answers.get("table")
    if not processes or answer is None:
        return found
    seen = sorted(use.look.reading.processes or (), key=lambda item: -(item.used_mib or 0))
    listed = [item for item in seen if item.card == use.device.index and item.used_mib is not None][:_SHOWN_PROCESSES]
    return (*found, *(Evidence(answer.command, f"process {item.pid} {item.name}: {item.used_mib} MiB") for item in listed))


def _row(use: Use, used: int, others: int) -> Memory:
    expected = use.target.expected
    return Memory(
        component=use.target.component,
        pod=ObjectRef.of(use.target.pod),
        predicted_bytes=expected.peak_bytes,
        band=expected.band,
        measured_bytes=used * MIB,
        total_bytes=None if use.device.total_mib is None else use.device.total_mib * MIB,
        others=others,
    )


def _unsaid(use: Use) -> Unknown:
    return Unknown(
        "gpu-memory-used",
        ObjectRef.of(use.target.pod),
        "nvidia-smi says no memory of this device (unified memory, or not permitted)",
        exec_command(use.target, "nvidia-smi -q -d MEMORY"),
        component=use.target.component,
    )


def _gib(value: int) -> str:
    return f"{value / GIB:.1f} GiB"
