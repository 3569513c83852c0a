"""KWOK's own objects in the API server, so that tests can change how pods live, what exec runs and where ports lead.

The definitions are stubs that keep every field; KWOK reads the objects with its own types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from controlplane_build import STAGES, folder

GROUP = "kwok.x-k8s.io"
KINDS = {
    "Stage": ("stages", "Cluster"),
    "ClusterExec": ("clusterexecs", "Cluster"),
    "Exec": ("execs", "Namespaced"),
    "ClusterLogs": ("clusterlogs", "Cluster"),
    "Logs": ("logs", "Namespaced"),
    "ClusterPortForward": ("clusterportforwards", "Cluster"),
    "PortForward": ("portforwards", "Namespaced"),
}
"""Kind -> plural, scope."""
OURS = Path(__file__).resolve().parent.parent / "controlplane" / "stages"
_HEARTBEAT = "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"
_INITIALIZE = "node/fast/node-initialize.yaml"

Json = dict[str, Any]


def definitions() -> list[Json]:
    """The CustomResourceDefinitions."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
                "scope": scope,
                "versions": [{**version, "subresources": {"status": {}}}],
            },
        }
        for kind, (plural, scope) in KINDS.items()
    ]


def stages(load_seconds: float) -> list[Json]:
    """The Stages that every simulated cluster has: node heartbeats and the lives of pods.

    Args:
        load_seconds: how long a pod that asks for a GPU loads before it is ready.
    """
    texts = [(folder() / STAGES / name).read_text() for name in (_INITIALIZE, _HEARTBEAT)]
    texts.append((OURS / "pods.yaml").read_text().replace("LOAD_MILLISECONDS", str(int(load_seconds * 1000))))
    made = {item["metadata"]["name"]: item for text in texts for item in yaml.safe_load_all(text) if item}
    made["pod-loaded"]["spec"]["next"] = made["pod-ready"]["spec"]["next"]
    return list(made.values())


def made(kind: str, name: str, spec: Mapping[str, Any], namespace: str = "") -> Json:
    """An object of KWOK's."""
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": meta, "spec": dict(spec)}


def execution(namespace: str, name: str, environment: Mapping[str, str]) -> Json:
    """What exec runs in a pod: a program of this machine with this environment."""
    variables = [{"name": key, "value": value} for key, value in environment.items()]
    return made("Exec", name, {"execs": [{"local": {"envs": variables}}]}, namespace)


def logs(namespace: str, name: str, files: Mapping[str, tuple[Path, Path | None]]) -> Json:
    """Container -> its log and that of the instance before."""
    entries = [
        {"containers": [container], "logsFile": str(now), **({"previousLogsFile": str(before)} if before else {})}
        for container, (now, before) in files.items()
    ]
    return made("Logs", name, {"logs": entries}, namespace)


def forwards(namespace: str, name: str, ports: Iterable[tuple[int, tuple[str, int]]]) -> Json:
    """Port of the pod -> address and port of this machine."""
    entries = [{"ports": [port], "target": {"address": to[0], "port": to[1]}} for port, to in ports]
    return made("PortForward", name, {"forwards": entries}, namespace)
