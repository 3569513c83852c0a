"""The cluster as a design leaves it: slots, free slots and cards by node, and where each component's pods may go.

Only what the API decides is known here: which card of a node a pod gets is the kubelet's choice, so cards are counted by kind
of cut, never assigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragstow.plan.problem import KEEP, Component, Cut, Design, NodeSupply, Option, Problem, Slot


@dataclass(frozen=True, slots=True)
class NodeAfter:
    """A node after the design: free slots by key, its cards by kind of cut, whether it carries the pool label."""

    supply: NodeSupply
    config: str
    free: Mapping[str, int]
    cuts: tuple[tuple[Cut, int], ...]
    pooled: bool

    @property
    def name(self) -> str:
        """The node's name."""
        return self.supply.name


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that are alike for the question where they may land: a component, or a bundle that shares one claim.

    `pods` counts slot requests (a bundle makes one for each replica), `members` the components behind it.
    """

    name: str
    members: tuple[Component, ...]
    option: Option
    slot: Slot
    pods: int


@dataclass(frozen=True, slots=True)
class After:
    """All nodes after a design, and the groups of pods that want slots."""

    problem: Problem
    design: Design
    nodes: tuple[NodeAfter, ...]
    groups: tuple[Group, ...]
    reach: Mapping[str, tuple[NodeAfter, ...]] = field(default_factory=dict)
    """Group name -> nodes on which one of its pods may land, by name."""

    def group_of(self, component: str) -> Group:
        """The group that a component belongs to; KeyError where it takes no GPU."""
        for group in self.groups:
            if any(member.name == component for member in group.members):
                return group
        raise KeyError(component)


def after(problem: Problem, design: Design) -> After:
    """The cluster after a design."""
    nodes = tuple(_node(node, design) for node in problem.nodes)
    groups = _groups(problem, design)
    reach = {group.name: tuple(node for node in nodes if _reaches(group, node)) for group in groups}
    return After(problem, design, nodes, groups, reach)


def _node(node: NodeSupply, design: Design) -> NodeAfter:
    state = design.changed.get(node.name)
    if state is None:
        return NodeAfter(node, KEEP, node.free, count_cuts(node.present), node.pooled)
    free: dict[str, int] = {}
    for cut in state.cuts:
        for key, number in cut.slots:
            free[key] = free.get(key, 0) + number
    return NodeAfter(node, state.config, free, count_cuts(state.cuts), True)


def count_cuts(cuts: tuple[Cut, ...]) -> tuple[tuple[Cut, int], ...]:
    """Equal cuts counted, in the order of first appearance."""
    counted: dict[Cut, int] = {}
    for cut in cuts:
        counted[cut] = counted.get(cut, 0) + 1
    return tuple(counted.items())


def _groups(problem: Problem, design: Design) -> tuple[Group, ...]:
    groups: list[Group] = []
    bundled: set[str] = set()
    for component in problem.components:
        option = design.options.get(component.name)
        if option is None or component.name in bundled:
            continue
        slot = problem.slots[option.slot]
        if option.bundle:
            bundled.update(option.bundle)
            members = tuple(other for other in problem.components if other.name in option.bundle)
            groups.append(Group("+".join(option.bundle), members, option, slot, component.replicas))
        else:
            groups.append(Group(component.name, (component,), option, slot, component.replicas))
    return tuple(groups)


def _reaches(group: Group, node: NodeAfter) -> bool:
    if node.free.get(group.option.slot, 0) < group.option.count or (group.option.pooled and not node.pooled):
        return False
    return all(fits(member, node.supply) for member in group.members)


def fits(component: Component, node: NodeSupply) -> bool:
    """Whether one pod of the component may be on the node, slots aside."""
    return (
        component.name not in node.closed
        and component.cpu_milli <= node.cpu_milli
        and component.memory_bytes <= node.memory_bytes
        and node.pods >= 1
    )
