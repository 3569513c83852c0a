"""What a pod should see: from the plan, and from labels where there is none; and the pods themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makers import gfd, node, pod
from ragstow import facts as known
from ragstow.cluster.build import build
from ragstow.cluster.snapshot import Snapshot
from ragstow.inventory.build import inventory
from ragstow.plan.model import ClaimKind, ClusterFacts, ComponentPlan, Placement, Plan, PluginInstall, SlotKind
from ragstow.verification.model import ObjectRef
from ragstow.verification.targets import Expected, pods_of, targets
from ragstow.verification.workloads import check_workloads
from render_plans import got, sized

FACTS = known.load()
GIB = 2**30
SERVICE = ObjectRef("RagService", "rag", "support")
H100 = "NVIDIA-H100-80GB-HBM3"


def labels(component: str) -> dict[str, str]:
    return {"ragstow.dev/service": "support", "ragstow.dev/component": component}


def gpu_pod(name: str, component: str, resource: str = "nvidia.com/gpu", count: int = 1, **more: Any) -> dict[str, Any]:
    made = pod(name, "n1", {resource: count}, labels=labels(component), **more)
    made["spec"]["containers"][0]["resources"]["limits"] = {resource: str(count)}
    return made


def plan(*rows: ComponentPlan, placements: tuple[Placement, ...] = ()) -> Plan:
    cluster = ClusterFacts("1.37.2", "server", PluginInstall("chart"), (), False, None, "d")
    return Plan(
        "support", "rag", True, 1, 1, "", True, "exact", rows, placements, (), (), (), (), (), {"spec": {}}, cluster, "d"
    )  # fmt: skip


def expected(snapshot: Snapshot, of: Plan | None) -> dict[str, Expected]:
    found = targets(pods_of(snapshot, "support", "rag"), of, inventory(snapshot, FACTS), FACTS)
    return {item.pod.name: item.expected for item in found}


def cluster(*pods: dict[str, Any], **more: str) -> Snapshot:
    return build([node("n1", {"nvidia.com/gpu": 8}, gfd(H100, 8, 81559, more)), *pods])


def test_whole_cards_of_a_plan() -> None:
    slot = SlotKind("exclusive", "nvidia.com/gpu", 2, None, H100, 1, 79 * GIB)
    snapshot = cluster(gpu_pod("llm-0", "llm", count=2), pod("vectors-0", "n1", labels=labels("vectors")))
    found = expected(snapshot, plan(got("llm", slot, 1, sized("llm", 60))))
    assert list(found) == ["llm-0"]
    wanted = found["llm-0"]
    assert (wanted.mode, wanted.count, wanted.product, wanted.profile) == ("exclusive", 2, H100, None)
    assert (wanted.total_mib, wanted.total_source) == ((79112, 84005), "node n1")
    assert (wanted.peak_bytes, wanted.band) == (60 * GIB, (60 * GIB, 60 * GIB))


def test_slices_of_a_plan_have_their_own_memory() -> None:
    slot = SlotKind("mig", "nvidia.com/mig-1g.10gb", 1, "1g.10gb", H100, 1, 9984 << 20)
    found = expected(cluster(gpu_pod("e-0", "e", "nvidia.com/mig-1g.10gb")), plan(got("e", slot)))["e-0"]
    assert found.total_mib is not None
    assert found.total_mib[0] < 9984 < found.total_mib[1] < 10400
    other = SlotKind("mig", "nvidia.com/mig-1g.10gb", 1, "1g.10gb", "No-Such-Card", 1, 9984 << 20)
    found = expected(cluster(gpu_pod("e-0", "e", "nvidia.com/mig-1g.10gb")), plan(got("e", other)))["e-0"]
    assert (found.total_mib, found.total_source) == ((9684, 10283), "the plan's slice 1g.10gb")


def test_a_claim_counts_its_devices() -> None:
    made = pod("llm-0", "n1", labels=labels("llm"))
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    slot = SlotKind("dra", None, 0, None, H100, 1, 79 * GIB)
    row = got("llm", slot, claim=ClaimKind("gpu.nvidia.com", 2))
    snapshot = cluster(made)
    (item,) = targets(pods_of(snapshot, "support", "rag"), plan(row), inventory(snapshot, FACTS), FACTS)
    assert (item.resource, item.expected.mode, item.expected.count) == (None, "dra", 2)


@pytest.mark.parametrize(
    ("product", "resource", "more", "mode", "profile", "sharers"),
    [
        (H100, "nvidia.com/gpu", {}, "exclusive", None, 1),
        (H100, "nvidia.com/mig-3g.40gb", {}, "mig", "3g.40gb", 1),
        (
            f"{H100}-SHARED",
            "nvidia.com/gpu",
            {"gpu.replicas": "4", "gpu.sharing-strategy": "time-slicing"},
            "time-slicing",
            None,
            4,
        ),
        (f"{H100}-SHARED", "nvidia.com/gpu", {"gpu.replicas": "3", "gpu.sharing-strategy": "mps"}, "mps", None, 3),
    ],
)
def test_without_a_plan_labels_say_it(
    product: str, resource: str, more: dict[str, str], mode: str, profile: str | None, sharers: int
) -> None:
    replicas = int(more.get("gpu.replicas", "1"))
    labelled = gfd(product, 8, 81559, more)
    snapshot = build([node("n1", {resource: 8 * replicas}, labelled), gpu_pod("a-0", "a", resource)])
    found = expected(snapshot, None)["a-0"]
    assert (found.mode, found.profile, found.sharers, found.product) == (mode, profile, sharers, H100)
    assert found.band is None
    assert found.total_mib is not None


def test_promises_about_components_without_a_gpu_are_none() -> None:
    from ragstow.verification.judge import _promises

    none = SlotKind("none", None, 0, None, None, 1, 0)
    card = SlotKind("exclusive", "nvidia.com/gpu", 1, None, H100, 1, 79 * GIB)
    made = plan(got("a", card), got("b", card), got("cpu", none))
    placement = {"together": [["a", "cpu"]], "apart": [["a", "b", "cpu"], ["a"], ["cpu"], ["b", "cpu"]]}
    assert _promises(replace(made, spec={"spec": {"placement": placement}})) == ([], [["a", "b"], ["a"]])
    assert _promises(made) == ((), ())
    assert _promises(None) == ((), ())


def test_only_pods_of_the_service_that_stay() -> None:
    gone = gpu_pod("gone", "llm")
    gone["metadata"]["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    other = gpu_pod("other", "llm")
    other["metadata"]["labels"]["ragstow.dev/service"] = "else"
    elsewhere = gpu_pod("elsewhere", "llm", namespace="team")
    done = gpu_pod("done", "llm", phase="Succeeded")
    snapshot = cluster(gone, other, elsewhere, done, gpu_pod("b", "llm"), gpu_pod("a", "llm"))
    assert [item.name for item in pods_of(snapshot, "support", "rag")] == ["a", "b"]


def placed(component: str, *nodes: str) -> Placement:
    return Placement(component, 0, nodes[0], nodes, None, "exclusive", None, "nvidia.com/gpu", 0)


def test_pods_are_counted_ready_and_where_they_may_be() -> None:
    slot = SlotKind("exclusive", "nvidia.com/gpu", 1, None, H100, 1, 79 * GIB)
    row = replace(got("llm", slot, 2), node_labels={"nvidia.com/gpu.product": (H100,)})
    crashing = gpu_pod("llm-1", "llm")
    crashing["status"]["containerStatuses"] = [
        {
            "name": "c",
            "ready": False,
            "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "no GPU"}},
        }
    ]
    snapshot = cluster(gpu_pod("llm-0", "llm"), crashing)
    nodes = {item.name: item for item in snapshot.nodes}
    pods = pods_of(snapshot, "support", "rag")

    def judged(where: tuple[str, ...], row: ComponentPlan = row) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
        outcome = check_workloads(pods, plan(row, placements=(placed("llm", *where),)), SERVICE, nodes)
        return [(check.name, check.object.name) for check in outcome.checks if not check.passed], outcome.remarks

    assert judged(("n1", "n2")) == ([("pod-ready", "llm-1")], ())
    failed, remarks = judged(("n2",))
    assert failed == [("pod-ready", "llm-1")]
    assert remarks == ("llm-0 is on n1, the plan had it on n2", "llm-1 is on n1, the plan had it on n2")
    elsewhere = replace(row, node_labels={"nvidia.com/gpu.product": ("NVIDIA-L40S",)})
    assert judged(("n2",), elsewhere)[0] == [("pod-node", "llm-0"), ("pod-ready", "llm-1"), ("pod-node", "llm-1")]
    assert judged(("n2",), replace(row, pool=True))[0][0] == ("pod-node", "llm-0")
    assert judged(("n1",), replace(row, replicas=3))[0][0] == ("component-replicas", "support")


def test_what_a_crashing_pod_said_is_evidence() -> None:
    crashing = gpu_pod("llm-0", "llm")
    crashing["status"]["containerStatuses"] = [
        {
            "name": "c",
            "ready": False,
            "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "no GPU"}},
        }
    ]
    (found,) = pods_of(cluster(crashing), "support", "rag")
    outcome = check_workloads([found], None, SERVICE, {})
    (check,) = outcome.checks
    assert (check.found, check.hint) == ("crashing (CrashLoopBackOff), 4 restarts", "ragstow diagnose rag/llm-0")
    assert check.evidence[0].value.endswith(": no GPU")
