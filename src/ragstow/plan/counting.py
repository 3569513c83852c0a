"""What the programme counts as cards: those of one's own, and for slices and shares the most that pods may touch.

The most cards that pods can touch is a maximum matching of pods and cards, which equals a minimum cover (König): for each kind
of slot either its pods count, or all cards that offer it. The programme chooses the cover, so its minimum is that number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragstow.plan.columns import Choice, Columns
from ragstow.plan.milp import Term
from ragstow.plan.problem import Cut, NodeSupply


@dataclass(frozen=True, slots=True)
class _Pool:
    """Pods that want one kind of slot, reached by the pool label or without it. `by_cards` is 1 where its cards count."""

    key: str
    pooled: bool
    pods: tuple[Term, ...]
    most: int
    by_cards: int


@dataclass(frozen=True, slots=True)
class Cards:
    """Physical cards as terms over the programme's variables: `most` that pods may touch, and the fewest that could do, where
    each of them falls well (`best`; shares count in both as they are spread)."""

    most: list[Term]
    best: list[Term]


def count_cards(columns: Columns) -> Cards:
    """What the service sits on; rows are added to the programme."""
    alone = _alone_cards(columns)
    pools = _pools(columns)
    shared = [pool for pool in pools if columns.problem.slots[pool.key].sharers > 1]
    sliced = [pool for pool in pools if columns.problem.slots[pool.key].sharers == 1]
    spread = [*_pods(columns, shared), *_cards(columns, shared)]
    return Cards(
        [*alone, *spread, *_pods(columns, sliced), *_cards(columns, sliced)],
        [*alone, *spread, *_slices_at_best(columns)],
    )


def _alone_cards(columns: Columns) -> list[Term]:
    return [
        (columns.use[choice], columns.size(choice) * option.count)
        for choice, option in columns.choices()
        if choice in columns.lead and (columns.slot(option).alone or option.bundle)
    ]


def _pools(columns: Columns) -> list[_Pool]:
    # Pods that must be beside others on a node with one such card touch no card of their own.
    followers = columns.followers()
    found: dict[tuple[str, bool], list[Choice]] = {}
    for choice, option in columns.choices():
        if not columns.slot(option).alone and not option.bundle and choice[0] not in followers:
            found.setdefault((option.slot, option.pooled), []).append(choice)
    made = []
    for (key, pooled), choices in found.items():
        pods: tuple[Term, ...] = tuple((columns.use[choice], columns.size(choice)) for choice in choices)
        by_cards = columns.milp.variable(1)
        if pooled and columns.problem.max_cards is None and all(_could_be_alone(columns, choice, key) for choice in choices):
            # More new cards than pods are never worth it where each pod could as well have one of those cards whole.
            columns.milp.at_least([(by_cards, 1)], 1)
        made.append(_Pool(key, pooled, pods, sum(columns.size(choice) for choice in choices), by_cards))
    return made


def _could_be_alone(columns: Columns, choice: Choice, key: str) -> bool:
    product = columns.problem.slots[key].product
    slots = (columns.slot(option) for option in columns.problem.component(choice[0]).options)
    return any(slot.alone and slot.product == product for slot in slots)


def _pods(columns: Columns, pools: Iterable[_Pool]) -> list[Term]:
    counted: list[Term] = []
    for pool in pools:
        pods = columns.milp.variable(pool.most)
        columns.milp.at_least([(pods, 1), *((use, -size) for use, size in pool.pods), (pool.by_cards, pool.most)], 0)
        counted.append((pods, 1))
    return counted


def _cards(columns: Columns, pools: list[_Pool]) -> list[Term]:
    counted: list[Term] = []
    for node in columns.problem.nodes:
        counted += _present(columns, pools, node)
        for config in node.configs:
            for index, cut in enumerate(config.cuts):
                reaching = [pool for pool in pools if cut.number(pool.key)]
                if reaching:
                    touched = columns.milp.variable(node.cards)
                    cards = columns.cut[node.name, config.name, index]
                    for pool in reaching:
                        columns.milp.at_least([(touched, 1), (cards, -1), (pool.by_cards, -node.cards)], -node.cards)
                    counted.append((touched, 1))
    return counted


def _present(columns: Columns, pools: list[_Pool], node: NodeSupply) -> list[Term]:
    """Cards as they are: of a kind no more of them than slots are free can be touched."""
    counted: list[Term] = []
    by_free: dict[str, Term] = {}
    reaching = [pool for pool in pools if node.free.get(pool.key, 0) and (node.pooled or not pool.pooled)]
    for pool in reaching:
        offering = sum(1 for cut in node.present if cut.number(pool.key))
        if node.free[pool.key] < offering and pool.key not in by_free:
            spared = columns.milp.variable(1)
            by_free[pool.key] = (spared, offering)
            counted.append((spared, node.free[pool.key]))
    for cut in dict.fromkeys(node.present):
        number = node.present.count(cut)
        here = [pool for pool in reaching if cut.number(pool.key)]
        if not here:
            continue
        touched = columns.milp.variable(number)
        counted.append((touched, 1))
        turns: list[Term] = [(variable, number) for variable in columns.turns(node)]
        for pool in here:
            free = [by_free[pool.key]] if pool.key in by_free else []
            columns.milp.at_least([(touched, 1), (pool.by_cards, -number), *turns, *free], 0)
    return counted


def _slices_at_best(columns: Columns) -> list[Term]:
    """The fewest cut cards that hold all pods on slices."""
    cards: list[Term] = []
    keys = [
        key
        for key in dict.fromkeys(option.slot for _, option in columns.choices() if not option.bundle)
        if not columns.problem.slots[key].alone and columns.problem.slots[key].sharers == 1
    ]
    for node in columns.problem.nodes:
        counted: list[tuple[Cut, int]] = []
        for cut in dict.fromkeys(node.present):
            if any(cut.number(key) and node.free.get(key, 0) for key in keys):
                number = node.present.count(cut)
                held = columns.milp.variable(number)
                columns.milp.at_most([(held, 1), *((variable, number) for variable in columns.turns(node))], number)
                counted.append((cut, held))
        for config in node.configs:
            for index, cut in enumerate(config.cuts):
                if any(cut.number(key) for key in keys):
                    held = columns.milp.variable(node.cards)
                    columns.milp.at_most([(held, 1), (columns.cut[node.name, config.name, index], -1)], 0)
                    counted.append((cut, held))
        for key in keys:
            wanted = columns.wanted(node, key)
            if wanted:
                columns.milp.at_most([*wanted, *((held, -cut.number(key)) for cut, held in counted)], 0)
        cards += [(held, 1) for _, held in counted]
    return cards
