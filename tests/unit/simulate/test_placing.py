"""Where a set of pods may land: the answer by name, and every node that a tie may give, against trying all ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstow.cluster.build import build
from ragstow.cluster.objects import Pod
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Engine, Options
from ragstow.simulate.placing import place


def node(name: str, gpus: int, cpu: str = "32", labels: dict[str, str] | None = None) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "128Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, gpus: int = 0, cpu: str = "1") -> Pod:
    resources: dict[str, Any] = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    if gpus:
        resources["limits"] = {"nvidia.com/gpu": str(gpus)}
        resources["requests"]["nvidia.com/gpu"] = str(gpus)
    return build(
        [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "rag"},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
            }
        ]
    ).pods[0]


class Scripted:
    """Breaks the n-th tie by the n-th number of a script; notes how wide each tie was."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script = list(script)
        self.widths: list[int] = []

    def pick(self, names: Sequence[str]) -> str:
        at = len(self.widths)
        self.widths.append(len(names))
        return names[self.script[at] if at < len(self.script) else 0]


def every_way(nodes: list[dict[str, Any]], pods: list[Pod]) -> list[set[str | None]]:
    """The nodes of each pod over all scripts, by brute force."""
    found: list[set[str | None]] = [set() for _ in pods]
    todo: list[list[int]] = [[]]
    while todo:
        script = todo.pop()
        ties = Scripted(script)
        engine = Engine(build(nodes), pods, Options(Release.parse("1.37.2"), order="list", preemption=False))
        for cycle in engine.cycles.values():
            cycle.ties = ties
        for number, attempt in enumerate(engine.run()):
            found[number].add(attempt.node)
        for at in range(len(script), len(ties.widths)):
            todo.extend([*script, *[0] * (at - len(script)), choice] for choice in range(1, ties.widths[at]))
    return found


def test_possible_sets_are_those_of_all_ways() -> None:
    nodes = [node("a", 2), node("b", 2), node("c", 1)]
    pods = [pod("one", 1), pod("two", 1), pod("three", 2), pod("four", 1)]
    answer = place(build(nodes), pods, release="1.37.2")
    brute = every_way(nodes, pods)
    assert answer.complete
    assert answer.pods[2].node is None  # by name, yet it fits where the first two share a node
    for placed, possible in zip(answer.pods, brute, strict=True):
        assert set(placed.nodes) == possible - {None}
        assert (placed.pod in answer.may_fail) == (None in possible and placed.node is not None)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_possible_sets_of_small_clusters(data: st.DataObject) -> None:
    """Nodes that look alike, pods that look alike, spreading and affinity: never more, never less than by brute force."""
    count = data.draw(st.integers(2, 4))
    nodes = [
        node(f"n{i}", data.draw(st.integers(1, 2)), labels={"zone": data.draw(st.sampled_from("ab"))}) for i in range(count)
    ]
    pods = []
    for i in range(data.draw(st.integers(2, 4))):
        made = pod(f"p{i}", data.draw(st.integers(0, 2)), data.draw(st.sampled_from(["1", "2"])))
        kind = data.draw(st.sampled_from(["plain", "spread", "apart"]))
        spec: dict[str, Any] = dict(made.spec)
        if kind == "spread":
            selector = {"matchLabels": {"app": "x"}}
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
            ]
        if kind == "apart":
            term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        meta = {**made.raw["metadata"], "labels": {"app": "x"}}
        pods.append(build([{**made.raw, "metadata": meta, "spec": spec}]).pods[0])
    answer = place(build(nodes), pods, release="1.37.2", budget=100_000)
    assert answer.complete
    for placed, possible in zip(answer.pods, every_way(nodes, pods), strict=True):
        assert set(placed.nodes) == possible - {None}
        assert (placed.pod in answer.may_fail) == (None in possible and placed.node is not None)


def test_twenty_nodes_that_look_alike_are_one_case() -> None:
    answer = place(build([node(f"n{i:02}", 8) for i in range(20)]), [pod(f"p{i}", 2) for i in range(8)])
    assert answer.complete
    assert all(len(placed.nodes) == 20 for placed in answer.pods)


def test_a_budget_that_ends_early_says_so() -> None:
    nodes = [node(f"n{i}", 8, labels={"own": str(i)}) for i in range(6)]
    answer = place(build(nodes), [pod(f"p{i}", 1, f"{i + 1}00m") for i in range(6)], budget=3)
    assert not answer.complete
    assert all(placed.node in placed.nodes for placed in answer.pods)


def test_a_pod_that_fits_nowhere_says_why() -> None:
    answer = place(build([node("a", 1), node("b", 0)]), [pod("big", 4)], release="1.37.2")
    (placed,) = answer.pods
    assert placed.node is None
    assert placed.nodes == ()
    assert placed.message == "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    assert any("nvidia.com/gpu" in reason.text and reason.text.startswith(("a ", "b ")) for reason in placed.reasons)
