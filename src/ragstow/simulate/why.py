"""Why a pod fits nowhere: every filter plugin asked about every node, not just up to the first that refuses.

The scheduler itself stops at a node's first refusal; a person wants to know all that stands in the way. The first entry of a
node is the one that the scheduler's event counts. Pods of one shape share the work, and so do shapes that agree in what a
plugin reads; words are made when somebody reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.fit_error import fit_error
from ragstow.scheduling.framework import Code, CycleState, FilterPlugin, Status
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.profile import default_profile
from ragstow.scheduling.release import Release
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.world import World
from ragstow.simulate.vector.shape import needs_objects

_OUTSIDE = "a pre-filter leaves this node out"
_READS: Mapping[str, Callable[[PodInfo], object]] = {
    "NodeUnschedulable": lambda pod: pod.pod.tolerations,
    "TaintToleration": lambda pod: pod.pod.tolerations,
    "NodeAffinity": lambda pod: (pod.node_selector, pod.required_nodes),
}
"""What of a pod these plugins read beside the node object: their answers hold for every pod that agrees in it."""
_FIELDS = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "overhead", "resources", "resourceClaims")
_CONTAINER_FIELDS = ("resources", "ports", "restartPolicy", "restartPolicyRules")
_encode = msgspec.msgpack.Encoder().encode

Refusals = tuple[tuple[FilterPlugin | None, Status], ...]


class Obstacle:
    """One plugin's refusal on one node: the upstream texts, the same in words, and whether evicting pods could cure it."""

    __slots__ = ("_made", "_words", "plugin", "resolvable", "texts")

    def __init__(self, plugin: str, texts: tuple[str, ...], words: Callable[[], tuple[str, ...]], *, resolvable: bool) -> None:
        self.plugin, self.texts, self.resolvable = plugin, texts, resolvable
        self._words = words
        self._made: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The refusal with node, label and number."""
        if self._made is None:
            self._made = self._words()
        return self._made


@dataclass(frozen=True, slots=True)
class Answer:
    """What holds for every pod of a shape: refusals by node, nodes that would take it, the event's text, what came before."""

    refused: Mapping[str, Refusals]
    plugins: Mapping[str, frozenset[str]]
    feasible: tuple[str, ...]
    message: str
    limiting: str = ""
    before: str = ""


class Verdict:
    """All obstacles of one pod by node (a node that takes the pod is absent); or what a pre-filter or pre-enqueue said."""

    def __init__(self, answer: Answer, framework: Framework, pod: PodInfo) -> None:
        self.feasible, self.message, self.before = answer.feasible, answer.message, answer.before
        self.plugins = answer.plugins
        """Node -> names of the plugins that refuse it."""
        self.obstacles: Mapping[str, tuple[Obstacle, ...]] = _Obstacles(answer, framework, pod)


