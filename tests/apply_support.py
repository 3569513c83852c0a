"""What tests of `apply` share: a small GPU cluster on a real control plane, its state for comparing, procedures."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane_support import ControlPlane
from ragstow.live.client import ApiClient
from ragstow.live.kubeconfig import Choice, access
from ragstow.live.transport import Transport
from ragstow.render.actions import (
    Action,
    ApplyObject,
    Cordon,
    EvictGpuPods,
    MergePatch,
    Procedure,
    RestartDaemonSet,
    SetLabels,
    Uncordon,
    WaitMigState,
    WaitNodeOffers,
    WaitReady,
)
from stack_player import Shape

NAMESPACE = "rag"
_VENDOR = "nvidia.com/"


def client_of(kubeconfig: Path | str, user: str) -> ApiClient:
    """A client of one of the users."""
    return ApiClient(Transport(access(Choice(kubeconfig=str(kubeconfig), context=user), os.environ)))


def node(name: str, resources: Mapping[str, int], labels: Mapping[str, str]) -> dict[str, Any]:
    """A node with GPUs."""
    offered = {"cpu": "64", "memory": "512Gi", "pods": "110", **{key: str(count) for key, count in resources.items()}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": offered, "capacity": offered},
    }


def daemonset(namespace: str, name: str, container: str) -> dict[str, Any]:
    """A DaemonSet of the GPU stack."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": container, "image": "registry.example/stack:1"}],
                },
            },
        },
    }


def create(plane: ControlPlane, *items: Mapping[str, Any]) -> None:
    """Create objects as administrator."""
    for item in items:
        plane.kubectl("create", "-f", "-", stdin=json.dumps(item))


def state(client: ApiClient) -> dict[str, Any]:
    """All that an undo must leave as it was: specs, labels, annotations, what nodes offer, owners of pods and their counts."""
    made: dict[str, Any] = {}
    resources = client.resources()
    _settle(client)
    kinds = (
        ("", "nodes"), ("", "configmaps"), ("", "services"), ("", "persistentvolumeclaims"), ("", "namespaces"),
        ("apps", "deployments"), ("apps", "statefulsets"), ("apps", "daemonsets"), ("policy", "poddisruptionbudgets"),
        ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceclaimtemplates"), ("nvidia.com", "clusterpolicies"),
        ("coordination.k8s.io", "leases"),
    )  # fmt: skip
    for group, plural in kinds:
        resource = resources.plural(group, plural)
        if resource is None:
            continue
        for item in client.list(resource):
            meta = item["metadata"]
            if meta["name"] == "kube-root-ca.crt":
                continue  # comes some time after its namespace
            if plural == "leases" and meta["namespace"] != "kube-system":
                continue
            made[f"{plural} {meta.get('namespace', '')}/{meta['name']}"] = _content(plural, item)
    pods: Counter[str] = Counter()
    pod = resources.plural("", "pods")
    assert pod is not None
    for item in client.list(pod):
        if item["metadata"].get("deletionTimestamp"):
            continue
        owner = next(iter(item["metadata"].get("ownerReferences") or ()), {"kind": "Pod", "name": item["metadata"]["name"]})
        if owner["kind"] == "ReplicaSet":
            owner = {"kind": "Deployment", "name": owner["name"].rpartition("-")[0]}
        pods[f"{item['metadata']['namespace']} {owner['kind']} {owner['name']}"] += 1
    return {**made, "pods": dict(sorted(pods.items()))}


def _settle(client: ApiClient) -> None:
    """Wait until no DaemonSet is being rolled out: the played operator changes some of them too."""
    resource = client.resources().plural("apps", "daemonsets")
    assert resource is not None
    for _ in range(200):
        statuses = [(item["metadata"]["generation"], item.get("status") or {}) for item in client.list(resource)]
        if all(
            status.get("observedGeneration") == generation
            and status.get("desiredNumberScheduled", 0)
            == status.get("updatedNumberScheduled", 0)
            == status.get("numberReady", 0)
            for generation, status in statuses
        ):
            return
        time.sleep(0.1)


