"""Public reports about device plugins, sharing, MIG permissions and claims, as folders of what their authors attached.

Facts and what programs wrote are the reports'; names and the rest are ours. The report's address stands in each.
"""

from __future__ import annotations

from typing import Any

from broken import Wanted, defect
from broken.cluster import Cluster, Raw
from broken.small import GPU, PLUGIN, container, crashes, daemons, node, pod, refused, runs, stands, waits, workload
from makers import config_map, thing

GROUP = "resource.k8s.io"
PRESENT = {"nvidia.com/gpu.present": "true"}
ENGINE = container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: 1})
HAMI = [container("device-plugin", "projecthami/hami:v2.3.13"), container("vgpu-monitor", "projecthami/hami:v2.3.13")]
DRIVER = [
    container("compute-domains", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0"),
    container("gpus", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0"),
]
CLASS = "gpu.nvidia.com"
NO_CLAIM = (
    "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: "
    "1 Preemption is not helpful for scheduling."
)


def _slice(on: str, *devices: Raw, version: str = "v1") -> Raw:
    inner = [{"name": d["name"], "basic": {k: v for k, v in d.items() if k != "name"}} for d in devices]
    spec = {"driver": CLASS, "nodeName": on, "pool": {"name": on, "generation": 1, "resourceSliceCount": 1}}
    listed = inner if version == "v1beta1" else list(devices)
    return thing("ResourceSlice", f"0-{CLASS}-{on}", api=f"{GROUP}/{version}", spec={**spec, "devices": listed})


def _card(number: int, product: str = "NVIDIA A100-SXM4-80GB") -> Raw:
    return {
        "name": f"gpu-{number}",
        "attributes": {"type": {"string": "gpu"}, "productName": {"string": product}},
        "capacity": {"memory": {"value": "81920Mi"}},
    }


def _class(name: str = CLASS, kind: str = "gpu") -> Raw:
    expression = f"device.driver == '{CLASS}' && device.attributes['{CLASS}'].type == '{kind}'"
    return thing("DeviceClass", name, api=f"{GROUP}/v1", spec={"selectors": [{"cel": {"expression": expression}}]})


def _asks(expression: str = "", name: str = CLASS, count: int = 1) -> Raw:
    exactly: Raw = {"deviceClassName": name, "count": count, "allocationMode": "ExactCount"}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def _claim(name: str, spec: Raw, status: Raw | None = None, version: str = "v1") -> Raw:
    return thing("ResourceClaim", name, api=f"{GROUP}/{version}", namespace="rag", spec=spec, status=status or {})


def _claimant(name: str, status: Raw, on: str = "", **claim: str) -> Raw:
    user = container("vllm", "vllm/vllm-openai:v0.12.0", resources={"claims": [{"name": "gpu"}]})
    return pod(name, "rag", user, status, on, resourceClaims=[{"name": "gpu", **claim}])


def _event(about: Raw, reason: str, message: str) -> Raw:
    meta = about["metadata"]
    involved = {"kind": about["kind"], "name": meta["name"], "namespace": meta.get("namespace", ""), "uid": meta["uid"]}
    return thing(
        "Event", f"{meta['name']}.1", namespace=meta["namespace"], involvedObject=involved, reason=reason, message=message,
        type="Warning", count=3, lastTimestamp="2026-11-30T20:00:00Z",
    )  # fmt: skip


# device-plugin-duplicate


@defect
def hami_beside_the_operators_plugin_told_by_daemonsets() -> tuple[Cluster, Wanted]:
    """https://github.com/Project-HAMi/HAMi/issues/829"""
    c = Cluster("", node("edge-1", {GPU: 2}, PRESENT | {"gpu": "on", "nvidia.com/gpu.deploy.device-plugin": "true"}))
    operators = {"nvidia.com/gpu.deploy.device-plugin": "true"}
    c.add(daemons("nvidia-device-plugin-daemonset", "gpu-operator", PLUGIN, 1, 1, nodeSelector=operators))
    c.add(daemons("hami-device-plugin", "kube-system", HAMI, 1, 1, nodeSelector={"gpu": "on"}))
    return c, Wanted("device-plugin-duplicate", "DaemonSet kube-system/hami-device-plugin")


@defect
def an_old_plugin_undoes_what_the_new_one_shares() -> tuple[Cluster, Wanted]:
    """https://github.com/eksctl-io/eksctl/issues/4771: the tool had installed a plugin, the chart brought another."""
    c = Cluster("", node("g4-1", {GPU: 1}, PRESENT), node("m5-1"))
    c.add(daemons("nvidia-device-plugin-daemonset", "kube-system", PLUGIN, 1, 1))
    c.add(daemons("nvdp", "gpu", PLUGIN, 1, 1))
    c.add(
        config_map(
            "nvdp-configs",
            {
                "config.yaml": "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
            },
        )
    )
    c.add(
        pod(
            "nvidia-device-plugin-daemonset-aa",
            "kube-system",
            PLUGIN,
            runs(),
            "g4-1",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
        )
    )
    c.add(pod("nvdp-bb", "gpu", PLUGIN, runs(), "g4-1", ("DaemonSet", "nvdp")))
    c.add(pod("ollama-5d-1", "llm", ENGINE, runs(), "g4-1", ("ReplicaSet", "ollama-5d")))
    c.add(pod("ollama-5d-2", "llm", ENGINE, waits(), "", ("ReplicaSet", "ollama-5d")))
    return c, Wanted("device-plugin-duplicate", "DaemonSet gpu/nvdp", ("llm/ollama-5d-2",))


# device-plugin-start-race


@defect
def refused_at_boot_and_nothing_is_told_of_the_node() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes/kubernetes/issues/133382"""
    said = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
    c = Cluster("")
    for tail in "abc":
        c.add(
            pod(
                f"embed-6c9-{tail}", "rag", ENGINE, refused("UnexpectedAdmissionError", said), "n1", ("ReplicaSet", "embed-6c9")
            )
        )
    c.add(pod("embed-6c9-d", "rag", ENGINE, runs(), "n1", ("ReplicaSet", "embed-6c9")))
    held = tuple(f"rag/embed-6c9-{tail}" for tail in "abc")
    return c, Wanted("device-plugin-start-race", "Pod rag/embed-6c9-a", held)


# device-plugin-dra-conflict


@defect
def the_operator_refuses_plugin_and_claims_together() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/pull/1541"""
    said = (
        "failed to initialize ClusterPolicy controller: ClusterPolicy validation failed: failed to validate DRA: the device-plugin "
        "and DRA driver for GPUs cannot both be enabled in ClusterPolicy"
    )
    status = {
        "state": "notReady",
        "conditions": [{"type": "Error", "status": "True", "reason": "ReconcileFailed", "message": said}],
    }
    spec = {"devicePlugin": {"enabled": True}, "draDriver": {"gpus": {"enabled": True}}}
    c = Cluster("", thing("ClusterPolicy", "cluster-policy", api="nvidia.com/v1", spec=spec, status=status))
    operator = container("gpu-operator", "nvcr.io/nvidia/gpu-operator:v25.10.0")
    c.add(pod("gpu-operator-55f8", "gpu-operator", operator, runs(), "cpu-1", ("ReplicaSet", "gpu-operator-55f8")))
    return c, Wanted("device-plugin-dra-conflict", "ClusterPolicy cluster-policy")


@defect
def one_card_given_away_twice() -> tuple[Cluster, Wanted]:
    """https://github.com/ai-dynamo/dynamo/pull/13536: the scheduler of claims does not see what the plugin gave."""
    c = Cluster("", node("h-1", {GPU: 1}, PRESENT), _class(), _slice("h-1", _card(0)))
    given = {"devices": {"results": [{"request": "gpu", "driver": CLASS, "pool": "h-1", "device": "gpu-0"}]}}
    holder = {"allocation": given, "reservedFor": [{"resource": "pods", "name": "gms-0", "uid": "Pod-rag-gms-0"}]}
    c.add(_claim("gms", _asks(), holder))
    c.add(_claimant("gms-0", runs(), "h-1", resourceClaimName="gms"))
    c.add(pod("plain-0", "rag", ENGINE, crashes(), "h-1", ("StatefulSet", "plain")))
    c.attachments["logs/plain-0.txt"] = (
        "ValueError: Free memory on device cuda:0 (7.51/79.19 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 71.27 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    return c, Wanted("device-plugin-dra-conflict", "Node h-1", ("rag/plain-0",), also=("gpu-memory-oversubscribed",))


@defect
def a_scheduler_that_takes_a_node_of_both_for_one_of_claims() -> tuple[Cluster, Wanted]:
    """https://github.com/kai-scheduler/KAI-Scheduler/pull/1177"""
    c = Cluster("", node("h-2", {GPU: 8}, PRESENT), _class(), _slice("h-2", *map(_card, range(8))))
    said = "0/1 nodes are available: node(s) device-plugin GPU requests cannot be scheduled on DRA-only nodes. "
    waiting = pod("llm-x", "rag", ENGINE, waits(said))
    waiting["spec"]["schedulerName"] = "kai-scheduler"
    waiting["metadata"]["labels"] = {"kai.scheduler/queue": "default"}
    c.add(waiting)
    return c, Wanted("device-plugin-dra-conflict", "Node h-2", ("rag/llm-x",), also=("queue-misconfigured",))


# dra-selector-mismatch


@defect
def slices_are_asked_for_where_whole_cards_are_published() -> tuple[Cluster, Wanted]:
    """The quickstart's gpu-test4 on cards that are not cut; the pod's status does not name its claim."""
    c = Cluster("", node("w1"), _class(), _class("mig.nvidia.com", "mig"), _slice("w1", *map(_card, range(4))))
    wish = _asks("device.attributes['gpu.nvidia.com'].profile == '1g.10gb'", "mig.nvidia.com")
    c.add(_claim("mig-1g-abcde", wish))
    c.add(_claimant("srv", waits(NO_CLAIM), resourceClaimTemplateName="mig-1g"))
    return c, Wanted("dra-selector-mismatch", "ResourceClaim rag/mig-1g-abcde", ("rag/srv",), mentions=("profile",))


@defect
def the_template_alone_and_no_class_in_the_data() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("w1"), _slice("w1", *map(_card, range(4))))
    wish = _asks("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'")
    c.add(thing("ResourceClaimTemplate", "one-gpu", api=f"{GROUP}/v1", namespace="rag", spec={"spec": wish}))
    c.add(_claimant("srv", waits(NO_CLAIM), resourceClaimTemplateName="one-gpu"))
    return c, Wanted(
        "dra-selector-mismatch", "ResourceClaimTemplate rag/one-gpu", ("rag/srv",), mentions=("NVIDIA A100-SXM4-80GB",)
    )


@defect
def an_attribute_that_is_not_published_any_more_on_a_beta_release() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes/kubernetes/issues/125826"""
    made = node("w1")
    made["status"]["nodeInfo"]["kubeletVersion"] = "v1.33.1"
    c = Cluster("", made, _class(), _slice("w1", _card(0), _card(1), version="v1beta1"))
    selector = {"cel": {"expression": "device.attributes['gpu.nvidia.com'].index == 0"}}
    request = {"name": "gpu", "deviceClassName": CLASS, "count": 1, "allocationMode": "ExactCount", "selectors": [selector]}
    c.add(_claim("one-gpu", {"devices": {"requests": [request]}}, version="v1beta1"))
    said = 'running "DynamicResources" filter plugin: claim rag/one-gpu: selector #0: CEL runtime error: no such key: index'
    c.add(_claimant("p", waits(said), resourceClaimName="one-gpu"))
    return c, Wanted("dra-selector-mismatch", "ResourceClaim rag/one-gpu", ("rag/p",), mentions=("index",))


# dra-driver-not-ready


@defect
def a_slice_without_a_device() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1008"""
    c = Cluster("", node("l4-1", {}, PRESENT), _class(), _slice("l4-1"))
    c.add(daemons("nvidia-dra-driver-gpu-kubelet-plugin", "dra", DRIVER, 1, 1))
    c.add(_claim("llm-gpu-7x", _asks()))
    c.add(_claimant("llm", waits(NO_CLAIM), resourceClaimTemplateName="gpu-tpl"))
    return c, Wanted("dra-driver-not-ready", "DaemonSet dra/nvidia-dra-driver-gpu-kubelet-plugin", ("rag/llm",))


@defect
def the_drivers_init_container_finds_no_driver_at_its_root() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1201"""
    c = Cluster("", node("wsl-1", {}, PRESENT))
    status = stands("PodInitializing")
    status["initContainerStatuses"] = [{"name": "init-container", "ready": False, "restartCount": 0, "state": {"running": {}}}]
    first = [container("init-container", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0")]
    c.add(
        pod("dra-kubelet-plugin-q", "dra", DRIVER, status, "wsl-1", ("DaemonSet", "dra-kubelet-plugin"), initContainers=first)
    )
    c.attachments["logs/init-container.txt"] = (
        "create symlink: /driver-root -> /driver-root-parent\n"
        "2026-06-15T15:10:11Z  /driver-root (/ on host): nvidia-smi: not found, libnvidia-ml.so.1: not found, current contents: [bin].\n\n"
        "Check failed. Has the NVIDIA GPU driver been set up? It is expected to be installed under NVIDIA_DRIVER_ROOT (currently "
        "set to '/') in the host filesystem.\n"
    )
    return c, Wanted("dra-driver-not-ready", "Pod dra/dra-kubelet-plugin-q", None)


# mps-not-ready


@defect
def the_daemon_of_a_claim_does_not_come_up() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/230"""
    c = Cluster("", node("ocp-1"), _class(), _slice("ocp-1", _card(0)))
    given = {"devices": {"results": [{"request": "gpu", "driver": CLASS, "pool": "ocp-1", "device": "gpu-0"}]}}
    c.add(
        _claim(
            "shared-stwn2", _asks(), {"allocation": given, "reservedFor": [{"resource": "pods", "name": "nbody", "uid": "u"}]}
        )
    )
    user = _claimant("nbody", stands("ContainerCreating"), "ocp-1", resourceClaimTemplateName="shared")
    said = (
        "Failed to prepare dynamic resources: NodePrepareResources failed for claim rag/shared-stwn2: error preparing devices for claim "
        "37925188: prepare devices failed: error applying GPU config: MPS control daemon is not yet ready: error listing pods from deployment"
    )
    c.add(user)
    c.add(_event(user, "FailedPrepareDynamicResources", said))
    return c, Wanted("mps-not-ready", "Pod rag/nbody", ("rag/nbody",))


MPS = "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 10}\n"


@defect
def a_client_that_does_not_reach_the_daemon_and_no_node() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/647"""
    sample = container("cuda-container", "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1", {GPU: 1})
    c = Cluster("", config_map("nvidia-plugin-configs", {"config": MPS}))
    c.add(pod("gpu-pod", "rag", sample, crashes(), "gpu-a"))
    c.attachments["logs/gpu-pod.txt"] = (
        "[Vector addition of 50000 elements]\n"
        "Failed to allocate device vector A (error code all CUDA-capable devices are busy or unavailable)!\n"
    )
    return c, Wanted("mps-not-ready", "Pod rag/gpu-pod", ("rag/gpu-pod",))


@defect
def without_feature_discovery_no_daemon() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/634: the label that the daemon's DaemonSet selects is set by nobody."""
    c = Cluster("", node("n1", {}, PRESENT), config_map("mps-cfg", {"mps": MPS}))
    c.add(daemons("nvdp", "gpu", PLUGIN, 1, 1, nodeSelector=PRESENT))
    daemon = container("mps-control-daemon-ctr", "nvcr.io/nvidia/k8s-device-plugin:v0.15.0")
    c.add(daemons("nvdp-mps-control-daemon", "gpu", daemon, 0, nodeSelector={"nvidia.com/mps.capable": "true"}))
    c.add(pod("embed-1", "rag", ENGINE, waits(), "", ("ReplicaSet", "embed")))
    return c, Wanted("mps-not-ready", "DaemonSet gpu/nvdp-mps-control-daemon", ("rag/embed-1",))


# sharing-config-not-applied


@defect
def a_config_map_in_another_namespace() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/412"""
    text = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
    c = Cluster("", node("t4-1", {GPU: 0}, PRESENT), config_map("slices", {"slice-4": text}, namespace="kube-system"))
    plugin = pod("plugin-q9", "gpu-operator", PLUGIN, stands("ContainerCreating"), "t4-1", ("DaemonSet", "plugin"))
    c.add(plugin)
    c.add(_event(plugin, "FailedMount", 'MountVolume.SetUp failed for volume "slices" : configmap "slices" not found'))
    return c, Wanted("sharing-config-not-applied", "ConfigMap kube-system/slices", ())


# mig-monitor-permission


def _denied(program: str, image: str, log: str, text: str) -> tuple[Cluster, Wanted]:
    cut = PRESENT | {"nvidia.com/mig.capable": "true", "nvidia.com/mig.config.state": "success"}
    c = Cluster("", node("a100-1", {GPU: 0}, cut))
    status: dict[str, Any] = crashes()
    c.add(pod(f"{program}-9p", "gpu", container(program, image), status, "a100-1", ("DaemonSet", program)))
    c.attachments[f"logs/{log}.txt"] = text
    return c, Wanted("mig-monitor-permission", f"DaemonSet gpu/{program}", (f"gpu/{program}-9p",))


@defect
def the_exporter_gets_no_permission_on_slices() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/dcgm-exporter/issues/34"""
    text = (
        'time="2021-12-14T17:28:56Z" level=info msg="Starting dcgm-exporter"\nCacheManager Init Failed. Error: -17\n'
        'time="2021-12-14T17:28:56Z" level=fatal msg="Error starting nv-hostengine: DCGM initialization error"\n'
    )
    return _denied("dcgm-exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:2.3.1-2.6.1-ubuntu20.04", "dcgm-exporter", text)


@defect
def feature_discovery_gets_no_permission_on_slices() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/685"""
    text = (
        "E0322 03:45:26.7       1 main.go:99] error creating NVML labeler: error creating mig capability labeler: "
        "error getting memory info for device: Insufficient Permissions\n"
    )
    return _denied("gpu-feature-discovery", "nvcr.io/nvidia/gpu-feature-discovery:v0.8.2", "gpu-feature-discovery", text)


@defect
def an_old_plugin_gets_no_permission_on_slices() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/201"""
    text = "2020/10/21 08:00:01 Loading NVML\n2020/10/21 08:00:01 Retreiving plugins.\nfatal: nvml: Insufficient Permissions\n"
    return _denied("nvidia-device-plugin-ctr", "nvidia/k8s-device-plugin:v0.7.0", "nvidia-device-plugin-ctr", text)


# device-plugin-nvml-missing


@defect
def hamis_plugin_without_the_library() -> tuple[Cluster, Wanted]:
    """https://github.com/Project-HAMi/HAMi/issues/1940"""
    c = Cluster("", node("gpu-01", {}, {"gpu": "on"}))
    c.add(pod("hami-device-plugin-h", "kube-system", HAMI, crashes(count=2), "gpu-01", ("DaemonSet", "hami-device-plugin")))
    c.attachments["logs/hami-device-plugin-h.txt"] = (
        'I0613 17:37:50.2 2380182 main.go:380] "Starting device plugin"\n'
        "E0613 17:37:51.0 2380182 main.go:186] failed to start: error starting plugins: failed to initialize nvml: error_library_not_found\n"
    )
    return c, Wanted("device-plugin-nvml-missing", "DaemonSet kube-system/hami-device-plugin")


@defect
def the_plugin_ends_with_its_last_word_alone() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/nvkind/issues/20"""
    c = Cluster("", node("kind-1", {}, PRESENT))
    said = "error starting plugins: error creating plugin manager: unable to create plugin manager: invalid device discovery strategy"
    c.add(pod("nvdp-x", "gpu", PLUGIN, crashes(said), "kind-1", ("DaemonSet", "nvdp")))
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("device-plugin-nvml-missing", "DaemonSet gpu/nvdp", ("rag/llm-0",))


# device-plugin-not-scheduled


@defect
def the_only_node_is_the_control_plane() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/315"""
    c = Cluster("", node("master", taints=[("node-role.kubernetes.io/control-plane", "", "NoSchedule")]))
    mine = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    c.add(daemons("nvidia-device-plugin-daemonset", "kube-system", PLUGIN, 0, tolerations=mine))
    c.add(workload("StatefulSet", "llm", "rag", ENGINE, tolerations=[{"operator": "Exists"}]))
    c.add(
        pod(
            "llm-0",
            "rag",
            ENGINE,
            waits(),
            "",
            ("StatefulSet", "llm"),
            tolerations=[{"operator": "Exists"}],
            nodeSelector={"kubernetes.io/hostname": "master"},
        )
    )
    return c, Wanted("device-plugin-not-scheduled", "DaemonSet kube-system/nvidia-device-plugin-daemonset", ("rag/llm-0",))


# little data


@defect
def devices_and_a_claim_and_no_node() -> tuple[Cluster, Wanted]:
    c = Cluster("", _class(), _slice("w1", *map(_card, range(2))), _slice("w2", *map(_card, range(2))))
    c.add(_claim("four-gpus-x2", _asks(count=4)))
    said = NO_CLAIM.replace("0/1", "0/2").replace("1 cannot", "2 cannot").replace(": 1 Preemption", ": 2 Preemption")
    c.add(_claimant("big", waits(said), resourceClaimTemplateName="four-gpus"))
    return c, Wanted("dra-selector-mismatch", "ResourceClaim rag/four-gpus-x2", ("rag/big",), mentions=("asks for 4 devices",))


@defect
def a_default_that_is_no_key_and_no_node() -> tuple[Cluster, Wanted]:
    text = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
    spec = {"devicePlugin": {"config": {"name": "slices", "default": "any"}}}
    c = Cluster("", thing("ClusterPolicy", "cluster-policy", api="nvidia.com/v1", spec=spec, status={"state": "notReady"}))
    c.add(
        config_map("slices", {"slice-4": text, "plain": "version: v1\nflags: {migStrategy: none}\n"}, namespace="gpu-operator")
    )
    return c, Wanted("sharing-config-unknown", "ConfigMap gpu-operator/slices", mentions=("any",))


@defect
def a_plugin_that_wants_no_pod_and_no_node() -> tuple[Cluster, Wanted]:
    c = Cluster("", daemons("nvdp", "gpu", PLUGIN, 0, nodeSelector={"accelerator": "nvidia"}))
    c.add(
        pod(
            "llm-0", "rag", ENGINE, waits("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."), "", ("StatefulSet", "llm")
        )
    )
    return c, Wanted("device-plugin-not-scheduled", "DaemonSet gpu/nvdp", ("rag/llm-0",))


@defect
def the_mig_managers_log_alone() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/322"""
    manager = container("nvidia-mig-manager", "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.3.0")
    c = Cluster("", pod("mig-manager-x", "gpu-operator", manager, runs(), "dgx-1", ("DaemonSet", "mig-manager")))
    c.attachments["logs/mig-manager-x.txt"] = (
        'time="2022-03-28T18:08:11Z" level=error msg="\\nThe following GPUs could not be reset:\\n  GPU 00000000:07:00.0: In use by another client"\n'
    )
    return c, Wanted("mig-reconfig-stuck", "Pod gpu-operator/mig-manager-x")


@defect
def hamis_plugin_by_its_image() -> tuple[Cluster, Wanted]:
    """https://github.com/Project-HAMi/HAMi/issues/2076"""
    c = Cluster("", node("g-1", {GPU: 8}, PRESENT | {"gpu": "on"}))
    c.add(pod("hami-device-plugin-x", "kube-system", HAMI[0], runs(), "g-1", ("DaemonSet", "hami-device-plugin")))
    c.add(pod("nvidia-device-plugin-y", "kube-system", PLUGIN, runs(), "g-1", ("DaemonSet", "nvidia-device-plugin")))
    return c, Wanted("device-plugin-duplicate", "DaemonSet kube-system/hami-device-plugin")


# more of each, second round


@defect
def two_plugins_on_a_node_that_only_pods_name() -> tuple[Cluster, Wanted]:
    c = Cluster("")
    c.add(
        pod(
            "nvidia-device-plugin-daemonset-1",
            "kube-system",
            PLUGIN,
            runs(),
            "n1",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
        )
    )
    c.add(pod("operators-plugin-2", "gpu-operator", PLUGIN, runs(), "n1", ("DaemonSet", "operators-plugin")))
    c.add(pod("operators-plugin-3", "gpu-operator", PLUGIN, runs(), "n2", ("DaemonSet", "operators-plugin")))
    return c, Wanted("device-plugin-duplicate", "DaemonSet gpu-operator/operators-plugin")


@defect
def refused_while_the_plugin_is_still_pulled() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes/kubernetes/issues/125579, seen before the plugin is back."""
    said = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
    c = Cluster("", node("dgx-1", {GPU: 8}, PRESENT, allocatable={GPU: 0}))
    c.add(pod("sgl-6b-a", "rag", ENGINE, refused("UnexpectedAdmissionError", said), "dgx-1", ("ReplicaSet", "sgl-6b")))
    c.add(pod("plugin-7", "kube-system", PLUGIN, stands("ContainerCreating"), "dgx-1", ("DaemonSet", "plugin")))
    return c, Wanted("device-plugin-start-race", "Pod rag/sgl-6b-a", ("rag/sgl-6b-a",))


@defect
def feature_discovery_has_passed_a_free_node_over() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/734"""
    c = Cluster("", node("w1", {GPU: 1}, PRESENT | {"nvidia.com/gpu.product": "NVIDIA-L4"}), node("w2", {GPU: 4}, PRESENT))
    c.add(pod("busy-0", "rag", ENGINE, runs(), "w1", ("StatefulSet", "busy")))
    c.add(
        pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm"), nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4"})
    )
    return c, Wanted("gpu-label-missing", "Node w2", ("rag/llm-0",), also=("gpu-exhausted",))


