"""What the controllers of workloads decide about their pods: whose they are, which go first, where a DaemonSet wants one.

Expanding a workload into pods is `workload`'s; taking them in is `arrivals`'.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragstow.cluster.objects import Pod
from ragstow.cluster.owners import Owners
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.plugins.node_affinity import required_matches
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.release import Release
from ragstow.scheduling.taints import first_untolerated
from ragstow.simulate.workload import Workload, daemon_tolerations, made, pod_from_template


def owned_pods(snapshot: Snapshot) -> dict[tuple[str, str, str], list[Pod]]:
    """Pods by the workload at the top of their owners, (kind, namespace, name)."""
    owners = Owners(snapshot)
    found: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.controller is not None and pod.deleted is None:
            top = owners.workload(pod)
            found.setdefault((top.kind, top.namespace, top.name), []).append(pod)
    return found


def by_scale_down(pods: Iterable[Pod]) -> list[Pod]:
    """Pods in the order in which a ReplicaSet deletes them when it shrinks (ActivePodsWithRanks).

    Without a node first, then not ready, then by pod-deletion-cost, then those that share their node with most others, then
    the youngest.
    """
    listed = list(pods)
    shared: dict[str | None, int] = {}
    for pod in listed:
        shared[pod.node] = shared.get(pod.node, 0) + 1

    def rank(pod: Pod) -> tuple[bool, bool, int, int]:
        cost = pod.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in pod.status.get("conditions") or ())
        return (pod.node is not None, ready, int(cost) if cost.lstrip("-").isdigit() else 0, -shared[pod.node])

    youngest_first = sorted(listed, key=lambda pod: (pod.created or "", pod.name), reverse=True)
    return sorted(youngest_first, key=rank)


def daemon_runs_on(workload: Workload, node: NodeInfo, release: Release) -> bool:
    """Whether a DaemonSet wants a pod on a node: its selectors match and hard taints are tolerated (NodeShouldRunDaemonPod)."""
    raw = pod_from_template(workload, 0)
    raw["spec"]["tolerations"] = [*(raw["spec"].get("tolerations") or ()), *daemon_tolerations(raw["spec"])]
    pod = made(raw)
    assert isinstance(pod, Pod)
    if pod.spec.get("nodeName") not in (None, "", node.name):
        return False
    return required_matches(PodInfo(pod, release), node) and first_untolerated(node.node.taints, pod.tolerations) is None
