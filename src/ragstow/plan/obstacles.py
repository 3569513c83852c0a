"""Which single condition stands in the way: without it the service, or the component that fits nowhere, would fit.

Asked only where nothing fits. Each condition is dropped from the problem and the problem solved again, so what is named here
is a cause and not a guess. Where only several conditions together are in the way, nothing is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ragstow.errors import Reason
from ragstow.plan import exact
from ragstow.plan.problem import Problem
from ragstow.plan.refusing import gib, listed, plural

_AMPLE = 10**15
"""More CPU, memory or pods than any service asks for."""


def obstacles(problem: Problem, namespace: str) -> tuple[Reason, ...]:
    """The conditions without which a problem that has no answer would have one, in a fixed order.

    Args:
        problem: a problem without an answer; every component with a GPU has an option.
        namespace: where the pods and their quotas are.
    """
    found: list[Reason] = []
    for freed, reason in _freed(problem, namespace):
        known = any(other.code == reason.code == "node-resources" for other in found)
        if not known and exact.fewest(freed).verdict is not None:
            found.append(reason)
    if problem.max_cards is not None:
        verdict = exact.fewest(replace(problem, max_cards=None)).verdict
        if verdict is not None:
            text = f"placement.maxCards allows {problem.max_cards}; what fits takes up to {plural(verdict.cards, 'card')}"
            found.append(Reason("max-cards", text, f"maxCards: {verdict.cards}"))
    return tuple(found)


def _freed(problem: Problem, namespace: str) -> Iterator[tuple[Problem, Reason]]:
    """The problem without one condition, and what to say if that is enough."""
    names = listed([component.name for component in problem.components])
    for resource, left in sorted(problem.quota.items()):
        text = f"{names}: the ResourceQuotas of namespace {namespace} leave {left} x {resource}, which is too few"
        rest = {name: number for name, number in problem.quota.items() if name != resource}
        yield replace(problem, quota=rest), Reason("quota", text, "a larger quota, or fewer replicas")
    yield from _short(problem, names)
    if problem.survive:
        hosts = [node.name for node in problem.nodes if node.cards]
        text = f"placement.survive: node cannot be kept with {plural(len(hosts), 'usable GPU node')} ({listed(hosts)})"
        yield replace(problem, survive=False), Reason("survive", text, "survive: none, or GPUs on another node")
    for group in problem.together:
        left_together = tuple(other for other in problem.together if other != group)
        reason = Reason(
            "together", f"placement.together [{', '.join(group)}] cannot be kept here", "drop the group, or a lower isolation"
        )
        yield replace(problem, together=left_together), reason
    for group in problem.apart:
        left_apart = tuple(other for other in problem.apart if other != group)
        reason = Reason("apart", f"placement.apart [{', '.join(group)}] cannot be kept here", "drop the group")
        yield replace(problem, apart=left_apart), reason


def _short(problem: Problem, names: str) -> Iterator[tuple[Problem, Reason]]:
    """CPU, memory and number of pods of the nodes: each alone, then together."""
    hosts = [node for node in problem.nodes if node.cards]
    pods = sum(component.replicas for component in problem.components)
    cpu = sum(component.cpu_milli * component.replicas for component in problem.components)
    memory = sum(component.memory_bytes * component.replicas for component in problem.components)
    cpu_text = f"{cpu / 1000:g} CPU asked for, left are {listed([f'{node.name} {node.cpu_milli / 1000:g}' for node in hosts])}"
    memory_text = f"{gib(memory)} asked for, left are {listed([f'{node.name} {gib(node.memory_bytes)}' for node in hosts])}"
    pods_text = f"{pods} asked for, left are {listed([f'{node.name} {node.pods}' for node in hosts])}"
    smaller = "smaller requests (cpu, memory of a component), or larger nodes"
    for what, text, freed, hint in (
        ("too little CPU", cpu_text, _ample(problem, cpu=True), smaller),
        ("too little memory", memory_text, _ample(problem, memory=True), smaller),
        ("too few pods", pods_text, _ample(problem, pods=True), "a higher limit of the kubelet (maxPods), or more nodes"),
        ("too little CPU and memory", f"{cpu_text}; {memory_text}", _ample(problem, cpu=True, memory=True), smaller),
    ):
        yield freed, Reason("node-resources", f"{names}: {what} on the nodes: {text}", hint)


def _ample(problem: Problem, *, cpu: bool = False, memory: bool = False, pods: bool = False) -> Problem:
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
