"""Workloads as data: what a controller wants, and the pods it makes from its template. Decides nothing about nodes.

Sources: the controllers of kube-controller-manager (deployment, replicaset, statefulset, job, daemon) and the API reference for
their defaults. Names of pods are those of a StatefulSet where the real ones are known, else NAME-0, NAME-1 ...: real ones are
random.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.build import build
from ragstow.cluster.objects import KubeObject
from ragstow.errors import InputError
from ragstow.scheduling.amounts import is_extended

Json = dict[str, Any]

EXPANDED: Mapping[str, str] = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "ReplicationController": "",
}
"""Kind -> API group of the workloads whose pods we make."""

_GENERATED = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "ownerReferences")
_NODE_OWN = ("nodeName",)


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: its object, and how many pods it wants (a DaemonSet: one a node, `replicas` 0)."""

    object: KubeObject

    @property
    def kind(self) -> str:
        """Deployment, StatefulSet ..."""
        return self.object.kind

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.object.name

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.object.namespace

    @property
    def key(self) -> tuple[str, str, str]:
        """(kind, namespace, name)."""
        return (self.kind, self.namespace, self.name)

    @property
    def ref(self) -> str:
        """ "Deployment rag/llm"."""
        return self.object.ref

    @property
    def spec(self) -> Mapping[str, Any]:
        """The raw spec."""
        spec = self.object.raw.get("spec")
        return spec if isinstance(spec, Mapping) else {}

    @property
    def template(self) -> Mapping[str, Any]:
        """The pod template."""
        template = self.spec.get("template")
        return template if isinstance(template, Mapping) else {}

    @property
    def replicas(self) -> int:
        """Pods wanted at once; for a Job its parallelism, bounded by its completions."""
        if self.kind == "Job":
            if self.spec.get("suspend") is True:
                return 0
            parallelism = _number(self.spec.get("parallelism"), 1)
            completions = self.spec.get("completions")
            return min(parallelism, _number(completions, parallelism)) if completions is not None else parallelism
        if self.kind == "DaemonSet":
            return 0
        return _number(self.spec.get("replicas"), 1)

    @property
    def ordered(self) -> bool:
        """A StatefulSet that makes its next pod only when the one before is ready."""
        return self.kind == "StatefulSet" and self.spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"

    @property
    def first_ordinal(self) -> int:
        """A StatefulSet's first ordinal (spec.ordinals.start)."""
        return _number((self.spec.get("ordinals") or {}).get("start"), 0)

    @property
    def strategy(self) -> str:
        """RollingUpdate, Recreate or OnDelete."""
        field = "strategy" if self.kind == "Deployment" else "updateStrategy"
        return str((self.spec.get(field) or {}).get("type") or "RollingUpdate")

    @property
    def rolling(self) -> Mapping[str, Any]:
        """The rollingUpdate block."""
        field = "strategy" if self.kind == "Deployment" else "updateStrategy"
        return (self.spec.get(field) or {}).get("rollingUpdate") or {}

    @property
    def revision(self) -> str:
        """A short hash of the template, in place of the controller's own."""
        text = json.dumps(self.template, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def surge(self) -> tuple[int, int]:
        """(maxSurge, maxUnavailable) of a Deployment in pods: surge rounded up, unavailable down, never both 0."""
        surge = _share(self.rolling.get("maxSurge", "25%"), self.replicas, up=True)
        unavailable = _share(self.rolling.get("maxUnavailable", "25%"), self.replicas, up=False)
        return (surge, unavailable) if surge or unavailable else (0, 1)


MOST_PODS = 50_000
"""Of one workload."""


def wrong_numbers(workload: Workload) -> str:
    """What the API server says to a number of pods that cannot be, and we to one that we do not play; "" where all is well."""
    for field in ("replicas", "parallelism", "completions"):
        value = workload.spec.get(field)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            return f"spec.{field}: Invalid value: {value!r}: must be an integer"
        if value < 0:
            return f"spec.{field}: Invalid value: {value}: must be greater than or equal to 0"
    if workload.replicas > MOST_PODS:
        return f"{workload.replicas} pods at once: more than {MOST_PODS} of one workload are not played"
    return ""


def is_workload(item: KubeObject) -> bool:
    """Whether we know how its controller makes pods."""
    return EXPANDED.get(item.kind) == item.group


def asks_for_devices(workload: Workload) -> bool:
    """Whether its pods ask for an extended resource or a claim; a template of a wrong shape asks for nothing."""
    spec = workload.template.get("spec")
    if not isinstance(spec, Mapping):
        return False
    containers = [raw for key in ("initContainers", "containers") for raw in _listed(spec.get(key))]
    resources = [
        raw["resources"] for raw in containers if isinstance(raw, Mapping) and isinstance(raw.get("resources"), Mapping)
    ]
    amounts = [own[side] for own in resources for side in ("limits", "requests") if isinstance(own.get(side), Mapping)]
    return bool(spec.get("resourceClaims")) or any(is_extended(str(name)) for own in amounts for name in own)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def controlling_set(workload: Workload) -> KubeObject | None:
    """The ReplicaSet that a Deployment makes for its present template; None for other kinds."""
    if workload.kind != "Deployment":
        return None
    labels = {**_labels(workload.template), "pod-template-hash": workload.revision}
    return made(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{workload.name}-{workload.revision}",
                "namespace": workload.namespace,
                "labels": labels,
                "ownerReferences": [owner(workload.object)],
            },
            "spec": {
                "replicas": workload.replicas,
                "selector": _with_hash(workload.spec.get("selector"), workload.revision),
                "template": workload.template,
            },
        }
    )


