"""Promises as rows of the programme: necessary conditions, so that what is found can usually be proved.

A design that breaks a promise may still pass here (the proof is `promises.prove`), but none that keeps them all is cut off.
"""

from __future__ import annotations

from ragstow.plan.columns import Choice, Columns
from ragstow.plan.milp import Term
from ragstow.plan.problem import NodeSupply, Option


def ask_promises(columns: Columns) -> None:
    """Add the rows for `apart`, `together` and `survive`."""
    for group in columns.problem.apart:
        _apart(columns, group)
    for group in columns.problem.together:
        _together(columns, group)
    if columns.problem.survive:
        _survive(columns)


def _on(columns: Columns, component: str, node: str) -> list[Term]:
    return [
        (variable, 1)
        for choice, option in columns.choices()
        if component in (option.bundle or (choice[0],))
        and choice in columns.lead
        and (variable := columns.pods.get((*choice, node))) is not None
    ]


def _there(columns: Columns, component: str, node: str) -> int:
    """A variable that is 1 where a pod of the component is on the node."""
    there = columns.milp.variable(1)
    most = columns.problem.component(component).replicas
    columns.milp.at_most([*_on(columns, component, node), (there, -most)], 0)
    return there


def _named(columns: Columns, name: str) -> list[tuple[Choice, Option]]:
    return [(choice, option) for choice, option in columns.choices() if choice[0] == name]


def _apart(columns: Columns, group: tuple[str, ...]) -> None:
    names = [name for name in group if any(component.name == name for component in columns.gpu)]
    if len(group) == 1 and names:
        _replicas_apart(columns, names[0])
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            _pair_apart(columns, one, other)


def _shares_card(columns: Columns, option: Option) -> bool:
    return not columns.slot(option).alone and not option.bundle


def _pair_apart(columns: Columns, one: str, other: str) -> None:
    apart = columns.milp.variable(1)
    for node in columns.problem.nodes:
        columns.milp.at_most([(_there(columns, one, node.name), 1), (_there(columns, other, node.name), 1), (apart, 1)], 2)
    _nodes_left(columns, one, other, apart)
    _nodes_left(columns, other, one, apart)
    for mine, my_option in _named(columns, one):
        if other in my_option.bundle:
            columns.milp.at_most([(columns.use[mine], 1)], 0)
        if not _shares_card(columns, my_option):
            continue
        for theirs, their_option in _named(columns, other):
            if not _shares_card(columns, their_option):
                continue
            both: list[Term] = [(columns.use[mine], 1), (columns.use[theirs], 1)]
            if my_option.slot == their_option.slot:
                columns.milp.at_most([*both, (apart, -1)], 1)
                continue
            for node in columns.problem.nodes:
                reached = node.pooled or not (my_option.pooled or their_option.pooled)
                if reached and any(cut.number(my_option.slot) and cut.number(their_option.slot) for cut in node.present):
                    turns: list[Term] = [(variable, -1) for variable in columns.turns(node)]
                    columns.milp.at_most([*both, *turns, (apart, -1)], 1)
                for config in node.configs:
                    for index, cut in enumerate(config.cuts):
                        if cut.number(my_option.slot) and cut.number(their_option.slot):
                            cards = columns.cut[node.name, config.name, index]
                            weighed: list[Term] = [(variable, node.cards) for variable, _ in both]
                            columns.milp.at_most([*weighed, (cards, 1), (apart, -node.cards)], 2 * node.cards)


def _nodes_left(columns: Columns, first: str, other: str, apart: int) -> None:
    """Kept apart by node, pods of `first` may shut as many nodes as there are of them, the roomiest that they can reach: what
    is left must still hold `other`. The sum of the r largest is the least of r t + sum(max(0, room - t)) over t."""
    shut = columns.problem.component(first).replicas
    reached = {node.name: columns.milp.variable(1) for node in columns.problem.nodes}
    for choice, option in _named(columns, first):
        for node in columns.problem.nodes:
            terms, free = _reachable(columns, node, option)
            if terms or free:
                most = columns.most_offered(node, option.slot)
                row = [*terms, (reached[node.name], -most), (columns.use[choice], most)]
                columns.milp.at_most(row, most - free)
    single = any(other in group and (len(group) == 1 or group in columns.problem.together) for group in _groups(columns))
    for choice, option in _named(columns, other):
        if not _shares_card(columns, option):
            continue
        level = columns.milp.variable(max(columns.most_offered(node, option.slot) for node in columns.problem.nodes))
        room: list[Term] = []
        lost: list[Term] = [(level, shut)]
        constant = 0
        for node in columns.problem.nodes:
            terms, free = _reachable(columns, node, option)
            if terms or free:
                most = columns.most_offered(node, option.slot)
                above = columns.milp.variable(most)
                row = [
                    (above, 1),
                    (level, 1),
                    *((variable, -amount) for variable, amount in terms),
                    (reached[node.name], -most),
                ]
                columns.milp.at_least(row, free - most)
                room += terms
                lost.append((above, 1))
                constant += free
        wanted = option.count * (1 if single else columns.problem.component(other).replicas)
        both: list[Term] = [(columns.use[choice], -wanted), (apart, -wanted)]
        columns.milp.at_least([*room, *((variable, -amount) for variable, amount in lost), *both], -wanted - constant)


