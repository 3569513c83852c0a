"""A cluster that does what it is told, for tests of `ragstow apply` through the command line.

The bundled H100 cluster under the GPU Operator, without its pods, on a real control plane with simulated kubelets; a thread
plays operator, MIG manager and plugin. What the cards become is what the plan says of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from apply_support import client_of
from cluster_loader import load_cluster
from controlplane_support import ControlPlane, control_plane, need_controlplane
from ragstow.cli.main import run
from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.read import read
from ragstow.live import rbac
from ragstow.live.client import ApiClient
from stack_player import MIG, Shape, Stack
from support import ROOT

NODE = "gpu-h100-1"
_EXAMPLE = ROOT / "examples" / "h100-operator"
_LEFT_OUT = ("Pod", "ReplicaSet", "Deployment")
SERVICE = {
    "apiVersion": "ragstow.dev/v1alpha1",
    "kind": "RagService",
    "metadata": {"name": "small", "namespace": "rag"},
    "spec": {
        "components": [
            {"name": "embedder", "role": "embedder", "engine": "tei", "model": "BAAI/bge-m3", "replicas": 2},
            {"name": "reranker", "role": "reranker", "engine": "tei", "model": "BAAI/bge-reranker-v2-m3"},
            {"name": "gateway", "role": "gateway", "image": "registry.example/rag-gateway:1.4"},
        ]
    },
}


@dataclass
class World:
    """The cluster, the plan that was made of it, and the flags that point at it."""

    plane: ControlPlane
    admin: ApiClient
    folder: Path
    plan: Path
    stack: Stack
    more: list[str] = field(default_factory=list)

    def flags(self, user: str = "applier") -> list[str]:
        """Which cluster, as whom."""
        return ["--kubeconfig", str(self.plane.kubeconfig), "--context", user]

    def apply(self, *flags: str, user: str = "applier", source: str | None = None) -> int:
        """`ragstow apply` in this process; no wait takes longer than a minute, so that a test never hangs."""
        limit = [] if "--timeout" in flags else ["--timeout", "60s"]
        return run(["apply", source or str(self.plan), *self.flags(user), *limit, *flags])

    def make_plan(self, name: str = "plan.json", spec: Mapping[str, Any] = SERVICE, code: int = 0) -> Path:
        """A plan for the cluster as it is now."""
        import contextlib
        import io

        service, plan = self.folder / f"{name}.service.yaml", self.folder / name
        service.write_text(yaml.safe_dump(spec))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert run(["plan", str(service), *self.flags("reader"), "-o", "json"]) == code
        plan.write_text(printed.getvalue())
        return plan

    def get(self, kind: str, *words: str) -> Any:
        """kubectl get, as JSON."""
        return json.loads(self.plane.kubectl("get", kind, *words, "-o", "json"))

    def node(self) -> Any:
        """The node."""
        return self.get("node", NODE)


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """The cluster for the time of the `with` block; the stack is not played yet."""
    need_controlplane(own=True)
    with control_plane(nodes=True) as plane:
        for level, user in (("read", "reader"), ("apply", "applier")):
            documents = rbac.documents(level, subjects=[rbac.subject(f"user:{user}") or {}])  # type: ignore[arg-type]
            plane.kubectl("apply", "-f", "-", stdin="---\n".join(yaml.safe_dump(item) for item in documents))
        admin = client_of(plane.kubeconfig, "admin")
        snapshot = read(str(_EXAMPLE / "cluster"))
        gone: list[KubeObject] = [item for item in snapshot.everything if item.kind in _LEFT_OUT]
        owned = [item for item in snapshot.everything if item.owners and item.kind not in _LEFT_OUT]
        load_cluster(admin, snapshot.replace(remove=gone, put=map(_ownerless, owned)))
        settle(plane)
        made = World(plane, admin, folder, folder / "plan.json", Stack(admin, {}))
        made.plan = made.make_plan()
        made.stack.shapes = shapes(json.loads(made.plan.read_text()), made.node())
        yield made
        admin.close()


def _ownerless(item: KubeObject) -> KubeObject:
    """Without owners: they are made after it, and the garbage collector would take it for an orphan."""
    meta = {key: value for key, value in item.raw["metadata"].items() if key != "ownerReferences"}
    return make(RawObject({**item.raw, "metadata": meta}))


def settle(plane: ControlPlane) -> None:
    """Wait until the DaemonSets have their pods."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        listed = json.loads(plane.kubectl("get", "daemonsets", "-A", "-o", "json"))["items"]
        if all(
            item["status"].get("observedGeneration") == item["metadata"]["generation"]
            and item["status"].get("numberReady", 0) == item["status"].get("desiredNumberScheduled", -1)
            for item in listed
        ):
            return
        time.sleep(0.2)
    raise AssertionError("the DaemonSets have no ready pods")


def shapes(plan: Mapping[str, Any], node: Mapping[str, Any]) -> dict[tuple[str, str, str | None], Shape]:
    """What the node becomes by the layouts of a plan, and what it is now."""
    labels = node["metadata"]["labels"]
    offered = {key: int(value) for key, value in node["status"]["allocatable"].items() if key.startswith("nvidia.com/")}
    made = {(NODE, MIG, labels[MIG]): Shape(offered, _published(labels))}
    for layout in plan["layouts"]:
        if layout["migLayout"]:
            made[layout["node"], MIG, layout["migLayout"]] = Shape(layout["resourcesAfter"], _published(layout["labelsAfter"]))
    every = {key: None for shape in made.values() for key in shape.labels}
    # What one layout's labels have and another's do not is taken away with it.
    return {key: Shape(shape.resources, {**every, **shape.labels}) for key, shape in made.items()}  # type: ignore[dict-item]


def _published(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels of feature discovery; not those that are set by people or the manager."""
    return {key: value for key, value in labels.items() if key.startswith("nvidia.com/") and not key.startswith(MIG)}


def pods(plane: ControlPlane, namespace: str) -> Sequence[Mapping[str, Any]]:
    """The pods of a namespace."""
    found: Sequence[Mapping[str, Any]] = json.loads(plane.kubectl("-n", namespace, "get", "pods", "-o", "json"))["items"]
    return found