def pod_from_template(workload: Workload, number: int, node: str | None = None, name: str | None = None) -> Json:
    """The pod with this number (a StatefulSet's ordinal), or for this node, as its controller would create it."""
    template = workload.template
    meta: Json = copy.deepcopy(dict(template.get("metadata") or {}))
    spec: Json = copy.deepcopy(dict(template.get("spec") or {}))
    labels: Json = dict(meta.get("labels") or {})
    controller = controlling_set(workload) or workload.object
    own_name = name or (f"{workload.name}-{node}" if node is not None else f"{workload.name}-{number}")
    if workload.kind == "Deployment":
        labels["pod-template-hash"] = workload.revision
    elif workload.kind == "StatefulSet":
        labels |= {
            "apps.kubernetes.io/pod-index": str(number),
            "statefulset.kubernetes.io/pod-name": own_name,
            "controller-revision-hash": f"{workload.name}-{workload.revision}",
        }
        _mount_claims(workload, spec, own_name)
    elif workload.kind == "Job":
        labels |= {"job-name": workload.name, "batch.kubernetes.io/job-name": workload.name}
        if workload.spec.get("completionMode") == "Indexed":
            labels["batch.kubernetes.io/job-completion-index"] = str(number)
    elif workload.kind == "DaemonSet":
        labels["controller-revision-hash"] = workload.revision
        if node is not None:
            _bind_to_node(spec, node)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{key: value for key, value in meta.items() if key not in _GENERATED},
            "name": own_name,
            "namespace": workload.namespace,
            "labels": labels,
            "ownerReferences": [owner(controller)],
        },
        "spec": spec,
    }


def volume_claims(workload: Workload, number: int) -> list[Json]:
    """The PersistentVolumeClaims of a StatefulSet's pod."""
    found: list[Json] = []
    for template in workload.spec.get("volumeClaimTemplates") or ():
        claim = copy.deepcopy(dict(template))
        meta = claim.setdefault("metadata", {})
        name = f"{meta.get('name')}-{workload.name}-{number}"
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim["metadata"] = {"name": name, "namespace": workload.namespace, "labels": meta.get("labels") or {}}
        claim.pop("status", None)
        found.append(claim)
    return found


def recreated(raw: Mapping[str, Any], name: str) -> Json:
    """The pod that a controller makes in place of one that is gone: the same spec, no node, no status."""
    pod: Json = {"apiVersion": "v1", "kind": "Pod"}
    meta: Json = copy.deepcopy(dict(raw.get("metadata") or {}))
    spec: Json = copy.deepcopy(dict(raw.get("spec") or {}))
    kept = {key: value for key, value in meta.items() if key not in _GENERATED or key == "ownerReferences"}
    pod["metadata"] = {
        **{key: value for key, value in kept.items() if key not in ("generateName", "deletionTimestamp")},
        "name": name,
    }
    pod["spec"] = {key: value for key, value in spec.items() if key not in _NODE_OWN}
    return pod


def owner(item: KubeObject) -> Json:
    """An owner reference to a controller."""
    return {
        "apiVersion": item.api_version,
        "kind": item.kind,
        "name": item.name,
        "uid": item.uid or f"{item.kind}/{item.namespace}/{item.name}".lower(),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def made(raw: Mapping[str, Any]) -> KubeObject:
    """The typed view of an object that we made ourselves, or out of a manifest.

    Raises:
        InputError: a field has a type that the API does not know.
    """
    snapshot = build([dict(raw)], any_shape=True)
    for problem in snapshot.problems:
        raise InputError(problem.code, problem.message.removesuffix("; the object is left out"), place=problem.place)
    return next(item for table in snapshot.objects.values() for item in table.values())


def _bind_to_node(spec: Json, node: str) -> None:
    """A DaemonSet's pod is tied to its node by name and tolerates what its controller adds."""
    affinity = spec.setdefault("affinity", {}) or {}
    spec["affinity"] = affinity
    node_affinity = affinity.setdefault("nodeAffinity", {}) or {}
    affinity["nodeAffinity"] = node_affinity
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [{**old, **term} for old in required.get("nodeSelectorTerms") or ()] or [term]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *daemon_tolerations(spec)]


def daemon_tolerations(spec: Mapping[str, Any]) -> list[Json]:
    """What the DaemonSet controller adds to its pods (AddOrUpdateDaemonPodTolerations)."""
    added: list[Json] = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        for name, effect in (
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
        )
    ]
    if spec.get("hostNetwork") is True:
        added.append({"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"})
    return added


def _mount_claims(workload: Workload, spec: Json, pod_name: str) -> None:
    """Volumes of claim templates replace volumes of the same name."""
    ordinal = pod_name.rpartition("-")[2]
    names = [str((item.get("metadata") or {}).get("name")) for item in workload.spec.get("volumeClaimTemplates") or ()]
    if names:
        others = [volume for volume in spec.get("volumes") or () if volume.get("name") not in names]
        mounted = [
            {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{workload.name}-{ordinal}"}} for name in names
        ]
        spec["volumes"] = [*others, *mounted]


def _with_hash(selector: Any, revision: str) -> Json:
    raw = dict(selector) if isinstance(selector, Mapping) else {}
    return {**raw, "matchLabels": {**(raw.get("matchLabels") or {}), "pod-template-hash": revision}}


def _labels(template: Mapping[str, Any]) -> Json:
    return dict((template.get("metadata") or {}).get("labels") or {})


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _share(value: Any, of: int, *, up: bool) -> int:
    """An int-or-percent in pods."""
    if isinstance(value, str) and value.endswith("%"):
        try:
            share = int(value[:-1])
        except ValueError:
            return 0
        return -(-of * share // 100) if up else of * share // 100
    return _number(value, 0)
