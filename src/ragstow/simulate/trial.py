"""Would it fit then? A pod with parts of its spec changed, a node uncordoned, some pods gone: asked of all filters.

The world is changed for the moment of the question and is the same afterwards. Steps are what a change consists of; a change
is only named after a trial with all its steps passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import Node, Pod
from ragstow.scheduling.dra.cluster import DraCluster
from ragstow.scheduling.framework import CycleState, FilterPlugin, Status
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.taints import CORDON_KEY
from ragstow.simulate.model import ChangeKind

Refusal = tuple[FilterPlugin, Status]


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a change: what it is called, parts of the pod's spec replaced (None: taken out) with the patch that does it,
    pods that go, or the node uncordoned."""

    kind: ChangeKind
    text: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    patch: Mapping[str, Any] = field(default_factory=dict)
    gone: tuple[PodInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What the filters say to a pod on a node; `plugins` empty: it fits. `outside`: no filter was asked."""

    pod: PodInfo
    node: NodeInfo
    state: CycleState
    refusals: tuple[Refusal, ...]
    outside: str = ""

    @property
    def fits(self) -> bool:
        """Whether the node takes the pod."""
        return not self.refusals and not self.outside


@contextmanager
def without(framework: Framework, pods: Sequence[PodInfo]) -> Iterator[None]:
    """The world without these pods, for as long as the block lasts."""
    world = framework.world
    where = [(pod, located[1].name) for pod in pods if (located := world.located(pod.key)) is not None]
    with ExitStack() as stack:
        if where:
            stack.enter_context(world.view(DraCluster).undone())
        for pod, node in where:
            world.remove(pod.key)
            for plugin in framework.listeners:
                plugin.pod_removed(pod, node)
        try:
            yield
        finally:
            for pod, node in where:
                world.add(pod, node)
                for plugin in framework.listeners:
                    plugin.pod_added(pod, node)


@contextmanager
def asked(framework: Framework, pod: PodInfo, node: NodeInfo, steps: Sequence[Step]) -> Iterator[Found]:
    """All filters asked about the pod on the node once the steps are done; the world is the changed one within the block."""
    trial = changed(pod, {key: value for step in steps for key, value in step.spec.items()})
    gone = tuple({other.key: other for step in steps for other in step.gone}.values())
    with without(framework, gone):
        there = node
        if any(step.kind == "uncordon" for step in steps):
            there = node.clone()
            there.node = uncordoned(node.node)
        yield ask(framework, trial, there)


def ask(framework: Framework, pod: PodInfo, node: NodeInfo) -> Found:
    """All filters asked, also after the first refusal."""
    state = CycleState()
    pre = framework.pre_filter(state, pod)
    if pre.status is not None:
        return Found(pod, node, state, (), pre.status.message)
    if pre.names is not None and node.name not in pre.names:
        return Found(pod, node, state, (), "the pod names other nodes")
    return Found(pod, node, state, tuple(refusals(framework, state, pod, node)))


def refusals(framework: Framework, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Refusal]:
    """What each filter that does not pass says."""
    found = []
    for plugin in framework.filter_plugins:
        if plugin.name not in state.skip_filter:
            status = plugin.filter(state, pod, node)
            if status is not None:
                found.append((plugin, status))
    return found


def changed(pod: PodInfo, spec: Mapping[str, Any]) -> PodInfo:
    """The same pod with parts of its spec replaced."""
    if not spec:
        return pod
    made = make(RawObject({**pod.pod.raw, "spec": {**pod.pod.spec, **spec}}), any_shape=True)
    assert isinstance(made, Pod)
    return PodInfo(replace(made, namespace=pod.namespace), pod.release)


def uncordoned(node: Node) -> Node:
    """The node as `kubectl uncordon` leaves it: the taint goes with the mark."""
    spec = dict(node.raw.get("spec") or {})
    spec.pop("unschedulable", None)
    spec["taints"] = [taint for taint in spec.get("taints") or () if taint.get("key") != CORDON_KEY]
    made = make(RawObject({**node.raw, "spec": spec}), any_shape=True)
    assert isinstance(made, Node)
    return made
