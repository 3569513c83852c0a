"""The plugin protocol: what kube-scheduler calls extension points, statuses and the cycle state.

Source of the semantics: k8s.io/kube-scheduler framework/interface.go and pkg/scheduler/framework/runtime/framework.go. This
module holds types only; `runtime` calls the plugins, `cycle` decides with them.

How to add a plugin
-------------------
1. Write `plugins/<name>.py` with one class that inherits the extension points it has (`PreFilterPlugin`, `FilterPlugin`,
   `ScorePlugin` ...) and sets `name` to the upstream name. It is made once per engine with `(handle, args)`: `handle` gives
   the release and the cluster (`handle.world`), `args` is the decoded `pluginConfig` entry, {} without one.
2. A point returns None for success (or its value) and a `Status` for anything else: the code, and the exact upstream texts.
   `Skip` from `pre_filter` leaves the plugin's filter out for this pod, `Skip` from `pre_score` its score (it then adds
   nothing and does not appear among the scores).
3. What a pod's cycle needs later is written to the `CycleState` under a `StateKey`; a value with a `clone()` method is cloned
   for preemption and for nominated pods, and `add_pod`/`remove_pod` keep it right there. What must outlive the cycle (assumed
   volumes, allocated devices) is the plugin's own and changes in `reserve`, `unreserve` and `pod_removed` only.
4. `explain` turns a refusal into `Reason`s in words: node, label, number. It runs only for refusals that are shown.
5. Name it in `registry`: its factory, its place in the order, its default weight, and the release since which it exists.
6. Rules and texts that changed get a line in `behaviours`; ask it with `NAME.at(self.handle.release)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from ragstow.errors import Reason
from ragstow.scheduling.release import Release

if TYPE_CHECKING:
    from ragstow.scheduling.nodeinfo import NodeInfo
    from ragstow.scheduling.podinfo import PodInfo
    from ragstow.scheduling.world import World

MAX_NODE_SCORE = 100

T = TypeVar("T")


class Code(StrEnum):
    """Status codes with their upstream names."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    SKIP = "Skip"


REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNRESOLVABLE})


@dataclass(frozen=True, slots=True)
class Status:
    """What a plugin says: a code and the texts as upstream prints them. `plugin` is filled in by the runtime."""

    code: Code
    texts: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        """The texts joined as upstream joins them."""
        return ", ".join(self.texts)

    @property
    def rejected(self) -> bool:
        """Unschedulable or UnschedulableAndUnresolvable."""
        return self.code in REJECTED

    def by(self, plugin: str) -> Status:
        """The same status, said by `plugin`."""
        return self if self.plugin == plugin else Status(self.code, self.texts, plugin)


SKIP = Status(Code.SKIP)


def unschedulable(*texts: str) -> Status:
    """A refusal that removing pods may cure: preemption looks at this node."""
    return Status(Code.UNSCHEDULABLE, texts)


def unresolvable(*texts: str) -> Status:
    """A refusal that removing pods cannot cure."""
    return Status(Code.UNRESOLVABLE, texts)


def failure(text: str) -> Status:
    """An error: the whole cycle of this pod fails with it."""
    return Status(Code.ERROR, (text,))


