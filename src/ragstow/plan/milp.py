"""A small integer programme: variables, rows, one objective; solved by HiGHS with fixed settings, so that it is reproducible.

It knows nothing of cards. HiGHS is imported when the first programme is solved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

INFINITY = float("inf")
Term = tuple[int, float]
"""(variable, coefficient)."""

_NODE_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class Solution:
    """Values by variable, the objective, what no solution can be below, and whether that closes the gap."""

    values: tuple[int, ...]
    objective: int
    bound: int
    proven: bool
    work: int = 0
    """Simplex iterations spent: a measure of effort that is the same on every machine."""

    def __getitem__(self, variable: int) -> int:
        return self.values[variable]


class Milp:
    """An integer programme under construction. All variables are integers; all coefficients should be."""

    def __init__(self) -> None:
        self._upper: list[float] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._start: list[int] = []
        self._index: list[int] = []
        self._value: list[float] = []
        self.rows = 0

    def variable(self, upper: int) -> int:
        """A new integer variable in [0, upper]."""
        self._upper.append(float(upper))
        return len(self._upper) - 1

    def row(self, low: float, terms: Iterable[Term], high: float) -> int:
        """A new row low <= sum(terms) <= high; terms of one variable are added up."""
        added: dict[int, float] = {}
        for variable, coefficient in terms:
            added[variable] = added.get(variable, 0.0) + coefficient
        self._start.append(len(self._index))
        for variable, coefficient in added.items():
            if coefficient:
                self._index.append(variable)
                self._value.append(coefficient)
        self._low.append(low)
        self._high.append(high)
        self.rows += 1
        return self.rows - 1

    def at_most(self, terms: Iterable[Term], high: float) -> int:
        """A row sum(terms) <= high."""
        return self.row(-INFINITY, terms, high)

    def at_least(self, terms: Iterable[Term], low: float) -> int:
        """A row sum(terms) >= low."""
        return self.row(low, terms, INFINITY)

    def free(self, row: int) -> None:
        """Take a row out again."""
        self._low[row], self._high[row] = -INFINITY, INFINITY

    def minimise(self, objective: Iterable[Term], start: Solution | None = None) -> Solution | None:
        """The best solution for this objective, or None where the rows contradict each other.

        Args:
            objective: what to minimise.
            start: a solution of the rows as they were, which may still hold.
        """
        import highspy
        import numpy

        cost = [0.0] * len(self._upper)
        for variable, coefficient in objective:
            cost[variable] += coefficient
        lp: Any = highspy.HighsLp()
        columns = len(self._upper)
        lp.num_col_, lp.num_row_ = columns, self.rows
        lp.col_cost_ = numpy.array(cost)
        lp.col_lower_ = numpy.zeros(columns)
        lp.col_upper_ = numpy.array(self._upper)
        lp.row_lower_ = numpy.array(self._low)
        lp.row_upper_ = numpy.array(self._high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = numpy.array([*self._start, len(self._index)], dtype=numpy.int32)
        lp.a_matrix_.index_ = numpy.array(self._index, dtype=numpy.int32)
        lp.a_matrix_.value_ = numpy.array(self._value)
        lp.integrality_ = [highspy.HighsVarType.kInteger] * columns
        make: Any = highspy._core._Highs  # the public wrapper prints a banner on stdout
        solver = make()
        for option, setting in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("mip_rel_gap", 0.0),
            # Objectives are whole numbers: a gap below one is no gap.
            ("mip_abs_gap", 0.5),
            ("mip_max_nodes", _NODE_LIMIT),
        ):
            solver.setOptionValue(option, setting)
        solver.passModel(lp)
        if start is not None and len(start.values) == columns:
            given: Any = highspy.HighsSolution()
            given.col_value = [float(value) for value in start.values]
            solver.setSolution(given)
        solver.run()
        info = solver.getInfo()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible or info.primal_solution_status != 2:
            return None
        values = tuple(round(value) for value in solver.getSolution().col_value)
        objective_value = round(sum(c * v for c, v in zip(cost, values, strict=True)))
        proven = bool(status == highspy.HighsModelStatus.kOptimal)
        bound = objective_value if proven else int(-(-info.mip_dual_bound // 1))
        return Solution(values, objective_value, bound, proven, int(info.simplex_iteration_count))
