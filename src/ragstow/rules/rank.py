"""The order of findings: root causes first, what follows from them linked below (INTERFACE 6).

A finding follows from another when both hold back the same pods, or name the same object, and the other's cause is the more
specific: `PRECEDENCE` says which cause wins over which, after "Which cause comes first" of the cause vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ragstow.rules.model import CONFIDENCES, SEVERITIES, Finding

PRECEDENCE: Mapping[str, frozenset[str]] = {
    "mig-reconfig-stuck": frozenset({"node-selector-mismatch", "device-plugin-not-scheduled", "driver-not-installed"}),
    "device-plugin-nvml-missing": frozenset({"mps-not-ready", "runtimeclass-missing", "driver-not-installed"}),
    "autoscaler-template-missing-gpu": frozenset({"nodepool-limit", "gpu-exhausted"}),
    "rolling-update-gpu-deadlock": frozenset({"gpu-exhausted"}),
    "driver-library-mismatch": frozenset({"gpu-unhealthy", "device-plugin-nvml-missing"}),
    "scheduler-bypass": frozenset({"wrong-resource-name", "gpu-exhausted"}),
    "sharing-config-invalid": frozenset({"sharing-config-not-applied", "sharing-config-unknown"}),
    "quota-blocked": frozenset({"driver-not-installed"}),
    "runtime-handler-not-configured": frozenset({"driver-not-installed", "device-plugin-not-scheduled"}),
    "dra-driver-not-ready": frozenset({"driver-not-installed", "dra-selector-mismatch"}),
    "device-plugin-not-scheduled": frozenset(
        {"driver-not-installed", "wrong-resource-name", "missing-toleration", "gpu-exhausted", "node-selector-mismatch"}
    ),
    "gpu-limit-missing": frozenset({"runtimeclass-missing"}),
    "mig-config-invalid": frozenset({"wrong-resource-name", "gpu-exhausted"}),
}
"""Winning cause -> causes that merely follow where both explain the same pods or objects."""


def order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Root causes first, each with what follows from it; then severity, held pods, place in a file, confidence, name."""
    ranked = sorted(findings, key=_key)
    below: dict[int, list[Finding]] = {}
    taken: set[int] = set()
    for index, low in enumerate(ranked):
        for other, high in enumerate(ranked):
            if index != other and other not in taken and low.cause in PRECEDENCE.get(high.cause, ()) and _touch(low, high):
                below.setdefault(other, []).append(low)
                taken.add(index)
                break
    return tuple(
        replace(finding, follows=(*finding.follows, *below[index])) if index in below else finding
        for index, finding in enumerate(ranked)
        if index not in taken
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
