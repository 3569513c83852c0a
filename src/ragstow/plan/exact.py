"""The exact solver: the programme proposes, the proof disposes.

Objectives are minimised one after the other (INTERFACE 3): pods of others disturbed, cards, nodes that change, running pods
that would move, modes, names. Each proposal is proved; what fails is cut off and the programme asked again. Nothing here
depends on time, so the answer is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.errors import Reason
from ragstow.plan.columns import Columns
from ragstow.plan.counting import count_cards
from ragstow.plan.milp import Solution, Term
from ragstow.plan.problem import Problem
from ragstow.plan.promises import Verdict, prove
from ragstow.plan.wishes import ask_promises

_ATTEMPTS = 60
"""Proposals that may fail their proof before the solver gives up looking further."""
_ALIKE = 6
"""Proposals with the same slots for all components that may fail before those slots are given up."""
_CARD = 10_000


@dataclass(frozen=True, slots=True)
class Answer:
    """The best proved design, or None; `bound` is a number of cards that no plan can be below (None: no plan exists).

    `complete` says that everything was looked at: without a verdict it means that none exists. `refused` are the reasons of
    the proposals that failed, most telling first.
    """

    verdict: Verdict | None
    bound: int | None
    complete: bool
    refused: tuple[Reason, ...] = ()


class _Search:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.columns = Columns(problem)
        self.cards = count_cards(self.columns)
        ask_promises(self.columns)
        if problem.max_cards is not None:
            self.columns.milp.at_most(self.cards, problem.max_cards)
        self.left = _ATTEMPTS
        self.failed: dict[tuple[int, ...], int] = {}
        self.complete = True
        self.refused: dict[Reason, None] = {}

    def prove(self, solution: Solution) -> Verdict:
        verdict = prove(self.problem, self.columns.design(solution))
        self.refused.update(dict.fromkeys(verdict.refused))
        return verdict

    def cut_off(self, solution: Solution, verdict: Verdict) -> None:
        """Rows that exclude what failed, as widely as the reason allows."""
        self.left -= 1
        crowds = verdict.crowds(self.problem)
        for key, names in crowds:
            self.columns.forbid_crowd(key, names)
        if crowds:
            return
        slots = tuple(solution[variable] for variable in self.columns.use.values())
        self.failed[slots] = self.failed.get(slots, 0) + 1
        if self.failed[slots] < _ALIKE:
            self.columns.forbid(solution)
        else:
            self.columns.forbid_slots(solution)
            self.complete = False

    def start(self) -> tuple[Verdict | None, int | None]:
        """Fewest pods of others disturbed, then fewest cards."""
        disturbed = self.columns.disturbed()
        if disturbed:
            least = self.columns.milp.minimise(disturbed)
            if least is not None:
                self.columns.milp.at_most(disturbed, least.objective)
        return self.fewest_cards()

    def fewest_cards(self) -> tuple[Verdict | None, int | None]:
        """The proved design with the fewest cards that may be touched, and the bound."""
        objective: list[Term] = [(variable, weight * _CARD) for variable, weight in self.cards]
        objective += [(variable, weight // 50 or 1) for variable, weight in self.columns.reconfigured()]
        best: Verdict | None = None
        bound: int | None = None
        passed: list[tuple[int, int]] = []
        while True:
            solution = self.columns.milp.minimise(objective)
            if solution is None:
                break
            self.complete = self.complete and solution.proven
            proposed = solution.bound // _CARD
            if best is None and (bound is None or proposed > bound):
                bound = proposed
            if best is not None and proposed >= best.cards:
                break
            verdict = self.prove(solution)
            if verdict.holds:
                if best is None or verdict.cards < best.cards:
                    best = verdict
                if verdict.cards <= proposed:
                    break
                self.left -= 1
                passed.append((self.columns.forbid(solution), verdict.cards))
            else:
                self.cut_off(solution, verdict)
            if self.left <= 0:
                self.complete = False
                break
        for row, cards in passed:
            if best is not None and cards <= best.cards:
                self.columns.milp.free(row)
        if best is not None and self.complete:
            bound = best.cards
        return best, bound

    def refine(self, best: Verdict, objective: list[Term]) -> Verdict:
        """The proved design that is best for a further objective without more cards; fixes that objective's value."""
        if not objective:
            return best
        while self.left > 0:
            solution = self.columns.milp.minimise(objective)
            if solution is None:
                return best
            verdict = self.prove(solution)
            if verdict.holds and verdict.cards <= best.cards:
                self.columns.milp.at_most(objective, solution.objective)
                return verdict
            self.cut_off(solution, verdict)
        self.complete = False
        return best


def fewest(problem: Problem) -> Answer:
    """A plan with the fewest cards, whatever else could be better about it; a question for comparisons."""
    search = _Search(problem)
    best, bound = search.start()
    return Answer(best, bound, search.complete, () if best is not None else tuple(search.refused))


def solve(problem: Problem) -> Answer:
    """The best plan of a problem, with the bound; every component with a GPU must have at least one option."""
    search = _Search(problem)
    columns = search.columns
    best, bound = search.start()
    if best is None:
        return Answer(None, bound, search.complete, tuple(search.refused))
    complete = search.complete
    columns.milp.at_most(search.cards, best.cards)
    stages = [columns.reconfigured()]
    if any(option.current for _, option in columns.choices()):
        stages.append(columns.moved())
    for objective in (*stages, columns.complexity(), columns.names()):
        best = search.refine(best, objective)
    return Answer(best, bound, complete)
