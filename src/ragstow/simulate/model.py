"""What a simulation answers. Data only; the names in JSON are made in `document` (INTERFACE 4: Simulation)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragstow.errors import Reason


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Why a node was refused: the plugin, its status code, and the texts as the event has them."""

    plugin: str
    status: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FreePick:
    """A choice that the kubelet leaves open: `count` devices out of `pool`, besides `taken`."""

    taken: tuple[str, ...]
    pool: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class KubeletAnswer:
    """What the node does with the pod after it was bound. `reason` and `message` are the event's.

    `devices` are container -> resource -> ids; where the kubelet's choice is open, they are one of the possible picks and
    `open` says out of which set. `assumed` says what of the node is not in the data.
    """

    admitted: bool
    reason: str = ""
    message: str = ""
    devices: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    open: Mapping[str, Mapping[str, FreePick]] = field(default_factory=dict)
    numa: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CardChoice:
    """Where devices of a resource may sit: `count` of them on the cards `cards` (empty where they have no numbers), `of` cards
    in all."""

    count: int
    cards: tuple[int, ...]
    of: int

    @property
    def certain(self) -> bool:
        """Whether the set leaves no choice."""
        return self.of == 1 or self.count == self.of


ChangeKind = Literal[
    "uncordon",
    "tolerate",
    "unselect",
    "affinity",
    "spread",
    "near",
    "apart",
    "unport",
    "shrink",
    "free",
    "several",
    "add-node",
]
"""What is changed: the node's cordon; of the pod its tolerations, nodeSelector, required node affinity, spread, pod affinity,
anti-affinity, host ports, requests; the pods that hold what it needs; several of these; the number of nodes."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something small that makes a pod fit; every filter was asked again with it done. `disturbs` are pods that it stops,
    `patch` a strategic merge patch of the pod (or its template), `uncordon` says that the node is uncordoned for it."""

    kind: ChangeKind
    text: str
    node: str
    disturbs: tuple[str, ...] = ()
    patch: Mapping[str, Any] | None = None
    uncordon: bool = False


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The node that comes nearest for a pod that fits nowhere, what it lacks, who holds that, and what would help."""

    node: str | None
    text: str
    holders: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class PodEntry:
    """One attempt of one pod. `number` 0 means that the pod was never created: `refusal` or `message` says why.

    `feasible` and `evaluated` are 0 whenever the pod fails. `rejected` and `scores` are there only when asked for.
    `words` are refusals in words, (reason, nodes) grouped, the most frequent first; of several pods of one workload with the
    same event only the first has them.
    """

    namespace: str
    name: str
    number: int
    node: str | None = None
    ties: tuple[str, ...] = ()
    feasible: int = 0
    evaluated: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    message: str = ""
    preenqueue: str | None = None
    prefilter: str | None = None
    nominated_node: str | None = None
    nominated_ties: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    devices: Mapping[str, Any] = field(default_factory=dict)
    extended: Mapping[str, Any] = field(default_factory=dict)
    """The claim made for extended resources: its requests, and which container's resource each serves."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    kubelet: KubeletAnswer | None = None
    cards: Mapping[str, CardChoice] = field(default_factory=dict)
    rejected: Mapping[str, NodeRefusal] | None = None
    scores: Mapping[str, Mapping[str, int]] | None = None
    score: int | None = None
    workload: str | None = None
    refusal: Reason | None = None
    words: tuple[tuple[Reason, int], ...] = ()
    by_name: bool = False
    """The pod names its node itself (spec.nodeName): no scheduler was asked."""

    @property
    def key(self) -> str:
        """ "namespace/name"."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Displaced:
    """A pod that was evicted for another one, and where its controller's new pod would go (None: nowhere, `message` says why).

    `recreated` is False for a pod without a controller: it is gone.
    """

    pod: str
    by: str
    priority: int
    recreated: bool
    node: str | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Loop:
    """A workload whose pods a node keeps rejecting: bound, rejected, made again, bound to the same node."""

    workload: str
    node: str
    reason: str
    message: str
    text: str


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One thing that happens in a rollout: a pod is created (and placed, or Pending), or deleted."""

    action: Literal["create", "delete"]
    pod: str
    node: str | None
    ready: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Rollout:
    """A rolling update played against the free GPUs. `done` is False where it stands still; then `deadlock` says why.

    `least_ready` is the smallest number of ready pods on the way. `remedy` is a strategy that was tried and goes through.
    """

    workload: str
    strategy: str
    surge: int
    unavailable: int
    replicas: int
    done: bool
    least_ready: int
    steps: tuple[RolloutStep, ...]
    deadlock: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Moved:
    """A pod that loses its node: evicted or lost, and where its successor goes.

    `outcome`: "moved" (to `node`), "pending" (nowhere, `message`), "blocked" (a budget does not let it go), "lost" (nobody
    makes it again), "stays" (a DaemonSet's or a static pod).
    """

    pod: str
    successor: str | None
    outcome: Literal["moved", "pending", "blocked", "lost", "stays"]
    node: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Disruption:
    """A node drained or failed. `done` is False where a drain would wait forever."""

    kind: Literal["drain", "fail"]
    node: str
    done: bool
    moved: tuple[Moved, ...]
    without_replica: tuple[str, ...] = ()
    """Workloads that had a running pod before and have none afterwards."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """The answer. `final` maps every pod that was asked about and has a place at the end to its node."""

    release: str
    release_origin: str
    pods: tuple[PodEntry, ...]
    final: Mapping[str, str]
    near_misses: Mapping[str, NearMiss] = field(default_factory=dict)
    displaced: tuple[Displaced, ...] = ()
    loops: tuple[Loop, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    disruptions: tuple[Disruption, ...] = ()
    warnings: tuple[Reason, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def unplaced(self) -> tuple[str, ...]:
        """Pods that end without a place, in order of their first attempt."""
        return tuple(dict.fromkeys(entry.key for entry in self.pods if entry.key not in self.final))

    @property
    def ok(self) -> bool:
        """Everything has a place, every rollout goes through, no drain hangs and no moved pod stays without a node."""
        return (
            not self.unplaced
            and not self.loops
            and all(rollout.done for rollout in self.rollouts)
            and all(item.done for item in self.disruptions)
            and not any(moved.outcome in ("pending", "blocked") for item in self.disruptions for moved in item.moved)
        )
