"""The planning problem without Kubernetes: components, kinds of slots, nodes, and a design that answers it.

These types are what the solvers, the proofs and the tests share. They know nothing of labels, plugins or models: `supply` and
`options` make them from a cluster and a service, `assemble` turns a design into a Plan. Data only.

A *slot* is what a component's pods are steered to: two nodes that cannot be told apart by resource name and labels offer
the same slot key. A *cut* is how one card is cut into slots, a *config* is a set of cuts that a node's cards may have, and
the present state of a node is the config "keep".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragstow.plan.model import Mode

MODE_ORDER: tuple[Mode, ...] = ("exclusive", "mig", "mps", "time-slicing", "dra", "none")
"""Simplest first (INTERFACE 3)."""

KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Slot:
    """A kind of slot.

    `identity` is what steering sees: of two slots with one identity and different keys only one may be used by a plan (a card
    shared by two and one shared by three have the same resource name). `sharers` is how many pods may sit on one card through
    it, `memory_bytes` the CUDA-visible memory a pod may count on, `alone` that no other pod is ever on the card, `capped` that
    the card or a daemon limits each pod's memory. `isolation` is what the mode gives: "none", "memory" or "fault".
    `counted` are the names under which quotas count one slot (none: its resource).
    """

    key: str
    mode: Mode
    identity: str
    resource: str | None
    product: str | None
    profile: str | None
    sharers: int
    memory_bytes: int
    alone: bool
    capped: bool
    isolation: str
    counted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """How one card is cut: slot key -> number of slots, in a fixed order."""

    name: str
    slots: tuple[tuple[str, int], ...]

    def number(self, key: str) -> int:
        """How many slots of this key the card offers."""
        return next((count for name, count in self.slots if name == key), 0)


@dataclass(frozen=True, slots=True)
class Config:
    """A state that a node may be turned into; each of its cards then has one of `cuts`."""

    name: str
    mode: Mode
    cuts: tuple[Cut, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """A slot that a component may get: `count` slots for one pod, `need_bytes` the memory one pod takes on a card at most.

    `pooled` says that the pool label is selected. `current` marks what the component's own running pods have. `bundle` names
    the components of equal replica counts whose replicas i use one claim together (empty: each pod has its own).
    """

    slot: str
    count: int
    need_bytes: int
    pooled: bool = False
    current: bool = False
    bundle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Component:
    """A component: `options` is empty for one that takes no GPU. CPU in millicores, memory in bytes, per pod."""

    name: str
    replicas: int
    cpu_milli: int
    memory_bytes: int
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSupply:
    """A node that may be used.

    `present` is the cut of each card now, `free` the free slots by key (which card they are on may be unknown).
    `foreign_bytes` are the footprints of other pods that hold uncapped shares here. `disturbs` counts other people's GPU pods
    that any change of this node disturbs. `closed` names components that may not be scheduled here.
    """

    name: str
    cards: int
    present: tuple[Cut, ...]
    free: Mapping[str, int]
    configs: tuple[Config, ...] = ()
    foreign_bytes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    disturbs: int = 0
    pooled: bool = False
    cpu_milli: int = 10**9
    memory_bytes: int = 10**15
    pods: int = 10**6
    closed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything a solver needs. Components and nodes are in the order of names; `quota` is the name of a resource
    (`Slot.counted`) -> what is left, `CLAIMS` what is left of claims whatever they ask for."""

    components: tuple[Component, ...]
    nodes: tuple[NodeSupply, ...]
    slots: Mapping[str, Slot]
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    survive: bool = False
    max_cards: int | None = None
    quota: Mapping[str, int] = field(default_factory=dict)

    def component(self, name: str) -> Component:
        """The component of that name; KeyError where there is none."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)

    def node(self, name: str) -> NodeSupply:
        """The node of that name; KeyError where there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a design makes of a node: the config's name and the cut of each of its cards."""

    config: str
    cuts: tuple[Cut, ...]


@dataclass(frozen=True, slots=True)
class Design:
    """An answer before it is proved: the option of each component with a GPU, and the nodes that change."""

    options: Mapping[str, Option]
    changed: Mapping[str, NodeState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Steering:
    """Constraints that a component's pods carry so that a promise holds whatever the scheduler chooses.

    `not_beside` (its own name: one replica a node at most) and `beside` are pod anti-affinity and affinity by host name;
    `spread` keeps at least one replica on another node; `stage` orders the first start where order decides what fits.
    """

    not_beside: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    spread: bool = False
    stage: int = 0
