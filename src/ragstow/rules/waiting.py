"""Pods that wait for a node, grouped by workload, with all that stands in their way on each node.

Shared by the placement rules; says what is so, not which cause it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragstow.cluster.objects import Node, Pod
from ragstow.inventory.model import NodeGpus
from ragstow.rules.context import Context, NodeRefusal, PendingVerdict
from ragstow.rules.engines import GPU_DOMAIN, is_device
from ragstow.rules.model import Evidence, ObjectRef
from ragstow.rules.selection import wanted_values
from ragstow.rules.taints import stuck_taints, untolerated

DEFAULT_SCHEDULER = "default-scheduler"
TAINT, AFFINITY, FIT, CORDON, CLAIMS = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "DynamicResources",
)
GPU_LABELS = (GPU_DOMAIN, "feature.node.kubernetes.io/")
"""How labels begin that the GPU stack writes on nodes."""
_NONE: frozenset[str] = frozenset()
_NOT_FOR_WORK = frozenset(
    {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd"}
)


@dataclass(frozen=True)
class Waiting:
    """The waiting pods of one workload that are alike: the first stands for all."""

    context: Context
    workload: ObjectRef
    pods: tuple[Pod, ...]
    since: str | None

    @property
    def pod(self) -> Pod:
        """The pod that stands for the others."""
        return self.pods[0]

    @property
    def held(self) -> tuple[str, ...]:
        """The pods as findings list them."""
        return tuple(pod.key for pod in self.pods)

    @property
    def objects(self) -> tuple[ObjectRef, ...]:
        """The workload, then its pods."""
        return (self.workload, *map(ObjectRef.of, self.pods))

    @cached_property
    def wants(self) -> Mapping[str, int]:
        """GPU devices that one pod asks for: resource -> count."""
        return {name: count for name, count in self.context.requests(self.pod).items() if is_device(name) and count > 0}

    @property
    def by_default_scheduler(self) -> bool:
        """Whether kube-scheduler decides about these pods."""
        return self.pod.scheduler == DEFAULT_SCHEDULER

    @cached_property
    def verdict(self) -> PendingVerdict:
        """The scheduler library's answer; empty where none is wired."""
        return self.context.pending(self.pod) if self.context.pending is not None else PendingVerdict({}, {}, (), "")

    def refusals(self, node: Node | NodeGpus) -> Sequence[NodeRefusal]:
        """Everything that stands in the way on one node."""
        return self.verdict.refused.get(node.name, ())

    def plugins(self, node: Node | NodeGpus) -> frozenset[str]:
        """Names of the plugins that refuse on one node."""
        return self.verdict.plugins.get(node.name, _NONE)

    def only(self, node: Node | NodeGpus, *plugins: str) -> bool:
        """Whether the node refuses, and only for reasons of these plugins."""
        found = self.plugins(node)
        return bool(found) and found.issubset(plugins)

    @cached_property
    def offering(self) -> tuple[NodeGpus, ...]:
        """Nodes that offer every GPU resource which the pod wants (in any amount); all GPU nodes if it wants none."""
        return tuple(
            node
            for node in gpu_nodes(self.context)
            if all(node.resources.get(name) is not None and node.resources[name].allocatable > 0 for name in self.wants)
        )

    def fits_when_empty(self, node: NodeGpus) -> bool:
        """Whether the node has enough of the GPU resources that the pod wants, were nobody else there."""
        return all(name in node.resources and node.resources[name].allocatable >= count for name, count in self.wants.items())

    @cached_property
    def selects_gpu_labels_only(self) -> bool:
        """Whether all node labels that the pod requires are written by the GPU stack."""
        keys = list(wanted_values(self.pod.spec))
        return bool(keys) and all(key.startswith(GPU_LABELS) for key in keys)

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """The scheduler's own words about the first pods: event, else condition."""
        found: list[Evidence] = []
        for pod in self.pods[:2]:
            events = self.context.events.about(pod, "FailedScheduling", "Unschedulable", "FilteringFailed")
            state = self.context.states.of(pod)
            if events:
                found.append(events[0].evidence)
            elif state is not None and state.message:
                found.append(Evidence(state.message, ObjectRef.of(pod), "status.conditions[PodScheduled].message"))
        return tuple(found)


