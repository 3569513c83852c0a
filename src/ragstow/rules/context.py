"""What a rule may ask: the snapshot, the inventory, shared indexes, and answers of rooms that rules must not import.

The scheduler's and the sizing's answers come as functions, so that `rules` depends on neither; where one is missing, a rule
says what it could not judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from ragstow.cluster.objects import Pod, Resources
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts.store import Facts
from ragstow.inventory.model import Inventory
from ragstow.rules.index.changes import Changes
from ragstow.rules.index.events import Events
from ragstow.rules.index.logs import Logs
from ragstow.rules.index.owners import Owners
from ragstow.rules.index.stack import GpuStack
from ragstow.rules.index.states import PodStates
from ragstow.rules.index.texts import Texts

T = TypeVar("T")


class NodeRefusal(Protocol):
    """One plugin's refusal of a pod on a node: its texts as the event has them, the same in words (node, label, number), and
    whether evicting other pods could change it."""

    @property
    def plugin(self) -> str: ...
    @property
    def texts(self) -> tuple[str, ...]: ...
    @property
    def words(self) -> tuple[str, ...]: ...
    @property
    def resolvable(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PendingVerdict:
    """The scheduler library's answer for one pending pod.

    `refused` has every plugin that refuses the pod on a node, asked one by one, the one that the event names first; a node
    that is not in it would take the pod. `plugins` has their names alone, for looking at many nodes. `message` is the event's
    text as the cluster's release writes it.
    """

    refused: Mapping[str, Sequence[NodeRefusal]]
    plugins: Mapping[str, frozenset[str]]
    feasible: tuple[str, ...]
    message: str
    prefilter: str = ""


@dataclass(frozen=True)
class Context:
    """Everything a rule sees.

    `now` is an RFC 3339 time (the newest in the snapshot unless told otherwise); `pending` plays one cycle of the scheduler
    for a pod, `elsewhere` the same on another snapshot ("what if these pods were gone"); `requests` gives a pod's effective
    requests, init containers and overhead included.
    """

    snapshot: Snapshot
    inventory: Inventory
    facts: Facts
    now: str
    requests: Callable[[Pod], Resources]
    pending: Callable[[Pod], PendingVerdict] | None = None
    elsewhere: Callable[[Snapshot], Callable[[Pod], PendingVerdict]] | None = None

    _memory: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def remember(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gave when it was first asked for under this key: for look-ups that several rules share."""
        if key not in self._memory:
            self._memory[key] = make()
        found: T = self._memory[key]
        return found

    @cached_property
    def events(self) -> Events:
        """Events by object."""
        return Events(self.snapshot)

    @cached_property
    def states(self) -> PodStates:
        """States of pods."""
        return PodStates(self.snapshot)

    @cached_property
    def owners(self) -> Owners:
        """Owners of pods."""
        return Owners(self.snapshot)

    @cached_property
    def logs(self) -> Logs:
        """Logs and host files."""
        return Logs(self.snapshot, self.states)

    @cached_property
    def stack(self) -> GpuStack:
        """The programs of the GPU stack."""
        return GpuStack(self.snapshot, self.facts.stack)

    @cached_property
    def texts(self) -> Texts:
        """Everything that programs said, with the signatures found in it."""
        return Texts(self.snapshot, self.events, self.logs, self.states, self.facts.signatures)

    @cached_property
    def changes(self) -> Changes:
        """What changed, and when."""
        return Changes(self.snapshot)

    @cached_property
    def kubelet_configurations(self) -> tuple[Mapping[str, Any], ...]:
        """The KubeletConfiguration documents that came with the cluster."""
        return tuple(item.raw for item in self.snapshot.everything if item.kind == "KubeletConfiguration")
