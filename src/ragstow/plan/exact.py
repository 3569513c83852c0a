"""The exact solver: the programme proposes, the proof disposes.

Objectives are minimised one after the other (INTERFACE 3): pods of others disturbed, cards that may be touched, nodes that
change, running pods that would move, the cards that would do at best, modes, memory left unused, names. Each proposal is
proved; what fails is cut off and the programme asked again. Nothing here depends on time, so the answer is the same on every
machine.
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

_ATTEMPTS = 40
"""Proposals that may fail their proof before the solver gives up looking further."""
_WORK = 150_000
"""Simplex iterations after which it gives up (the same on every machine, unlike seconds)."""
_QUICK = 20
"""A quick question may take this part of both."""
_ALIKE = 6
"""Proposals with the same slots for all components that may fail before those slots are given up."""


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
    def __init__(self, problem: Problem, *, quick: bool = False) -> None:
        self.problem = problem
        self.columns = Columns(problem)
        counted = count_cards(self.columns)
        self.cards, self.at_best = counted.most, counted.best
        ask_promises(self.columns)
        if problem.max_cards is not None:
            self.columns.milp.at_most(self.cards, problem.max_cards)
        self.left = _ATTEMPTS // _QUICK if quick else _ATTEMPTS
        self.work = _WORK // _QUICK if quick else _WORK
        self.last: Solution | None = None
        self.failed: dict[tuple[int, ...], int] = {}
        self.complete = True
        self.refused: dict[Reason, None] = {}

    def minimise(self, objective: list[Term], start: Solution | None = None) -> Solution | None:
        """As the programme does it, with the effort counted."""
        solution = self.columns.milp.minimise(objective, start)
        if solution is not None:
            self.work -= solution.work
        if self.work <= 0:
            self.left = 0
        return solution

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
        least = self.minimise(disturbed) if disturbed else None
        if least is None:
            return self.fewest_cards()
        row = self.columns.milp.at_most(disturbed, least.objective)
        best, bound = self.fewest_cards()
        if best is None and self.left > 0:
            self.columns.milp.free(row)  # so few do not do
            best, bound = self.fewest_cards()
        return best, bound

    def fewest_cards(self) -> tuple[Verdict | None, int | None]:
        """The proved design with the fewest cards that may be touched, and the bound."""
        best: Verdict | None = None
        bound: int | None = None
        passed: list[tuple[int, int]] = []
        while True:
            solution = self.minimise(self.cards)
            if solution is None:
                break
            self.complete = self.complete and solution.proven
            proposed = solution.bound
            if best is None and (bound is None or proposed > bound):
                bound = proposed
            if best is not None and proposed >= best.cards:
                break
            verdict = self.prove(solution)
            if not verdict.holds:
                # What the programme happens to propose may be wild; the plainest of the same cards is likelier to hold.
                plainer = self.plainest(solution)
                if plainer is not None:
                    solution, verdict = plainer, self.prove(plainer)
            if verdict.holds:
                if best is None or verdict.cards < best.cards:
                    best, self.last = verdict, solution
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

    def plainest(self, solution: Solution) -> Solution | None:
        """A solution with no more cards that changes as little as possible."""
        row = self.columns.milp.at_most(self.cards, solution.objective)
        found = self.minimise(self.columns.reconfigured(), solution)
        self.columns.milp.free(row)
        return found

    def refine(self, best: Verdict, objective: list[Term]) -> Verdict:
        """The proved design that is best for a further objective without more cards; fixes that objective's value."""
        if not objective:
            return best
        while self.left > 0:
            solution = self.minimise(objective, self.last)
            if solution is None:
                return best
            verdict = self.prove(solution)
            if verdict.holds and verdict.cards <= best.cards:
                self.last = solution
                self.columns.milp.at_most(objective, solution.objective)
                return verdict
            self.cut_off(solution, verdict)
        self.complete = False
        return best


def fewest(problem: Problem) -> Answer:
    """A plan with few cards, whatever else could be better about it; a quick question for comparisons."""
    search = _Search(problem, quick=True)
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
    for objective in (*stages, search.at_best, columns.complexity(), columns.waste(), columns.names()):
        best = search.refine(best, objective)
    return Answer(best, bound, complete)