def _groups(columns: Columns) -> tuple[tuple[str, ...], ...]:
    return (*columns.problem.apart, *columns.problem.together)


def _reachable(columns: Columns, node: NodeSupply, option: Option) -> tuple[list[Term], int]:
    """The slots of an option that a node offers to it."""
    terms, free = columns.offer(node, option.slot)
    if option.pooled and not node.pooled:
        return [term for term in terms if term[1] > 0], 0
    return terms, free


def _replicas_apart(columns: Columns, name: str) -> None:
    component = columns.problem.component(name)
    if component.replicas == 1:
        return
    apart = columns.milp.variable(1)
    most = component.replicas
    for node in columns.problem.nodes:
        columns.milp.at_most([*_on(columns, name, node.name), (apart, most - 1)], most)
    for choice, option in _named(columns, name):
        offering: list[Term] = []
        for node in columns.problem.nodes:
            terms, free = _reachable(columns, node, option)
            if terms or free:
                offers = columns.milp.variable(1)
                columns.milp.at_most([(offers, 1), *((variable, -amount) for variable, amount in terms)], free)
                offering.append((offers, 1))
        columns.milp.at_least([*offering, (columns.use[choice], -most), (apart, -most)], -most)
        if not _shares_card(columns, option):
            continue
        for node in columns.problem.nodes:
            if (node.pooled or not option.pooled) and any(cut.number(option.slot) > 1 for cut in node.present):
                turns: list[Term] = [(variable, -1) for variable in columns.turns(node)]
                columns.milp.at_most([(columns.use[choice], 1), *turns, (apart, -1)], 0)
            for config in node.configs:
                for index, cut in enumerate(config.cuts):
                    if cut.number(option.slot) > 1:
                        cards = columns.cut[node.name, config.name, index]
                        columns.milp.at_most([(columns.use[choice], node.cards), (cards, 1), (apart, -node.cards)], node.cards)


def _together(columns: Columns, group: tuple[str, ...]) -> None:
    names = [name for name in group if any(component.name == name for component in columns.gpu)]
    if len(names) < 2:
        return
    leader = max(names, key=lambda name: (columns.problem.component(name).replicas, -names.index(name)))
    for name in names:
        for choice, option in _named(columns, name):
            if option.bundle:
                if not set(names) <= set(option.bundle):
                    columns.milp.at_most([(columns.use[choice], 1)], 0)
            elif columns.slot(option).alone:
                columns.milp.at_most([(columns.use[choice], 1)], 0)
            else:
                _one_card_a_node(columns, choice, option)
    for node in columns.problem.nodes:
        led = _there_at_least(columns, leader, node.name)
        for name in names:
            if name != leader:
                most = columns.problem.component(name).replicas
                columns.milp.at_most([*_on(columns, name, node.name), (led, -most)], 0)


def _there_at_least(columns: Columns, component: str, node: str) -> int:
    """A variable that can be 1 only where a pod of the component is on the node."""
    there = columns.milp.variable(1)
    columns.milp.at_most([(there, 1), *((variable, -1) for variable, _ in _on(columns, component, node))], 0)
    return there


def _one_card_a_node(columns: Columns, choice: Choice, option: Option) -> None:
    for node in columns.problem.nodes:
        offering = sum(1 for cut in node.present if cut.number(option.slot))
        if offering > 1 and (node.pooled or not option.pooled) and node.free.get(option.slot, 0):
            turns: list[Term] = [(variable, -1) for variable in columns.turns(node)]
            columns.milp.at_most([(columns.use[choice], 1), *turns], 0)
        for config in node.configs:
            terms: list[Term] = [
                (columns.cut[node.name, config.name, index], 1)
                for index, cut in enumerate(config.cuts)
                if cut.number(option.slot)
            ]
            if terms:
                columns.milp.at_most([*terms, (columns.use[choice], node.cards)], 1 + node.cards)


def _survive(columns: Columns) -> None:
    followers = {name for group in columns.problem.together for name in group}
    users: dict[str, list[Term]] = {}
    for choice, option in columns.choices():
        if choice in columns.lead and not followers & set(option.bundle or (choice[0],)):
            users.setdefault(option.slot, []).append((columns.use[choice], option.count))
    for key, wanted in users.items():
        _spare(columns, key, wanted)


def _spare(columns: Columns, key: str, wanted: list[Term]) -> None:
    """Whichever node is lost, the others have room for one replica of each component with this slot."""
    offers = {node.name: columns.offer(node, key) for node in columns.problem.nodes}
    for lost, (terms, free) in offers.items():
        if not terms and not free:
            continue
        left: list[Term] = []
        constant = 0
        for name, (offered, kept) in offers.items():
            if name != lost:
                left += offered
                constant += kept
        columns.milp.at_least([*left, *((variable, -amount) for variable, amount in wanted)], -constant)