class StateKey(Generic[T]):
    """A typed key of the cycle state; compare by identity, name it for people."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class CycleState:
    """What plugins hand on to themselves within one pod's cycle, and which of them are skipped.

    `late` writes what a faster cycle has left out so far; it runs when the state is settled or cloned.
    """

    __slots__ = ("_values", "late", "skip_filter", "skip_score", "unasked")

    def __init__(self) -> None:
        self._values: dict[StateKey[Any], Any] = {}
        self.late: Callable[[CycleState], None] | None = None
        self.skip_filter: frozenset[str] = frozenset()
        self.skip_score: frozenset[str] = frozenset()
        self.unasked: frozenset[str] = frozenset()
        """Plugins whose pre-filter did not run, since an earlier one's refusal ended the cycle."""

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep a value for the rest of the cycle."""
        self._values[key] = value

    def read(self, key: StateKey[T]) -> T:
        """A value that must be there (KeyError: a bug)."""
        return cast(T, self._values[key])

    def find(self, key: StateKey[T]) -> T | None:
        """A value, or None."""
        return cast("T | None", self._values.get(key))

    def settle(self) -> CycleState:
        """The state with everything written that the pre-filters write."""
        if self.late is not None:
            late, self.late = self.late, None
            late(self)
        return self

    def clone(self) -> CycleState:
        """A copy whose values with a `clone` method are copies too."""
        self.settle()
        copy = CycleState()
        copy._values = {key: value.clone() if hasattr(value, "clone") else value for key, value in self._values.items()}
        copy.skip_filter, copy.skip_score, copy.unasked = self.skip_filter, self.skip_score, self.unasked
        return copy


class Statuses(Mapping[str, Status]):
    """Refusals by node name, of the nodes that were looked at."""

    def __init__(self, found: Mapping[str, Status]) -> None:
        self._found = found

    def __getitem__(self, node: str) -> Status:
        return self._found[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def number(self, code: Code) -> int:
        """How many nodes have a status with this code."""
        return sum(1 for status in self.values() if status.code is code)


class ExtendedResources(Protocol):
    """What NodeResourcesFit asks DynamicResources about extended resources that device classes back (KEP-5004)."""

    def backs(self, resource: str) -> bool:
        """Whether a device class provides this extended resource."""

    def capacity(self, node: NodeInfo, resource: str) -> tuple[int, int]:
        """(devices of the class in the slices that reach the node, those of them in use): for the score only."""


class Runner(Protocol):
    """What preemption needs of the runtime."""

    def filter_with_nominated(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """The filters for one node, with and without the pods nominated to it; None where it fits."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Tell all pre-filters that `added` joined `node` (already in `node.pods`)."""

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Tell all pre-filters that `removed` left `node` (no longer in `node.pods`)."""


@dataclass(slots=True)
class Handle:
    """What a plugin is made with. `runner` and `extended` are filled in while the profile's plugins are made."""

    world: World
    release: Release
    runner: Runner | None = None
    extended: ExtendedResources | None = None


class Plugin:
    """The root of all plugins."""

    name: ClassVar[str]

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        self.handle = handle
        self.args = args

    def assumptions(self) -> Iterable[str]:
        """What the plugin's answers so far rest on, for the reader."""
        return ()

    def pod_added(self, pod: PodInfo, node: str) -> None:
        """A pod was placed on `node`, after every `reserve`; for bookkeeping that outlives a cycle."""

    def pod_removed(self, pod: PodInfo, node: str) -> None:
        """A pod is gone from `node` (evicted, drained); for bookkeeping that outlives a cycle."""


class PreEnqueuePlugin(Plugin):
    """May keep a pod out of the queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """None lets it in."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """A pre-filter's success that leaves only these nodes."""

    names: frozenset[str]


class PreFilterPlugin(Plugin):
    """Runs once per pod before any node is looked at."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> NodeNames | Status | None:
        """None: go on; `NodeNames`: go on with these only; SKIP: leave my filter out; else a refusal or an error."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """PreFilterExtensions.AddPod: change the state as if `added` ran on `node`."""

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """PreFilterExtensions.RemovePod: change the state as if `removed` were gone from `node`."""


class FilterPlugin(Plugin):
    """Says of one node whether the pod may go there."""

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """None: it may. Must not change anything outside the state."""

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The refusal in words, with node, label and number."""
        return tuple(Reason(self.name.lower(), f"{node.name}: {text}") for text in status.texts)


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What came of trying to make room: the node nominated ("" clears a nomination), the pods to evict by name, equal nodes."""

    node: str = ""
    victims: tuple[PodInfo, ...] = ()
    tied: tuple[str, ...] = ()


class PostFilterPlugin(Plugin):
    """Runs when no node passed."""

    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Statuses, absent: Status
    ) -> tuple[PostFilterResult | None, Status]:
        """(result, status). `statuses` are those of nodes looked at, `absent` that of all others."""


class PreScorePlugin(Plugin):
    """Runs once per pod with the nodes that passed."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """None: go on; SKIP: leave my score out."""


class ScorePlugin(Plugin):
    """Gives each node that passed a number.

    `zero_without_filter` says that every node gets 0 for a pod that made the plugin's pre-filter skip: then nobody asks.
    """

    zero_without_filter: ClassVar[bool] = False

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status:
        """The raw score, or an Error."""

    def normalize(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]) -> Status | None:
        """Bring all raw scores to 0..100, in place; the order of `scores` is that of `nodes`."""


class ReservePlugin(Plugin):
    """Books what the pod takes besides the node's resources, once the node is decided."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Book it; None is success. `outcome` may then tell what was booked."""

    def outcome(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Any]:
        """What was booked, for the answer: keys such as "devices" and "volumes" as in the answer's JSON."""
        return {}
