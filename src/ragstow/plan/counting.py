"""What the programme counts as cards: a card of one's own, each cut card that holds a slice, and shares at their worst.

For slices the count is the least that some assignment needs; `promises.prove` gives the most that any assignment may touch.
"""

from __future__ import annotations

from ragstow.plan.columns import Choice, Columns
from ragstow.plan.milp import Term
from ragstow.plan.problem import Cut


def count_cards(columns: Columns) -> list[Term]:
    """Physical cards that the service sits on, as terms over the programme's variables (rows are added to it)."""
    return [*_alone_cards(columns), *_slice_cards(columns), *_shared_cards(columns)]


def _alone_cards(columns: Columns) -> list[Term]:
    return [
        (columns.use[choice], columns.size(choice) * option.count)
        for choice, option in columns.choices()
        if choice in columns.lead and (columns.slot(option).alone or option.bundle)
    ]


def _slice_cards(columns: Columns) -> list[Term]:
    """Each pod on a slice needs a card that counts."""
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
                touched = columns.milp.variable(number)
                columns.milp.at_most([(touched, 1), *((variable, number) for variable in columns.turns(node))], number)
                counted.append((cut, touched))
        for config in node.configs:
            for index, cut in enumerate(config.cuts):
                if any(cut.number(key) for key in keys):
                    touched = columns.milp.variable(node.cards)
                    columns.milp.at_most([(touched, 1), (columns.cut[node.name, config.name, index], -1)], 0)
                    counted.append((cut, touched))
        for key in keys:
            wanted = columns.wanted(node, key)
            if wanted:
                columns.milp.at_most([*wanted, *((touched, -cut.number(key)) for cut, touched in counted)], 0)
        cards += [(touched, 1) for _, touched in counted]
    return cards


def _shared_cards(columns: Columns) -> list[Term]:
    """Pods on shares may touch as many cards as there are, or as there are pods, whichever is less."""
    total: list[Term] = []
    pools: dict[tuple[str, bool], list[tuple[Choice, int]]] = {}
    for choice, option in columns.choices():
        if columns.slot(option).sharers > 1 and not option.bundle:
            pools.setdefault((option.slot, option.pooled), []).append((choice, columns.size(choice)))
    for (key, pooled), choices in pools.items():
        pods: list[Term] = [(columns.use[choice], size) for choice, size in choices]
        cards: list[Term] = []
        most, constant = 0, 0
        for node in columns.problem.nodes:
            offering = sum(1 for cut in node.present if cut.number(key))
            if offering and node.free.get(key, 0) and (node.pooled or not pooled):
                constant += offering
                cards += [(variable, -offering) for variable in columns.turns(node)]
            for config in node.configs:
                cards += [
                    (columns.cut[node.name, config.name, index], 1) for index, cut in enumerate(config.cuts) if cut.number(key)
                ]
            most += node.cards
        big = max(most, sum(size for _, size in choices)) + constant
        touched, crowded, used = columns.milp.variable(big), columns.milp.variable(1), columns.milp.variable(1)
        for choice, _ in choices:
            columns.milp.at_most([(columns.use[choice], 1), (used, -1)], 0)
        columns.milp.at_least([(touched, 1), *((v, -c) for v, c in pods), (crowded, big)], 0)
        columns.milp.at_least([(touched, 1), *((v, -c) for v, c in cards), (crowded, -big), (used, -big)], constant - 2 * big)
        total.append((touched, 1))
    return total
