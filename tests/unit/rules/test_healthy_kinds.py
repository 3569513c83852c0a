"""Healthy clusters of further kinds, with all that looks wrong in them and is not: nothing is found."""

from __future__ import annotations

from typing import Any

import pytest

from kinds import CHART, L4, hami, mig_single, shared_by_mps
from makers import pod, thing
from ragstow.cli.diagnosis import make_context
from ragstow.rules.run import diagnose
from rules_support import FACTS
from variants import GPU, SHARED, Variant, limit, running

Raw = dict[str, Any]


def quiet(variant: Variant, *, gated: bool = False) -> None:
    report = diagnose(make_context(variant.snapshot(), FACTS), strict=True)
    assert [f"{finding.rule}: {finding.headline}" for finding in report.findings] == []
    left = [item.missing for item in report.unknown if not (gated and "scheduling gate" in item.missing)]
    assert left == []


@pytest.mark.parametrize("rename", [True, False])
def test_mps_by_the_chart(rename: bool) -> None:
    quiet(shared_by_mps(rename=rename))


def test_time_slicing_under_the_plain_name() -> None:
    made = Variant("04")
    data = made.get("ConfigMap", f"{CHART}-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("renameByDefault: true", "renameByDefault: false")
    for name in ("l4-1", "l4-2"):
        made.relabel(name, {"nvidia.com/gpu.product": f"{L4}-SHARED"})
        made.offer(name, {GPU: 8, SHARED: None})
    for workload in ("classifier", "embedder", "reranker", "rewriter"):
        for spec in made.pod_specs(workload):
            limit(spec, {SHARED: None, GPU: 1})
            spec["nodeSelector"] = {"nvidia.com/gpu.product": f"{L4}-SHARED"}
    quiet(made)


def test_mig_single_under_the_operator() -> None:
    quiet(mig_single())


def test_mig_single_with_mig_off() -> None:
    made = mig_single()
    made.relabel(
        "h100-1",
        {
            "nvidia.com/mig.config": "all-disabled",
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.memory": "81559",
        },
    )
    made.offer("h100-1", {GPU: 8})
    for workload in ("embedder", "judge", "llm", "reranker", "rewriter"):
        for spec in made.pod_specs(workload):
            spec["nodeSelector"] = {}
    quiet(made)


def test_driver_installed_on_the_host() -> None:
    made = Variant("02")
    made.drop("DaemonSet", lambda item: item["metadata"]["name"] == "nvidia-driver-daemonset")
    made.drop("Pod", lambda item: item["metadata"]["name"].startswith("nvidia-driver-daemonset"))
    made.get("ClusterPolicy", "cluster-policy")["spec"]["driver"] = {"enabled": False}
    made.relabel("h100-1", {"nvidia.com/gpu-driver-upgrade-state": None, "nvidia.com/gpu.deploy.driver": "pre-installed"})
    quiet(made)


def test_eks_with_a_tainted_pool() -> None:
    made = Variant("01")
    for name in ("a100-1", "a100-2", "t4-1", "t4-2"):
        found = made.get("Node", name)
        found["spec"]["providerID"] = f"aws:///eu-west-1a/i-{name}"
        found["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
        kind = "p4d.24xlarge" if name.startswith("a100") else "g4dn.12xlarge"
        made.relabel(name, {"eks.amazonaws.com/nodegroup": "gpu", "node.kubernetes.io/instance-type": kind})
    for daemon_set in ("nvdp-node-feature-discovery-worker", CHART, f"{CHART}-gpu-feature-discovery"):
        for spec in made.pod_specs(daemon_set):
            spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    for workload in ("llm", "llm-small", "embedder", "reranker"):
        for spec in made.pod_specs(workload):
            spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
            spec.pop("runtimeClassName", None)
    quiet(made)


def test_aks_with_the_static_plugin_on_every_node() -> None:
    """The static manifest has no affinity: it runs on nodes without GPU too, and there are no labels of feature discovery."""
    made = Variant("01")
    made.drop("DaemonSet", lambda item: item["metadata"]["name"].startswith("nvdp"))
    made.drop("Pod", lambda item: item["metadata"]["name"].startswith("nvdp"))
    made.drop("Deployment", lambda item: item["metadata"]["name"].startswith("nvdp"))
    made.drop("ReplicaSet", lambda item: item["metadata"]["name"].startswith("nvdp"))
    container = {
        "name": "nvidia-device-plugin-ctr",
        "image": "mcr.microsoft.com/oss/v2/nvidia/k8s-device-plugin:v0.18.2",
        "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}],
    }
    labels = {"name": "nvidia-device-plugin-ds"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [container],
            "tolerations": [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
        },
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    made.add(
        thing("DaemonSet", "nvidia-device-plugin-daemonset", api="apps/v1", namespace="gpu-resources", spec=spec, status={})
    )
    for item in made.all("Node"):
        name = item["metadata"]["name"]
        item["spec"]["providerID"] = f"azure:///subscriptions/0/{name}"
        if name == "cp-1":
            continue
        made.serve("nvidia-device-plugin-daemonset", name)
        listed = item["metadata"]["labels"]
        for key in [key for key in listed if key.startswith(("nvidia.com/", "feature.node"))]:
            del listed[key]
        if name.startswith(("a100", "t4")):
            item["spec"]["taints"] = [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
            listed.update(
                {"kubernetes.azure.com/accelerator": "nvidia", "accelerator": "nvidia", "agentpool": name[:4].rstrip("-")}
            )
    for workload in ("llm", "llm-small", "embedder", "reranker"):
        for template_spec in made.pod_specs(workload):
            template_spec["tolerations"] = [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
            template_spec["nodeSelector"] = {"kubernetes.azure.com/accelerator": "nvidia"}
            template_spec["affinity"] = {}
            template_spec.pop("runtimeClassName", None)
    quiet(made)


def test_hami() -> None:
    quiet(hami())


def test_kai_fractions() -> None:
    made = Variant("01")
    queue = thing("Queue", "default", api="scheduling.run.ai/v2", spec={"resources": {"gpu": {"quota": -1, "limit": -1}}})
    made.add(queue)
    reservation = pod(
        "gpu-reservation-a100-1-x2k9p",
        "a100-1",
        {GPU: 1},
        namespace="kai-resource-reservation",
        labels={"app": "kai-resource-reservation", "runai-gpu-group": "g1"},
        annotations={"run.ai/reserve_for_gpu_index": "GPU-1"},
        tolerations=[{"operator": "Exists"}],
    )
    reservation["spec"]["containers"] = [
        {
            "name": "resource-reservation",
            "image": "ghcr.io/kai-scheduler/kai-scheduler/resource-reservation:v0.17.0",
            "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}},
        }
    ]
    reservation["status"] = running(reservation["spec"])
    made.drop("Pod", lambda item: item["metadata"]["name"].startswith("llm-small"))
    made.drop("Deployment", lambda item: item["metadata"]["name"] == "llm-small")
    made.drop("ReplicaSet", lambda item: item["metadata"]["name"].startswith("llm-small"))
    made.add(reservation)
    for number in (0, 1):
        sharer = pod(
            f"half-{number}",
            "a100-1",
            labels={"kai.scheduler/queue": "default", "runai-gpu-group": "g1"},
            annotations={"gpu-fraction": "0.5", "received-resource-type": "Fraction"},
            schedulerName="kai-scheduler",
            runtimeClassName="nvidia",
            tolerations=[{"operator": "Exists"}],
        )
        sharer["spec"]["containers"][0]["env"] = [
            {
                "name": "NVIDIA_VISIBLE_DEVICES",
                "valueFrom": {"configMapKeyRef": {"name": f"half-{number}-shared-gpu-0", "key": "x"}},
            }
        ]
        sharer["status"] = running(sharer["spec"])
        made.add(sharer)
        made.event(
            sharer,
            "Scheduled",
            f"Successfully assigned pod rag/half-{number} to node a100-1 at node-pool default",
            type_="Normal",
        )
    quiet(made)
