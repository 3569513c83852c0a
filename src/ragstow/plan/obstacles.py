"""Which condition stands in the way: without it the service, or the component that fits nowhere, would fit.

Asked only where nothing fits. Each condition is dropped from the problem and the problem solved again, so what is named here
is a cause and not a guess. Where no single one is to blame, as few of them as block together are named in one reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from ragstow.errors import Reason
from ragstow.plan import exact
from ragstow.plan.problem import Problem
from ragstow.plan.refusing import gib, listed, plural

_Drop = Callable[[Problem], Problem]
_Condition = tuple[_Drop, Reason]
_AMPLE = 10**15
"""More CPU, memory or pods than any service asks for."""


def obstacles(problem: Problem, namespace: str) -> tuple[Reason, ...]:
    """The conditions without which a problem that has no answer would have one, in a fixed order.

    Args:
        problem: a problem without an answer; every component with a GPU has an option.
        namespace: where the pods and their quotas are.
    """
    found: list[Reason] = []
    conditions = list(_conditions(problem, namespace))
    for drop, reason in conditions:
        known = any(other.code == reason.code == "node-resources" for other in found)
        if not known and exact.fewest(drop(problem)).verdict is not None:
            found.append(reason)
    if problem.max_cards is not None:
        verdict = exact.fewest(replace(problem, max_cards=None)).verdict
        if verdict is not None:
            text = f"placement.maxCards allows {problem.max_cards}; what fits takes up to {plural(verdict.cards, 'card')}"
            found.append(Reason("max-cards", text, f"maxCards: {verdict.cards}"))
    return tuple(found) or _several(problem, conditions)


def _several(problem: Problem, conditions: list[_Condition]) -> tuple[Reason, ...]:
    """As few conditions as block together: all dropped, then each put back where there is an answer without dropping it."""
    if problem.max_cards is not None:
        text = f"placement.maxCards allows {problem.max_cards}"
        conditions = [
            *conditions,
            (lambda other: replace(other, max_cards=None), Reason("max-cards", text, "a higher maxCards")),
        ]
    # CPU and memory at once say no more than each of them does where both may be named.
    conditions = [item for item in conditions if "CPU and memory" not in item[1].text]
    if len(conditions) < 2 or not _answers(problem, conditions):
        return ()
    kept = list(conditions)
    for condition in reversed(conditions):
        fewer = [other for other in kept if other is not condition]
        if _answers(problem, fewer):
            kept = fewer
    reasons = [reason for _, reason in kept]
    if len(reasons) < 2:
        return ()
    hints = dict.fromkeys(reason.hint for reason in reasons if reason.hint)
    text = "; ".join(reason.text for reason in reasons)
    return (Reason("several", f"{plural(len(reasons), 'condition')} that block only together: {text}", " and ".join(hints)),)


def _answers(problem: Problem, without: list[_Condition]) -> bool:
    for drop, _ in without:
        problem = drop(problem)
    return exact.fewest(problem).verdict is not None


def _conditions(problem: Problem, namespace: str) -> Iterator[_Condition]:
    """How to drop each condition, and what to say if that is enough."""
    names = listed([component.name for component in problem.components])
    for resource, left in sorted(problem.quota.items()):
        text = f"{names}: the ResourceQuotas of namespace {namespace} leave {left} x {resource}, which is too few"
        yield _no_quota(resource), Reason("quota", text, "a larger quota, or fewer replicas")
    yield from _short(problem, names)
    if problem.survive:
        hosts = [node.name for node in problem.nodes if node.cards]
        text = f"placement.survive: node cannot be kept with {plural(len(hosts), 'usable GPU node')} ({listed(hosts)})"
        yield (lambda other: replace(other, survive=False)), Reason("survive", text, "survive: none, or GPUs on another node")
    for group in problem.together:
        text = f"placement.together [{', '.join(group)}] cannot be kept here"
        yield _no_group("together", group), Reason("together", text, "drop the group, or a lower isolation")
    for group in problem.apart:
        yield (
            _no_group("apart", group),
            Reason("apart", f"placement.apart [{', '.join(group)}] cannot be kept here", "drop the group"),
        )


def _no_quota(resource: str) -> _Drop:
    return lambda problem: replace(problem, quota={name: number for name, number in problem.quota.items() if name != resource})


def _no_group(wish: Literal["together", "apart"], group: tuple[str, ...]) -> _Drop:
    def drop(problem: Problem) -> Problem:
        if wish == "together":
            return replace(problem, together=tuple(other for other in problem.together if other != group))
        return replace(problem, apart=tuple(other for other in problem.apart if other != group))

    return drop


def _short(problem: Problem, names: str) -> Iterator[_Condition]:
    """CPU, memory and number of pods of the nodes: each alone, then together."""
    hosts = [node for node in problem.nodes if node.cards]
    pods = sum(component.replicas for component in problem.components)
    cpu = sum(component.cpu_milli * component.replicas for component in problem.components)
    memory = sum(component.memory_bytes * component.replicas for component in problem.components)
    cpu_text = f"{cpu / 1000:g} CPU asked for, left are {listed([f'{node.name} {node.cpu_milli / 1000:g}' for node in hosts])}"
    memory_text = f"{gib(memory)} asked for, left are {listed([f'{node.name} {gib(node.memory_bytes)}' for node in hosts])}"
    pods_text = f"{pods} asked for, left are {listed([f'{node.name} {node.pods}' for node in hosts])}"
    smaller = "smaller requests (cpu, memory of a component), or larger nodes"
    shortages: tuple[tuple[str, str, _Drop, str], ...] = (
        ("too little CPU", cpu_text, lambda other: ample(other, cpu=True), smaller),
        ("too little memory", memory_text, lambda other: ample(other, memory=True), smaller),
        (
            "too few pods",
            pods_text,
            lambda other: ample(other, pods=True),
            "a higher limit of the kubelet (maxPods), or more nodes",
        ),
        ("too little CPU and memory", f"{cpu_text}; {memory_text}", lambda other: ample(other, cpu=True, memory=True), smaller),
    )
    for what, text, drop, hint in shortages:
        yield drop, Reason("node-resources", f"{names}: {what} on the nodes: {text}", hint)


def ample(problem: Problem, *, cpu: bool = False, memory: bool = False, pods: bool = False) -> Problem:
    """The problem on nodes with more CPU, memory or room for pods than any service asks for."""
    nodes = tuple(
        replace(
            node,
            cpu_milli=_AMPLE if cpu else node.cpu_milli,
            memory_bytes=_AMPLE if memory else node.memory_bytes,
            pods=_AMPLE if pods else node.pods,
        )
        for node in problem.nodes
    )
    return replace(problem, nodes=nodes)
