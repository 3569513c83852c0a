"""Device taints: those of the slices, those of DeviceTaintRules, and what a request tolerates.

Source: k8s.io/dynamic-resource-allocation/resourceclaim/devicetoleration.go and resourceslice/tracker (KEP-5055).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ragstow.cluster.objects import KubeObject
from ragstow.scheduling.dra import parse
from ragstow.scheduling.dra.model import Device, DeviceTaint, DeviceToleration, Slice

_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule; None selects everything."""

    taint: DeviceTaint
    driver: str | None
    pool: str | None
    device: str | None


def taint_rule(item: KubeObject) -> TaintRule:
    """Reads a DeviceTaintRule."""
    spec = item.raw.get("spec") or {}
    selector = spec.get("deviceSelector") or {}
    return TaintRule(
        parse.device_taint(spec.get("taint") or {}), selector.get("driver"), selector.get("pool"), selector.get("device")
    )


def with_rules(item: Slice, rules: Iterable[TaintRule]) -> Slice:
    """The slice with the taints of all rules that select its devices."""
    fitting = [rule for rule in rules if rule.driver in (None, item.driver) and rule.pool in (None, item.pool)]
    if not fitting:
        return item
    return replace(item, devices=tuple(_tainted(device, fitting) for device in item.devices))


def prevented(device: Device, tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Whether a taint keeps a request with these tolerations from the device; only known effects count."""
    return any(
        taint.effect in _EFFECTS and not any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in device.taints
    )


def _tainted(device: Device, rules: list[TaintRule]) -> Device:
    added = tuple(rule.taint for rule in rules if rule.device in (None, device.id.device))
    return replace(device, taints=device.taints + added) if added else device


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
