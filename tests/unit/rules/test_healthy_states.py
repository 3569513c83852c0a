"""Legitimate states of healthy clusters: cordoned, finished, gated, rolling over, scaled to zero. Nothing is found."""

from __future__ import annotations

import copy
from typing import Any

from makers import gfd, node, pod, thing
from ragstow.cli.diagnosis import make_context
from ragstow.rules.run import diagnose
from rules_support import FACTS
from variants import GPU, LATER, Variant, limit, pending

Raw = dict[str, Any]
CHART = "nvdp-nvidia-device-plugin"
L4 = "NVIDIA-L4"


def quiet(variant: Variant, *, gated: bool = False) -> None:
    report = diagnose(make_context(variant.snapshot(), FACTS), strict=True)
    assert [f"{finding.rule}: {finding.headline}" for finding in report.findings] == []
    left = [item.missing for item in report.unknown if not (gated and "scheduling gate" in item.missing)]
    assert left == []


def test_rag_blueprint() -> None:
    """nv-ingest has a limit of zero GPUs; NIM containers ask for GPUs only."""
    made = Variant("02")
    ingest = made.copy_workload("gateway", "nv-ingest", ["infra-1"], lambda spec: limit(spec, {GPU: 0}))
    assert ingest[0]["spec"]["containers"][0]["resources"]["limits"][GPU] == "0"

    def nim(spec: Raw) -> None:
        spec["containers"][0]["resources"] = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
        spec["containers"][0]["image"] = "nvcr.io/nim/nvidia/nemotron-page-elements-v3:1.7"

    made.copy_workload("llm", "nemotron-page-elements-v3", ["h100-1"], nim)
    quiet(made)


def test_cordoned_for_maintenance() -> None:
    made = Variant("01")
    found = made.get("Node", "t4-2")
    found["spec"]["unschedulable"] = True
    found["spec"]["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": LATER})
    quiet(made)


def test_finished_and_retried_jobs_hold_nothing() -> None:
    made = Variant("01")
    for name, phase, number in (("index-1", "Succeeded", 0), ("index-2", "Failed", 1), ("index-2", "Succeeded", 2)):
        done = pod(f"{name}-{number}", "t4-2", {GPU: 1}, phase=phase)
        done["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
        ]
        code = 0 if phase == "Succeeded" else 1
        ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
        done["status"]["containerStatuses"] = [
            {"name": "main", "ready": False, "restartCount": 0, "image": "x", "state": ended}
        ]
        made.add(done)
    for name in ("index-1", "index-2"):
        status = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
        made.add(thing("Job", name, api="batch/v1", namespace="rag", spec={"completions": 1}, status=status))
    quiet(made)


def test_scaled_to_zero_and_suspended() -> None:
    made = Variant("01")
    made.copy_workload("embedder", "nightly", [])
    spec = {"suspend": True, "parallelism": 4, "template": {"spec": {"containers": []}}}
    made.add(thing("Job", "later", api="batch/v1", namespace="rag", spec=spec, status={}))
    quiet(made)


