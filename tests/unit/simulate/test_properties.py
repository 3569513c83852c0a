"""What must hold of every simulation, whatever the cluster."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstow import quantity
from ragstow.cluster.build import build
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Engine, Options
from random_clusters import Maker, Raw

_SEEDS = st.integers(0, 10**9)
_RELEASE = Release.parse("1.37.2")


def run(objects: list[Raw], **how: Any) -> Engine:
    cluster = build(objects)
    engine = Engine(cluster, [pod for pod in cluster.pods if pod.node is None], Options(_RELEASE, order="list", **how))
    for _ in engine.run():
        pass
    return engine


@settings(max_examples=40)
@given(seed=_SEEDS, preemption=st.booleans(), ties=st.sampled_from(("name", 7)))
def test_never_over_allocatable(seed: int, preemption: bool, ties: Any) -> None:
    objects = Maker(seed).cluster(nodes=8, running=0, arrivals=80)
    engine = run(objects, preemption=preemption, ties=ties)
    for node in engine.world.nodes:
        assert len(node.pods) <= node.max_pods
        asked: Counter[str] = Counter()
        ports: Counter[tuple[str, int]] = Counter()
        for pod in node.pods:
            asked.update(pod.sums.plain)
            ports.update({(protocol, number) for address, protocol, number in pod.host_ports if address == "0.0.0.0"})
        for name, amount in asked.items():
            assert amount <= node.allocatable.get(name, 0), (node.name, name)
        assert all(count == 1 for count in ports.values())


@settings(max_examples=40)
@given(seed=_SEEDS)
def test_the_order_of_nodes_is_irrelevant(seed: int) -> None:
    objects = Maker(seed, images=False).cluster(nodes=9, running=20, arrivals=20)
    nodes = [item for item in objects if item["kind"] == "Node"]
    rest = [item for item in objects if item["kind"] != "Node"]
    shuffled = random.Random(seed).sample(nodes, len(nodes))
    assert run([*nodes, *rest], preemption=False).final() == run([*shuffled, *rest], preemption=False).final()


@settings(max_examples=40)
@given(seed=_SEEDS)
def test_removing_a_pod_makes_no_node_infeasible(seed: int) -> None:
    objects = Maker(seed, plain=True, priorities=False).cluster(nodes=8, running=25, arrivals=1)
    objects = [item for item in objects if item["kind"] in ("Node", "Pod")]
    running = [item for item in objects if item["spec"].get("nodeName")]
    gone = random.Random(seed).choice(running)

    def feasible(items: list[Raw]) -> set[str]:
        cluster = build(items)
        arrivals = [pod for pod in cluster.pods if pod.node is None]
        engine = Engine(cluster, arrivals, Options(_RELEASE, order="list", preemption=False, detail=True))
        return set(next(engine.run()).decision.sample)

    assert feasible(objects) <= feasible([item for item in objects if item is not gone])


@settings(max_examples=40)
@given(seed=_SEEDS, factor=st.sampled_from((2, 3, 8)))
def test_scaling_all_quantities_changes_no_host(seed: int, factor: int) -> None:
    objects = Maker(seed, images=False).cluster(nodes=8, running=20, arrivals=20)
    for item in objects:
        for container in (
            [*item["spec"].get("containers", ()), *item["spec"].get("initContainers", ())] if item["kind"] == "Pod" else ()
        ):
            requests = container["resources"]["requests"]
            requests.setdefault("cpu", "100m")
            requests.setdefault("memory", "256Mi")
    assert run(objects, preemption=False).final() == run([scaled(item, factor) for item in objects], preemption=False).final()


def scaled(item: Raw, factor: int) -> Raw:
    """The object with every amount of a resource times `factor`; pods per node stay as they are."""

    def times(amounts: Raw) -> Raw:
        return {
            name: amount if name == "pods" else f"{quantity.parse(amount).milli * factor}m" for name, amount in amounts.items()
        }

    if item["kind"] == "Node":
        status = item["status"]
        return {
            **item,
            "status": {**status, "allocatable": times(status["allocatable"]), "capacity": times(status["capacity"])},
        }
    if item["kind"] != "Pod":
        return item
    spec = dict(item["spec"])
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [{**raw, "resources": {"requests": times(raw["resources"]["requests"])}} for raw in spec[field]]
    if "overhead" in spec:
        spec["overhead"] = times(spec["overhead"])
    return {**item, "spec": spec}


@settings(max_examples=20)
@given(seed=_SEEDS, ties=st.integers(-(2**70), 2**70))
def test_a_seed_gives_the_same_answer_again_and_only_tied_nodes(seed: int, ties: int) -> None:
    objects = Maker(seed).cluster(nodes=10, running=10, arrivals=15)
    cluster = build(objects)
    arrivals = [pod for pod in cluster.pods if pod.node is None]
    made = [list(Engine(cluster, arrivals, Options(_RELEASE, ties=ties)).run()) for _ in range(2)]
    assert [attempt.node for attempt in made[0]] == [attempt.node for attempt in made[1]]
    for attempt in made[0]:
        assert attempt.node is None or attempt.node in attempt.decision.ties


@settings(max_examples=20)
@given(seed=_SEEDS)
def test_victims_are_less_important_and_gone(seed: int) -> None:
    cluster = build(Maker(seed).cluster(nodes=4, running=40, arrivals=20))
    engine = Engine(cluster, [pod for pod in cluster.pods if pod.node is None], Options(_RELEASE, order="list"))
    for attempt in engine.run():
        for victim in attempt.victims:
            assert victim.priority < attempt.pod.priority
            located = engine.world.located(victim.key)
            assert located is None
