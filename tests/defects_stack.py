"""Defects of the device plugin, of sharing, MIG and DRA."""

from __future__ import annotations

import copy
import json

from defects import CHART, Defect, defect, keys
from makers import thing
from variants import GPU, LATER, SHARED, Variant, crashing, limit


@defect
def a_new_node_without_the_gate_labels() -> Defect:
    made = Variant("01")
    found = made.copy_node("t4-2", "t4-3")
    found["metadata"]["labels"] = {
        k: v for k, v in found["metadata"]["labels"].items() if "nvidia" not in k and "feature.node" not in k
    }
    found["metadata"]["labels"]["feature.node.kubernetes.io/pci-0302_10de.present"] = "true"
    made.offer("t4-3", {GPU: None})
    pods = made.copy_workload("reranker", "code", [None, None, None])
    for pod, node in zip(pods[:1], ["t4-2"], strict=True):
        pod["spec"]["nodeName"] = node
        pod["status"] = copy.deepcopy(made.pods_of("reranker")[0]["status"])
    return Defect(made, "device-plugin-not-scheduled", ("Node t4-3",), None, also=("gpu-exhausted",))


@defect
def the_plugin_is_gone_from_its_only_node() -> Defect:
    made = Variant("06")
    made.relabel("ragbox", {"nvidia.com/gpu.present": None})
    made.drop("Pod", lambda item: item["metadata"]["name"].startswith("nvdp"))
    made.get("DaemonSet", CHART)["status"].update(
        desiredNumberScheduled=0, currentNumberScheduled=0, numberReady=0, numberAvailable=0
    )
    made.offer("ragbox", {GPU: 0})
    pods = [*made.pods_of("llm"), *made.pods_of("embedder")]
    gpu = [pod for pod in pods if any(GPU in c["resources"].get("limits", {}) for c in pod["spec"]["containers"])]
    made.evict(gpu)
    return Defect(made, "device-plugin-not-scheduled", (f"DaemonSet nvidia-device-plugin/{CHART}", "Node ragbox"), keys(gpu))


@defect
def a_label_names_no_configuration() -> Defect:
    made = Variant("04")
    made.relabel("l4-3", {"nvidia.com/device-plugin.config": "shared-8"})
    made.copy_workload("embedder", "more", ["l4-1"] * 3 + ["l4-2"] * 4)
    pods = made.copy_workload("embedder", "code", [None, None])
    return Defect(made, "sharing-config-unknown", ("Node l4-3",), keys(pods), also=("gpu-exhausted",))


@defect
def the_default_names_no_configuration() -> Defect:
    made = Variant("04")
    for spec in made.pod_specs(CHART):
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for variable in container.get("env", ()):
                if variable["name"] == "DEFAULT_CONFIG":
                    variable["value"] = "exclusiv"
    made.offer("l4-3", {GPU: 0})
    pods = made.pods_of("llm")
    made.evict(pods)
    plugin = next(pod for pod in made.pods_of(CHART) if pod["spec"]["nodeName"] == "l4-3")
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    plugin["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "Initialized", "status": "False", "lastTransitionTime": LATER}],
        "initContainerStatuses": [{"name": "nvidia-device-plugin-init", "ready": False, "restartCount": 7, "state": waiting}],
    }
    return Defect(made, "sharing-config-unknown", ("Node l4-3",), keys(pods), also=("wrong-resource-name",))


