"""The kubelet's device manager believes that devices are in use which no live pod holds.

What
    Pods are rejected with "requested number of devices unavailable … Available: 0" on a node whose pods hold fewer devices than it
    offers: the scheduler sees room, the kubelet does not.

Why
    The kubelet keeps its allocations in a checkpoint file; after a crash, a forced deletion or a plugin that changed its device ids the
    file and the pods differ. The scheduler sends the next pod to the same node.

Fix
    Restart the kubelet on the node; where that does not help, stop it, remove /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint,
    start it again and restart the plugin.

References
    - Kubernetes: kubelet, device manager checkpoint

Fires: one of two in use, none available
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 2}, allocatable: {nvidia.com/gpu: 2}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status:
      phase: Failed
      reason: UnexpectedAdmissionError
      message: "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"

Quiet: the pod runs
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 2}, allocatable: {nvidia.com/gpu: 2}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstow.rules.context import Context
from ragstow.rules.grouping import Site, by_node, evidence
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_FIX = Fix(
    "Restart the kubelet; where that does not help remove its device checkpoint while it is stopped, and restart the plugin.",
    command="systemctl restart kubelet   # on the node",
    disruption="running pods stay",
    check="new pods are admitted",
)


def _believed(hit: Hit) -> int:
    """How many devices are free by the kubelet's own count."""
    found = hit.match.groupdict()
    if found.get("available") is not None:
        return int(found["available"])
    return int(found["capacity"]) - int(found["used"]) if found.get("used") is not None else 0


def _had_ended(context: Context, hit: Hit) -> bool:
    state = context.states.of(hit.text.pod) if hit.text.pod is not None else None
    return state is not None and any(c.state == "terminated" and c.exit_code == 0 and not c.init for c in state.containers)


class KubeletDeviceStateStale(Rule):
    """See the page above."""

    cause = "kubelet-device-state-stale"
    severity = "high"
    needs = frozenset({"events", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node whose kubelet refuses devices that nobody holds."""
        for site, hits in by_node(context.texts.of_cause(self.cause)):
            node = context.inventory.find(site.node)
            if site.node is None and context.snapshot.nodes:
                continue
            if site.node is None or node is None:
                yield from self._unseen(context, site, hits)
                continue
            free = {
                name: use
                for name, use in node.resources.items()
                if any(name in hit.text.value and use.free > _believed(hit) for hit in hits)
            }
            if not free:
                again = [hit for hit in hits if _had_ended(context, hit)]
                if again:
                    yield self._again(site, again)
                continue
            name, use = next(iter(free.items()))
            yield self.finding(
                f"the kubelet on {site.node} refuses {name} although {use.free} of {use.allocatable} are held by no pod",
                "Its record of allocated devices and the live pods differ; the scheduler keeps sending pods there.",
                _FIX,
                site.objects,
                evidence=(
                    *evidence(hits),
                    Evidence(
                        f"allocatable {use.allocatable}, held {use.requested}",
                        ObjectRef("Node", "", site.node),
                        f"status.allocatable[{name}]",
                    ),
                ),
                held=site.pods,
                confidence="likely",
            )

    def _again(self, site: Site, hits: Sequence[Hit]) -> Finding:
        """Pods whose containers had ended well, refused when the kubelet started again and took them for new ones."""
        return self.finding(
            f"the kubelet on {site.node} has refused pods that had already finished",
            "After a restart it admits the pods of its node again, finished ones too, and others hold the devices by now. Their work is done; "
            "only their status is wrong.",
            Fix(
                "Delete the pods; newer kubelets leave finished pods alone.",
                check="the owner of the pods counts them as succeeded",
            ),
            site.objects,
            evidence=evidence(hits),
            held=site.pods,
            confidence="likely",
        )

    def _unseen(self, context: Context, site: Site, hits: tuple[Hit, ...]) -> Iterator[Finding]:
        """Refusals of a kubelet whose node is not in the data: believed where no pod of the data holds what it refuses."""
        holders = [
            pod
            for pod in context.snapshot.pods
            if pod.node == site.node
            and not pod.finished
            and any(name in hit.text.value for name in context.requests(pod) for hit in hits)
        ]
        if holders:
            return
        yield self.finding(
            f"the kubelet on {site.words} refuses devices that no pod in the data holds",
            "Its record of allocated devices and the live pods seem to differ; the scheduler keeps sending pods there. The node is not in "
            "the data, so what it offers is unknown.",
            _FIX,
            site.objects,
            evidence=evidence(hits),
            held=site.pods,
            confidence="possible",
        )