def test_a_rollout_that_has_room_for_its_surge() -> None:
    made = Variant("14")
    deployment = made.get("Deployment", "vllm-bge-m3-deployment-vllm")
    deployment["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}
    made.copy_node("l4-2", "l4-3")
    made.serve(CHART, "l4-3")
    made.serve(f"{CHART}-gpu-feature-discovery", "l4-3")
    made.serve("nvdp-node-feature-discovery-worker", "l4-3")
    old = made.pods_of("vllm-bge-m3-deployment-vllm")[0]
    new = copy.deepcopy(old)
    new["metadata"].update(name="vllm-bge-m3-deployment-vllm-new", uid="new", creationTimestamp=LATER)
    new["spec"]["nodeName"] = "l4-3"
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    new["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER}],
        "containerStatuses": [
            {"name": new["spec"]["containers"][0]["name"], "ready": False, "restartCount": 0, "state": waiting}
        ],
    }
    made.add(new)
    quiet(made)


def test_old_events_of_pods_that_run_now() -> None:
    made = Variant("01")
    found = made.pods_of("embedder")[0]
    for reason, message in (
        ("FailedScheduling", "0/7 nodes are available: 7 Insufficient nvidia.com/gpu."),
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: 2 Insufficient nvidia.com/gpu, 1 max node group size reached"),
        ("Unhealthy", "Startup probe failed: connection refused"),
        ("FailedMount", 'MountVolume.SetUp failed for volume "models": timed out'),
        ("BackOff", "Back-off restarting failed container main in pod embedder"),
    ):
        made.event(found, reason, message, when="2026-11-30T20:31:00Z")
    quiet(made)


def test_dra_on_some_nodes_and_the_plugin_on_others() -> None:
    made = Variant("10")
    other = Variant("01")
    names = {"a100-1", "a100-2", "t4-1", "t4-2"}
    made.add(*(item for item in other.all("Node") if item["metadata"]["name"] in names))
    made.add(*(item for item in other.all("DaemonSet") if item["metadata"]["name"].startswith("nvdp")))
    made.add(
        *(
            item
            for item in other.all("Pod")
            if item["metadata"]["name"].startswith("nvdp") and item["spec"]["nodeName"] in names
        )
    )
    made.add(*other.all("RuntimeClass"))
    # Each keeps off the other's nodes, as the documentation of both asks for.
    selector = {"key": "nvidia.com/dra", "operator": "DoesNotExist"}
    for daemon_set in (CHART, f"{CHART}-gpu-feature-discovery", f"{CHART}-mps-control-daemon"):
        terms = made.get("DaemonSet", daemon_set)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        for term in terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]:
            term["matchExpressions"].append(selector)
    for name in ("dra-1", "dra-2", "dra-3"):
        made.relabel(name, {"nvidia.com/dra": "true"})
    driver = made.get("DaemonSet", "dra-driver-nvidia-gpu-kubelet-plugin")["spec"]["template"]["spec"]
    driver["nodeSelector"] = {"nvidia.com/dra": "true"}
    quiet(made)


def test_two_plugins_for_two_pools() -> None:
    made = Variant("01")
    plugin = made.get("DaemonSet", CHART)
    second = copy.deepcopy(plugin)
    second["metadata"].update(name="t4-nvidia-device-plugin", uid="second")
    second["spec"]["selector"] = {"matchLabels": {"app.kubernetes.io/instance": "t4"}}
    second["spec"]["template"]["metadata"]["labels"] = {"app.kubernetes.io/instance": "t4"}
    second["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "t4"}
    second["status"] = {}
    plugin["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a100"}
    made.add(second)
    for name in ("a100-1", "a100-2", "t4-1", "t4-2"):
        made.relabel(name, {"pool": name[:-2]})
    for item in made.pods_of(CHART):
        item["spec"]["nodeSelector"] = {"pool": item["spec"]["nodeName"][:-2]}
        if item["spec"]["nodeName"].startswith("t4"):
            item["metadata"]["labels"] = {"app.kubernetes.io/instance": "t4"}
            item["metadata"]["ownerReferences"][0].update(name="t4-nvidia-device-plugin", uid="second")
    for item, count in ((plugin, 2), (second, 2)):
        for key in ("currentNumberScheduled", "desiredNumberScheduled", "numberReady", "numberAvailable"):
            item["status"][key] = count
    quiet(made)


def test_gated_pods_are_no_finding() -> None:
    made = Variant("01")
    waits = made.copy_workload("embedder", "batch", [None])[0]
    waits["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    gate = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    waits["status"] = {**pending(LATER), "conditions": [gate]}
    made.get("Deployment", "batch")["status"] = {}
    quiet(made, gated=True)


def test_a_spot_node_that_left_and_whose_pods_found_another() -> None:
    made = Variant("01")
    found = made.get("Node", "t4-2")
    for pod_ in [
        item for item in made.all("Pod") if item["spec"].get("nodeName") == "t4-2" and item["metadata"]["namespace"] == "rag"
    ]:
        pod_["metadata"]["deletionTimestamp"] = LATER
    for condition in found["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition.update(status="Unknown", reason="NodeStatusUnknown")
    found["spec"]["taints"].append({"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"})
    quiet(made)


def test_a_cluster_without_gpus() -> None:
    quiet(Variant("", node("cpu-1"), node("cpu-2"), pod("web", "cpu-1", {"cpu": 1})))


def test_labels_and_cards_without_any_chart() -> None:
    """A folder of nodes and pods only: what installed the plugin is not in the data."""
    cluster = [node("gpu-1", {GPU: 4}, gfd(L4, 4, 23034)), pod("llm", "gpu-1", {GPU: 1}), pod("free", "gpu-1")]
    quiet(Variant("", *cluster))
