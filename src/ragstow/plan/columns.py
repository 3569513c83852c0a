"""The integer programme of a plan: which slot each component gets, what each node becomes, how its cards are cut.

Cuts are integer columns (how many cards of a node have this cut), so a MIG layout or a way of sharing is one number. The
programme asks only that *some* assignment of pods exists and that promises are possible; `promises.prove` then shows that
every assignment is fine, and what fails comes back here as a further row. Its bound on cards is therefore a true lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ragstow.plan.after import fits
from ragstow.plan.milp import Milp, Solution, Term
from ragstow.plan.problem import MODE_ORDER, Component, Config, Cut, Design, NodeState, NodeSupply, Option, Problem, Slot
from ragstow.plan.spent import each

_FINE = 128
"""More than twice the shares of a card (48 at most), so that memory counts before them."""

Choice = tuple[str, int]
"""(component, index of its option)."""


class Columns:
    """The variables of one problem by name, and the rows that any plan obeys; cards and promises are added by others."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.milp = Milp()
        self.gpu = tuple(component for component in problem.components if component.options)
        self.use = {
            (component.name, number): self.milp.variable(1)
            for component in self.gpu
            for number in range(len(component.options))
        }
        self.turned = {(node.name, config.name): self.milp.variable(1) for node in problem.nodes for config in node.configs}
        self.cut = {
            (node.name, config.name, number): self.milp.variable(node.cards)
            for node in problem.nodes
            for config in node.configs
            for number in range(len(config.cuts))
        }
        self.pods: dict[tuple[str, int, str], int] = {}
        self.lead = {
            choice: choice[0] for choice, option in self.choices() if not option.bundle or option.bundle[0] == choice[0]
        }
        self._one_option_each()
        self._one_state_each()
        self._places()
        self._capacity()
        self._host_resources()
        self._alike()
        self._names()
        self._quota()

    # -- reading -------------------------------------------------------------------------------------------------

    def choices(self) -> Iterator[tuple[Choice, Option]]:
        for component in self.gpu:
            for number, option in enumerate(component.options):
                yield (component.name, number), option

    def followers(self) -> set[str]:
        """Components that are wished together with one of more replicas, or with one named before them."""
        found: set[str] = set()
        for group in self.problem.together:
            names = [name for name in group if any(component.name == name for component in self.gpu)]
            if len(names) > 1:
                leader = max(names, key=lambda name: (self.problem.component(name).replicas, -names.index(name)))
                found |= {name for name in names if name != leader}
        return found

    def slot(self, option: Option) -> Slot:
        """The slot of an option."""
        return self.problem.slots[option.slot]

    def design(self, solution: Solution) -> Design:
        """The design that a solution describes; cut cards come first, then whole ones."""
        options = {choice[0]: option for choice, option in self.choices() if solution[self.use[choice]]}
        changed = {}
        for node in self.problem.nodes:
            for config in node.configs:
                if solution[self.turned[node.name, config.name]]:
                    cuts = [
                        cut
                        for number, cut in enumerate(config.cuts)
                        for _ in range(solution[self.cut[node.name, config.name, number]])
                    ]
                    changed[node.name] = NodeState(config.name, tuple(sorted(cuts, key=self._whole)))
        return Design(options, changed)

    def _whole(self, cut: Cut) -> bool:
        return all(self.problem.slots[key].alone for key, _ in cut.slots)

    # -- objectives ----------------------------------------------------------------------------------------------

    def disturbed(self) -> list[Term]:
        """Pods of others that changes disturb."""
        return [
            (self.turned[node.name, config.name], node.disturbs)
            for node in self.problem.nodes
            for config in node.configs
            if node.disturbs
        ]

    def reconfigured(self) -> list[Term]:
        """Nodes that change; below that, cards that are cut without need."""
        terms: list[Term] = [(variable, 1000) for variable in self.turned.values()]
        for node in self.problem.nodes:
            for config in node.configs:
                for number, cut in enumerate(config.cuts):
                    if not self._whole(cut):
                        terms.append((self.cut[node.name, config.name, number], 1))
        return terms

    def moved(self) -> list[Term]:
        """Components whose running pods have another slot."""
        return [(self.use[choice], 1) for choice, option in self.choices() if not option.current]

    def complexity(self) -> list[Term]:
        """Modes, simplest first."""
        return [(self.use[choice], MODE_ORDER.index(self.slot(option).mode)) for choice, option in self.choices()]

    def waste(self) -> list[Term]:
        """Memory left unused, in squares of half GiB, so that small components leave the largest cards alone; then few shares,
        then the pool."""
        terms: list[Term] = []
        for choice, option in self.choices():
            slot = self.slot(option)
            part = slot.memory_bytes * (slot.sharers if slot.capped else 1)
            unused = max(part - option.need_bytes, 0) / 2**29
            weight = _FINE * round(unused * unused) * self.size(choice) + 2 * slot.sharers + (not option.pooled)
            terms.append((self.use[choice], weight))
        return terms

    def names(self) -> list[Term]:
        """Nodes in the order of their names."""
        order = {node.name: number for number, node in enumerate(self.problem.nodes)}
        terms: list[Term] = [(variable, 100 * order[node]) for (node, _), variable in self.turned.items()]
        return terms + [(variable, order[node]) for (_, _, node), variable in self.pods.items()]

    # -- rows ----------------------------------------------------------------------------------------------------

    def _one_option_each(self) -> None:
        for component in self.gpu:
            self.milp.row(1, ((self.use[component.name, number], 1) for number in range(len(component.options))), 1)
        bundles: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}
        for choice, option in self.choices():
            if option.bundle:
                bundles.setdefault((option.slot, option.bundle), {})[choice[0]] = self.use[choice]
        for (_, names), members in bundles.items():
            for name in names[1:]:
                self.milp.row(0, [(members[names[0]], 1), (members[name], -1)], 0)

    def _one_state_each(self) -> None:
        for node in self.problem.nodes:
            self.milp.at_most(((self.turned[node.name, config.name], 1) for config in node.configs), 1)
            for config in node.configs:
                terms: list[Term] = [(self.cut[node.name, config.name, number], 1) for number in range(len(config.cuts))]
                self.milp.row(0, [*terms, (self.turned[node.name, config.name], -node.cards)], 0)
                # A node is only turned into what somebody uses.
                keys = {key for cut in config.cuts for key, _ in cut.slots}
                users: list[Term] = [(self.use[choice], 1) for choice, option in self.choices() if option.slot in keys]
                self.milp.at_least([*users, (self.turned[node.name, config.name], -1)], 0)

    def size(self, choice: Choice) -> int:
        return self.problem.component(choice[0]).replicas

    def members(self, choice: Choice, option: Option) -> tuple[Component, ...]:
        return tuple(self.problem.component(name) for name in option.bundle or (choice[0],))

    def _places(self) -> None:
        for choice, option in self.choices():
            if choice not in self.lead:
                continue
            size = self.size(choice)
            terms: list[Term] = []
            for node in self.problem.nodes:
                if not self.possible(choice, option, node):
                    continue
                pods = self.milp.variable(size)
                self.pods[choice[0], choice[1], node.name] = pods
                terms.append((pods, 1))
                if option.pooled and not node.pooled:
                    self.milp.at_most([(pods, 1), *((variable, -size) for variable in self.turns(node))], 0)
            self.milp.row(0, [*terms, (self.use[choice], -size)], 0)

    def possible(self, choice: Choice, option: Option, node: NodeSupply) -> bool:
        if not all(fits(member, node) for member in self.members(choice, option)):
            return False
        kept = node.free.get(option.slot, 0) >= option.count and (node.pooled or not option.pooled)
        return kept or any(cut.number(option.slot) for config in node.configs for cut in config.cuts)

    def turns(self, node: NodeSupply) -> list[int]:
        return [self.turned[node.name, config.name] for config in node.configs]

    def offer(self, node: NodeSupply, key: str) -> tuple[list[Term], int]:
        """Slots of a key on a node as terms and a constant: free ones while it is kept, those of its cuts when turned."""
        free = node.free.get(key, 0)
        terms: list[Term] = [(variable, -free) for variable in self.turns(node)] if free else []
        for config in node.configs:
            for number, cut in enumerate(config.cuts):
                if slots := cut.number(key):
                    terms.append((self.cut[node.name, config.name, number], slots))
        return terms, free

    def most_offered(self, node: NodeSupply, key: str) -> int:
        """The most slots of a key that a node may offer in any state."""
        cuts = (cut.number(key) for config in node.configs for cut in config.cuts)
        return max(node.free.get(key, 0), node.cards * max(cuts, default=0))

    def keys(self) -> list[str]:
        return list(dict.fromkeys(option.slot for _, option in self.choices()))

    def _capacity(self) -> None:
        for node in self.problem.nodes:
            for key in self.keys():
                wanted = self.wanted(node, key)
                if wanted:
                    terms, free = self.offer(node, key)
                    self.milp.at_most([*wanted, *((variable, -amount) for variable, amount in terms)], free)

    def wanted(self, node: NodeSupply, key: str) -> list[Term]:
        return [
            (variable, option.count)
            for choice, option in self.choices()
            if option.slot == key and (variable := self.pods.get((*choice, node.name))) is not None
        ]

    def _host_resources(self) -> None:
        plain = [component for component in self.problem.components if not component.options]
        if any(self._ample(node) and all(fits(component, node) for component in plain) for node in self.problem.nodes):
            plain = []  # all of them have room there, whatever else is
        elsewhere: dict[tuple[str, str], int] = {}
        for component in plain:
            terms: list[Term] = []
            for node in self.problem.nodes:
                if fits(component, node):
                    elsewhere[component.name, node.name] = self.milp.variable(component.replicas)
                    terms.append((elsewhere[component.name, node.name], 1))
            self.milp.row(component.replicas, terms, component.replicas)
        for node in self.problem.nodes:
            if self._ample(node):
                continue
            cpu: list[Term] = []
            memory: list[Term] = []
            pods: list[Term] = []
            for choice, option in self.choices():
                variable = self.pods.get((*choice, node.name))
                if variable is not None:
                    members = self.members(choice, option)
                    cpu.append((variable, sum(member.cpu_milli for member in members)))
                    memory.append((variable, sum(member.memory_bytes for member in members) / 2**20))
                    pods.append((variable, len(members)))
            for component in plain:
                if (component.name, node.name) in elsewhere:
                    variable = elsewhere[component.name, node.name]
                    cpu.append((variable, component.cpu_milli))
                    memory.append((variable, component.memory_bytes / 2**20))
                    pods.append((variable, 1))
            self.milp.at_most(cpu, node.cpu_milli)
            self.milp.at_most(memory, node.memory_bytes / 2**20)
            self.milp.at_most(pods, node.pods)

    def _alike(self) -> None:
        """Of nodes that are alike those with the first names are turned first: their other orders need not be tried."""
        last: dict[object, NodeSupply] = {}
        for node in self.problem.nodes:
            if not node.configs:
                continue
            alike = replace(node, name="")
            key = (alike.cards, alike.present, tuple(sorted(alike.free.items())), alike.configs, alike.disturbs, alike.pooled)
            full = (*key, self._ample(node) or (alike.cpu_milli, alike.memory_bytes, alike.pods), alike.closed)
            before = last.get(full)
            if before is not None:
                terms: list[Term] = [(variable, 1) for variable in self.turns(before)]
                self.milp.at_least([*terms, *((variable, -1) for variable in self.turns(node))], 0)
            last[full] = node

    def _ample(self, node: NodeSupply) -> bool:
        """Whether the whole service fits the node's CPU, memory and pods, so that they never matter there."""
        components = self.problem.components
        return (
            sum(item.cpu_milli * item.replicas for item in components) <= node.cpu_milli
            and sum(item.memory_bytes * item.replicas for item in components) <= node.memory_bytes
            and sum(item.replicas for item in components) <= node.pods
        )

    def _names(self) -> None:
        """Slots that steering cannot tell apart are not used beside each other, nor where others offer them."""
        identities: dict[str, dict[str, list[Choice]]] = {}
        for choice, option in self.choices():
            identities.setdefault(self.slot(option).identity, {}).setdefault(option.slot, []).append(choice)
        for keys in identities.values():
            if len(keys) > 1:
                chosen = {key: self.milp.variable(1) for key in keys}
                for key, choices in keys.items():
                    for choice in choices:
                        self.milp.at_most([(self.use[choice], 1), (chosen[key], -1)], 0)
                self.milp.at_most(((variable, 1) for variable in chosen.values()), 1)
        self._one_way_to_shares()
        for choice, option in self.choices():
            identity = self.slot(option).identity
            for node in self.problem.nodes:
                if not all(fits(member, node) for member in self.members(choice, option)):
                    continue
                if self._namesake(node.present, option, identity) and (node.pooled or not option.pooled):
                    self.milp.at_most([(self.use[choice], 1), *((variable, -1) for variable in self.turns(node))], 0)
                for config in node.configs:
                    if self._namesake(config.cuts, option, identity):
                        self.milp.at_most([(self.use[choice], 1), (self.turned[node.name, config.name], 1)], 1)

    def _one_way_to_shares(self) -> None:
        """Shares of one name are reached by the pool label or without it, not both: the wider may take the narrower's."""
        for key in self.keys():
            by_pool: dict[bool, list[Choice]] = {}
            for choice, option in self.choices():
                if option.slot == key and self.slot(option).sharers > 1:
                    by_pool.setdefault(option.pooled, []).append(choice)
            if len(by_pool) > 1:
                pooled = self.milp.variable(1)
                for choice in by_pool[True]:
                    self.milp.at_most([(self.use[choice], 1), (pooled, -1)], 0)
                for choice in by_pool[False]:
                    self.milp.at_most([(self.use[choice], 1), (pooled, 1)], 1)

    def _namesake(self, cuts: Iterable[Cut], option: Option, identity: str) -> bool:
        return any(key != option.slot and self.problem.slots[key].identity == identity for cut in cuts for key, _ in cut.slots)

    def _quota(self) -> None:
        for resource, left in self.problem.quota.items():
            terms: list[Term] = []
            for choice, option in self.choices():
                number = each(self.slot(option), option, choice[0]).get(resource, 0)
                if number:
                    terms.append((self.use[choice], self.size(choice) * number))
            self.milp.at_most(terms, left)

    # -- what a proof refused ------------------------------------------------------------------------------------

    def forbid_crowd(self, key: str, names: Iterable[str]) -> None:
        """These components may not all use this slot: a card could overflow."""
        crowd = list(dict.fromkeys(names))
        terms: list[Term] = [
            (self.use[choice], 1) for choice, option in self.choices() if option.slot == key and choice[0] in crowd
        ]
        self.milp.at_most(terms, len(crowd) - 1)

    def forbid_slots(self, solution: Solution) -> None:
        """Never these slots for all components again, whatever the nodes."""
        chosen = [variable for variable in self.use.values() if solution[variable]]
        self.milp.at_most(((variable, 1) for variable in chosen), len(chosen) - 1)

    def forbid(self, solution: Solution) -> int:
        """Never this choice of options, node states and cuts again; returns the row."""
        terms: list[Term] = []
        low = 1
        for variable in (*self.use.values(), *self.turned.values()):
            if solution[variable]:
                terms.append((variable, -1))
                low -= 1
            else:
                terms.append((variable, 1))
        for (node, config, _), variable in self.cut.items():
            if not solution[self.turned[node, config]] or self._cuts(node, config) == 1:
                continue
            value, most = solution[variable], self.problem.node(node).cards
            below, above = self.milp.variable(1), self.milp.variable(1)
            # below = 1 only if the count is smaller, above = 1 only if it is greater.
            self.milp.at_most([(variable, 1), (below, most)], most + value - 1 if value else most)
            self.milp.at_least([(variable, 1), (above, -(value + 1))], 0)
            if value:
                terms.append((below, 1))
            terms.append((above, 1))
        return self.milp.at_least(terms, low)

    def _cuts(self, node: str, config: str) -> int:
        found: list[Config] = [item for item in self.problem.node(node).configs if item.name == config]
        return len(found[0].cuts)