class _Obstacles(Mapping[str, tuple[Obstacle, ...]]):
    """Refusals of a shape as obstacles of one pod, made node by node as they are asked for."""

    def __init__(self, answer: Answer, framework: Framework, pod: PodInfo) -> None:
        self._answer, self._framework, self._pod = answer, framework, pod
        self._made: dict[str, tuple[Obstacle, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Obstacle, ...]:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = tuple(self._obstacle(name, plugin, said) for plugin, said in self._answer.refused[name])
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._answer.refused

    def __iter__(self) -> Iterator[str]:
        return iter(self._answer.refused)

    def __len__(self) -> int:
        return len(self._answer.refused)

    def _obstacle(self, name: str, plugin: FilterPlugin | None, said: Status) -> Obstacle:
        if plugin is None:
            return Obstacle(self._answer.limiting, (), lambda: (_OUTSIDE,), resolvable=False)
        return Obstacle(
            plugin.name, said.texts, lambda: self._words(name, plugin, said), resolvable=said.code is Code.UNSCHEDULABLE
        )

    def _words(self, name: str, plugin: FilterPlugin, said: Status) -> tuple[str, ...]:
        node = self._framework.world.node(name)
        assert node is not None
        return tuple(str(reason) for reason in plugin.explain(self._state, self._pod, node, said))

    @cached_property
    def _state(self) -> CycleState:
        state = CycleState()
        self._framework.pre_filter(state, self._pod)
        return state


class Explainer:
    """Asks about many pods of one snapshot; pods of one shape are asked once."""

    def __init__(self, snapshot: Snapshot, release: Release) -> None:
        self._framework = Framework(default_profile(release), World(snapshot, release), release)
        self._answers: dict[bytes, Answer] = {}
        self._static: dict[tuple[str, object], dict[str, Status | None]] = {}
        # Whom others keep away is a matter of labels; where nobody keeps anybody away, labels do not matter.
        self._labels_matter = any(pod.required_anti_affinity for node in self._framework.world.nodes for pod in node.pods)

    def explain(self, pod: Pod) -> Verdict:
        """Every obstacle of a pod that waits for a node."""
        info = self._framework.world.pod_info(pod)
        key = self._shape(info)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._ask(info)
        return Verdict(answer, self._framework, info)

    def _shape(self, info: PodInfo) -> bytes:
        """What of a pod the filters may read; pods with volumes, claims or gates of their own are each a shape."""
        pod, spec = info.pod, info.pod.spec
        labels = self._labels_matter or spec.get("affinity") or spec.get("topologySpreadConstraints")
        containers = [
            [[raw.get(field) for field in _CONTAINER_FIELDS] for raw in spec.get(key) or ()]
            for key in ("containers", "initContainers")
        ]
        return _encode(
            (
                (pod.namespace, info.labels) if labels else None,
                [spec.get(field) for field in _FIELDS],
                containers,
                spec.get("hostNetwork"),
                (pod.namespace, pod.name) if needs_objects(info) or spec.get("schedulingGates") else None,
                pod.node,
                pod.priority,
                info.nominated_node,
            )
        )

    def _ask(self, info: PodInfo) -> Answer:
        framework = self._framework
        nodes = framework.world.nodes
        gate = framework.pre_enqueue(info)
        if gate is not None:
            return Answer({}, {}, (), gate.message, before=gate.message)
        state = CycleState()
        filtered = framework.pre_filter(state, info)
        if filtered.status is not None:
            text = fit_error(len(nodes), {}, filtered.status.message)
            return Answer({}, {}, (), text, before=filtered.status.message)
        asked = [
            (plugin, self._known(plugin, info)) for plugin in framework.filter_plugins if plugin.name not in state.skip_filter
        ]
        refused: dict[str, Refusals] = {}
        feasible: list[str] = []
        counts: Counter[str] = Counter()
        plugins: dict[str, frozenset[str]] = {}
        limiting = ", ".join(filtered.limiting)
        alike: dict[Refusals, tuple[Refusals, frozenset[str]]] = {}
        for node in nodes:
            found: list[tuple[FilterPlugin | None, Status]] = []
            if filtered.names is not None and node.name not in filtered.names:
                found.append((None, Status(Code.UNRESOLVABLE)))
            first: Status | None = None
            for plugin, known in asked:
                status = _filtered(plugin, known, state, info, node)
                if status is not None:
                    first = first or status
                    found.append((plugin, status))
            if first is not None:
                counts.update(first.texts)
            if found:
                listed = tuple(found)
                if listed not in alike:
                    alike[listed] = listed, frozenset(limiting if plugin is None else plugin.name for plugin, _ in listed)
                refused[node.name], plugins[node.name] = alike[listed]
            else:
                feasible.append(node.name)
        message = fit_error(len(nodes), counts) if not feasible else ""
        return Answer(refused, plugins, tuple(feasible), message, limiting)

    def _known(self, plugin: FilterPlugin, info: PodInfo) -> dict[str, Status | None] | None:
        """Answers that this plugin has given to pods which it cannot tell from this one."""
        reads = _READS.get(plugin.name)
        return None if reads is None else self._static.setdefault((plugin.name, reads(info)), {})


def _filtered(
    plugin: FilterPlugin, known: dict[str, Status | None] | None, state: CycleState, info: PodInfo, node: NodeInfo
) -> Status | None:
    if known is None:
        return plugin.filter(state, info, node)
    if node.name not in known:
        known[node.name] = plugin.filter(state, info, node)
    return known[node.name]
