"""What a person attaches to a bug report, made by hand: a node or two, the pods in question, an event, a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broken.cluster import Raw
from makers import thing

GPU = "nvidia.com/gpu"
WHEN = "2026-11-30T20:00:00Z"


def node(
    name: str,
    offers: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    *,
    allocatable: Mapping[str, int] | None = None,
    taints: Sequence[tuple[str, str, str]] = (),
    handlers: Sequence[str] | None = None,
    **more: Any,
) -> Raw:
    """A node that is ready; `offers` are its extended resources, `taints` (key, value, effect)."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "500Gi"}
    amounts |= {key: str(value) for key, value in (offers or {}).items()}
    status = {
        "capacity": amounts,
        "allocatable": amounts | {key: str(value) for key, value in (allocatable or {}).items()},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": WHEN}],
        "nodeInfo": {"kubeletVersion": "v1.34.1", "containerRuntimeVersion": "containerd://2.1.4"},
    }
    if handlers is not None:
        status["runtimeHandlers"] = [{"name": item} for item in handlers]
    spec: Raw = {"taints": [{"key": k, "value": v, "effect": e} for k, v, e in taints]} if taints else {}
    named = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}
    return thing("Node", name, labels=named, spec={**spec, **more}, status=status)


def container(
    name: str,
    image: str,
    limits: Mapping[str, str | int] | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    **more: Any,
) -> Raw:
    """A container whose requests are its limits."""
    amounts = {key: str(value) for key, value in (limits or {}).items()}
    made: Raw = {"name": name, "image": image, "resources": {"limits": amounts, "requests": dict(amounts)} if amounts else {}}
    if args:
        made["args"] = list(args)
    if env:
        made["env"] = [{"name": key, "value": value} for key, value in env.items()]
    return made | more


def pod(
    name: str,
    namespace: str,
    containers: Raw | Sequence[Raw],
    status: Raw,
    on: str = "",
    owner: tuple[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Raw:
    """A pod; `owner` is (kind, name) of its controller."""
    listed = [containers] if isinstance(containers, Mapping) else list(containers)
    whole: Raw = {"containers": listed, "schedulerName": "default-scheduler", **spec}
    if on:
        whole["nodeName"] = on
    made = thing("Pod", name, namespace=namespace, labels=labels, spec=whole, status=status)
    made["metadata"]["creationTimestamp"] = WHEN
    if annotations:
        made["metadata"]["annotations"] = dict(annotations)
    if owner:
        group = "batch/v1" if owner[0] == "Job" else "apps/v1"
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": group, "kind": owner[0], "name": owner[1], "uid": f"{owner[0]}-{owner[1]}", "controller": True}
        ]
    statuses = made["status"].get("containerStatuses", ())
    for entry, item in zip(statuses, listed, strict=False):
        entry.setdefault("name", item["name"])
        entry.setdefault("image", item["image"])
    return made


def conditions(scheduled: bool = True, ready: bool = False) -> list[Raw]:
    """PodScheduled and Ready."""
    return [
        {"type": "PodScheduled", "status": str(scheduled), "lastTransitionTime": WHEN},
        {"type": "Ready", "status": str(ready), "lastTransitionTime": WHEN},
    ]


def waits(message: str = "") -> Raw:
    """Status of a pod without a node; the scheduler's word is played where none is given."""
    condition: Raw = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": WHEN}
    return {"phase": "Pending", "conditions": [condition | ({"message": message} if message else {})]}


def crashes(message: str = "", *, code: int = 1, reason: str = "Error", restarts: int = 6, count: int = 1) -> Raw:
    """Status of a pod whose containers end again and again."""
    last = {"terminated": {"exitCode": code, "reason": reason, **({"message": message} if message else {})}}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
    entry = {"ready": False, "restartCount": restarts, "state": {"waiting": waiting}, "lastState": last}
    return {"phase": "Running", "conditions": conditions(), "containerStatuses": [dict(entry) for _ in range(count)]}


def runs(*, ready: bool = True, count: int = 1) -> Raw:
    """Status of a pod that runs."""
    entry = {"ready": ready, "restartCount": 0, "state": {"running": {"startedAt": WHEN}}}
    return {"phase": "Running", "conditions": conditions(ready=ready), "containerStatuses": [dict(entry) for _ in range(count)]}


def stands(reason: str, message: str = "") -> Raw:
    """Status of a pod whose container cannot be made: ContainerCreating, CreateContainerError, RunContainerError ..."""
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    return {
        "phase": "Pending",
        "conditions": conditions(),
        "containerStatuses": [{"ready": False, "restartCount": 0, "state": state}],
    }


def refused(reason: str, message: str) -> Raw:
    """Status of a pod that the kubelet did not admit."""
    return {"phase": "Failed", "reason": reason, "message": message, "startTime": WHEN}


def workload(
    kind: str,
    name: str,
    namespace: str,
    containers: Raw | Sequence[Raw],
    replicas: int = 1,
    status: Raw | None = None,
    **spec: Any,
) -> Raw:
    """A Deployment, StatefulSet, DaemonSet or Job and its template; labelled app=<name>."""
    listed = [containers] if isinstance(containers, Mapping) else list(containers)
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": listed, **spec}}
    inner: Raw = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if kind != "DaemonSet":
        inner["replicas"] = replicas
    api = "batch/v1" if kind == "Job" else "apps/v1"
    return thing(kind, name, api=api, namespace=namespace, spec=inner, status=status or {})


def daemons(name: str, namespace: str, containers: Raw | Sequence[Raw], wanted: int, ready: int = 0, **spec: Any) -> Raw:
    """A DaemonSet with its numbers."""
    numbers = {"desiredNumberScheduled": wanted, "currentNumberScheduled": wanted, "numberReady": ready}
    return workload("DaemonSet", name, namespace, containers, status=numbers | {"numberMisscheduled": 0}, **spec)


PLUGIN = container("nvidia-device-plugin-ctr", "nvcr.io/nvidia/k8s-device-plugin:v0.17.1")
