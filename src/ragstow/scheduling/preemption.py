"""The search for pods to evict so that another fits (framework/preemption, plugins/defaultpreemption).

It only answers which node and which victims; evicting them is the engine's. Two choices are random in the original and fixed
here: the node where the search starts (the first), and the choice among equal nodes (the lowest name; all of them are
reported as tied).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import KubeObject
from ragstow.scheduling.behaviours import BUDGETS_STOP, PREEMPTION_TEXT
from ragstow.scheduling.fit_error import fit_error, histogram
from ragstow.scheduling.framework import (
    Code,
    CycleState,
    Handle,
    PostFilterResult,
    Status,
    Statuses,
    failure,
    unresolvable,
    unschedulable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.selectors import label_selector

_NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
_NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")
_NEVER_STARTED = "~"
"""Sorts after every timestamp: a pod without a start time counts as started just now."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node with the pods to evict there, most important first, and how many of them break a disruption budget."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int


class Preemption:
    """See the module.

    Args:
        handle: world, release and the runner of filters.
        min_percentage: at least this share of the nodes in question is searched.
        min_absolute: and at least this many.
    """

    def __init__(self, handle: Handle, min_percentage: int, min_absolute: int) -> None:
        self.handle = handle
        self.min_percentage = min_percentage
        self.min_absolute = min_absolute
        self.changes: Counter[BudgetGroup] = Counter()
        """Pods that came and went since the budgets were written, by what budgets look at."""

    def preempt(
        self, state: CycleState, pod: PodInfo, statuses: Statuses, absent: Status
    ) -> tuple[PostFilterResult | None, Status]:
        """The best candidate, or the text that says why nobody is evicted."""
        refusal = self._not_eligible(pod, statuses, absent)
        if refusal is not None:
            return None, unschedulable(refusal)
        nodes = self.handle.world.nodes
        if not self.handle.world.any_below(pod.priority):
            return PostFilterResult(), unschedulable(self._nobody(len(nodes), statuses, absent))
        potential = [node for node in nodes if statuses.get(node.name, absent).code is Code.UNSCHEDULABLE]
        found, said = self._search(state, pod, potential)
        if not found:
            reasons = histogram(len(nodes), said, _NOT_HELPFUL)
            return PostFilterResult(), unschedulable(fit_error(len(nodes), reasons))
        tied = best(found)
        chosen = tied[0]
        text = f"found a potential placement for pod on node {chosen.node}, preempting {len(chosen.victims)} victims"
        texts = (text,) if PREEMPTION_TEXT.at(self.handle.release) else ()
        result = PostFilterResult(
            chosen.node,
            tuple(sorted(chosen.victims, key=lambda victim: victim.key)),
            tuple(candidate.node for candidate in tied),
        )
        return result, Status(Code.SUCCESS, texts)

    @staticmethod
    def _nobody(nodes: int, statuses: Statuses, absent: Status) -> str:
        """The text where no pod anywhere could be a victim."""
        curable = statuses.number(Code.UNSCHEDULABLE)
        if absent.code is Code.UNSCHEDULABLE:
            curable += nodes - len(statuses)
        counts = {_NO_VICTIMS.texts[0]: curable, _NOT_HELPFUL.texts[0]: nodes - curable}
        return fit_error(nodes, {text: number for text, number in counts.items() if number})

    def _not_eligible(self, pod: PodInfo, statuses: Statuses, absent: Status) -> str | None:
        if pod.pod.spec.get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        nominated = pod.nominated_node
        if nominated and statuses.get(nominated, absent).code is not Code.UNRESOLVABLE:
            node = self.handle.world.node(nominated)
            for other in node.pods if node else ():
                if other.priority < pod.priority and _terminating_by_preemption(other):
                    return "not eligible due to a terminating pod on the nominated node."
        return None

    def _search(
        self, state: CycleState, pod: PodInfo, potential: Sequence[NodeInfo]
    ) -> tuple[list[Candidate], dict[str, Status]]:
        """Candidates in node order: at least as many as asked, one of them without breaking a budget, or all there are."""
        wanted = min(max(len(potential) * self.min_percentage // 100, self.min_absolute), len(potential))
        budgets = [Budget(item, self.changes) for item in self.handle.world.objects("PodDisruptionBudget", "policy")]
        found: list[Candidate] = []
        said: dict[str, Status] = {}
        for node in potential:
            if all(other.priority >= pod.priority for other in node.pods):
                said[node.name] = _NO_VICTIMS
                continue
            made = self._victims(state.clone(), pod, node.clone(), budgets)
            if isinstance(made, Status):
                said[node.name] = made
                continue
            found.append(made)
            if len(found) >= wanted and any(candidate.violations == 0 for candidate in found):
                break
        return found, said

    def _victims(self, state: CycleState, pod: PodInfo, node: NodeInfo, budgets: Sequence[Budget]) -> Candidate | Status:
        """Remove every less important pod; if the pod fits then, put back as many as possible, the most important first."""
        runner = self.handle.runner
        assert runner is not None
        potential = [other for other in node.pods if other.priority < pod.priority]
        for other in potential:
            node.remove(other)
            runner.remove_pod(state, pod, other, node)
        status = runner.filter_with_nominated(state, pod, node)
        if status is not None:
            return status
        potential.sort(key=importance)
        violating, rest = charge(potential, budgets, stop=BUDGETS_STOP.at(self.handle.release))
        victims: list[PodInfo] = []
        violations = 0
        for number, other in enumerate([*violating, *rest]):
            node.add(other)
            runner.add_pod(state, pod, other, node)
            if runner.filter_with_nominated(state, pod, node) is not None:
                node.remove(other)
                runner.remove_pod(state, pod, other, node)
                victims.append(other)
                violations += number < len(violating)
        if not victims:
            return failure(f'expected at least one victim pod on node "{node.name}"')
        if violating and rest:
            victims.sort(key=importance)
        return Candidate(node.name, tuple(victims), violations)


def importance(pod: PodInfo) -> tuple[int, str]:
    """Sorts the most important pod first: higher priority, then earlier start (util.MoreImportantPod)."""
    return (-pod.priority, pod.start_time or _NEVER_STARTED)


def best(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best candidates, which no criterion tells apart, by name (pickOneNodeForPreemption)."""
    left = list(candidates)
    for criterion in (_violations, _highest_priority, _sum_of_priorities, _count):
        least = min(criterion(candidate) for candidate in left)
        left = [candidate for candidate in left if criterion(candidate) == least]
    latest = max(_earliest_start(candidate) for candidate in left)
    return sorted((item for item in left if _earliest_start(item) == latest), key=lambda item: item.node)


def _violations(candidate: Candidate) -> int:
    return candidate.violations


def _highest_priority(candidate: Candidate) -> int:
    return candidate.victims[0].priority


def _sum_of_priorities(candidate: Candidate) -> int:
    return sum(victim.priority + 2**31 for victim in candidate.victims)


def _count(candidate: Candidate) -> int:
    return len(candidate.victims)


def _earliest_start(candidate: Candidate) -> str:
    """The earliest start among the victims of the highest priority (GetEarliestPodStartTime)."""
    highest = max(victim.priority for victim in candidate.victims)
    return min(victim.start_time or _NEVER_STARTED for victim in candidate.victims if victim.priority == highest)


# --- disruption budgets -------------------------------------------------------------------------------------------------


BudgetGroup = tuple[str, frozenset[tuple[str, str]]]
"""What budgets look at: namespace and labels."""


def budget_group(pod: PodInfo) -> BudgetGroup:
    """The group of a pod."""
    return (pod.namespace, frozenset(pod.labels.items()))


class Budget:
    """A PodDisruptionBudget: whom it covers and how many more may go.

    Args:
        item: the object; its status says how many disruptions were allowed when it was written.
        changes: pods that came and went since then; more than was allowed then is never allowed.
    """

    def __init__(self, item: KubeObject, changes: Mapping[BudgetGroup, int]) -> None:
        spec, status = item.raw.get("spec") or {}, item.raw.get("status") or {}
        self.namespace = item.namespace
        self.selector = label_selector(spec.get("selector"))
        since = sum(
            number
            for (namespace, labels), number in changes.items()
            if namespace == item.namespace and self.selector.matches(dict(labels))
        )
        self.allowed = max(0, int(status.get("disruptionsAllowed") or 0) + min(0, since))
        self.disrupted = frozenset(status.get("disruptedPods") or {})

    def covers(self, pod: PodInfo) -> bool:
        """Whether evicting the pod is charged to it; an empty selector covers nobody, nor is a pod charged twice."""
        return (
            self.namespace == pod.namespace
            and not self.selector.empty
            and self.selector.matches(pod.labels)
            and pod.name not in self.disrupted
        )


def charge(pods: Iterable[PodInfo], budgets: Sequence[Budget], *, stop: bool) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose eviction breaks a budget and pods whose does not, in order (filterPodsWithPDBViolation).

    Args:
        pods: in order of importance; each is charged to every budget that covers it.
        budgets: as listed by the API server; where they overlap and `stop` is set, their order can matter.
        stop: since 1.37 budgets after the first exhausted one are not charged.
    """
    left = [budget.allowed for budget in budgets]
    violating: list[PodInfo] = []
    rest: list[PodInfo] = []
    for pod in pods:
        violates = False
        for i, budget in enumerate(budgets):
            if not pod.labels or not budget.covers(pod):
                continue
            left[i] -= 1
            if left[i] < 0:
                violates = True
                if stop:
                    break
        (violating if violates else rest).append(pod)
    return violating, rest


def _terminating_by_preemption(pod: PodInfo) -> bool:
    if not pod.terminating:
        return False
    for condition in pod.pod.status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget":
            return bool(condition.get("status") == "True" and condition.get("reason") == "PreemptionByScheduler")
    return False
