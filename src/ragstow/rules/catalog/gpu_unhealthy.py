"""A GPU has failed: the node offers fewer devices than it has, or the driver reports a fault.

What
    Allocatable is below capacity for a GPU resource, the plugin's log marks a device unhealthy (critical Xid), the kernel logs an Xid,
    a GPU that has fallen off the bus or uncorrectable ECC errors, or a problem detector sets a condition on the node (XidCriticalError,
    GPUMissing, AcceleratedHardwareReady=False and their like). Xids of applications (13, 31, 43, 45, 68, 109) do not count.

Why
    The slot is gone for the scheduler, and pods on the card may be broken. The plugin never marks a device healthy again by itself:
    it must restart, after the card is reset or replaced.

Fix
    Look at `nvidia-smi -q` and the Xid in dmesg; drain the card's pods, reset the GPU or reboot, then restart the plugin pod of
    that node.

References
    - NVIDIA Xid errors; NVIDIA device plugin, internal/rm/health.go

Fires: seven of eight
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "8"}}
    status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 7}}

Quiet: eight of eight
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "8"}}
    status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 8}}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ragstow.rules.context import Context
from ragstow.rules.grouping import by_node, evidence
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import gpu_nodes, unserved

_APPLICATION_XIDS = frozenset({"13", "31", "43", "45", "68", "109"})
"""Faults of a program, not of the card; the plugin ignores them too (internal/rm/health.go)."""


class GpuUnhealthy(Rule):
    """See the page above."""

    cause = "gpu-unhealthy"
    severity = "high"
    needs = frozenset({"snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node with a failed GPU."""
        said: dict[str, tuple[Hit, ...]] = {}
        strangers: list[Hit] = []
        for site, hits in by_node(context.texts.of_cause(self.cause, strong=True)):
            kept = tuple(hit for hit in hits if hit.match.groupdict().get("xid") not in _APPLICATION_XIDS)
            if kept and site.node:
                said[site.node] = kept
            elif kept:
                strangers.extend(kept)
        lost = {
            node.name: {
                name: (use.capacity, use.allocatable)
                for name, use in node.resources.items()
                if 0 <= use.allocatable < use.capacity
            }
            for node in gpu_nodes(context)
        }
        lost = {name: missing for name, missing in lost.items() if name in said or not _unregistered(context, name, missing)}
        for name in sorted({*said, *(node for node, missing in lost.items() if missing)}):
            missing = lost.get(name, {})
            hits = said.get(name, ())
            ref = ObjectRef("Node", "", name)
            what = ", ".join(
                f"{capacity - allocatable} of {capacity} {resource}" for resource, (capacity, allocatable) in missing.items()
            )
            everything = bool(missing) and all(allocatable == 0 for _, allocatable in missing.values())
            yield self.finding(
                f"node {name}: {what + ' are unhealthy' if what else 'a failed GPU is reported'}{_faults(hits)}",
                "The plugin took the device out of service and will not take it back before it restarts."
                if missing
                else "What programs on the node say names a fault of the card or of its link; new work may still be sent to it.",
                Fix(
                    "Look at nvidia-smi -q and the Xid in dmesg, move the pods off the card, reset the GPU or reboot the node, then restart "
                    "the plugin pod there.",
                    command=f"kubectl get pods -A --field-selector spec.nodeName={name}   # who is on the node",
                    disruption=f"drains node {name} if it is rebooted",
                    check=f"kubectl get node {name} -o jsonpath='{{.status.allocatable}}'   # equal to capacity",
                ),
                (ref, *(ObjectRef.of(pod) for pod in {h.text.pod.key: h.text.pod for h in hits if h.text.pod}.values())),
                evidence=(
                    *(
                        Evidence(f"capacity {c}, allocatable {a}", ref, f"status.allocatable[{r}]")
                        for r, (c, a) in missing.items()
                    ),
                    *evidence(hits),
                ),
                held=list(dict.fromkeys((*_hit(context, hits), *_held(context, name, missing)))),
                confidence="certain" if hits else "likely",
                severity="critical" if everything else "high",
            )
        if strangers and not said and not any(lost.values()):
            yield self.finding(
                "a log names a failed GPU",
                "The data do not say on which node.",
                Fix("Look at nvidia-smi -q and dmesg on the node of the log, then reset the GPU or reboot."),
                (),
                evidence=evidence(strangers),
                confidence="likely",
            )


def _unregistered(context: Context, name: str, missing: Mapping[str, tuple[int, int]]) -> bool:
    """Whether nothing is offered since the node's plugin has not started, or says what else keeps it from serving: the kubelet
    then counts all its devices as unhealthy."""
    plugins = context.stack.pods("device-plugin", "hami-device-plugin", node=name)
    states = [state.state for pod in plugins if (state := context.states.of(pod)) is not None]
    waits = bool(states) and all(state == "starting" for state in states)
    # A plugin that says why it does not serve has no word on the cards.
    keys = {pod.key for pod in plugins}
    says = any(
        hit.text.pod is not None
        and hit.text.pod.key in keys
        and hit.signature.strong
        and hit.signature.cause != GpuUnhealthy.cause
        for hit in context.texts.hits
    )
    return (waits or says) and all(free == 0 for _, free in missing.values())


def _faults(hits: Iterable[Hit]) -> str:
    numbers = sorted({int(found) for hit in hits if (found := hit.match.groupdict().get("xid"))})
    return f" (Xid {', '.join(map(str, numbers))})" if numbers else ""


def _hit(context: Context, hits: Iterable[Hit]) -> Iterator[str]:
    """Pods that met the fault themselves and do not run; not those of the GPU stack, which only report it."""
    for hit in hits:
        pod = hit.text.pod
        state = context.states.of(pod) if pod is not None and not context.stack.roles(pod) else None
        if state is not None and not state.healthy:
            yield state.pod.key


def _held(context: Context, name: str, missing: Mapping[str, tuple[int, int]]) -> list[str]:
    """Pods that the node would take if its lost devices were back."""
    node = context.inventory.find(name)
    if node is None:
        return []
    back = {resource: capacity - allocatable for resource, (capacity, allocatable) in missing.items()}
    return [
        key
        for group in unserved(context, [name])
        if any(resource in back for resource in group.wants)
        and all(
            node.resources[resource].free + back.get(resource, 0) >= count
            for resource, count in group.wants.items()
            if resource in node.resources
        )
        for key in group.held
    ]
