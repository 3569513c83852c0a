"""Healthy recordings with one defect each, as real controllers would leave them: what tests of diagnosis are made of.

A `Cluster` is a recording taken apart into raw objects; its methods make one change, and what API server, controllers and
kubelet would write because of it. Pending pods get the text that the scheduler library gives for them, as event and condition.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from ragstow.cli.diagnosis import make_context, newest_time
from ragstow.cluster.build import build
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.rules.model import Report
from ragstow.rules.run import diagnose
from rules_support import FACTS
from support import DATA

Raw = dict[str, Any]


@cache
def _recorded(name: str) -> Snapshot:
    return read(str(next((DATA / "clusters").glob(f"{name}-*.tar.gz"))))


class Cluster:
    """A recording whose objects can be changed; `name` is the number that its folder begins with, "" starts with nothing."""

    def __init__(self, name: str = "", *objects: Raw) -> None:
        recorded = _recorded(name) if name else build([])
        self.objects: list[Raw] = [copy.deepcopy(dict(item.raw)) for item in recorded.everything]
        self.version = recorded.version
        self.attachments: dict[str, str] = {}
        newest = newest_time(recorded) if name else "2026-11-30T20:00:00Z"
        self._now = datetime.fromisoformat(newest[:19]).replace(tzinfo=UTC)
        self._made = 0
        self._tolerates = any("gke" in str(item["metadata"].get("labels")) for item in self.all("Node"))
        for item in objects:
            self.add(item)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Cluster:
        """The objects and texts of a saved folder."""
        made = cls()
        made.objects = [copy.deepcopy(dict(item.raw)) for item in snapshot.everything]
        made.version, made.attachments = snapshot.version, dict(snapshot.attachments)
        return made

    # finding

    def all(self, kind: str) -> Iterator[Raw]:
        """Every object of a kind."""
        return (item for item in self.objects if item["kind"] == kind)

    def get(self, kind: str, name: str) -> Raw:
        """The object of this kind and name, whatever its namespace."""
        return next(item for item in self.all(kind) if item["metadata"]["name"] == name)

    def pods(self, prefix: str) -> list[Raw]:
        """The pods whose names begin so."""
        return [pod for pod in self.all("Pod") if pod["metadata"]["name"].startswith(prefix)]

    def labels(self, node: str) -> dict[str, str]:
        """The labels of a node."""
        found: dict[str, str] = self.get("Node", node)["metadata"]["labels"]
        return found

    # changing

    def later(self, seconds: int = 60) -> str:
        """A time after everything so far."""
        self._now += timedelta(seconds=seconds)
        return self._now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def add(self, raw: Raw) -> Raw:
        """A new object, with a uid and a time."""
        self._made += 1
        raw["metadata"].setdefault("uid", f"00000000-0000-4000-8000-{self._made:012d}")
        raw["metadata"].setdefault("creationTimestamp", self.later(1))
        self.objects.append(raw)
        return raw

    def remove(self, *raws: Raw) -> None:
        """Objects that are gone."""
        gone = {id(raw) for raw in raws}
        self.objects = [item for item in self.objects if id(item) not in gone]

    def event(
        self, about: Raw, reason: str, message: str, component: str = "default-scheduler", *, kind: str = "Warning"
    ) -> None:
        """An event about an object, as core/v1 has it."""
        meta = about["metadata"]
        when = self.later(1)
        self.add(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{meta['name']}.{self._made + 1:016x}", "namespace": meta.get("namespace", "default")},
                "involvedObject": {k: meta[k] for k in ("name", "namespace", "uid") if k in meta} | {"kind": about["kind"]},
                "reason": reason,
                "message": message,
                "type": kind,
                "source": {"component": component},
                "firstTimestamp": when,
                "lastTimestamp": when,
                "count": 1,
            }
        )

    def deploy(
        self,
        like: str,
        name: str,
        change: Callable[[Raw], None] = lambda _: None,
        replicas: int = 1,
        strategy: Mapping[str, Any] | None = None,
        kind: str = "Deployment",
    ) -> list[Raw]:
        """A new workload after the pattern of another Deployment, with pods that wait; `change` edits the pod spec."""
        old = self.get("Deployment", like)
        namespace = old["metadata"]["namespace"]
        labels = {"app.kubernetes.io/name": name}
        template = copy.deepcopy(old["spec"]["template"])
        template["metadata"]["labels"] = labels
        template["spec"].get("affinity", {}).pop("podAntiAffinity", None)
        change(template["spec"])
        if kind == "Pod":
            return [self._pod(name, namespace, labels, template["spec"], None)]
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        if kind == "Job":
            spec = {"parallelism": replicas, "completions": replicas, "template": template}
            template["spec"]["restartPolicy"] = "Never"
        made = self.add(
            {
                "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
                "kind": kind,
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "spec": spec | ({"strategy": dict(strategy)} if strategy else {}),
                "status": {"replicas": replicas, "unavailableReplicas": replicas},
            }
        )
        if kind == "Deployment":
            return self._replica_set(made, template, replicas, "5c9f7d6b8c", "1")
        names = [f"{name}-{index}" if kind == "StatefulSet" else f"{name}-{index}x{index}y" for index in range(replicas)]
        return [self._pod(item, namespace, labels, template["spec"], made) for item in names]

    def roll_out(self, name: str, change: Callable[[Raw], None], pods: int = 1, stop: int = 0) -> list[Raw]:
        """A new revision of a Deployment: `pods` new pods wait, `stop` old ones are gone."""
        owner = self.get("Deployment", name)
        change(owner["spec"]["template"]["spec"])
        owner["metadata"].setdefault("annotations", {})["deployment.kubernetes.io/revision"] = "2"
        olds = self.pods_of(owner)
        self.remove(*olds[:stop])
        return self._replica_set(owner, owner["spec"]["template"], pods, "7d4b8f9c6d", "2")

    def pods_of(self, deployment: Raw) -> list[Raw]:
        """The pods of a Deployment, by its selector."""
        wanted = deployment["spec"]["selector"]["matchLabels"]
        return [pod for pod in self.all("Pod") if wanted.items() <= pod["metadata"].get("labels", {}).items()]

    def _replica_set(self, owner: Raw, template: Raw, replicas: int, code: str, revision: str) -> list[Raw]:
        namespace, name = owner["metadata"]["namespace"], owner["metadata"]["name"]
        labels = {**owner["spec"]["selector"]["matchLabels"], "pod-template-hash": code}
        made = self.add(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": f"{name}-{code}",
                    "namespace": namespace,
                    "labels": labels,
                    "annotations": {"deployment.kubernetes.io/revision": revision},
                    "ownerReferences": [_owner(owner)],
                },
                "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": copy.deepcopy(template)},
                "status": {"replicas": replicas, "fullyLabeledReplicas": replicas},
            }
        )
        return [
            self._pod(f"{name}-{code}-{chr(98 + index)}x7kq", namespace, labels, template["spec"], made)
            for index in range(replicas)
        ]

    def _pod(self, name: str, namespace: str, labels: Mapping[str, str], spec: Raw, owner: Raw | None) -> Raw:
        meta: Raw = {"name": name, "namespace": namespace, "labels": dict(labels)}
        if owner is not None:
            meta["ownerReferences"] = [_owner(owner)]
        inner = copy.deepcopy(spec)
        for container in inner["containers"]:
            amounts = container.get("resources", {})
            amounts["requests"] = {**amounts.get("limits", {}), **amounts.get("requests", {})}
            if self._tolerates:  # the API server's ExtendedResourceToleration
                names = [key for key in amounts["requests"] if "/" in key]
                inner.setdefault("tolerations", []).extend(
                    {"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in names
                )
        pod = self.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta,
                "spec": inner,
                "status": {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
                },
            }
        )
        self._claims(pod)
        return pod

    def _claims(self, pod: Raw) -> None:
        """The claims that the resource claim controller makes from templates."""
        meta = pod["metadata"]
        for entry in pod["spec"].get("resourceClaims", ()):
            template = (
                self.get("ResourceClaimTemplate", entry["resourceClaimTemplateName"])
                if "resourceClaimTemplateName" in entry
                else None
            )
            if template is None:
                continue
            name = f"{meta['name']}-{entry['name']}-x2v7q"
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
            claim = {
                "apiVersion": template["apiVersion"],
                "kind": "ResourceClaim",
                "metadata": {
                    "name": name,
                    "namespace": meta["namespace"],
                    "annotations": {"resource.kubernetes.io/pod-claim-name": entry["name"]},
                    "ownerReferences": [owner],
                },
                "spec": copy.deepcopy(template["spec"]["spec"]),
            }
            self.add(claim)
            pod["status"].setdefault("resourceClaimStatuses", []).append({"name": entry["name"], "resourceClaimName": name})

    def specs(self, name: str) -> Iterator[Raw]:
        """The pod specs of a Deployment or DaemonSet: its template's and its pods'."""
        owner = next(item for item in self.objects if item["metadata"]["name"] == name and "template" in item.get("spec", {}))
        yield owner["spec"]["template"]["spec"]
        for pod in self.all("Pod"):
            if any(
                ref["name"] == name or ref["name"].rpartition("-")[0] == name
                for ref in pod["metadata"].get("ownerReferences", ())
            ):
                yield pod["spec"]

    def evict(self, *prefixes: str) -> list[Raw]:
        """The pods whose names begin so wait for a node, as after theirs went away."""
        found = [pod for prefix in prefixes for pod in self.pods(prefix)]
        for pod in found:
            pod["spec"].pop("nodeName", None)
            pod["metadata"]["creationTimestamp"] = self.later(1)
            pod["status"] = {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            }
        return found

    # what kubelets write

    def bind(self, pod: Raw, node: str) -> Raw:
        """The pod has a node and waits to start."""
        pod["spec"]["nodeName"] = node
        when = self.later(1)
        pod["status"] = {
            "phase": "Pending",
            "startTime": when,
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": when},
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": when},
            ],
            "containerStatuses": [
                {"name": c["name"], "ready": False, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}
                for c in pod["spec"]["containers"]
            ],
        }
        return pod

    def run(self, pod: Raw, node: str) -> Raw:
        """The pod runs and is ready."""
        self.bind(pod, node)
        pod["status"]["phase"] = "Running"
        pod["status"]["conditions"][1] |= {"status": "True"}
        for status in pod["status"]["containerStatuses"]:
            status |= {"ready": True, "state": {"running": {"startedAt": self.later(1)}}}
        return pod

    def allocate(self, pod: Raw, node: str) -> Raw:
        """The pod runs with the first free whole cards of a node for its first claim."""
        claim = self.get("ResourceClaim", pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"])
        statuses = pod["status"]["resourceClaimStatuses"]
        taken = {
            (result["pool"], result["device"])
            for other in self.all("ResourceClaim")
            for result in other.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        }
        request = claim["spec"]["devices"]["requests"][0]
        driver = "gpu.nvidia.com"
        names = [
            device["name"]
            for item in self.all("ResourceSlice")
            if item["spec"].get("driver") == driver and item["spec"].get("nodeName") == node
            for device in item["spec"].get("devices", ())
            if (node, device["name"]) not in taken and "-mig-" not in device["name"]
        ]
        count = request["exactly"].get("count", 1)
        results = [{"request": request["name"], "driver": driver, "pool": node, "device": name} for name in names[:count]]
        claim["status"] = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}],
        }
        self.run(pod, node)
        pod["status"]["resourceClaimStatuses"] = statuses
        return pod

    def crash(
        self, pod: Raw, container: str = "", message: str = "", *, reason: str = "Error", code: int = 1, restarts: int = 5
    ) -> Raw:
        """A container of a bound pod ends again and again."""
        status = pod["status"]
        status["phase"] = "Running"
        for condition in status["conditions"]:
            if condition["type"] in ("Ready", "ContainersReady"):
                condition |= {"status": "False", "reason": "ContainersNotReady", "lastTransitionTime": self.later(1)}
        for item in [*status.get("initContainerStatuses", []), *status["containerStatuses"]]:
            if item["name"] == (container or status["containerStatuses"][0]["name"]):
                ended = {"reason": reason, "exitCode": code} | ({"message": message} if message else {})
                item |= {
                    "ready": False,
                    "restartCount": restarts,
                    "state": {
                        "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting failed container"}
                    },
                    "lastState": {"terminated": ended},
                }
        return pod

    def reject(self, pod: Raw, node: str, reason: str, message: str) -> Raw:
        """The kubelet refused the pod."""
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Failed", "reason": reason, "message": message, "startTime": self.later(1)}
        self.event(pod, reason, message.removeprefix("Pod was rejected: "), "kubelet")
        return pod

    def offer(self, node: str, capacity: Mapping[str, int], allocatable: Mapping[str, int] | None = None) -> None:
        """What a node's GPU resources are now; those not named are gone."""
        status = self.get("Node", node)["status"]
        for key, amounts in (("capacity", capacity), ("allocatable", allocatable if allocatable is not None else capacity)):
            status[key] = {name: value for name, value in status[key].items() if not name.startswith("nvidia.com/")}
            status[key] |= {name: str(amount) for name, amount in amounts.items()}

    def like_node(self, like: str, name: str) -> Raw:
        """One more node like another."""
        raw = copy.deepcopy(self.get("Node", like))
        raw["metadata"] = {
            "name": name,
            "labels": raw["metadata"]["labels"] | {"kubernetes.io/hostname": name},
            "annotations": raw["metadata"].get("annotations", {}),
        }
        raw["status"]["addresses"] = []
        return self.add(raw)

    # asking

    def finish(self) -> None:
        """Adds the scheduler's word about every pod that waits for it, where none is told."""
        snapshot = build(self.objects, version=self.version, attachments=self.attachments)
        assert not snapshot.problems, snapshot.problems
        context = make_context(snapshot, FACTS)
        assert context.pending is not None
        raws = {item["metadata"].get("uid"): item for item in self.all("Pod")}
        for pod in snapshot.pods:
            raw = raws.get(pod.uid)
            condition = next(
                (c for c in (raw or {}).get("status", {}).get("conditions", ()) if c["type"] == "PodScheduled"), None
            )
            if raw is None or pod.node or pod.finished or condition is None or condition.get("reason") != "Unschedulable":
                continue
            if "message" in condition or pod.scheduler != "default-scheduler":
                continue
            verdict = context.pending(pod)
            assert not verdict.feasible, f"{pod.key} would be placed on {verdict.feasible}: the defect holds nothing back"
            condition |= {"message": verdict.message, "lastTransitionTime": raw["metadata"]["creationTimestamp"]}
            self.event(raw, "FailedScheduling", verdict.message)

    def snapshot(self) -> Snapshot:
        """The cluster as it is now."""
        self.finish()
        return build(self.objects, version=self.version, attachments=self.attachments)

    def report(self) -> Report:
        """What diagnose says."""
        return diagnose(make_context(self.snapshot(), FACTS), strict=True)


def _owner(raw: Raw) -> Raw:
    meta = raw["metadata"]
    return {
        "apiVersion": raw["apiVersion"],
        "kind": raw["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def keys(pods: list[Raw]) -> list[str]:
    """namespace/name of pods."""
    return [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]
