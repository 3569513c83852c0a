"""NodeDeclaredFeatures: a pod that needs a kubelet feature goes to nodes that declare it (KEP-5328).

Inferred with default gates: a container restart rule with action RestartAllContainers needs the feature
RestartAllContainersOnContainerExits. Other inferred features belong to gates that are off.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.errors import Reason
from ragstow.scheduling.framework import SKIP, CycleState, FilterPlugin, PreFilterPlugin, Status, unresolvable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo

_REFUSED = unresolvable("node(s) didn't match Pod's required features")
_RESTART_ALL = "RestartAllContainersOnContainerExits"


def required_features(pod: PodInfo) -> frozenset[str]:
    """Features that the pod's spec needs of the kubelet."""
    spec = pod.pod.spec
    for raw in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        for rule in raw.get("restartPolicyRules") or ():
            if rule.get("action") == "RestartAllContainers":
                return frozenset({_RESTART_ALL})
    return frozenset()


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    """See the module."""

    name = "NodeDeclaredFeatures"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip for pods that need nothing."""
        return None if required_features(pod) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused where a needed feature is not declared."""
        declared = node.node.status.get("declaredFeatures") or ()
        return None if required_features(pod) <= set(declared) else _REFUSED

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The feature that is missing."""
        missing = sorted(required_features(pod) - set(node.node.status.get("declaredFeatures") or ()))
        return (Reason("node-feature-missing", f"{node.name} does not declare {', '.join(missing)}, which {pod.key} needs"),)
