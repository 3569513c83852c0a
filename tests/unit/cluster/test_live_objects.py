"""A manifest beside the live object that it became is not counted twice."""

from __future__ import annotations

from typing import Any

from ragstow.cluster.build import build


def _pod(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llm", "namespace": "rag", **more}, "spec": {}}


def test_live_object_wins_whatever_the_order() -> None:
    live, manifest = _pod(uid="1"), _pod()
    for order in ([live, manifest], [manifest, live]):
        snapshot = build(order)
        assert [pod.uid for pod in snapshot.pods] == ["1"]
        assert [item.uid for item in snapshot.applied] == [""]
        assert snapshot.problems == ()


def test_two_alike_are_reported_and_the_last_counts() -> None:
    snapshot = build([_pod(uid="1"), _pod(uid="2")])
    assert [pod.uid for pod in snapshot.pods] == ["2"]
    assert [problem.code for problem in snapshot.problems] == ["object-twice"]


def test_manifest_alone_is_kept_and_known_as_such() -> None:
    snapshot = build([_pod()])
    assert [pod.live for pod in snapshot.pods] == [False]
    assert snapshot.applied == ()
