"""The kubelet's topology manager rejects pods: their GPUs and CPUs cannot be had on the NUMA nodes that the policy wants.

What
    Pods fail with TopologyAffinityError ("Resources cannot be allocated with Topology locality") right after they were bound.

Why
    kube-scheduler does not see NUMA nodes: it keeps sending pods to a node that is free in sum and fragmented in fact. A controller
    makes a new pod each time, so the failed ones pile up.

Fix
    Keep large pods on nodes of their own, relax the policy (restricted or best-effort instead of single-numa-node), or use a
    scheduler that knows NUMA nodes.

References
    - Kubernetes: topology manager policies and scopes

Fires: four cards over two sockets
    apiVersion: v1
    kind: Pod
    metadata: {name: job-4, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 4}, limits: {nvidia.com/gpu: 4}}}]}
    status: {phase: Failed, reason: TopologyAffinityError, message: "Pod was rejected: Resources cannot be allocated with Topology locality"}

Quiet: the pod runs
    apiVersion: v1
    kind: Pod
    metadata: {name: job-4, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 4}, limits: {nvidia.com/gpu: 4}}}]}
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class TopologyAlignmentFailed(Rule):
    """See the page above."""

    cause = "topology-alignment-failed"
    severity = "high"
    needs = frozenset({"events", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload and node."""
        groups: dict[tuple[ObjectRef, str], list[Pod]] = {}
        for state in context.states.in_state("rejected", "crashing"):
            said = state.reason == "TopologyAffinityError" or "Topology locality" in state.message
            if said or context.events.about(state.pod, "TopologyAffinityError"):
                groups.setdefault((context.owners.workload(state.pod), state.pod.node or ""), []).append(state.pod)
        for (workload, node), pods in groups.items():
            policies = [
                Evidence(str(item.get("topologyManagerPolicy")), None, "KubeletConfiguration.topologyManagerPolicy")
                for item in context.kubelet_configurations
                if item.get("topologyManagerPolicy")
            ]
            yield self.finding(
                f"the kubelet on {node} rejects {workload}: its resources cannot be aligned on NUMA nodes",
                f"{len(pods)} pod(s) were bound and then refused by the topology manager. The node has room in sum, but not on the NUMA "
                "nodes that its policy asks for, and kube-scheduler does not see that.",
                Fix(
                    "Keep pods of this size on nodes of their own, relax topologyManagerPolicy (restricted or best-effort), or use a "
                    "scheduler that knows NUMA nodes.",
                    command=f"kubectl get --raw /api/v1/nodes/{node}/proxy/configz   # the kubelet's policy and scope",
                    disruption="a change of the policy restarts the kubelet",
                    check="new pods reach Running",
                ),
                (workload, *map(ObjectRef.of, pods[:5]), ObjectRef("Node", "", node)),
                evidence=(
                    *(
                        Evidence(str(pod.status.get("message") or "TopologyAffinityError"), ObjectRef.of(pod), "status.message")
                        for pod in pods[:2]
                    ),
                    *policies[:1],
                ),
                held=(pod.key for pod in pods),
            )