MANAGER = container("nvidia-mig-manager", "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.7.0")
CUTTABLE = PRESENT | {"nvidia.com/mig.capable": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


@defect
def the_layouts_lie_under_another_key() -> tuple[Cluster, Wanted]:
    layouts = "version: v1\nmig-configs:\n  custom-1:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}\n"
    c = Cluster(
        "", node("a100-1", {GPU: 8}, CUTTABLE), config_map("my-layouts", {"mig.yaml": layouts}, namespace="gpu-operator")
    )
    manager = pod("mig-manager-y", "gpu-operator", MANAGER, stands("ContainerCreating"), "a100-1", ("DaemonSet", "mig-manager"))
    c.add(manager)
    said = 'MountVolume.SetUp failed for volume "mig-parted-config" : configmap references non-existent config key: config.yaml'
    c.add(_event(manager, "FailedMount", said))
    return c, Wanted(
        "mig-config-invalid", "ConfigMap gpu-operator/my-layouts", ("gpu-operator/mig-manager-y",), mentions=("config.yaml",)
    )


@defect
def a_card_in_mig_mode_without_a_slice() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/253"""
    old = container("nvidia-device-plugin-ctr", "nvcr.io/nvidia/k8s-device-plugin:v0.9.0", args=["--mig-strategy=single"])
    c = Cluster("", node("a100-2", {GPU: 0}, PRESENT))
    c.add(pod("plugin-9p462", "kube-system", old, crashes(), "a100-2", ("DaemonSet", "plugin")))
    c.attachments["logs/plugin-9p462.log"] = (
        "2021/07/15 20:49:32 Retreiving plugins.\n"
        "panic: At least one device with migEnabled=true was not configured correctly: No MIG devices associated with /dev/nvidia0: GPU-fe14\n"
    )
    return c, Wanted("mig-strategy-mismatch", "Node a100-2", ("kube-system/plugin-9p462",))


@defect
def a_cut_card_and_a_plugin_that_does_not_look() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/132"""
    labels = CUTTABLE | {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "success"}
    c = Cluster("", node("a100-3", {GPU: 2}, labels))
    c.add(
        thing(
            "ClusterPolicy",
            "cluster-policy",
            api="nvidia.com/v1",
            spec={"mig": {"strategy": "none"}},
            status={"state": "ready"},
        )
    )
    slices = container("vllm", "vllm/vllm-openai:v0.11.0", {"nvidia.com/mig-1g.10gb": 1})
    c.add(pod("llm-0", "rag", slices, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("mig-strategy-mismatch", "Node a100-3", ("rag/llm-0",))


@defect
def a_label_that_asks_a_plugin_without_any_configuration() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/990"""
    text = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
    c = Cluster("", node("r750", {GPU: 1}, {"nvidia.com/device-plugin.config": "time-sliced"}))
    c.add(config_map("device-plugin-config", {"time-sliced": text}, namespace="default"))
    c.add(daemons("nvidia-device-plugin-daemonset", "kube-system", PLUGIN, 1, 1))
    return c, Wanted("sharing-config-not-applied", "ConfigMap default/device-plugin-config")


@defect
def more_shares_than_the_daemon_makes() -> tuple[Cluster, Wanted]:
    """The plugin waits for a daemon that refuses its configuration."""
    c = Cluster("", node("n1", {}, PRESENT | {"nvidia.com/mps.capable": "true"}))
    c.add(config_map("mps-cfg", {"mps": MPS.replace("10", "100")}))
    c.add(pod("plugin-k", "gpu", PLUGIN, runs(), "n1", ("DaemonSet", "plugin")))
    daemon = container("mps-control-daemon-ctr", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0")
    c.add(pod("daemon-7", "gpu", daemon, crashes(), "n1", ("DaemonSet", "daemon")))
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    c.attachments["logs/plugin-k.txt"] = (
        "E0610 15:20:00.2      39 main.go:301] Failed to start plugin: error waiting for MPS daemon: error checking MPS daemon health: "
        "failed to send command to MPS daemon: exit status 1\n"
    )
    c.attachments["logs/daemon-7.txt"] = (
        "E0610 15:20:03.2      41 main.go:91] error starting daemon: invalid MPS configuration: "
        "invalid device maximum allowed replicas exceeded: 100 > 48\n"
    )
    return c, Wanted("sharing-config-invalid", "Node n1", ("gpu/daemon-7", "rag/llm-0"), also=("mps-not-ready",))


@defect
def devices_that_the_kubelet_remembers_of_a_plugin_that_waits_for_mps() -> tuple[Cluster, Wanted]:
    said = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
    c = Cluster("", node("al-1", {GPU: 4}, PRESENT, allocatable={GPU: 0}), config_map("mps-cfg", {"mps": MPS}))
    c.add(pod("llm-5c-a", "rag", ENGINE, refused("UnexpectedAdmissionError", said), "al-1", ("ReplicaSet", "llm-5c")))
    c.add(pod("plugin-k", "gpu", PLUGIN, runs(), "al-1", ("DaemonSet", "plugin")))
    c.attachments["logs/plugin-k.txt"] = (
        "E0610 15:20:00.2      39 main.go:301] Failed to start plugin: error waiting for MPS daemon: error checking MPS daemon health: "
        "failed to send command to MPS daemon: exit status 1\n"
    )
    return c, Wanted("mps-not-ready", "Node al-1", ("rag/llm-5c-a",))


@defect
def two_workloads_refused_at_one_reboot() -> tuple[Cluster, Wanted]:
    """https://github.com/defenseunicorns/leapfrogai/issues/346"""
    said = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
    c = Cluster("", node("uds-1", {GPU: 4}))
    for name in ("llama-cpp", "whisper"):
        c.add(pod(f"{name}-a", "rag", ENGINE, refused("UnexpectedAdmissionError", said), "uds-1", ("ReplicaSet", name)))
        c.add(pod(f"{name}-b", "rag", ENGINE, runs(), "uds-1", ("ReplicaSet", name)))
    return c, Wanted("device-plugin-start-race", "Node uds-1", ("rag/llama-cpp-a", "rag/whisper-a"))


@defect
def a_log_that_is_called_after_the_daemonset() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("k-1", {}, PRESENT), node("k-2", {}))
    c.add(
        pod(
            "nvidia-device-plugin-daemonset-fghij",
            "kube-system",
            PLUGIN,
            runs(),
            "k-1",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
        )
    )
    c.add(pod("web-0", "shop", container("web", "nginx"), crashes(), "k-2", ("StatefulSet", "web")))
    c.add(daemons("nvidia-device-plugin-daemonset", "kube-system", PLUGIN, 2, 2))
    c.attachments["logs/nvidia-device-plugin-daemonset.txt"] = (
        "I1019 1 factory.go:107] Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1: cannot open shared object "
        "file: No such file or directory\nI1019 1 main.go:287] No devices found. Waiting indefinitely.\n"
    )
    return c, Wanted("device-plugin-nvml-missing", "Node k-1")
