"""NodeAffinity: node selectors, required and preferred node affinity, and the profile's own (plugins/nodeaffinity)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.errors import Reason
from ragstow.scheduling.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    Handle,
    NodeNames,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Status,
    unresolvable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.normalize import default_normalize
from ragstow.scheduling.podinfo import PodInfo, preferred_terms
from ragstow.scheduling.selectors import NodeSelector, node_selector

_REFUSED = unresolvable("node(s) didn't match Pod's node affinity/selector")
_REFUSED_ADDED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
_CONFLICT = unresolvable("pod affinity terms conflict")


def required_matches(pod: PodInfo, node: NodeInfo) -> bool:
    """Whether the node meets the pod's nodeSelector and required node affinity (GetRequiredNodeAffinity)."""
    selector, required = pod.node_selector, pod.required_nodes
    return (selector is None or selector.matches(node.labels)) and (required is None or required.matches(node.node))


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """See the module. Argument: addedAffinity, which every pod of the profile has besides its own."""

    name = "NodeAffinity"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        added = args.get("addedAffinity") or {}
        required = added.get("requiredDuringSchedulingIgnoredDuringExecution")
        preferred = added.get("preferredDuringSchedulingIgnoredDuringExecution")
        self.added_required: NodeSelector | None = (
            None if required is None else node_selector(required.get("nodeSelectorTerms") or ())
        )
        self.added_preferred = preferred_terms(preferred) if preferred else ()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> NodeNames | Status | None:
        """Skip without anything to match; where every term names nodes (metadata.name In), only those are looked at."""
        terms = pod.required_terms_raw
        if terms is None and self.added_required is None and pod.node_selector is None:
            return SKIP
        if not terms:
            return None
        names: frozenset[str] = frozenset()
        for term in terms:
            of_term: frozenset[str] | None = None
            for item in term.get("matchFields") or ():
                if item.get("key") == "metadata.name" and item.get("operator") == "In":
                    listed = frozenset(str(value) for value in item.get("values") or ())
                    of_term = listed if of_term is None else of_term & listed
            if of_term is None:
                return None
            names |= of_term
        return NodeNames(names) if names else _CONFLICT

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused where the profile's or the pod's requirements are not met."""
        if self.added_required is not None and not self.added_required.matches(node.node):
            return _REFUSED_ADDED
        return None if required_matches(pod, node) else _REFUSED

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The first label of the nodeSelector that differs, or the terms that are not met."""
        if self.added_required is not None and not self.added_required.matches(node.node):
            return (
                Reason("node-affinity-enforced", f"{node.name} does not meet the affinity that the scheduler's profile adds"),
            )
        selector = pod.node_selector
        for requirement in selector.requirements if selector else ():
            if not requirement.matches(node.labels):
                found = node.labels.get(requirement.key)
                has = f"has {requirement.key}={found}" if found is not None else f"has no label {requirement.key}"
                return (
                    Reason("node-selector", f"{node.name} {has}, {pod.key} asks for {requirement.key}={requirement.values[0]}"),
                )
        return (
            Reason("node-affinity", f"{node.name} meets none of the required node affinity terms: {self._unmet(pod, node)}"),
        )

    def _unmet(self, pod: PodInfo, node: NodeInfo) -> str:
        said = []
        for term in pod.required_nodes.terms if pod.required_nodes else ():
            for requirement in term.expressions:
                if not requirement.matches(node.labels):
                    found = node.labels.get(requirement.key, "absent")
                    said.append(
                        f"{requirement.key} is {found}, not {requirement.operator} {', '.join(requirement.values)}".rstrip(" ,")
                    )
                    break
            else:
                said.append("a field or an expression that cannot be met")
        return "; ".join(said) or "there is none"

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip without preferred terms."""
        return SKIP if pod.preferred_nodes is None and not self.added_preferred else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The sum of the weights of preferred terms that match."""
        terms = (*self.added_preferred, *(pod.preferred_nodes or ()))
        return sum(weight for weight, term in terms if term.matches(node.node))

    def normalize(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]) -> None:
        """More is better."""
        default_normalize(scores)