def _content(plural: str, item: Mapping[str, Any]) -> dict[str, Any]:
    meta = item["metadata"]
    made: dict[str, Any] = {"labels": meta.get("labels") or {}, "annotations": dict(meta.get("annotations") or {})}
    for key in ("deployment.kubernetes.io/revision", "kwok.x-k8s.io/node", "deprecated.daemonset.template.generation"):
        made["annotations"].pop(key, None)
    if plural == "leases":
        return {"holder": (item.get("spec") or {}).get("holderIdentity")} if meta["name"].startswith("ragstow") else {}
    for key in ("spec", "data", "binaryData"):
        if key in item:
            made[key] = item[key]
    if plural == "nodes":
        spec = item.get("spec") or {}
        made["spec"] = {"unschedulable": spec.get("unschedulable") is True, "taints": spec.get("taints")}
        offered = (item.get("status") or {}).get("allocatable") or {}
        made["offers"] = {key: value for key, value in offered.items() if key.startswith(_VENDOR) and value != "0"}
    return made


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs, in words."""
    said = [f"{key} is gone" for key in was if key not in now]
    said += [f"{key} is new" for key in now if key not in was]
    said += [f"{key}: {was[key]} became {now[key]}" for key in was if key in now and was[key] != now[key]]
    return said


def left_over(was: Mapping[str, Any], client: ApiClient) -> list[str]:
    """What still differs when controllers and the played operator have had their time.

    They follow an undo and are no part of it: the taint of an opened node goes a moment later, an operator reads its policy
    now and then.
    """
    for _ in range(60):
        found = differences(was, state(client))
        if not found:
            break
        time.sleep(0.5)
    return found


OPERATOR = "gpu-operator"
CUT, WHOLE = "ragstow-notes", "all-disabled"
PRODUCT = "nvidia.com/gpu.product"
SLICES = {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 4}


def gpu_cluster(plane: ControlPlane) -> None:
    """One node with two cards under an operator with a MIG manager, one without a GPU, and a namespace `other`."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": anything},
    }  # fmt: skip
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterpolicies.nvidia.com"},
        "spec": {
            "group": "nvidia.com",
            "scope": "Cluster",
            "names": {"plural": "clusterpolicies", "singular": "clusterpolicy", "kind": "ClusterPolicy"},
            "versions": [version],
        },
    }
    create(plane, definition)
    plane.kubectl("wait", "--for=condition=Established", "crd/clusterpolicies.nvidia.com", "--timeout=20s")
    for name in (OPERATOR, "other"):
        create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    create(
        plane,
        node("gpu-1", {"nvidia.com/gpu": 2}, {
            PRODUCT: "CARD", "nvidia.com/mig.config": WHOLE, "nvidia.com/mig.config.state": "success",
        }),
        node("cpu-1", {}, {}),
        daemonset(OPERATOR, "nvidia-device-plugin-daemonset", "nvidia-device-plugin"),
        daemonset(OPERATOR, "nvidia-mig-manager", "nvidia-mig-manager"),
        {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": "cluster-policy"},
            "spec": {"mig": {"strategy": "mixed"}, "migManager": {"config": {"default": WHOLE}}},
            "status": {"state": "ready"},
        },
    )  # fmt: skip
    plane.kubectl(
        "patch", "clusterpolicy", "cluster-policy", "--subresource=status", "--type=merge", "-p", '{"status":{"state":"ready"}}'
    )
    for name in ("nvidia-device-plugin-daemonset", "nvidia-mig-manager"):
        plane.kubectl("-n", OPERATOR, "rollout", "status", f"daemonset/{name}", "--timeout=60s")


def shapes(name: str = "gpu-1") -> dict[tuple[str, str, str | None], Shape]:
    """What that node becomes by its layouts."""
    label = "nvidia.com/mig.config"
    return {
        (name, label, WHOLE): Shape({"nvidia.com/gpu": 2}, {PRODUCT: "CARD"}),
        (name, label, CUT): Shape(SLICES, {PRODUCT: "CARD-CUT"}),
    }


