"""Small objects for the tests of this room, as a person would write them."""

from __future__ import annotations

from typing import Any

from ragstow import facts
from ragstow.cluster.build import build
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.release import Release
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts.store import Facts
from ragstow.simulate.model import Simulation
from ragstow.simulate.run import Request, simulate

Json = dict[str, Any]

FACTS: Facts = facts.load()
RELEASE = Release("1.37.2", "the test")
GPU = "nvidia.com/gpu"


def node(
    name: str,
    gpus: int = 0,
    *,
    cpu: str = "32",
    labels: Json | None = None,
    taints: list[Json] | None = None,
    extra: Json | None = None,
) -> Json:
    amounts = {"cpu": cpu, "memory": "128Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {}), **(extra or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": taints or []},
        "status": {"allocatable": dict(amounts), "capacity": amounts},
    }


def template(app: str, gpus: int = 0, *, cpu: str = "1", **spec: Any) -> Json:
    limits = {GPU: str(gpus)} if gpus else {}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": limits}}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def workload(
    kind: str, name: str, replicas: int, gpus: int = 0, *, cpu: str = "1", spec: Json | None = None, **pod: Any
) -> Json:
    body: Json = {"selector": {"matchLabels": {"app": name}}, "template": template(name, gpus, cpu=cpu, **pod), **(spec or {})}
    if kind not in ("DaemonSet", "Job"):
        body["replicas"] = replicas
    if kind == "Job":
        body |= {"parallelism": replicas, "completions": replicas}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "rag"},
        "spec": body,
    }


def running(
    name: str, at: str, gpus: int = 0, *, app: str = "x", owner: Json | None = None, ready: bool = True, **spec: Any
) -> Json:
    made = template(app, gpus, **spec)
    if gpus:
        made["spec"]["containers"][0]["resources"]["requests"][GPU] = str(gpus)
    meta: Json = {"name": name, "namespace": "rag", "uid": name, "labels": {"app": app}}
    if owner is not None:
        meta["ownerReferences"] = [{**owner, "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {**made["spec"], "nodeName": at},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def deployed(name: str, nodes: list[str], gpus: int = 0, **spec: Any) -> list[Json]:
    """A Deployment in the cluster, with its ReplicaSet and a running pod on each of the nodes."""
    pod = template(name, gpus)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "rag", "uid": f"d-{name}"},
        "spec": {"replicas": len(nodes), "selector": {"matchLabels": {"app": name}}, "template": pod, **spec},
    }
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-old",
            "namespace": "rag",
            "uid": f"rs-{name}",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"d-{name}", "controller": True}
            ],
        },
        "spec": {"replicas": len(nodes), "selector": {"matchLabels": {"app": name}}, "template": pod},
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-old", "uid": f"rs-{name}"}
    pods = [running(f"{name}-old-{number}", at, gpus, app=name, owner=owner) for number, at in enumerate(nodes)]
    return [deployment, replica_set, *pods]


def budget(name: str, app: str, **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "rag"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def objects(*raw: Json) -> tuple[KubeObject, ...]:
    """Typed objects in the order given."""
    return tuple(item for one in raw for table in build([one], any_shape=True).objects.values() for item in table.values())


def cluster(*raw: Json) -> Snapshot:
    return build(list(raw))


def play(snapshot: Snapshot, *given: Json, **flags: Any) -> Simulation:
    return simulate(snapshot, objects(*given), Request(RELEASE, **flags), FACTS)
