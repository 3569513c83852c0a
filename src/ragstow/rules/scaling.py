"""What autoscalers say about waiting pods: cluster-autoscaler's and Karpenter's events, taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ragstow.rules.context import Context
from ragstow.rules.index.events import Event
from ragstow.rules.waiting import Waiting, waiting

REASONS = ("NotTriggerScaleUp", "FailedScaleUp", "FailedScheduling", "ScaleUpFailed")
_LACKING = re.compile(
    r"Insufficient (?P<resource>[\w.-]+/[\w.-]+)"
    r"|no instance type (?:satisfied|has enough) resources\b.*?\{[^}]*\"(?P<unknown>[\w.-]+/[\w.-]*gpu[\w.-]*)\""
)
"""cluster-autoscaler names the resource that its template lacks; Karpenter what no instance type that it may launch has."""
_LIMIT = re.compile(
    r"(?i)max node group size reached|max(?:imum)? (?:cluster|node) (?:size|limit)|exceed[^,;]* limits? for"
    r"|limits? (?:of|for) (?:node ?pool|provisioner)|quota|insufficient capacity|out of (?:stock|resources)"
    r"|had a required offering|ZONE_RESOURCE_POOL_EXHAUSTED|(?:in )?backoff after failed scale-up|max pods"
)

_SHARE = re.compile(r"\.shared$|vgpu|gpu-?mem|gpu-?cores?")
_PODS = re.compile(r'"pods":"(\d+)"')


@dataclass(frozen=True, slots=True)
class Refusal:
    """An autoscaler's refusal for a waiting workload: the extended resource it finds lacking, and the limit it names."""

    group: Waiting
    event: Event
    lacking: str | None
    limit: str | None


def refusals(context: Context) -> Iterator[Refusal]:
    """The newest word of an autoscaler about each waiting workload, where it is a refusal."""
    program = context.facts.stack.role("autoscaler")
    known = program.containers if program is not None else ()
    for group in waiting(context):
        for pod in group.pods:
            said = [event for event in context.events.about(pod) if _from_autoscaler(event, known)]
            if not said or said[0].reason in ("TriggeredScaleUp", "Nominated"):
                continue
            yield _refusal(context, group, said[0])
            break


def is_share(resource: str) -> bool:
    """Whether a resource's name says that sharing makes it: no machine type has one of that name."""
    return bool(_SHARE.search(resource))


def _refusal(context: Context, group: Waiting, event: Event) -> Refusal:
    lacking, limit = _LACKING.search(event.message), _LIMIT.search(event.message)
    words = limit[0] if limit else _too_few_pods(context, event.message)
    # Karpenter goes through all its pools: those without GPUs lack them whatever keeps the GPU pool from growing.
    unknown = lacking["unknown"] if lacking and not words else None
    return Refusal(group, event, (lacking["resource"] or unknown) if lacking else None, words)


def _too_few_pods(context: Context, message: str) -> str | None:
    """A node class that allows fewer pods for each node than the DaemonSets and this pod are."""
    needed = [int(number) for number in _PODS.findall(message)]
    for kind, group in (("EC2NodeClass", "karpenter.k8s.aws"), ("NodePool", "karpenter.sh")):
        for item in context.snapshot.of(kind, group):
            spec = item.raw.get("spec")
            kubelet = spec.get("kubelet") if isinstance(spec, dict) else None
            most = kubelet.get("maxPods") if isinstance(kubelet, dict) else None
            if isinstance(most, int) and needed and most < max(needed):
                return f"maxPods {most} of {kind} {item.name}"
    return None


def _from_autoscaler(event: Event, known: tuple[str, ...]) -> bool:
    its_own = any(name in event.component for name in known)
    return event.reason in ("NotTriggerScaleUp", "TriggeredScaleUp") or (its_own and event.reason in (*REASONS, "Nominated"))