@defect
def misplaced_rename() -> Defect:
    made = Variant("04")
    data = made.get("ConfigMap", f"{CHART}-configs")["data"]
    data["shared-4"] = (
        "version: v1\nflags:\n  migStrategy: none\n  renameByDefault: true\n"
        "sharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
    )
    for name in ("l4-1", "l4-2"):
        made.offer(name, {GPU: 8, SHARED: 0})
        made.relabel(name, {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"})
    pods = made.copy_workload("embedder", "code", [None, None])
    return Defect(made, "sharing-config-invalid", (f"ConfigMap nvidia-device-plugin/{CHART}-configs",), keys(pods))


@defect
def one_replica_is_no_sharing() -> Defect:
    made = Variant("04")
    data = made.get("ConfigMap", f"{CHART}-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("replicas: 4", "replicas: 1")
    held = []
    for name in ("l4-1", "l4-2"):
        made.offer(name, {SHARED: 0})
        plugin = next(pod for pod in made.pods_of(CHART) if pod["spec"]["nodeName"] == name)
        crashing(plugin)
    for workload in ("classifier", "embedder", "reranker", "rewriter"):
        held += made.pods_of(workload)
    made.evict(held)
    return Defect(made, "sharing-config-invalid", (f"ConfigMap nvidia-device-plugin/{CHART}-configs",), keys(held))


@defect
def the_operator_is_not_told_which_key() -> Defect:
    made = Variant("02")
    made.get("ClusterPolicy", "cluster-policy")["spec"]["devicePlugin"]["config"] = {"name": "shares", "default": ""}
    sharing = {"timeSlicing": {"renameByDefault": True, "resources": [{"name": GPU, "replicas": 4}]}}
    text = json.dumps({"version": "v1", "sharing": sharing})
    made.add(thing("ConfigMap", "shares", namespace="gpu-operator", data={"any": text}))
    plugin = "nvidia-device-plugin-daemonset"
    environment = {
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": "",
        "FALLBACK_STRATEGIES": "empty",
    }
    for spec in made.pod_specs(plugin):
        spec.setdefault("volumes", []).append({"name": "available-configs", "configMap": {"name": "shares"}})
        env = [{"name": key, "value": value} for key, value in environment.items()]
        mount = {"name": "available-configs", "mountPath": "/available-configs"}
        spec["containers"].append({"name": "config-manager", "image": "k8s-device-plugin", "env": env, "volumeMounts": [mount]})
        for container in spec["containers"]:
            container.setdefault("env", []).append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
    pods = made.copy_workload(
        "embedder", "code", [None, None], lambda spec: limit(spec, {"nvidia.com/mig-1g.10gb": None, SHARED: 1})
    )
    return Defect(
        made, "sharing-config-not-applied", ("ConfigMap gpu-operator/shares",), keys(pods), also=("wrong-resource-name",)
    )


@defect
def mps_without_feature_discovery() -> Defect:
    made = Variant("04")
    data = made.get("ConfigMap", f"{CHART}-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("timeSlicing", "mps")
    made.drop(
        "DaemonSet", lambda item: "feature-discovery" in item["metadata"]["name"] and "node-" not in item["metadata"]["name"]
    )
    made.drop("Pod", lambda item: "gpu-feature-discovery" in item["metadata"]["name"])
    held = []
    for name in ("l4-1", "l4-2"):
        made.relabel(name, {"nvidia.com/mps.capable": None, "nvidia.com/gpu.sharing-strategy": None})
        made.offer(name, {SHARED: 0})
    for workload in ("classifier", "embedder", "reranker", "rewriter"):
        held += made.pods_of(workload)
    made.evict(held)
    return Defect(made, "mps-not-ready", ("Node l4-1", "Node l4-2"), keys(held), also=("wrong-resource-name",))


@defect
def a_strategy_that_does_not_fit_the_cut() -> Defect:
    made = Variant("02")
    made.get("ClusterPolicy", "cluster-policy")["spec"]["mig"]["strategy"] = "single"
    for spec in made.pod_specs("nvidia-device-plugin-daemonset"):
        for container in spec["containers"]:
            for variable in container.get("env", ()):
                if variable["name"] == "MIG_STRATEGY":
                    variable["value"] = "single"
    made.relabel("h100-1", {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID"})
    made.offer("h100-1", {GPU: 0, "nvidia.com/mig-1g.10gb": 0, "nvidia.com/mig-2g.20gb": 0, "nvidia.com/mig-3g.40gb": 0})
    crashing(made.pods_of("nvidia-device-plugin-daemonset")[0])
    pods = made.pods_of("judge")
    made.evict(pods)
    return Defect(
        made, "mig-strategy-mismatch", ("Node h100-1",), keys(pods), also=("wrong-resource-name", "node-selector-mismatch")
    )


@defect
def a_change_of_the_cut_that_is_stuck() -> Defect:
    made = Variant("02")
    paused = ("device-plugin", "gpu-feature-discovery", "dcgm", "dcgm-exporter")
    made.relabel(
        "h100-1",
        {
            "nvidia.com/mig.config": "all-1g.10gb",
            "nvidia.com/mig.config.state": "pending",
            **{f"nvidia.com/gpu.deploy.{name}": "paused-for-mig-change" for name in paused},
        },
    )
    made.offer("h100-1", {GPU: 0, "nvidia.com/mig-1g.10gb": 0, "nvidia.com/mig-2g.20gb": 0, "nvidia.com/mig-3g.40gb": 0})
    for name in ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter"):
        for pod in made.pods_of(name):
            made.objects.remove(pod)
        made.get("DaemonSet", name)["status"].update(
            desiredNumberScheduled=0, currentNumberScheduled=0, numberReady=0, numberAvailable=0
        )
    pods = made.pods_of("rewriter")
    made.evict(pods)
    return Defect(made, "mig-reconfig-stuck", ("Node h100-1",), keys(pods))


@defect
def a_layout_with_a_profile_of_another_card() -> Defect:
    made = Variant("02")
    data = made.get("ConfigMap", "rag-mig-config")["data"]
    key = next(iter(data))
    layout = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}]
    data[key] = json.dumps({"version": "v1", "mig-configs": {"small": layout}})
    made.relabel("h100-1", {"nvidia.com/mig.config": "small", "nvidia.com/mig.config.state": "failed"})
    pods = made.copy_workload(
        "embedder", "code", [None], lambda spec: limit(spec, {"nvidia.com/mig-1g.10gb": None, "nvidia.com/mig-1g.5gb": 1})
    )
    return Defect(made, "mig-config-invalid", ("Node h100-1",), keys(pods))


@defect
def the_dra_driver_does_not_tolerate_a_new_taint() -> Defect:
    made = Variant("10")
    driver = "dra-driver-nvidia-gpu-kubelet-plugin"
    made.drop("ResourceSlice")
    for pod in made.pods_of(driver):
        made.objects.remove(pod)
    made.get("DaemonSet", driver)["status"].update(
        desiredNumberScheduled=0, currentNumberScheduled=0, numberReady=0, numberAvailable=0
    )
    made.get("DaemonSet", driver)["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    pods = made.copy_workload("vision", "ocr", [None])
    return Defect(made, "dra-driver-not-ready", (f"DaemonSet dra-driver-nvidia-gpu/{driver}",), keys(pods))


@defect
def a_claim_for_a_card_that_is_not_there() -> Defect:
    made = Variant("10")
    template = copy.deepcopy(made.all("ResourceClaimTemplate")[0])
    namespace = template["metadata"]["namespace"]
    template["metadata"].update(name="one-h100", uid="one-h100")
    request = template["spec"]["spec"]["devices"]["requests"][0]
    request["exactly"] = {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'"}}],
    }
    made.add(template)
    pods = made.copy_workload(
        "rewriter",
        "judge-2",
        [None],
        lambda spec: spec.update(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-h100"}]),
    )
    for spec in made.pod_specs("judge-2"):
        spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    for pod in pods:
        name = f"{pod['metadata']['name']}-gpu-x"
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
        claim = thing(
            "ResourceClaim",
            name,
            api="resource.k8s.io/v1",
            namespace=namespace,
            owners=[owner],
            spec=template["spec"]["spec"],
            status={},
        )
        made.add(claim)
        pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": name}]
    return Defect(made, "dra-selector-mismatch", ("Deployment rag/judge-2",), keys(pods))


@defect
def plugin_and_dra_driver_on_one_node() -> Defect:
    made = Variant("10")
    other = Variant("01")
    made.add(*(item for item in other.all("DaemonSet") if item["metadata"]["name"] == CHART))
    made.add(*other.all("RuntimeClass"))
    made.get("DaemonSet", CHART)["status"] = {}
    for name in ("dra-1", "dra-2", "dra-3"):
        made.serve(CHART, name)
        made.offer(name, {GPU: 4})
    return Defect(made, "device-plugin-dra-conflict", (f"DaemonSet nvidia-device-plugin/{CHART}",))


@defect
def two_plugins_on_one_node() -> Defect:
    made = Variant("01")
    second = copy.deepcopy(made.get("DaemonSet", CHART))
    second["metadata"].update(name="nvidia-device-plugin-daemonset", namespace="kube-system", uid="second")
    labels = {"name": "nvidia-device-plugin-ds"}
    second["spec"]["selector"] = {"matchLabels": labels}
    second["spec"]["template"]["metadata"]["labels"] = labels
    second["status"] = {}
    made.add(second)
    for name in ("a100-1", "a100-2", "t4-1", "t4-2"):
        made.serve("nvidia-device-plugin-daemonset", name)
    return Defect(made, "device-plugin-duplicate", ("DaemonSet kube-system/nvidia-device-plugin-daemonset",))


@defect
def the_operators_driver_does_not_come_up() -> Defect:
    made = Variant("02")
    crashing(made.pods_of("nvidia-driver-daemonset")[0])
    for name in (
        "nvidia-container-toolkit-daemonset",
        "nvidia-device-plugin-daemonset",
        "gpu-feature-discovery",
        "nvidia-dcgm-exporter",
    ):
        pod = made.pods_of(name)[0]
        waiting = [{"name": "init", "ready": False, "restartCount": 0, "state": {"running": {"startedAt": LATER}}}]
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-12-01T01:00:00Z"}
        pod["status"] = {"phase": "Pending", "conditions": [ready], "initContainerStatuses": waiting}
    made.offer("h100-1", {GPU: 0, "nvidia.com/mig-1g.10gb": 0, "nvidia.com/mig-2g.20gb": 0, "nvidia.com/mig-3g.40gb": 0})
    pods = [*made.pods_of("judge"), *made.pods_of("llm")]
    made.evict(pods)
    return Defect(made, "driver-not-installed", ("Node h100-1",), keys(pods), also=("gpu-unhealthy",))