def workload(kind: str, name: str, replicas: int, *, gpu: str = "", version: str = "1", **spec: Any) -> dict[str, Any]:
    """A Deployment or StatefulSet of the service."""
    labels = {"ragstow.dev/service": "notes", "ragstow.dev/component": name}
    container: dict[str, Any] = {"name": name, "image": f"registry.example/{name}:{version}"}
    if gpu:
        container["resources"] = {"limits": {gpu: "1"}}
    pods = {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    more = {"serviceName": f"notes-{name}"} if kind == "StatefulSet" else {"strategy": {"type": "Recreate"}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": f"notes-{name}", "namespace": NAMESPACE, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pods, **more, **spec},
    }


def service(name: str) -> dict[str, Any]:
    """A Service of the service."""
    labels = {"ragstow.dev/service": "notes", "ragstow.dev/component": name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"notes-{name}", "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 80}]},
    }


def budget(name: str) -> dict[str, Any]:
    """A PodDisruptionBudget of the service."""
    labels = {"ragstow.dev/service": "notes", "ragstow.dev/component": name}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"notes-{name}", "namespace": NAMESPACE, "labels": labels},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
    }


def mig_procedure(*, expected: tuple[str, ...] = (), digest: str = "d1", version: str = "1") -> Procedure:
    """Layouts for the MIG manager, one node cut, two components on slices and one without a GPU."""
    layouts = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ragstow-notes-mig", "namespace": OPERATOR, "labels": {"ragstow.dev/service": "notes"}},
        "data": {"config.yaml": "version: v1\n"},
    }
    configuration: tuple[Action, ...] = (
        ApplyObject(layouts),
        MergePatch(
            "nvidia.com/v1", "ClusterPolicy", "", "cluster-policy",
            {"spec": {"migManager": {"config": {"name": "ragstow-notes-mig"}}}}, "our layouts",
        ),
        WaitReady("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy", None, 60),
        WaitReady("apps/v1", "DaemonSet", OPERATOR, "nvidia-mig-manager", None, 60, "ragstow-notes-mig"),
        RestartDaemonSet(OPERATOR, "nvidia-mig-manager", "so that it knows them"),
    )  # fmt: skip
    nodes: tuple[Action, ...] = (
        Cordon("gpu-1"),
        EvictGpuPods("gpu-1", expected, "notes", NAMESPACE),
        SetLabels("gpu-1", {"nvidia.com/mig.config": CUT}),
        WaitMigState("gpu-1", CUT),
        WaitNodeOffers("gpu-1", SLICES, {PRODUCT: "CARD-CUT"}),
        Uncordon("gpu-1"),
        SetLabels("gpu-1", {"ragstow.dev/pool": "notes"}),
    )
    slice_name = "nvidia.com/mig-1g.10gb"
    workloads: tuple[Action, ...] = (
        ApplyObject(service("embedder")),
        ApplyObject(budget("embedder")),
        ApplyObject(workload("Deployment", "embedder", 2, gpu=slice_name, version=version)),
        WaitReady("apps/v1", "Deployment", NAMESPACE, "notes-embedder", 2, 60),
        ApplyObject(service("llm")),
        ApplyObject(workload("StatefulSet", "llm", 2, gpu=slice_name, version=version, podManagementPolicy="OrderedReady")),
        ApplyObject(workload("Deployment", "gateway", 1, version=version)),
        WaitReady("apps/v1", "StatefulSet", NAMESPACE, "notes-llm", 2, 60),
        WaitReady("apps/v1", "Deployment", NAMESPACE, "notes-gateway", 1, 60),
    )
    first, second = len(configuration), len(configuration) + len(nodes)
    return Procedure("notes", NAMESPACE, digest, (*configuration, *nodes, *workloads), first, second)