def waiting(context: Context) -> tuple[Waiting, ...]:
    """All waiting pods, grouped; pods of one workload with different requests or selectors form groups of their own."""
    return context.remember("waiting", lambda: _grouped(context))


def unserved(context: Context, nodes: Iterable[str]) -> tuple[Waiting, ...]:
    """Waiting pods that only missing GPUs, or the labels that come with GPUs, keep off one of these nodes."""
    names = tuple(nodes)
    return tuple(
        group
        for group in waiting(context)
        if group.wants and not group.verdict.feasible and any(_lacks_only_gpus(group, name) for name in names)
    )


def turned_away(context: Context, node: str | None) -> tuple[str, ...]:
    """Pods that the kubelet of a node rejected, since its plugin had no device registered."""
    hits = context.texts.of_cause("device-plugin-start-race") if node else ()
    pods = [hit.text.pod for hit in hits if hit.text.pod is not None]
    return tuple(dict.fromkeys(pod.key for pod in pods if pod.phase == "Failed" and pod.node == node))


def _lacks_only_gpus(group: Waiting, name: str) -> bool:
    refusals = group.verdict.refused.get(name, ())
    return bool(refusals) and all(
        (refusal.plugin == FIT and all(any(resource in text for resource in group.wants) for text in refusal.texts))
        or (refusal.plugin == AFFINITY and group.selects_gpu_labels_only)
        for refusal in refusals
    )


def _grouped(context: Context) -> tuple[Waiting, ...]:
    groups: dict[object, list[Pod]] = {}
    since: dict[object, str | None] = {}
    for state in context.states.in_state("pending"):
        pod = state.pod
        key = (
            context.owners.workload(pod),
            context.owners.replica_set(pod),
            pod.scheduler,
            tuple(sorted(context.requests(pod).items())),
            pod.tolerations,
            tuple(sorted(pod.node_selector.items())),
        )
        groups.setdefault(key, []).append(pod)
        since.setdefault(key, state.since)
    return tuple(Waiting(context, context.owners.workload(pods[0]), tuple(pods), since[key]) for key, pods in groups.items())


def gpu_nodes(context: Context) -> tuple[NodeGpus, ...]:
    """Nodes that have, or say that they have, GPUs."""
    return tuple(node for node in context.inventory.nodes if node.sharing != "none")


def for_work(context: Context, name: str) -> bool:
    """Whether a node takes ordinary pods: neither cordoned nor the control plane's own."""
    return name in context.remember("for-work", lambda: frozenset(filter_for_work(context.snapshot.nodes)))


def filter_for_work(nodes: Iterable[Node]) -> Iterator[str]:
    """Names of the nodes that take ordinary pods."""
    for node in nodes:
        if not node.unschedulable and not any(taint.key in _NOT_FOR_WORK for taint in node.taints):
            yield node.name


def out_of_service(context: Context, group: Waiting) -> list[Node]:
    """Nodes that only their cordon or their condition keeps the pods off; none if a node would take them."""
    if not group.by_default_scheduler or group.verdict.feasible:
        return []
    return [
        node
        for node in context.snapshot.nodes
        if (node.unschedulable or stuck_taints(node))
        and group.only(node, CORDON, TAINT)
        and all(taint.key in stuck_taints(node) for taint in untolerated(node, group.pod))
    ]


def wishes(spec: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(label key, allowed values) of nodeSelector, and of `In` expressions of a required affinity with a single term."""
    selector = spec.get("nodeSelector")
    for key, value in (selector if isinstance(selector, Mapping) else {}).items():
        yield str(key), (str(value),)
    affinity: Any = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    if len(terms) == 1:
        for expression in terms[0].get("matchExpressions") or ():
            if expression.get("operator") == "In":
                yield str(expression.get("key")), tuple(str(value) for value in expression.get("values") or ())
