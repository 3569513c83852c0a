"""A component may not read MIG devices: it lacks the MIG monitor capability.

What
    Feature discovery, DCGM exporter or another component fails on MIG nodes with "Insufficient Permissions", or on
    /dev/nvidia-caps: NVIDIA_MIG_MONITOR_DEVICES is not set in its container.

Why
    Whole-card queries work, MIG queries do not: the component crashes or reports nothing, only on nodes that are cut.

Fix
    Set NVIDIA_MIG_MONITOR_DEVICES=all in the container and give it the SYS_ADMIN capability, as the vendors' charts do.

References
    - NVIDIA Container Toolkit: NVIDIA_MIG_MONITOR_DEVICES

Fires: GFD on a MIG node
    apiVersion: v1
    kind: Pod
    metadata: {name: gfd-a, namespace: nvidia, uid: p}
    spec: {nodeName: gpu-1, containers: [{name: gpu-feature-discovery-ctr, image: k8s-device-plugin}]}
    status:
      phase: Running
      containerStatuses: [{name: gpu-feature-discovery-ctr, ready: false, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: gpu-feature-discovery-ctr.txt
    text: |
      error getting MIG devices: Insufficient Permissions reading mig devices

Quiet: it runs
    apiVersion: v1
    kind: Pod
    metadata: {name: gfd-a, namespace: nvidia, uid: p}
    spec: {nodeName: gpu-1, containers: [{name: gpu-feature-discovery-ctr, image: k8s-device-plugin}]}
    status:
      phase: Running
      containerStatuses: [{name: gpu-feature-discovery-ctr, ready: true, restartCount: 0, state: {running: {}}}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.rules.context import Context
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule

_VARIABLE = "NVIDIA_MIG_MONITOR_DEVICES"
_SERVING = ("device-plugin", "hami-device-plugin")


class MigMonitorPermission(Rule):
    """See the page above."""

    cause = "mig-monitor-permission"
    severity = "medium"
    needs = frozenset({"logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each component that says so."""
        for site, hits in by_workload(context, context.texts.of_cause(self.cause)):
            pods = [hit.text.pod for hit in hits if hit.text.pod is not None]
            asked = any(_asks(container.raw) for pod in pods for container in pod.containers)
            plugin = any(role in _SERVING for pod in pods for role in context.stack.roles(pod))
            yield self.finding(
                f"{site.words} may not read MIG devices",
                "Its container asks for NVIDIA_MIG_MONITOR_DEVICES, and the runtime did not let it have the capability devices of MIG "
                "(/dev/nvidia-caps)."
                if asked
                else "Its container lacks NVIDIA_MIG_MONITOR_DEVICES (and the SYS_ADMIN capability that goes with it).",
                Fix(
                    "Let the container toolkit pass /dev/nvidia-caps on: another release of it, its legacy mode, or a privileged container; "
                    "and give the container the capability SYS_ADMIN."
                    if asked
                    else "Set NVIDIA_MIG_MONITOR_DEVICES=all in the container and add the capability SYS_ADMIN.",
                    disruption=f"restarts {site.words}",
                    check="its pod is Ready on a MIG node",
                ),
                site.objects,
                evidence=evidence(hits),
                held=site.pods,
                confidence=sure(hits),
                severity="high" if plugin else None,
            )


def _asks(container: Mapping[str, Any]) -> bool:
    listed = container.get("env")
    return any(
        isinstance(item, Mapping) and item.get("name") == _VARIABLE and item.get("value")
        for item in (listed if isinstance(listed, list) else ())
    )
