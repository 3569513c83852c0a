"""What follows from what was seen: drivers, memory on shared cards, neighbours, pods that cannot be asked, logs, nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from makers import gfd, node, pod
from ragstow import facts as known
from ragstow.cluster.build import build
from ragstow.cluster.objects import Node, Pod
from ragstow.verification import drivers, memory, neighbours, nodes, pods, stack
from ragstow.verification.model import ObjectRef, Outcome
from ragstow.verification.seen import Answer, Look
from ragstow.verification.smi import table
from ragstow.verification.smi.merge import merge
from ragstow.verification.smi.model import Card, Reading, Slice
from ragstow.verification.stack import Log, check_logs
from ragstow.verification.targets import Expected, Target, same_product
from support import DATA

FACTS = known.load()
GIB = 2**30
SERVICE = ObjectRef("RagService", "rag", "support")


def made_pod(name: str, component: str, on: str = "n1", image: str = "i") -> Pod:
    raw = pod(name, on, {"nvidia.com/gpu": 1}, labels={"ragstow.dev/service": "support", "ragstow.dev/component": component})
    raw["spec"]["containers"][0]["image"] = image
    (found,) = build([raw]).pods
    return found


def target(name: str, component: str = "", *, on: str = "n1", image: str = "i", **expected: Any) -> Target:
    item = made_pod(name, component or name, on, image)
    values: dict[str, Any] = {"mode": "exclusive", "count": 1, **expected}
    return Target(item, component or name, item.containers[0], "nvidia.com/gpu", Expected(**values))


def look(*cards: Card, driver: str | None = "580.95.05", cuda: str | None = "13.0", **more: Any) -> Look:
    return Look(Reading(driver=driver, cuda=cuda, cards=cards), **more)


def card(uuid: str, used: int = 0, total: int = 46068, **more: Any) -> Card:
    return Card(0, name="NVIDIA L40S", uuid=uuid, used_mib=used, total_mib=total, **more)


def failed(outcome: Outcome) -> dict[str, list[str]]:
    table_: dict[str, list[str]] = {}
    for check in outcome.checks:
        if not check.passed:
            table_.setdefault(check.name, []).append(check.object.name)
    return table_


# Pods


@pytest.mark.parametrize(
    ("label", "name", "cut", "same"),
    [
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3", False, True),
        ("NVIDIA-A100-SXM4-40GB", "A100-SXM4-40GB", False, True),
        ("NVIDIA-A100-SXM4-40GB", "NVIDIA A100-SXM", True, True),
        ("NVIDIA-A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", False, False),
        ("NVIDIA-A100-SXM4-40GB-SHARED", "NVIDIA A100-SXM4-40GB", False, True),
        ("Tesla-T4", "Tesla T4", False, True),
        ("Some-New-Card", "NVIDIA Some New Card", False, True),
        ("Some-New-Card", "NVIDIA Some Newer Card", False, False),
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA H200", False, False),
    ],
)
def test_product_labels_and_names(label: str, name: str, cut: bool, same: bool) -> None:
    assert same_product(label, name, cut, FACTS) is same


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("No devices were found\n", "resources.limits"),
        ("Failed to initialize NVML: Unknown Error\n", "recreate the pod"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "reboot"),
        ("Unable to determine the device handle for GPU0: 0000:3B:00.0: Unknown Error\n", "Xid 79"),
    ],
)
def test_no_device_is_a_failure_with_what_to_do(text: str, hint: str) -> None:
    seen = Look(table.read(text), {"table": Answer("kubectl exec", 9, text)})
    (check,) = pods.check_pod(target("llm-0"), seen, FACTS).checks
    assert (check.name, check.passed, check.found) == ("gpu-visible", False, text.strip())
    assert hint in check.hint
    assert check.evidence[0].value == text.strip()


def test_a_card_lost_beside_one_that_answers_fails() -> None:
    text = (DATA / "nvidia-smi" / "590-table-lost.txt").read_text()
    seen = Look(merge([table.read(text)]), {"table": Answer("kubectl exec", 0, text)})
    assert failed(pods.check_pod(target("llm-0", count=2), seen, FACTS)) == {"gpu-visible": ["llm-0"]}


def test_what_cannot_be_asked_is_unknown_and_needed() -> None:
    for seen in (
        Look(refused="container not found"),
        Look(forbidden="not allowed"),
        Look(table.read("sh: 1: nvidia-smi: not found")),
        Look(),
    ):
        outcome = pods.check_pod(target("llm-0"), seen, FACTS)
        (item,) = outcome.unknown
        assert (outcome.checks, item.needed, item.forbidden) == ((), True, bool(seen.forbidden))


def test_a_driver_that_hangs_fails() -> None:
    outcome = pods.check_pod(target("llm-0"), Look(hung="nvidia-smi did not end within 30 s"), FACTS)
    assert failed(outcome) == {"gpu-visible": ["llm-0"]}


def test_a_whole_card_where_a_slice_is_planned_and_the_other_way_round() -> None:
    whole = pods.check_pod(target("a", profile="1g.10gb", mode="mig"), look(card("GPU-1")), FACTS)
    assert "gpu-slice" in failed(whole)
    cut = card("GPU-1", mig=True, slices=(Slice(0, "1g.10gb", "MIG-1", used_mib=1, total_mib=9984),))
    assert "gpu-slice" in failed(pods.check_pod(target("a"), look(cut), FACTS))
    right = pods.check_pod(target("a", profile="1g.10gb", mode="mig", total_mib=(9684, 10283)), look(cut), FACTS)
    assert failed(right) == {}
    spelled = card("GPU-1", mig=True, slices=(Slice(0, "1c.1g.10gb+me", "MIG-1"),))
    assert "gpu-slice" not in failed(pods.check_pod(target("a", profile="1g.10gb.me", mode="mig"), look(spelled), FACTS))


def test_more_cards_than_asked_for_fail() -> None:
    outcome = pods.check_pod(target("a"), look(card("GPU-1"), Card(1, name="NVIDIA L40S", uuid="GPU-2")), FACTS)
    (check,) = [check for check in outcome.checks if not check.passed]
    assert (check.name, "NVIDIA_VISIBLE_DEVICES=all" in check.hint) == ("gpu-visible", True)


def test_faults_of_a_card_fail() -> None:
    text = (DATA / "nvidia-smi" / "510-table-err.txt").read_text()
    assert "gpu-health" in failed(pods.check_pod(target("a", count=2), Look(table.read(text)), FACTS))


# Drivers


def labelled(driver: str | None) -> Node:
    labels = {"nvidia.com/cuda.driver-version.full": driver} if driver else {}
    (found,) = build([node("n1", labels=labels)]).nodes
    return found


def host(version: str | None) -> drivers.HostDriver:
    return drivers.HostDriver(version, "NVIDIA driver gpu/driver-1", "kubectl exec", "" if version else "it is away")


@pytest.mark.parametrize(
    ("inside", "label", "on_host", "passed"),
    [
        ("580.95.05", "580.95.05", "580.95.05", True),
        ("580.95.05", "580.95.05", None, True),
        ("580.95.05", None, "580.95.05", True),
        ("580.95.05", "570.86.10", "580.95.05", False),
        ("580.95.05", "580.95.05", "570.86.10", False),
        ("580.95.05", None, None, None),
    ],
)
def test_driver(inside: str, label: str | None, on_host: str | None, passed: bool | None) -> None:
    outcome = drivers.check_driver(target("a"), look(card("GPU-1"), driver=inside), labelled(label), host(on_host))
    if passed is None:
        (item,) = outcome.unknown
        assert (outcome.checks, item.needed) == ((), False)
        assert "it is away" in item.missing
        return
    (check,) = outcome.checks
    assert check.passed is passed
    assert ("driver-1" in check.expected, "label of node n1" in check.expected) == (on_host is not None, label is not None)


@pytest.mark.parametrize(
    ("need", "image", "shown", "driver", "passed"),
    [
        ("12.8", "i", "13.0", "580.95.05", True),
        ("13.0", "i", "13.0", "580.95.05", True),
        ("12.9", "i", "12.4", "550.90.07", True),  # minor version compatibility within CUDA 12
        ("13.0", "i", "12.8", "570.86.10", False),
        (None, "nvidia/cuda:13.0.1-base", "12.8", "570.86.10", False),
        (None, "i", "12.8", "570.86.10", None),
        ("12.8", "i", None, "580.95.05", True),  # nvidia-smi says no CUDA: the driver's branch does
    ],
)
def test_cuda(need: str | None, image: str, shown: str | None, driver: str, passed: bool | None) -> None:
    seen = look(card("GPU-1"), cuda=shown, driver=driver)
    seen = Look(seen.reading, cuda=need)
    outcome = drivers.check_cuda(target("a", image=image), seen, FACTS)
    if passed is None:
        assert (len(outcome.unknown), outcome.checks) == (1, ())
        return
    (check,) = outcome.checks
    assert check.passed is passed


# Memory


def sized(gib: float) -> dict[str, Any]:
    peak = int(gib * GIB)
    return {"peak_bytes": peak, "band": (int(peak * 0.9), int(peak * 1.1)), "weights_bytes": int(peak * 0.6)}


def test_memory_on_a_shared_card_is_that_of_all_its_pods() -> None:
    shared: dict[str, Any] = {"mode": "time-slicing", "sharers": 4}
    pair = [
        (target("a", **shared, **sized(4)), look(card("GPU-1", 7 * 1024))),
        (target("b", **shared, **sized(3)), look(card("GPU-1", 7 * 1024))),
    ]
    outcome = memory.check_memory(pair, {})
    assert failed(outcome) == {}
    assert [(row.others, row.measured_bytes // GIB) for row in outcome.memory] == [(1, 7), (1, 7)]
    stolen = [(item, look(card("GPU-1", 9 * 1024))) for item, _ in pair]
    assert failed(memory.check_memory(stolen, {})) == {"gpu-memory-used": ["a", "b"]}
    # Others may hold a share of that card, which is no failure of ours, but nobody can say that all is well either.
    beside = memory.check_memory(stolen, {"n1": ["team/job-1"]})
    assert (failed(beside), [item.check for item in beside.unknown]) == ({}, ["gpu-memory-used", "gpu-memory-used"])
    assert "team/job-1" in beside.unknown[0].missing


def test_the_same_uuid_on_another_node_is_another_card() -> None:
    pair = [
        (target("a", on="n1", **sized(4)), look(card("GPU-1", 4096))),
        (target("b", on="n2", **sized(4)), look(card("GPU-1", 4096))),
    ]
    assert [row.others for row in memory.check_memory(pair, {}).memory] == [0, 0]


def test_foreign_use_of_a_whole_card_fails_whoever_shares_the_node() -> None:
    outcome = memory.check_memory([(target("a", **sized(4)), look(card("GPU-1", 20 * 1024)))], {"n1": ["team/job-1"]})
    assert failed(outcome) == {"gpu-memory-used": ["a"]}
    (check,) = outcome.checks
    assert check.hint.startswith("15.6 GiB more than planned")


def test_processes_that_a_container_sees_are_evidence_of_foreign_use() -> None:
    text = (DATA / "nvidia-smi" / "535-table-mps.txt").read_text()
    seen = Look(table.read(text), {"table": Answer("kubectl exec", 0, text)})
    (check,) = memory.check_memory([(target("a", **sized(2)), seen)], {}).checks
    assert [entry.value for entry in check.evidence][1:] == [
        "process 67657 text-embeddings-router: 4106 MiB",
        "process 67661 /opt/rerank/bin/python3 -m server: 3032 MiB",
        "process 10925 nvidia-cuda-mps-server: 30 MiB",
    ]


def test_a_model_that_is_not_on_the_card_yet_is_remarked() -> None:
    outcome = memory.check_memory([(target("a", **sized(10)), look(card("GPU-1", 300)))], {})
    assert failed(outcome) == {}
    assert outcome.remarks == ("a: 0.3 GiB in use, the weights alone take 6.0 GiB: is the model on the GPU?",)


def test_a_ready_pod_whose_model_is_not_on_the_card_fails() -> None:
    """An engine that fell back to the CPU answers its probes, too."""
    given = target("a", **sized(10))
    ready = {**given.pod.status, "conditions": [{"type": "Ready", "status": "True"}]}
    (pod_,) = build([{**given.pod.raw, "status": ready}]).pods
    outcome = memory.check_memory([(replace(given, pod=pod_), look(card("GPU-1", 300)))], {"n1": ["team/job-1"]})
    assert failed(outcome) == {"gpu-memory-used": ["a"]}
    (check,) = outcome.checks
    assert (check.expected, check.found) == ("at least 6.0 GiB (weights), sized 10.0 GiB", "0.3 GiB used")
    assert check.hint.startswith("the weights alone take 6.0 GiB: the model of this ready pod is not on its GPU")
    assert outcome.remarks == ()


def test_memory_that_nvidia_smi_does_not_say_is_unknown() -> None:
    seen = look(Card(0, name="NVIDIA GB10", uuid="GPU-1"))
    outcome = memory.check_memory([(target("a", **sized(10)), seen)], {})
    assert (outcome.checks, outcome.memory, outcome.unknown[0].needed) == ((), (), False)


# Neighbours


def judged(
    seen: Sequence[tuple[Target, Look]], together: Sequence[Sequence[str]] = (), apart: Sequence[Sequence[str]] = ()
) -> Outcome:
    replicas: dict[str, int] = {}
    for item, _ in seen:
        replicas[item.component] = replicas.get(item.component, 0) + 1
    return neighbours.check_neighbours(seen, SERVICE, together, apart, replicas)


def test_a_whole_card_is_nobody_elses() -> None:
    seen = [(target("a"), look(card("GPU-1"))), (target("b"), look(card("GPU-1")))]
    assert failed(judged(seen)) == {"gpu-neighbours": ["a", "b"]}


def test_slices_of_one_card_are_different_devices() -> None:
    def cut(uuid: str) -> Look:
        return look(card("GPU-1", mig=True, slices=(Slice(0, "1g.5gb", uuid),)))

    seen = [(target("a", mode="mig"), cut("MIG-1")), (target("b", mode="mig"), cut("MIG-2"))]
    assert failed(judged(seen, together=[["a", "b"]])) == {}
    assert failed(judged(seen, apart=[["a", "b"]])) == {"gpu-apart": ["support"]}
    assert failed(judged([seen[0], (seen[1][0], cut("MIG-1"))])) == {"gpu-neighbours": ["a", "b"]}


def test_a_shared_card_has_as_many_pods_as_shares() -> None:
    shared: dict[str, Any] = {"mode": "mps", "sharers": 2}
    seen = [(target(name, **shared), look(card("GPU-1"))) for name in ("a", "b")]
    assert failed(judged(seen)) == {}
    assert failed(judged([*seen, (target("c", **shared), look(card("GPU-1")))])) == {"gpu-neighbours": ["a", "b", "c"]}


def test_together_pairs_replicas_card_by_card() -> None:
    def on(name: str, component: str, uuid: str) -> tuple[Target, Look]:
        return target(name, component, mode="time-slicing", sharers=4), look(card(uuid))

    paired = [on("e-0", "e", "GPU-1"), on("e-1", "e", "GPU-2"), on("r-0", "r", "GPU-2"), on("r-1", "r", "GPU-1")]
    assert failed(judged(paired, together=[["e", "r"]])) == {}
    one = [*paired[:3], on("r-1", "r", "GPU-3")]
    outcome = judged(one, together=[["e", "r"]])
    assert failed(outcome) == {"gpu-together": ["support"]}
    more = [*paired, on("e-2", "e", "GPU-9")]
    assert failed(judged(more, together=[["e", "r"]])) == {}


def test_a_group_of_one_keeps_its_replicas_apart() -> None:
    seen = [(target(f"a-{i}", "a", mode="time-slicing", sharers=4), look(card(uuid))) for i, uuid in enumerate("xy")]
    assert failed(judged(seen, apart=[["a"]])) == {}
    same = [(item, look(card("x"))) for item, _ in seen]
    assert failed(judged(same, apart=[["a"]])) == {"gpu-apart": ["support"]}


def test_a_promise_about_cards_that_were_not_seen_is_unknown() -> None:
    seen = [(target("a"), look(card("GPU-1"))), (target("b"), Look(refused="away"))]
    outcome = judged(seen, apart=[["a", "b"]])
    assert [(item.check, item.missing) for item in outcome.unknown] == [("gpu-apart", "the cards of b could not all be seen")]


# Nodes and logs


def test_unhealthy_devices_of_a_node_fail() -> None:
    labels = gfd("NVIDIA-L40S", 4, 46068)
    raw = node("n1", {"nvidia.com/gpu": 4}, labels, allocatable={"nvidia.com/gpu": 3})
    snapshot = build([raw])
    from ragstow.inventory.build import inventory

    outcome = nodes.check_nodes(snapshot.nodes, None, inventory(snapshot, FACTS))
    assert failed(outcome) == {"node-devices": ["n1"]}
    (check,) = [check for check in outcome.checks if not check.passed]
    assert (check.expected, check.found) == ("4 healthy nvidia.com/gpu", "3 of 4")


def test_logs_with_and_without_signatures_and_those_that_could_not_be_read() -> None:
    ref = ObjectRef("Pod", "gpu", "plugin")
    line = "I1201 nvml: Failed to initialize NVML: Driver/library version mismatch"
    found = check_logs(
        [
            Log(ref, "kubectl logs a", "all fine\n"),
            Log(ref, "kubectl logs b", f"fine\n{line}\nfine\n"),
            Log(ref, "kubectl logs c", missing="not allowed", forbidden=True),
        ],
        FACTS,
        "stack-log",
    )
    assert [check.passed for check in found.checks] == [True, False]
    assert found.checks[1].found == "nvml-mismatch (driver-library-mismatch)"
    assert found.checks[1].evidence[0].value == line
    assert found.checks[1].hint == "ragstow explain driver-library-mismatch"
    assert [(item.missing, item.forbidden, item.needed) for item in found.unknown] == [("not allowed", True, False)]


def test_what_a_plugin_said_before_it_registered_is_over() -> None:
    def said(*lines: str) -> list[bool]:
        log = Log(ObjectRef("Pod", "gpu", "plugin"), "kubectl logs a", "\n".join(lines))
        return [check.passed for check in check_logs([log], FACTS, "stack-log").checks]

    wait, registered = (
        "E error waiting for MPS daemon: not ready",
        "I Registered device plugin for 'nvidia.com/gpu' with Kubelet",
    )
    xid = "XidCriticalError: Xid=79 on Device=GPU-1; marking device as unhealthy."
    assert said(wait) == [False]
    assert said(wait, registered) == [True]
    assert said(registered, xid) == [False]
    assert said(registered, xid, registered) == [True]


def test_labels_of_the_layout_count_and_others_do_not() -> None:
    from ragstow.plan.model import NodeLayout

    after = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "1"}
    layout = NodeLayout("n1", "exclusive", labels={"ragstow.dev/pool": "support"}, labels_after=after)
    (found,) = build([node("n1", labels={**gfd("NVIDIA-L40S", 4, 46068), "ragstow.dev/pool": "support"})]).nodes
    ref = ObjectRef.of(found)
    assert [check.passed for check in nodes._labels(found, ref, layout)] == [True]
    (bare,) = build([node("n1", labels=gfd("NVIDIA-L40S", 3, 46068))]).nodes
    (check,) = nodes._labels(bare, ref, layout)
    assert (check.passed, check.expected) == (False, "nvidia.com/gpu.count=4, ragstow.dev/pool=support")
    assert check.found == "nvidia.com/gpu.count=3, ragstow.dev/pool=(absent)"


def test_stack_pods_on_other_nodes_do_not_matter() -> None:
    plugin = pod("plugin", "n2", namespace="gpu")
    plugin["spec"]["containers"] = [{"name": "nvidia-device-plugin-ctr", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}]
    snapshot = build([node("n1"), node("n2"), plugin])
    assert stack.stack_pods(snapshot, FACTS, ["n1"]) == ()
    ((found, title),) = stack.stack_pods(snapshot, FACTS, ["n2"])
    assert (found.name, title) == ("plugin", "NVIDIA device plugin")
