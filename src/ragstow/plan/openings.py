"""What the cluster's owner can open without buying anything: cordoned nodes, nodes that are not ready, quotas.

Each opening is a sentence, what it changes, and the cluster after it. Whether it helps is for `waysout` to try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragstow import quantity
from ragstow.cluster.objects import Node
from ragstow.plan.attempt import Attempt
from ragstow.plan.quotas import Limit, limits
from ragstow.plan.situation import Situation
from ragstow.plan.spent import spent
from ragstow.plan.whatif import reopened, with_quotas

_MOST_NODES = 6


@dataclass(frozen=True, slots=True)
class Opening:
    """One change of the cluster: what to say, its fields with their values, and the change itself."""

    text: str
    changes: tuple[tuple[str, Any], ...]
    open: Callable[[Situation], Situation]


def openings(tried: Attempt) -> list[Opening]:
    """Everything that could be opened: quotas that bind, then nodes one by one, those with GPUs first."""
    quotas = quotas_lifted(tried)
    return [*([quotas] if quotas is not None else []), *_nodes(tried)]


def quotas_lifted(tried: Attempt) -> Opening | None:
    """All quotas of the namespace set aside; None where there is none. `raised` says how much of them is needed."""
    found = limits(tried.situation)
    if not found:
        return None
    return Opening(
        "a larger ResourceQuota",
        (("cluster.quota", {}),),
        lambda situation: with_quotas(situation, {(item.quota, item.key): None for item in found}),
    )


def raised(before: Situation, made: Attempt) -> Opening:
    """The quotas raised to exactly what a service takes that was tried without them.

    Args:
        before: the cluster with its quotas.
        made: the attempt without.
    """
    wanted = _wanted(made)
    values: dict[tuple[str, str], str] = {}
    texts: list[str] = []
    for item in limits(before):
        short = wanted.get(item.resource, 0) - item.left
        if short > 0:
            value = _written(item, item.hard + short)
            values[item.quota, item.key] = value
            texts.append(f"ResourceQuota {before.namespace}/{item.quota}: {item.key} {value} instead of {item.written}")
    changes: dict[str, dict[str, str]] = {}
    for (quota, key), value in values.items():
        changes.setdefault(quota, {})[key] = value
    return Opening(", ".join(texts), (("cluster.quota", changes),), lambda situation: with_quotas(situation, values))


def _wanted(made: Attempt) -> Mapping[str, int]:
    """What a service asks for in its namespace, in the units of `quotas`."""
    components = made.service.components
    wanted = {
        "cpu": sum(item.cpu.milli * item.replicas for item in components),
        "memory": sum(item.memory.value * item.replicas for item in components),
        "pods": sum(item.replicas for item in components),
    }
    verdict = made.answer.verdict
    if verdict is not None:
        wanted |= spent(made.posed.problem, verdict.design.options)
    return wanted


def _written(item: Limit, amount: int) -> str:
    """An amount as people write it in a quota: memory up to whole Mi, CPU in millicores where it is no whole number."""
    if item.resource == "memory":
        return f"{-(-amount // 2**20)}Mi"
    if item.resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    return str(quantity.parse(amount))


def _nodes(tried: Attempt) -> list[Opening]:
    situation = tried.situation
    shut = [node for node in situation.nodes.values() if node.unschedulable or node.ready is False]
    order = sorted(shut, key=lambda node: (node.ready is False, situation.gpus[node.name].sharing == "none", node.name))
    return [_reopen(node) for node in order[:_MOST_NODES]]


def _reopen(node: Node) -> Opening:
    """A node uncordoned, and ready again where it is not."""
    changes: list[tuple[str, Any]] = []
    words: list[str] = []
    if node.ready is False:
        changes.append(("cluster.ready", [node.name]))
        words.append(f"when {node.name} is Ready again")
    if node.unschedulable:
        changes.append(("cluster.uncordon", [node.name]))
        words.append(f"kubectl uncordon {node.name}")
    return Opening(" and ".join(words), tuple(changes), lambda situation: reopened(situation, node.name))
