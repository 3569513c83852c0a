"""What a refusal by a taint says that helps: a toleration, but never of what the control plane says about a node."""

from __future__ import annotations

import pytest

from ragstow.cluster.build import build
from ragstow.scheduling.release import Release
from ragstow.simulate.why import Explainer


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("dedicated", "add a toleration of key dedicated, effect NoSchedule"),
        ("node.kubernetes.io/unschedulable", "kubectl uncordon n1"),
        ("node.kubernetes.io/not-ready", "mend the node, do not tolerate it: kubectl describe node n1"),
    ],
)
def test_hint(key: str, hint: str) -> None:
    node = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }  # fmt: skip
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "rag"},
        "spec": {"containers": [{"name": "m"}]},
    }
    snapshot = build([node, pod])
    verdict = Explainer(snapshot, Release.parse("1.37.2")).explain(snapshot.pods[0])
    said = [words for found in verdict.obstacles.values() for item in found for words in item.words]
    assert said == [f"n1 has taint {key}:NoSchedule, which rag/p does not tolerate ({hint})"]
