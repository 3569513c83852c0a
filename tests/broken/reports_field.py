"""Small reports after what people ask in public threads, and troubles that are none of ours: those must not be given a cause."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster
from broken.small import GPU, PLUGIN, container, crashes, daemons, node, pod, refused, runs, stands, waits, workload
from makers import thing

ENGINE = container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: 1})
PCI = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true"}


@defect
def only_a_request_and_no_limit() -> tuple[Cluster, Wanted]:
    box = container("vllm", "vllm/vllm-openai:v0.11.0")
    box["resources"] = {"requests": {GPU: "1"}}
    c = Cluster("", node("g1", {GPU: 2}))
    c.add(workload("Deployment", "llm", "rag", box, status={"replicas": 0}))
    made = c.add(thing("ReplicaSet", "llm-5f", api="apps/v1", namespace="rag", spec={"replicas": 1}, status={"replicas": 0},
                       owners=[{"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm", "uid": "Deployment-rag-llm", "controller": True}]))  # fmt: skip
    c.event(made, "FailedCreate", 'Error creating: Pod "llm-5f-x" is invalid: spec.containers[0].resources.limits: Required value: Limit must be set for non '
            "overcommitable resources", "replicaset-controller")  # fmt: skip
    return c, Wanted("gpu-limit-missing", "Deployment rag/llm", ())


@defect
def a_quota_that_wants_cpu_limits() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 2}))
    made = c.add(workload("Job", "index", "rag", ENGINE, status={"active": 0}))
    c.event(
        made,
        "FailedCreate",
        'Error creating: pods "index-abcde" is forbidden: failed quota: compute: must specify limits.cpu for: vllm; limits.memory for: vllm',
        "job-controller",
    )
    return c, Wanted("quota-blocked", "Job rag/index", ())


@defect
def no_plugin_was_ever_installed() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("ip-10-0-1-7", {}, {"node.kubernetes.io/instance-type": "g5.xlarge"}), node("ip-10-0-1-8"))
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("device-plugin-not-scheduled", "Node ip-10-0-1-7", ("rag/llm-0",))


@defect
def the_toolkit_finds_no_loaded_driver() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI))
    text = ("failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error "
            "during container init: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy' nvidia-container-cli: initialization "
            "error: nvml error: driver not loaded: unknown")  # fmt: skip
    c.add(
        pod(
            "nvidia-device-plugin-daemonset-abcde",
            "kube-system",
            PLUGIN,
            crashes(text, code=128, reason="StartError"),
            "g1",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
        )
    )
    return c, Wanted("driver-not-installed", "Node g1", None)


@defect
def the_toolkit_finds_no_driver_library() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI))
    p = c.add(pod("nvidia-operator-validator-zzzzz", "gpu-operator", container("nvidia-operator-validator", "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.3.0"),
                  stands("RunContainerError"), "g1", ("DaemonSet", "nvidia-operator-validator"), runtimeClassName="nvidia"))  # fmt: skip
    c.event(p, "Failed", "Error: failed to create containerd task: OCI runtime create failed: nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: "
            "cannot open shared object file: no such file or directory: unknown", "kubelet")  # fmt: skip
    return c, Wanted("driver-not-installed", "Node g1", None)


@defect
def secure_boot_rejects_the_module() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI))
    box = container("nvidia-driver-ctr", "nvcr.io/nvidia/driver:580.95.05-ubuntu24.04")
    c.add(pod("nvidia-driver-daemonset-sb", "gpu-operator", box, crashes(), "g1", ("DaemonSet", "nvidia-driver-daemonset")))
    c.attachments["logs/nvidia-driver-daemonset-sb.log"] = (
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n"
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-not-installed", "Node g1", None)


@defect
def the_validator_waits_for_a_host_driver() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI))
    box = container("toolkit-validation", "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.3.0")
    status = stands("PodInitializing")
    c.add(pod("nvidia-container-toolkit-daemonset-tt", "gpu-operator", container("nvidia-container-toolkit-ctr", "nvcr.io/nvidia/k8s/container-toolkit:v1.17.8"), status, "g1",
              ("DaemonSet", "nvidia-container-toolkit-daemonset"), initContainers=[box | {"name": "driver-validation"}]))  # fmt: skip
    c.attachments["logs/nvidia-container-toolkit-daemonset-tt_driver-validation.log"] = (
        'time="2026-11-30T20:00:00Z" level=info msg="version: v25.3.0"\nrunning command chroot with args [/host nvidia-smi]\nchroot: failed to run command '
        '\'nvidia-smi\': No such file or directory\ntime="2026-11-30T20:00:05Z" level=warning msg="failed to validate the driver, retrying after 5 seconds"\n'
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-not-installed", "Node g1", None)


@defect
def whole_cards_asked_where_all_are_cut() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "",
        node(
            "a100",
            {GPU: 0, "nvidia.com/mig-1g.5gb": 56},
            PCI | {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"},
        ),
    )
    c.add(workload("Deployment", "llm", "rag", ENGINE))
    c.add(pod("llm-6-abcde", "rag", ENGINE, waits(), "", ("ReplicaSet", "llm-6"), {"app": "llm"}))
    return c, Wanted("wrong-resource-name", "Deployment rag/llm", ("rag/llm-6-abcde",), mentions=("nvidia.com/mig-1g.5gb",))


@defect
def hamis_plugin_selects_a_label_that_nobody_set() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, {"node.kubernetes.io/instance-type": "g4dn.xlarge"}))
    box = container("device-plugin", "docker.io/projecthami/hami:v2.6.1")
    monitor = container("vgpu-monitor", "docker.io/projecthami/hami:v2.6.1")
    c.add(daemons("hami-device-plugin", "kube-system", [box, monitor], 0, nodeSelector={"gpu": "on"}))
    asked = container("embed", "x/e:1", {GPU: 1, "nvidia.com/gpumem": 4000})
    p = c.add(
        pod(
            "embed-0",
            "rag",
            asked,
            waits("no available node, 1 nodes do not meet"),
            "",
            ("StatefulSet", "embed"),
            schedulerName="hami-scheduler",
        )
    )
    c.event(p, "FilteringFailed", "no available node, 1 nodes do not meet", "hami-scheduler")
    return c, Wanted("device-plugin-not-scheduled", "DaemonSet kube-system/hami-device-plugin", None)


@defect
def the_problem_detector_reports_an_xid() -> tuple[Cluster, Wanted]:
    made = node("g1", {GPU: 8}, PCI)
    made["status"]["conditions"].append(
        {
            "type": "XidError",
            "status": "True",
            "reason": "XidErrorDetected",
            "message": "NVRM: Xid (PCI:0000:3b:00): 74, NVLink error",
        }
    )
    c = Cluster("", made)
    c.event(
        made,
        "XidErrorDetected",
        "NVRM: Xid (PCI:0000:3b:00): 74, pid=1234, NVLink: fatal error detected on link 2",
        "node-problem-detector",
    )
    c.add(pod("llm-0", "rag", ENGINE, crashes(), "g1", ("StatefulSet", "llm")))
    return c, Wanted("gpu-unhealthy", "Node g1", None)


@defect
def a_card_that_the_toolkit_does_not_know() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 4}, PCI))
    text = "failed to create shim task: OCI runtime create failed: nvidia-container-cli: device error: GPU-1b2c3d4e: unknown device: unknown"
    c.add(pod("llm-0", "rag", ENGINE, crashes(text, code=128, reason="StartError"), "g1", ("StatefulSet", "llm")))
    return c, Wanted("gpu-unhealthy", "Node g1", None)


@defect
def the_embedder_waits_behind_a_taint_of_the_pool() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "",
        node("aks-0", {GPU: 1}, {"kubernetes.azure.com/accelerator": "nvidia"}, taints=[("sku", "gpu", "NoSchedule")]),
        node("sys-0"),
    )
    c.add(workload("StatefulSet", "embed", "rag", ENGINE, tolerations=[{"key": GPU, "operator": "Exists"}]))
    c.add(
        pod(
            "embed-0",
            "rag",
            ENGINE,
            waits(),
            "",
            ("StatefulSet", "embed"),
            {"app": "embed"},
            tolerations=[{"key": GPU, "operator": "Exists"}],
        )
    )
    return c, Wanted("missing-toleration", "StatefulSet rag/embed", ("rag/embed-0",), mentions=("sku=gpu",))


@defect
def a_helper_without_gpu_for_a_gpu_node() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "",
        node("gke-0", {GPU: 1}, {"cloud.google.com/gke-accelerator": "nvidia-l4"}, taints=[(GPU, "present", "NoSchedule")]),
        node("cpu-0"),
    )
    box = container("cache", "registry.example/kv-cache:1", {"cpu": "1"})
    c.add(
        pod(
            "cache-1-abcde",
            "rag",
            box,
            waits(),
            "",
            ("ReplicaSet", "cache-1"),
            nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-l4"},
        )
    )
    return c, Wanted("missing-toleration", "ReplicaSet rag/cache-1", ("rag/cache-1-abcde",))


@defect
def all_shares_are_held() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "",
        node(
            "g1",
            {"nvidia.com/gpu.shared": 2, GPU: 0},
            {"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
        ),
    )
    box = container("e", "x/e:1", {"nvidia.com/gpu.shared": 1})
    for n in range(2):
        c.add(pod(f"busy-{n}", "rag", box, runs(), "g1", ("StatefulSet", "busy")))
    c.add(pod("more-0", "rag", box, waits(), "", ("StatefulSet", "more")))
    return c, Wanted("gpu-exhausted", "StatefulSet rag/more", ("rag/more-0",))


@defect
def the_old_pod_is_still_terminating() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 1}))
    c.add(workload("Deployment", "llm", "rag", ENGINE, strategy={"type": "RollingUpdate"}))
    c.get("Deployment", "llm")["spec"]["strategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    c.add(pod("llm-1-aaaaa", "rag", ENGINE, runs(), "g1", ("ReplicaSet", "llm-1"), {"app": "llm"}))
    c.add(pod("llm-2-bbbbb", "rag", ENGINE, waits(), "", ("ReplicaSet", "llm-2"), {"app": "llm"}))
    return c, Wanted("rolling-update-gpu-deadlock", "Deployment rag/llm", ("rag/llm-2-bbbbb",))


@defect
def kais_queue_at_the_top() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("k1", {GPU: 8}))
    c.add(thing("Queue", "default-parent-queue", api="scheduling.run.ai/v2", spec={"resources": {}}))
    c.add(thing("Queue", "default-queue", api="scheduling.run.ai/v2", spec={"parentQueue": "default-parent-queue"}))
    c.add(thing("Queue", "burst-queue", api="scheduling.run.ai/v2", spec={"resources": {"gpu": {"quota": 0, "limit": -1}}}))
    p = c.add(
        pod(
            "train-pod",
            "lab",
            ENGINE,
            waits("Unable to schedule pod"),
            "",
            None,
            {"kai.scheduler/queue": "burst-queue"},
            schedulerName="kai-scheduler",
        )
    )
    c.event(p, "PodGrouperWarning", 'Pod "train-pod" not found', "pod-grouper")
    c.event(p, "Unschedulable", "Unable to schedule pod", "kai-scheduler")
    return c, Wanted("queue-misconfigured", "Pod lab/train-pod", ("lab/train-pod",), mentions=("burst-queue",))


@defect
def kais_queue_of_another_pool() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("k1", {GPU: 8}, {"kai.scheduler/node-pool": "workers"}))
    c.add(thing("Queue", "parent", api="scheduling.run.ai/v2", spec={}, labels={"kai.scheduler/node-pool": "workers"}))
    c.add(
        thing(
            "Queue",
            "worker-queue",
            api="scheduling.run.ai/v2",
            spec={"parentQueue": "parent"},
            labels={"kai.scheduler/node-pool": "workers"},
        )
    )
    c.add(
        pod(
            "job-0",
            "lab",
            ENGINE,
            waits("Unable to schedule pod"),
            "",
            ("StatefulSet", "job"),
            {"kai.scheduler/queue": "worker-queue"},
            schedulerName="kai-scheduler",
        )
    )
    return c, Wanted("queue-misconfigured", "StatefulSet lab/job", ("lab/job-0",), mentions=("node pool",))


@defect
def the_plugin_may_not_read_the_memory_of_slices() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a100", {}, PCI | {"nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed"}))
    c.add(
        pod(
            "nvidia-device-plugin-daemonset-ff",
            "kube-system",
            PLUGIN,
            crashes(),
            "a100",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
        )
    )
    c.attachments["logs/nvidia-device-plugin-daemonset-ff.log"] = (
        "E1130 error starting plugins: unable to add default resources to config: error visiting devices: error visiting device: error visiting device: error "
        "getting device memory info: Insufficient Permissions\n"
    )
    return c, Wanted("mig-monitor-permission", "DaemonSet kube-system/nvidia-device-plugin-daemonset", None)


@defect
def cards_busy_for_clients_of_mps() -> tuple[Cluster, Wanted]:
    labels = PCI | {
        "nvidia.com/mps.capable": "true",
        "nvidia.com/gpu.sharing-strategy": "mps",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.count": "1",
    }
    c = Cluster("", node("g1", {GPU: 4}, labels | {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}))
    c.add(pod("vec-0", "rag", ENGINE, crashes(), "g1", ("StatefulSet", "vec")))
    c.attachments["logs/vec-0.log"] = (
        "Failed to allocate device vector A (error code all CUDA-capable devices are busy or unavailable)!\n"
    )
    return c, Wanted("mps-not-ready", "Node g1", ("rag/vec-0",))


@defect
def the_autoscaler_and_another_vendors_shares() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {"k8s.amazonaws.com/vgpu": 10}))
    box = container("resnet", "x/r:1", {"k8s.amazonaws.com/vgpu": 4})
    for n in range(2):
        c.add(pod(f"busy-{n}", "rag", box, runs(), "g1", ("StatefulSet", "busy")))
    p = c.add(pod("resnet-89-2469s", "rag", box, waits(), "", ("ReplicaSet", "resnet-89")))
    c.event(
        p,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 Insufficient k8s.amazonaws.com/vgpu",
        "cluster-autoscaler",
        kind="Normal",
    )
    return c, Wanted(
        "autoscaler-sharing-unaware", "ReplicaSet rag/resnet-89", ("rag/resnet-89-2469s",), also=("gpu-exhausted",)
    )


@defect
def karpenters_gpu_pool_is_at_its_limit_beside_others() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("cpu-1"))
    p = c.add(pod("llm-1", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    c.event(p, "FailedScheduling", 'Failed to schedule pod, incompatible with nodepool "spot-pool", daemonset overhead={"cpu":"1566m","pods":"11"}, no instance type has enough '
            'resources, requirements=eks.amazonaws.com/instance-category In [c m t], resources={"cpu":"1566m","nvidia.com/gpu":"1","pods":"12"}; all available instance types '
            "exceed limits for nodepool (NodePool=gpu-nodepool)", "karpenter")  # fmt: skip
    return c, Wanted("nodepool-limit", "StatefulSet rag/llm", ("rag/llm-1",))


@defect
def a_node_class_that_allows_one_pod() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("cpu-1"))
    c.add(thing("EC2NodeClass", "ep", api="karpenter.k8s.aws/v1", spec={"kubelet": {"maxPods": 1}}))
    p = c.add(pod("llm-1", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    c.event(p, "FailedScheduling", 'Failed to schedule pod, incompatible with nodepool "ep-base", daemonset overhead={"cpu":"150m","pods":"4"}, no instance type satisfied resources '
            '{"cpu":"150m","nvidia.com/gpu":"1","pods":"5"} and requirements karpenter.k8s.aws/instance-family In [g5] (no instance type has enough resources)', "karpenter")  # fmt: skip
    return c, Wanted("nodepool-limit", "StatefulSet rag/llm", ("rag/llm-1",))


@defect
def the_lost_card_is_named_at_admission() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 8}, PCI))
    text = ("Pod Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown desc = Unable to retrieve list of available "
            "devices: error creating nvml.Device 5: nvml: GPU is lost, which is unexpected")  # fmt: skip
    c.add(pod("rojin-2q6ld", "lab", ENGINE, refused("UnexpectedAdmissionError", text), "g1", ("Job", "rojin")))
    return c, Wanted("gpu-unhealthy", "Node g1", None)


@defect
def devices_of_forcibly_deleted_pods() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 8}, PCI))
    text = "Pod Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
    p = c.add(pod("job-aaaaa", "lab", ENGINE, refused("UnexpectedAdmissionError", text), "g1", ("Job", "job")))
    c.event(p, "UnexpectedAdmissionError", text.removeprefix("Pod "), "kubelet")
    return c, Wanted("kubelet-device-state-stale", "Node g1", None)


@defect
def killed_by_a_probe_whose_kill_is_forgotten() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 1}))
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 6}
    box = container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: 1}, livenessProbe=probe)
    c.add(workload("Deployment", "llm", "rag", box))
    p = c.add(pod("llm-9-abcde", "rag", box, crashes(code=137, restarts=14), "g1", ("ReplicaSet", "llm-9"), {"app": "llm"}))
    c.event(
        p,
        "Unhealthy",
        'Liveness probe failed: Get "http://10.1.2.3:8000/health": dial tcp 10.1.2.3:8000: connect: connection refused',
        "kubelet",
    )
    c.attachments["logs/llm-9-abcde.log"] = (
        "Loading safetensors checkpoint shards:  45% Completed | 5/11 [01:10<01:24, 14.0s/it]\n"
    )
    return c, Wanted("startup-probe-too-short", "Deployment rag/llm", ("rag/llm-9-abcde",))


@defect
def two_shares_on_a_clouds_node() -> tuple[Cluster, Wanted]:
    labels = {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
        "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
    }
    c = Cluster("", node("gke-1", {GPU: 4}, labels))
    box = container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: 2})
    text = ("Allocate failed due to rpc error: code = Unknown desc = invalid request for sharing GPU (time-sharing), at most 1 nvidia.com/gpu can be requested on GPU nodes, "
            "which is unexpected")  # fmt: skip
    c.add(pod("llm-0", "rag", box, refused("UnexpectedAdmissionError", text), "gke-1", ("StatefulSet", "llm")))
    return c, Wanted("sharing-request-gt-one", "StatefulSet rag/llm", None)


@defect
def a_volume_that_the_data_do_not_hold() -> tuple[Cluster, Wanted]:
    zone = "topology.kubernetes.io/zone"
    c = Cluster("", node("g-a", {GPU: 1}, {zone: "eu-1a"}), node("c-b", {}, {zone: "eu-1b"}))
    text = ("0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had volume node affinity conflict. preemption: 0/2 nodes are available: 1 No preemption victims "
            "found for incoming pod, 1 Preemption is not helpful for scheduling.")  # fmt: skip
    p = c.add(
        pod(
            "llm-0",
            "rag",
            ENGINE,
            waits(text),
            "",
            ("StatefulSet", "llm"),
            volumes=[{"name": "m", "persistentVolumeClaim": {"claimName": "models"}}],
        )
    )
    c.event(p, "FailedScheduling", text)
    return c, Wanted("volume-topology-conflict", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def hamis_plugin_beside_nvidias() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 10}, PCI))
    hami = [container("device-plugin", "projecthami/hami:v2.6.1"), container("vgpu-monitor", "projecthami/hami:v2.6.1")]
    c.add(daemons("hami-device-plugin", "kube-system", hami, 1, 1))
    c.add(daemons("nvidia-device-plugin-daemonset", "gpu-operator", PLUGIN, 1, 1))
    c.add(pod("hami-device-plugin-aaaaa", "kube-system", hami, runs(count=2), "g1", ("DaemonSet", "hami-device-plugin")))
    c.add(
        pod(
            "nvidia-device-plugin-daemonset-bbbbb",
            "gpu-operator",
            PLUGIN,
            runs(),
            "g1",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
        )
    )
    return c, Wanted("device-plugin-duplicate", "DaemonSet kube-system/hami-device-plugin", ())


@defect
def infinity_and_its_own_service() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 1}))
    c.add(thing("Service", "infinity", namespace="rag", spec={"ports": [{"port": 7997}]}))
    box = container("infinity", "michaelf34/infinity:0.0.77", {GPU: 1}, ["v2"])
    c.add(pod("infinity-0", "rag", box, crashes(code=2), "g1", ("StatefulSet", "infinity")))
    c.attachments["logs/infinity-0.log"] = (
        "Error: Invalid value for '--port' (env var: 'INFINITY_PORT'): 'tcp://10.43.7.7:7997' is not a valid integer.\n"
    )
    return c, Wanted("service-env-collision", "StatefulSet rag/infinity", ("rag/infinity-0",))


@defect
def milvus_and_its_own_service() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 1}))
    c.add(thing("Service", "milvus", namespace="rag", spec={"ports": [{"port": 19530}]}))
    box = container("milvus", "milvusdb/milvus:v2.5.4-gpu", {GPU: 1})
    c.add(workload("Deployment", "vectors", "rag", box))
    c.add(pod("vectors-1-abcde", "rag", box, crashes(code=2), "g1", ("ReplicaSet", "vectors-1"), {"app": "vectors"}))
    c.attachments["logs/vectors-1-abcde.log"] = 'panic: strconv.ParseInt: parsing "tcp://10.96.40.2:19530": invalid syntax\n'
    return c, Wanted("service-env-collision", "Deployment rag/vectors", ("rag/vectors-1-abcde",))


@defect
def torch_cannot_write_its_shared_file() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 4}))
    box = container("train", "pytorch/pytorch:2.8.0", {GPU: 4})
    c.add(pod("train-0", "lab", box, crashes(), "g1", ("Job", "train")))
    c.attachments["logs/train-0.log"] = "RuntimeError: unable to write to file </torch_812_331>: No space left on device (28)\n"
    return c, Wanted("shm-too-small", "Job lab/train", ("lab/train-0",))


def strangers() -> dict[str, Cluster]:
    """Troubles with no cause in the vocabulary."""
    made: dict[str, Cluster] = {}

    def add(name: str, status: dict[str, object], log: str = "", event: tuple[str, str] | None = None) -> None:
        c = Cluster("", node("g1", {GPU: 2}, {"nvidia.com/gpu.product": "NVIDIA-L4"}, handlers=("", "nvidia")))
        c.add(thing("RuntimeClass", "nvidia", api="node.k8s.io/v1", handler="nvidia"))
        p = c.add(pod("llm-0", "rag", ENGINE, status, "g1", ("StatefulSet", "llm"), runtimeClassName="nvidia"))
        if log:
            c.attachments["logs/llm-0.log"] = log
        if event:
            c.event(p, *event, "kubelet")
        made[name] = c

    add("out of host memory", crashes(code=137, reason="OOMKilled"), "INFO loading model weights\n")
    add(
        "a gated model",
        crashes(),
        "OSError: You are trying to access a gated repo.\n401 Client Error. Cannot access gated repo for url https://huggingface.co/m\n",
    )
    add(
        "an image that is not there",
        stands("ImagePullBackOff", 'Back-off pulling image "vllm/vllm-openai:v0.11.0"'),
        "",
        ("Failed", "Error: ErrImagePull"),
    )
    add("a secret that is not there", stands("CreateContainerConfigError", 'secret "hf-token" not found'))
    add(
        "a volume that is not mounted",
        stands("ContainerCreating"),
        "",
        ("FailedMount", 'MountVolume.SetUp failed for volume "models": timed out'),
    )
    add("an unknown argument", crashes(code=2), "api_server.py: error: unrecognized arguments: --max-modl-len\n")
    add("no room on the disk", refused("Evicted", "The node was low on resource: ephemeral-storage."))
    add("a model that is not there", crashes(), "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.\n")
    add("a wrong permission", crashes(), "PermissionError: [Errno 13] Permission denied: '/data/cache/huggingface'\n")
    c = Cluster("", node("g1", {}, PCI))
    c.add(daemons("nvidia-device-plugin-daemonset", "kube-system", PLUGIN, 1))
    c.add(
        pod(
            "nvidia-device-plugin-daemonset-pp",
            "kube-system",
            PLUGIN,
            stands("ImagePullBackOff"),
            "g1",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
        )
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    made["a plugin image that is not there"] = c
    c = Cluster("", node("cpu-1"), node("cpu-2"))
    box = container("vectors", "qdrant/qdrant:v1.15", {"cpu": "64"})
    c.add(pod("vectors-0", "rag", box, waits(), "", ("StatefulSet", "vectors")))
    made["more processors than a node has"] = c
    return made
