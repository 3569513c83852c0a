"""The same defect in another dress: what a rule must not depend on. A disguise changes objects and texts, and what is wanted
with them; the defect stays.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from dataclasses import replace

from broken import Wanted
from broken.cluster import Cluster, Raw

Disguise = Callable[[Cluster, Wanted], Wanted]
_OURS = ("kube-system", "default", "kube-public", "kube-node-lease")
_WORKLOADS = ("Deployment", "StatefulSet", "Job", "ReplicaSet", "Pod", "DaemonSet", "Node")
_BYSTANDERS = frozenset(
    {"ReplicaSet", "Namespace", "CSINode", "CSIDriver", "PodDisruptionBudget", "PriorityClass", "Service", "Job", "ControllerRevision"}
)  # fmt: skip


def as_it_is(_: Cluster, wanted: Wanted) -> Wanted:
    """No disguise."""
    return wanted


def other_names(cluster: Cluster, wanted: Wanted) -> Wanted:
    """Namespaces, nodes, workloads and their pods are called otherwise, everywhere: in texts, labels and files too."""
    names: dict[str, str] = {}
    for item in cluster.objects:
        meta = item.get("metadata")
        if not meta:
            continue  # a kubelet's configuration
        if item["kind"] in _WORKLOADS and not meta["name"].startswith("kube-"):
            names.setdefault(meta["name"], "")
        if meta.get("namespace") and meta["namespace"] not in _OURS:
            names.setdefault(meta["namespace"], "")
    # A pod keeps its tail: it is called after its workload; whole names first, so that a longer one is not cut in two.
    for number, name in enumerate(sorted(names)):
        names[name] = f"{'abcdefgh'[number % 8]}{number}{name.rpartition('-')[2][:2] if '-' in name else ''}".lower()
    pattern = re.compile(
        r"(?<![\w./@:-])("
        + "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        + r")(?![\w])(?!-ctr|-init|-sidecar)"
    )

    def changed(text: str) -> str:
        return pattern.sub(lambda match: names[match[1]], text)

    def walk(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {k: walk(v, f"{key}.{k}") for k, v in value.items()}
        if isinstance(value, list):
            return [walk(v, key) for v in value]
        kept = key.endswith(
            (".image", ".kind", ".component", ".schedulerName", ".driver", ".resourceName", ".runtimeClassName")
        )
        return value if kept or not isinstance(value, str) or ".containers.name" in key or ".data" in key else changed(value)

    for index, item in enumerate(cluster.objects):
        skip = item["kind"] in (
            "RuntimeClass",
            "DeviceClass",
            "PriorityClass",
            "StorageClass",
            "ClusterPolicy",
            "CustomResourceDefinition",
        )
        if skip:
            continue
        walked = walk(item)
        assert isinstance(walked, dict)
        cluster.objects[index] = walked
    words = re.compile(
        r"(?<![A-Za-z0-9])(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")(?![A-Za-z0-9])"
    )
    cluster.attachments = {
        words.sub(lambda match: names[match[1]], path): changed(text) for path, text in cluster.attachments.items()
    }
    kind, _, rest = wanted.object.partition(" ")
    space, slash, name = rest.rpartition("/")
    skip = kind in ("RuntimeClass", "DeviceClass", "PriorityClass", "StorageClass", "ClusterPolicy")
    where = f"{kind} {changed(space)}{slash}{name if skip else changed(name)}"
    held = tuple("/".join(map(changed, key.split("/"))) for key in wanted.held) if wanted.held is not None else None
    return replace(wanted, object=where, held=held, mentions=tuple(map(changed, wanted.mentions)))


def another_order(cluster: Cluster, wanted: Wanted) -> Wanted:
    """Objects in any order; events as events.k8s.io/v1 has them; pods as typed by hand, with limits that stand for requests."""
    random.Random(len(cluster.objects)).shuffle(cluster.objects)
    for item in cluster.objects:
        if item["kind"] == "Pod" and (item.get("status") or item["metadata"].get("uid")):
            for container in (*item["spec"].get("containers", ()), *item["spec"].get("initContainers", ())):
                asked = container.get("resources") or {}
                limits, requests = asked.get("limits") or {}, asked.get("requests")
                if requests:
                    asked["requests"] = {name: amount for name, amount in requests.items() if limits.get(name) != amount}
    cluster.objects = [_new_event(item) if item["kind"] == "Event" else item for item in cluster.objects]
    return wanted


def more_noise(cluster: Cluster, wanted: Wanted) -> Wanted:
    """A busy cluster around it: web pods, finished jobs, old events of pods that run, a config of somebody."""
    since = "2026-11-01T08:00:00Z"
    for number in range(12):
        pod: Raw = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"web-{number}", "namespace": "shop", "uid": f"web-{number}", "creationTimestamp": since},
            "spec": {"nodeName": f"shop-{number % 3}", "containers": [{"name": "web", "image": "registry.example/web:3"}]},
            "status": {
                "phase": "Succeeded" if number % 4 == 3 else "Running",
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
                    {"type": "Ready", "status": "True", "lastTransitionTime": since},
                ],
                "containerStatuses": [
                    {"name": "web", "ready": True, "restartCount": number % 3, "state": {"running": {"startedAt": since}}}
                ],
            },
        }
        cluster.objects.append(pod)
        for reason, message in (
            ("FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu. preemption: not helpful"),
            ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
            ("BackOff", "Back-off restarting failed container web in pod"),
        ):
            cluster.objects.append(
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": f"web-{number}.{reason.lower()}", "namespace": "shop", "uid": f"{reason}{number}"},
                    "involvedObject": {"kind": "Pod", "namespace": "shop", "name": f"web-{number}", "uid": f"web-{number}"},
                    "reason": reason,
                    "message": message,
                    "type": "Warning",
                    "firstTimestamp": since,
                    "lastTimestamp": since,
                    "count": 4,
                }
            )
    if any(item["kind"] == "Node" for item in cluster.objects):
        for number in range(3):
            amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
            cluster.objects.append(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": f"shop-{number}", "uid": f"shop-{number}", "labels": {"kubernetes.io/os": "linux", "pool": "shop"}},
                    "spec": {"taints": [{"key": "pool", "value": "shop", "effect": "NoSchedule"}]},
                    "status": {
                        "capacity": amounts,
                        "allocatable": amounts,
                        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
                    },
                }
            )  # fmt: skip
    cluster.objects.append(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "web-settings", "namespace": "shop", "uid": "web-settings"},
            "data": {"default": "replicas: 3\nsharing: none\n", "config.yaml": "version: v2\n"},
        }
    )
    return wanted


def without_bystanders(cluster: Cluster, wanted: Wanted) -> Wanted:
    """Only what a person attaches to a report: no ReplicaSets, namespaces, Services and the like; owners by name."""
    kind = wanted.object.partition(" ")[0]
    cluster.objects = [
        item for item in cluster.objects if item["kind"] not in _BYSTANDERS or item["kind"] == kind or _needed(item, wanted)
    ]
    for item in cluster.objects:
        for key in ("managedFields", "resourceVersion"):
            item.get("metadata", {}).pop(key, None)
    return wanted


def _needed(item: Raw, wanted: Wanted) -> bool:
    return item["kind"] == "Service" and wanted.cause == "service-env-collision"


def without_events(cluster: Cluster, wanted: Wanted) -> Wanted:
    """No events: the cause may stay unknown, but no other one is named."""
    cluster.objects = [item for item in cluster.objects if item["kind"] != "Event"]
    return wanted


def without_nodes(cluster: Cluster, wanted: Wanted) -> Wanted:
    """No nodes: the cause may stay unknown, but no other one is named."""
    cluster.objects = [item for item in cluster.objects if item["kind"] != "Node"]
    return wanted


def all_at_once(cluster: Cluster, wanted: Wanted) -> Wanted:
    """Other names, another order, more noise, no bystanders."""
    for disguise in (without_bystanders, other_names, more_noise, another_order):
        wanted = disguise(cluster, wanted)
    return wanted


DISGUISES: tuple[Disguise, ...] = (as_it_is, all_at_once)
PARTIAL: tuple[Disguise, ...] = (without_events, without_nodes)


def _new_event(item: Raw) -> Raw:
    old = copy.deepcopy(item)
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": old["metadata"],
        "eventTime": None,
        "regarding": old["involvedObject"],
        "note": old["message"],
        "reason": old["reason"],
        "type": old["type"],
        "reportingController": (old.get("source") or {}).get("component", old.get("reportingComponent", "")),
        "deprecatedCount": old.get("count", 1),
        "deprecatedFirstTimestamp": old.get("firstTimestamp"),
        "deprecatedLastTimestamp": old.get("lastTimestamp"),
    }
