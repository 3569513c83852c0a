"""The order of findings: root causes first, what follows from them linked below (INTERFACE 6).

A finding follows from another when both hold back the same pods, or name the same object, and the other's cause is the more
specific: `PRECEDENCE` says which cause wins over which, after "Which cause comes first" of the cause vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ragstow.rules.model import CONFIDENCES, SEVERITIES, Finding

_WAITS = frozenset(
    {"wrong-resource-name", "gpu-exhausted", "node-selector-mismatch", "gpu-label-missing", "gpu-count-exceeds-node"}
)
"""What waiting pods look like while the GPUs that they need are not offered, for whatever reason."""

_SEES_NONE = frozenset({"runtimeclass-missing"})
"""What a program says that finds no GPU, for whatever reason."""

PRECEDENCE: Mapping[str, frozenset[str]] = {
    "mig-reconfig-stuck": _WAITS | {"device-plugin-not-scheduled", "driver-not-installed"},
    "device-plugin-nvml-missing": _WAITS | {"mps-not-ready", "runtimeclass-missing", "driver-not-installed"},
    "autoscaler-template-missing-gpu": frozenset({"nodepool-limit", "gpu-exhausted"}),
    "nodepool-limit": frozenset({"gpu-exhausted"}),
    "autoscaler-sharing-unaware": frozenset({"gpu-exhausted"}),
    "rolling-update-gpu-deadlock": frozenset({"gpu-exhausted", "pod-affinity-conflict"}),
    "fabric-manager-down": frozenset({"gpu-exhausted", "gpu-unhealthy"}) | _SEES_NONE,
    "driver-library-mismatch": _WAITS | {"gpu-unhealthy", "device-plugin-nvml-missing", "driver-not-installed"} | _SEES_NONE,
    "driver-cuda-mismatch": _SEES_NONE,
    "gpu-arch-unsupported": _SEES_NONE,
    "cgroup-device-lost": _SEES_NONE,
    "scheduler-bypass": frozenset({"wrong-resource-name", "gpu-exhausted"}),
    "sharing-config-invalid": _WAITS
    | {"driver-not-installed", "sharing-config-not-applied", "sharing-config-unknown", "mps-not-ready"},
    "sharing-config-unknown": _WAITS | {"driver-not-installed", "sharing-config-not-applied"},
    "sharing-config-not-applied": _WAITS,
    "mps-not-ready": _WAITS | {"driver-not-installed"},
    "quota-blocked": frozenset({"driver-not-installed"}),
    "runtime-handler-not-configured": _WAITS | {"driver-not-installed", "device-plugin-not-scheduled"},
    "dra-driver-not-ready": frozenset(
        {"driver-not-installed", "dra-selector-mismatch", "wrong-resource-name", "gpu-exhausted"}
    ),
    "device-plugin-start-race": frozenset({"gpu-unhealthy"}),
    "device-plugin-duplicate": _WAITS | {"sharing-config-not-applied", "gpu-memory-oversubscribed", "driver-not-installed"},
    "device-plugin-dra-conflict": _WAITS | {"gpu-memory-oversubscribed", "gpu-memory-insufficient", "dra-selector-mismatch"},
    "device-plugin-not-scheduled": _WAITS | {"driver-not-installed", "missing-toleration"},
    "driver-not-installed": _WAITS | {"gpu-unhealthy"},
    "gpu-limit-missing": frozenset({"runtimeclass-missing"}),
    "mig-config-invalid": _WAITS | {"driver-not-installed"},
    "mig-strategy-mismatch": _WAITS | {"driver-not-installed"},
    "mig-monitor-permission": _WAITS | {"driver-not-installed"},
    "gpu-unhealthy": frozenset({"gpu-exhausted", "gpu-count-exceeds-node", "mps-not-ready"}) | _SEES_NONE,
    "gpu-label-missing": frozenset({"node-selector-mismatch", "gpu-exhausted"}),
}
"""Winning cause -> causes that merely follow where both explain the same pods or objects."""
LAST = frozenset({"node-out-of-service"})
"""Causes that follow from any other that holds one of the same pods: a node out of service explains a wait only if nothing else
does."""


def order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Root causes first, each with what follows from it; then severity, held pods, place in a file, confidence, name."""
    ranked = sorted(findings, key=_key)
    above = [_above(index, ranked) for index in range(len(ranked))]
    below: dict[int, list[Finding]] = {}
    for index, finding in enumerate(ranked):
        root, seen = index, {index}
        while (higher := above[root]) is not None and higher not in seen:
            root = higher
            seen.add(root)
        if root != index:
            below.setdefault(root, []).append(finding)
    taken = {id(finding) for followers in below.values() for finding in followers}
    return tuple(
        replace(finding, follows=(*finding.follows, *below[index])) if index in below else finding
        for index, finding in enumerate(ranked)
        if id(finding) not in taken
    )


def _above(index: int, ranked: Sequence[Finding]) -> int | None:
    """The first finding that this one follows from."""
    low = ranked[index]
    return next(
        (
            other
            for other, high in enumerate(ranked)
            if other != index
            and (
                (low.cause in PRECEDENCE.get(high.cause, ()) and _touch(low, high))
                or (low.cause in LAST and high.cause not in LAST and not set(low.held).isdisjoint(high.held))
            )
        ),
        None,
    )


def _key(finding: Finding) -> tuple[object, ...]:
    return (
        SEVERITIES.index(finding.severity),
        -len(finding.held),
        finding.file or "",
        finding.line or 0,
        CONFIDENCES.index(finding.confidence),
        finding.rule,
        tuple(str(ref) for ref in finding.objects),
    )


def _touch(one: Finding, other: Finding) -> bool:
    return bool(set(one.held) & set(other.held) or set(one.objects) & set(other.objects))
