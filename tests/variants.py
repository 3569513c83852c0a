"""Recorded clusters with changes: further kinds of healthy clusters, and clusters with one defect.

A variant starts from the objects of a recording, or from none, and is edited as a person, a controller or a kubelet would.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ragstow.cluster.build import build
from ragstow.cluster.objects import Pod
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.release import Release
from ragstow.simulate.why import Explainer
from support import DATA

Raw = dict[str, Any]
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
LATER = "2026-12-01T06:00:00Z"
"""When a variant's change was made: hours after the recording."""


@cache
def _recorded(start: str) -> str:
    path = next(iter(sorted((DATA / "clusters").glob(f"{start}*.tar.gz"))))
    return json.dumps([item.raw for item in read(str(path)).everything])


class Variant:
    """The objects of a recorded cluster (by the beginning of its name; "" for none), to be changed in place."""

    def __init__(self, start: str = "", *more: Raw) -> None:
        recorded: list[Raw] = json.loads(_recorded(start)) if start else []
        self.objects = [*recorded, *more]
        self.attachments: dict[str, str] = {}

    def all(self, kind: str) -> list[Raw]:
        return [item for item in self.objects if item["kind"] == kind]

    def get(self, kind: str, name: str) -> Raw:
        (found,) = [item for item in self.all(kind) if item["metadata"]["name"] == name]
        return found

    def add(self, *items: Raw) -> None:
        self.objects.extend(items)

    def drop(self, kind: str, wanted: Callable[[Raw], bool] = lambda _: True) -> None:
        self.objects = [item for item in self.objects if item["kind"] != kind or not wanted(item)]

    def pods_of(self, workload: str, namespace: str | None = None) -> list[Raw]:
        """Pods whose owner (or its Deployment) has this name."""
        return [
            pod
            for pod in self.all("Pod")
            for owner in pod["metadata"].get("ownerReferences", ())
            if (owner["name"] == workload or (owner["kind"] == "ReplicaSet" and owner["name"].rpartition("-")[0] == workload))
            and namespace in (None, pod["metadata"].get("namespace"))
        ]

    def pod_specs(self, workload: str) -> Iterator[Raw]:
        """The pod specs of a workload: its own template's, its ReplicaSets', its pods'."""
        for item in self.objects:
            name, kind = item["metadata"]["name"], item["kind"]
            if (kind in ("Deployment", "StatefulSet", "DaemonSet") and name == workload) or (
                kind == "ReplicaSet" and name.rpartition("-")[0] == workload
            ):
                yield item["spec"]["template"]["spec"]
        for pod in self.pods_of(workload):
            yield pod["spec"]

    def relabel(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set (or, with None, remove) labels of a node."""
        found = self.get("Node", node)["metadata"]["labels"]
        for key, value in labels.items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value

    def offer(self, node: str, amounts: Mapping[str, int | None], *, allocatable: Mapping[str, int] | None = None) -> None:
        """Set (or, with None, remove) extended resources of a node."""
        status = self.get("Node", node)["status"]
        for part in ("capacity", "allocatable"):
            for name, amount in {**amounts, **((allocatable or {}) if part == "allocatable" else {})}.items():
                if amount is None:
                    status[part].pop(name, None)
                else:
                    status[part][name] = str(amount)

    def copy_node(self, node: str, name: str) -> Raw:
        """A second node like it; without pods."""
        made = copy.deepcopy(self.get("Node", node))
        made["metadata"].update(name=name, uid=f"uid-{name}", creationTimestamp=LATER)
        made["metadata"]["labels"]["kubernetes.io/hostname"] = name
        self.add(made)
        return made

    def serve(self, daemon_set: str, node: str) -> Raw:
        """A pod of a DaemonSet on a node, like its others or as its template says; counted in its status."""
        owner = self.get("DaemonSet", daemon_set)
        others = self.pods_of(daemon_set)
        if others:
            made = copy.deepcopy(others[0])
        else:
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": copy.deepcopy(owner["spec"]["template"]["spec"])}
            made["metadata"]["labels"] = dict(owner["spec"]["template"]["metadata"]["labels"])
            reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon_set, "uid": owner["metadata"]["uid"]}
            made["metadata"]["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
            made["status"] = running(made["spec"])
        made["metadata"].update(
            name=f"{daemon_set}-{node}", namespace=owner["metadata"]["namespace"], uid=f"{daemon_set}-{node}"
        )
        made["spec"]["nodeName"] = node
        self.add(made)
        for key in (
            "currentNumberScheduled",
            "desiredNumberScheduled",
            "numberReady",
            "numberAvailable",
            "updatedNumberScheduled",
        ):
            owner["status"][key] = owner["status"].get(key, 0) + 1
        return made

    def copy_workload(
        self,
        name: str,
        new: str,
        on: Sequence[str | None],
        edit: Callable[[Raw], None] = lambda _: None,
        *,
        created: str = LATER,
    ) -> list[Raw]:
        """A Deployment like `name` under another name, with a pod for each entry of `on`: on that node, or Pending for None."""
        pods = self.pods_of(name)
        deployment = copy.deepcopy(self.get("Deployment", name))
        replica_set = copy.deepcopy(self.get("ReplicaSet", pods[0]["metadata"]["ownerReferences"][0]["name"]))
        template = deployment["spec"]["template"]
        labels = {**template["metadata"]["labels"], "app.kubernetes.io/name": new}

        def rename(spec: Raw) -> None:
            for term in (
                spec.get("affinity", {}).get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
            ):
                term["labelSelector"] = {"matchLabels": {"app.kubernetes.io/name": new}}
            edit(spec)

        running_here = sum(node is not None for node in on)
        for item, called in ((deployment, new), (replica_set, f"{new}-7d9c8b6f5")):
            item["metadata"].update(name=called, uid=f"uid-{called}", creationTimestamp=created)
            item["spec"]["replicas"] = len(on)
            item["spec"]["selector"] = {"matchLabels": {"app.kubernetes.io/name": new}}
            item["spec"]["template"]["metadata"]["labels"] = labels
            rename(item["spec"]["template"]["spec"])
            item["status"] = {"replicas": len(on), "readyReplicas": running_here, "availableReplicas": running_here}
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": new, "uid": f"uid-{new}", "controller": True}
        replica_set["metadata"]["ownerReferences"] = [owner]
        self.add(deployment, replica_set)
        made = []
        for number, node in enumerate(on):
            pod = copy.deepcopy(pods[0])
            called = f"{new}-7d9c8b6f5-{number:05d}"
            pod["metadata"].update(name=called, uid=f"uid-{called}", creationTimestamp=created, labels=labels)
            pod["metadata"]["ownerReferences"] = [
                {**owner, "kind": "ReplicaSet", "name": f"{new}-7d9c8b6f5", "uid": f"uid-{new}-7d9c8b6f5"}
            ]
            rename(pod["spec"])
            if node is None:
                pod["spec"].pop("nodeName", None)
                pod["status"] = pending(created)
            else:
                pod["spec"]["nodeName"] = node
            made.append(pod)
        self.add(*made)
        return made

    def evict(self, pods: Sequence[Raw], created: str = LATER) -> None:
        """The pods are Pending now, as after their node went away."""
        for pod in pods:
            pod["spec"].pop("nodeName", None)
            pod["metadata"]["creationTimestamp"] = created
            pod["status"] = pending(created)

    def event(self, about: Raw, reason: str, message: str, *, type_: str = "Warning", when: str = LATER) -> None:
        meta = about["metadata"]
        ref = {"kind": about["kind"], "name": meta["name"], "uid": meta.get("uid", "")}
        if meta.get("namespace"):
            ref["namespace"] = meta["namespace"]
        number = len(self.objects)
        self.add(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{meta['name']}.{number:x}",
                    "namespace": meta.get("namespace", "default"),
                    "uid": f"event-{number}",
                },
                "involvedObject": ref,
                "reason": reason,
                "message": message,
                "type": type_,
                "count": 3,
                "firstTimestamp": when,
                "lastTimestamp": when,
            }
        )

    def snapshot(self, release: str = "1.37.2") -> Snapshot:
        """The cluster; waiting pods say what the scheduler says."""
        first = build(self.objects, attachments=self.attachments)
        explainer = Explainer(first, Release.parse(release))
        for raw in self.all("Pod"):
            found = first.get("Pod", raw["metadata"]["name"], raw["metadata"].get("namespace", "default"))
            if not isinstance(found, Pod) or found.node or found.phase != "Pending" or found.scheduler != "default-scheduler":
                continue
            for condition in raw["status"].get("conditions", ()):
                if condition.get("reason") == "Unschedulable" and "message" not in condition:
                    condition["message"] = explainer.explain(found).message
                    self.event(raw, "FailedScheduling", condition["message"], when=condition["lastTransitionTime"])
        made = build(self.objects, attachments=self.attachments)
        assert not made.problems, made.problems
        return made


def pending(since: str) -> Raw:
    """Status of a pod that the scheduler found no node for."""
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    return {"phase": "Pending", "conditions": [unschedulable], "qosClass": "Burstable"}


def running(spec: Raw, since: str = "2026-11-30T20:30:00Z") -> Raw:
    """Status of a pod whose containers are all ready."""
    return {
        "phase": "Running",
        "startTime": since,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": since}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": item["name"],
                "ready": True,
                "restartCount": 0,
                "image": item["image"],
                "state": {"running": {"startedAt": since}},
            }
            for item in spec["containers"]
        ],
    }


def crashing(pod: Raw, restarts: int = 9, code: int = 1, message: str = "") -> None:
    """The pod's first container ends again and again."""
    ended = {"terminated": {"exitCode": code, "reason": "Error", "startedAt": LATER, "finishedAt": LATER, "message": message}}
    status = {
        "name": pod["spec"]["containers"][0]["name"],
        "ready": False,
        "restartCount": restarts,
        "image": pod["spec"]["containers"][0]["image"],
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
        "lastState": ended,
    }
    pod["status"] = {
        **running(pod["spec"]),
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": LATER},
        ],
        "containerStatuses": [status],
    }


def limit(spec: Raw, amounts: Mapping[str, int | str | None], container: int = 0) -> None:
    """Limits and requests of a container: set, or removed with None."""
    resources = spec["containers"][container].setdefault("resources", {})
    for part in ("limits", "requests"):
        listed = resources.setdefault(part, {})
        for name, amount in amounts.items():
            if amount is None:
                listed.pop(name, None)
            else:
                listed[name] = str(amount)
