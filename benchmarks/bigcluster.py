"""A big cluster that looks real: nodes with the labels that GPU feature discovery sets, pods as large as kubectl shows them.

Everything follows from a seed. `objects` yields raw objects, so that a bench may build a snapshot at once or write a folder.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Raw = dict[str, Any]

_ZONES = ("eu-1a", "eu-1b", "eu-1c")
_KINDS = (
    # name, cpu, memory GiB, GPUs, product, share of the nodes
    ("general", 64, 256, 0, "", 70),
    ("a100", 96, 1152, 8, "NVIDIA-A100-SXM4-80GB", 12),
    ("h100", 192, 2048, 8, "NVIDIA-H100-80GB-HBM3", 8),
    ("l4", 48, 192, 4, "NVIDIA-L4", 10),
)
_TEAMS = ("search", "ads", "rag", "batch", "platform")


def nodes(count: int, seed: int = 1) -> Iterator[Raw]:
    """`count` nodes in three zones; those with GPUs are tainted and labelled."""
    draw = random.Random(seed)
    shares = [kind[-1] for kind in _KINDS]
    for number in range(count):
        name, cpu, memory, gpus, product, _ = draw.choices(_KINDS, shares)[0]
        host = f"{name}-{number:05d}"
        labels = {
            "kubernetes.io/hostname": host,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": f"{name}.{cpu}xlarge",
            "topology.kubernetes.io/region": "eu-1",
            "topology.kubernetes.io/zone": _ZONES[number % 3],
            "pool": name,
            **{f"feature.node.kubernetes.io/cpu-cpuid.F{i:02d}": "true" for i in range(24)},
        }
        amounts = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110", "ephemeral-storage": "900Gi", "hugepages-2Mi": "0"}
        taints = []
        if gpus:
            amounts["nvidia.com/gpu"] = str(gpus)
            taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
            labels.update(
                {
                    "nvidia.com/gpu.present": "true",
                    "nvidia.com/gpu.product": product,
                    "nvidia.com/gpu.count": str(gpus),
                    "nvidia.com/gpu.replicas": "1",
                    "nvidia.com/gpu.sharing-strategy": "none",
                    "nvidia.com/mig.strategy": "single",
                    "nvidia.com/cuda.driver.major": "580",
                }
            )
        if draw.random() < 0.05:
            taints.append({"key": "maintenance", "value": "soon", "effect": "PreferNoSchedule"})
        spec: Raw = {"podCIDR": f"10.{number // 256}.{number % 256}.0/24", "providerID": f"cloud:///{host}", "taints": taints}
        if draw.random() < 0.01:
            spec["unschedulable"] = True
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": host, "uid": f"node-{number}", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec,
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "Linux", "containerRuntimeVersion": "containerd://2.1"},
                "images": [
                    {"names": [f"registry.example/{team}/app-{i}:1.{i}"], "sizeBytes": 300_000_000 + 90_000_000 * i}
                    for team in _TEAMS
                    for i in range(6)
                    if draw.random() < 0.3
                ],
            },
        }


def workloads(count: int = 200) -> Iterator[Raw]:
    """ReplicaSets and a Service each, so that default spreading knows which pods belong together."""
    for number in range(count):
        namespace, name = _TEAMS[number % len(_TEAMS)], f"app-{number:03d}"
        labels = {"app": name}
        yield {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": f"{name}-6c9f", "namespace": namespace, "uid": f"rs-{number}"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
        }
        if number % 2 == 0:
            yield {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"selector": labels, "ports": [{"port": 80}]},
            }


def running(count: int, node_names: list[str], seed: int = 2) -> Iterator[Raw]:
    """`count` pods on nodes, of 200 workloads; a tenth has pod affinity of its own, a few are being resized."""
    draw = random.Random(seed)
    for number in range(count):
        workload = draw.randrange(200)
        yield pod(f"run-{number:06d}", workload, draw, node=node_names[number % len(node_names)])


def pod(name: str, workload: int, draw: random.Random, node: str | None = None) -> Raw:
    """One pod of a workload, as large as kubectl shows real ones."""
    app, namespace = f"app-{workload:03d}", _TEAMS[workload % len(_TEAMS)]
    cpu, memory = draw.choice(("100m", "250m", "500m", "1")), draw.choice(("256Mi", "512Mi", "1Gi", "2Gi"))
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
    spec: Raw = {
        "containers": [
            {
                "name": "main",
                "image": f"registry.example/{namespace}/app-{workload % 6}:1.{workload % 6}",
                "imagePullPolicy": "IfNotPresent",
                "env": [{"name": f"SETTING_{i}", "value": f"value-of-setting-{i}"} for i in range(12)],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
                "livenessProbe": {"httpGet": {"path": "/live", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
                "resources": resources,
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/app", "readOnly": True},
                    {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True},
                ],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "serviceAccountName": app,
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
            {
                "name": "token",
                "projected": {
                    "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}],
                    "defaultMode": 420,
                },
            },
        ],
    }
    if workload % 10 == 0:
        term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
        preferred = [{"weight": 50, "podAffinityTerm": term}]
        spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    made: Raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {"app": app, "pod-template-hash": "6c9f", "team": namespace},
            "annotations": {"checksum/config": "0f" * 32, "prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "creationTimestamp": "2026-02-01T00:00:00Z",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-6c9f",
                    "uid": f"rs-{workload}",
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }
    if node is not None:
        spec["nodeName"] = node
        made["status"] = {
            "phase": "Running",
            "startTime": f"2026-02-01T{draw.randrange(24):02d}:{draw.randrange(60):02d}:00Z",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-02-01T00:00:10Z"}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "main",
                    "image": spec["containers"][0]["image"],
                    "imageID": "registry.example/app@sha256:" + "ab" * 32,
                    "containerID": "containerd://" + "cd" * 32,
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-02-01T00:00:09Z"}},
                    "allocatedResources": resources["requests"],
                    "resources": resources,
                }
            ],
        }
    return made


def arrivals(count: int, shapes: int = 20, seed: int = 3) -> Iterator[Raw]:
    """`count` pods without a node, of `shapes` shapes in turn: services, spread services, GPU jobs, pods that keep apart."""
    draw = random.Random(seed)
    models = [_shape(number, draw) for number in range(shapes)]
    for number in range(count):
        model = models[number % shapes]
        yield {**model, "metadata": {**model["metadata"], "name": f"new-{number:05d}", "uid": f"new-{number}"}}


def _shape(number: int, draw: random.Random) -> Raw:
    made = pod("model", number * 7 % 200, draw)
    spec, labels = made["spec"], made["metadata"]["labels"]
    selector = {"labelSelector": {"matchLabels": {"app": labels["app"]}}}
    if number % 4 == 1:
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", **selector},
            {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", **selector},
        ]
    elif number % 4 == 2:
        amount = draw.choice(("1", "2", "4", "8"))
        spec["containers"][0]["resources"] = {
            "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": amount},
            "limits": {"nvidia.com/gpu": amount},
        }
        spec["tolerations"].append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
        products = draw.sample([kind[4] for kind in _KINDS if kind[3]], 2)
        term = {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": products}]}
        required = {"nodeSelectorTerms": [term]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    elif number % 4 == 3:
        required_term = {**selector, "topologyKey": "kubernetes.io/hostname"}
        near = {"weight": 30, "podAffinityTerm": {**selector, "topologyKey": "topology.kubernetes.io/zone"}}
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [required_term]},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near]},
        }
    return made
