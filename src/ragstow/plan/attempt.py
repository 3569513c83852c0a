"""One try: a service on a cluster, from slots and sums of memory to a proved design, or to what stood in the way.

It is cheap and has no words for people beyond Reasons; `planner` makes a Plan of it, `waysout` makes many of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ragstow.errors import Reason
from ragstow.plan import exact, greedy
from ragstow.plan.bound import simple_bound
from ragstow.plan.exact import Answer
from ragstow.plan.openness import closed
from ragstow.plan.options import Choices, Sizer, choices
from ragstow.plan.pose import Posed, pose
from ragstow.plan.problem import Problem
from ragstow.plan.promises import prove
from ragstow.plan.quotas import exceeded, gpu_quota
from ragstow.plan.situation import Situation
from ragstow.plan.supply import Supply, supply
from ragstow.plan.tidy import tidy
from ragstow.spec.model import Service

Solver = Literal["exact", "greedy"]
_MOST_SHARES = 16


@dataclass(frozen=True)
class Attempt:
    """Everything that was found out. `answer.verdict` is None where nothing fits; `blocked` are reasons before any layout."""

    situation: Situation
    service: Service
    solver: Solver
    offered: Supply
    choices: Mapping[str, Choices]
    closed: Mapping[str, frozenset[str]]
    posed: Posed
    answer: Answer
    bound: int
    bound_reason: str
    blocked: tuple[Reason, ...] = ()
    left_out: tuple[str, ...] = ()
    """Components that prefer a GPU and go without."""
    few: int | None = None
    """Nodes that a quick try looks at; None where it looks at all that matter."""

    @property
    def feasible(self) -> bool:
        """Whether everything fits."""
        return self.answer.verdict is not None

    @property
    def cards(self) -> int:
        """Cards that may be touched; 0 where nothing fits."""
        return self.answer.verdict.cards if self.answer.verdict is not None else 0


def attempt(situation: Situation, service: Service, solver: Solver = "exact", *, quick: bool = False) -> Attempt:
    """Try to lay a service out; components that only prefer a GPU go without where that is the only way.

    Args:
        situation: the cluster.
        service: the service.
        solver: which solver.
        quick: only whether it fits and with how many cards; what else could be better is not looked for, and of a large cluster
            only few nodes of each kind.

    Raises:
        InputError: the facts do not know a model, an engine or a precision.
    """
    first = _attempt(situation, service, solver, (), quick=quick)
    preferring = tuple(item.name for item in service.components if item.gpu == "preferred")
    if first.feasible or not preferring:
        return first
    second = _attempt(situation, service, solver, preferring, quick=quick)
    return second if second.feasible else first


def _attempt(situation: Situation, service: Service, solver: Solver, left_out: tuple[str, ...], *, quick: bool) -> Attempt:
    asked = replace(
        service,
        components=tuple(replace(item, gpu="never") if item.name in left_out else item for item in service.components),
    )
    offered = supply(situation, asked, shares(situation, asked))
    made = choices(situation, asked, offered, Sizer(situation))
    shut = closed(situation, asked, offered)
    blocked = exceeded(situation, asked)
    hopeless = bool(blocked) or any(not found.options for found in made.values())
    quota = gpu_quota(situation)
    posed = pose(asked, offered, made, quota, shut, most=None)
    bound, why = simple_bound(posed.problem, list(made))
    few = pose(asked, offered, made, quota, shut)
    answer = Answer(None, None, True) if hopeless else None
    if answer is None and few.cropped:
        answer = _on_few(few.problem, posed.problem, solver, quick=quick, bound=bound)
    if answer is None and few.cropped and quick:
        answer = Answer(None, None, False)
    if answer is None:
        answer = _answer(posed.problem, solver, quick=quick)
    if answer.verdict is not None and not quick:
        answer = replace(answer, verdict=tidy(posed.problem, offered.nodes, answer.verdict))
    return Attempt(
        situation,
        asked,
        solver,
        offered,
        made,
        shut,
        posed,
        answer,
        bound,
        why,
        tuple(blocked),
        left_out,
        len(few.problem.nodes) if few.cropped else None,
    )


def _answer(problem: Problem, solver: Solver, *, quick: bool) -> Answer:
    ask = greedy.solve if solver == "greedy" else exact.fewest if quick else exact.solve
    answer = ask(problem)
    if answer.verdict is None and not answer.complete and solver == "exact":
        answer = replace(greedy.solve(problem), complete=False, refused=answer.refused)
    return answer


def _on_few(few: Problem, every: Problem, solver: Solver, *, quick: bool, bound: int) -> Answer | None:
    """An answer found on few of the nodes and proved on all of them; None where it is not as good as one can be."""
    found = _answer(few, solver, quick=quick).verdict
    if found is None:
        return None
    verdict = prove(every, found.design)
    good = verdict.holds and (quick or verdict.cards <= bound)
    return Answer(verdict, None, False) if good else None


def shares(situation: Situation, service: Service) -> dict[str | None, range]:
    """Numbers of shares of one card that are worth a try, by product.

    The kubelet may spread pods over all cards of a node, so sharing saves cards only where there are more pods than cards;
    then as many shares as let all of them sit on the smallest node. Where whole cards are not allowed, two do.
    """
    pods = sum(item.replicas for item in service.components if item.gpu != "never" and item.tensor_parallel == 1)
    fewest: dict[str | None, int] = {}
    for node in situation.inventory.nodes:
        if node.sharing != "none":
            cards = max(node.cards, 1)
            fewest[node.product] = min(fewest.get(node.product, cards), cards)
    least = 1 if "exclusive" in service.placement.sharing else 2
    return {product: range(2, max(min(-(-pods // size), _MOST_SHARES), least) + 1) for product, size in fewest.items()}
