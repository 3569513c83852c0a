"""Small reports about the device plugin, sharing, MIG and DRA."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, Raw
from broken.small import GPU, PLUGIN, container, crashes, daemons, node, pod, refused, runs, stands, waits, workload
from makers import config_map, thing

PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
GATE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "feature.node.kubernetes.io/pci-10de.present", "operator": "In", "values": ["true"]}
                    ]
                },
                {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}]},
            ]
        }
    }
}
ENGINE = container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: 1})


def _plugin_pod(
    on: str, status: Raw, owner: str = "nvidia-device-plugin-daemonset", namespace: str = "kube-system", **more: object
) -> Raw:
    return pod(f"{owner}-{on[-2:]}xyz", namespace, PLUGIN, status, on, ("DaemonSet", owner), **more)  # type: ignore[arg-type]


# device-plugin-not-scheduled


@defect
def no_label_and_no_discovery() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("bm-1", {}, {"node.kubernetes.io/instance-type": "g5.2xlarge"}))
    c.add(daemons("nvdp", "gpu", PLUGIN, 0, affinity=GATE))
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("device-plugin-not-scheduled", "DaemonSet gpu/nvdp", ("rag/llm-0",))


@defect
def a_taint_of_the_team_keeps_the_plugin_off() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("gpu-x", {}, PCI | {"nvidia.com/gpu.present": "true"}, taints=[("team", "llm", "NoSchedule")]))
    c.add(node("cpu-x"))
    c.add(daemons("nvidia-device-plugin-daemonset", "kube-system", PLUGIN, 0, tolerations=[{"key": GPU, "operator": "Exists"}]))
    mine = [{"key": "team", "operator": "Equal", "value": "llm", "effect": "NoSchedule"}]
    c.add(pod("llm-1-aaaaa", "rag", ENGINE, waits(), "", ("ReplicaSet", "llm-1"), tolerations=mine))
    return c, Wanted(
        "device-plugin-not-scheduled",
        "DaemonSet kube-system/nvidia-device-plugin-daemonset",
        ("rag/llm-1-aaaaa",),
        also=("missing-toleration",),
    )


@defect
def an_aks_pool_with_its_own_taint() -> tuple[Cluster, Wanted]:
    labels = {
        "kubernetes.azure.com/accelerator": "nvidia",
        "node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4",
        "agentpool": "gpu",
    }
    c = Cluster("", node("aks-gpu-0", {}, labels, taints=[("sku", "gpu", "NoSchedule")]))
    c.add(
        daemons(
            "nvidia-device-plugin",
            "gpu-resources",
            PLUGIN,
            0,
            tolerations=[{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        )
    )
    c.add(pod("e-0", "rag", ENGINE, waits(), "", ("StatefulSet", "e"), tolerations=[{"key": "sku", "operator": "Exists"}]))
    return c, Wanted(
        "device-plugin-not-scheduled",
        "DaemonSet gpu-resources/nvidia-device-plugin",
        ("rag/e-0",),
        also=("missing-toleration",),
    )


# node-selector-mismatch of a DaemonSet


@defect
def the_operator_left_a_node_paused_for_its_driver() -> tuple[Cluster, Wanted]:
    labels = PCI | {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"}
    c = Cluster("", node("op-1", {GPU: 0}, labels))
    c.add(
        daemons(
            "nvidia-device-plugin-daemonset",
            "gpu-operator",
            PLUGIN,
            0,
            nodeSelector={"nvidia.com/gpu.deploy.device-plugin": "true"},
        )
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted(
        "node-selector-mismatch",
        "DaemonSet gpu-operator/nvidia-device-plugin-daemonset",
        ("rag/llm-0",),
        mentions=("paused-for-driver-upgrade",),
    )


# device-plugin-nvml-missing


@defect
def the_plugin_waits_indefinitely() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("k3s-a", {}, PCI))
    c.add(daemons("nvidia-device-plugin-daemonset", "kube-system", PLUGIN, 1, 1))
    c.add(_plugin_pod("k3s-a", runs()))
    c.attachments["logs/nvidia-device-plugin-ctr.log"] = (
        "E1130 20:00:01.1 1 factory.go:115] Incompatible strategy detected auto\nE1130 20:00:01.1 1 factory.go:116] If this is a GPU node, did "
        "you configure the NVIDIA Container Toolkit?\nI1130 20:00:01.2 1 main.go:346] No devices found. Waiting indefinitely.\n"
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("device-plugin-nvml-missing", "DaemonSet kube-system/nvidia-device-plugin-daemonset", ("rag/llm-0",))


@defect
def the_old_plugin_cannot_load_the_library() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("u20", {}, PCI))
    c.add(_plugin_pod("u20", crashes("Failed to initialize NVML: could not load NVML library."), "ndp", "gpu"))
    return c, Wanted("device-plugin-nvml-missing", "DaemonSet gpu/ndp", ())


# device-plugin-duplicate, -start-race, -dra-conflict


@defect
def the_operators_and_a_static_plugin() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 2}), node("g2", {GPU: 2}))
    c.add(daemons("nvidia-device-plugin-daemonset", "gpu-operator", PLUGIN, 2, 2))
    c.add(daemons("nvidia-device-plugin-ds", "kube-system", PLUGIN, 2, 2))
    for on in ("g1", "g2"):
        c.add(_plugin_pod(on, runs(), "nvidia-device-plugin-daemonset", "gpu-operator"))
        c.add(_plugin_pod(on, runs(), "nvidia-device-plugin-ds"))
    return c, Wanted("device-plugin-duplicate", "DaemonSet kube-system/nvidia-device-plugin-ds", ())


@defect
def after_a_reboot_the_plugin_was_late() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 2}))
    text = "Allocate failed due to can't allocate unregistered device nvidia.com/gpu, which is unexpected"
    p = c.add(
        pod(
            "llm-0",
            "rag",
            ENGINE,
            refused("UnexpectedAdmissionError", f"Pod was rejected: {text}"),
            "g1",
            ("StatefulSet", "llm"),
        )
    )
    c.event(p, "UnexpectedAdmissionError", text, "kubelet")
    return c, Wanted("device-plugin-start-race", "StatefulSet rag/llm", None)


@defect
def a_job_after_the_kubelet_restarted() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 2}))
    for name in ("index-0-aaaaa", "index-0-bbbbb", "index-0-ccccc"):
        text = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
        c.add(pod(name, "rag", ENGINE, refused("UnexpectedAdmissionError", text), "g1", ("Job", "index")))
    return c, Wanted("device-plugin-start-race", "Job rag/index", None)


@defect
def a_slice_and_a_capacity_on_one_node() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("d1", {GPU: 1}), node("d2", {GPU: 1}))
    for on in ("d1", "d2"):
        spec = {"driver": "gpu.nvidia.com", "nodeName": on, "pool": {"name": on, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{on}"}}}]}  # fmt: skip
        c.add(thing("ResourceSlice", f"0-gpu.nvidia.com-{on}-x7k2p", api="resource.k8s.io/v1", spec=spec))
    c.add(_plugin_pod("d1", runs()))
    return c, Wanted("device-plugin-dra-conflict", "Node d1", ())


@defect
def the_conflict_in_the_beta_api() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("d9", {"nvidia.com/gpu.shared": 4}))
    spec = {"driver": "gpu.nvidia.com", "nodeName": "d9", "pool": {"name": "d9", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "basic": {"attributes": {"type": {"string": "gpu"}}}}]}  # fmt: skip
    c.add(thing("ResourceSlice", "d9-gpu.nvidia.com-zzzzz", api="resource.k8s.io/v1beta1", spec=spec))
    c.add(
        daemons(
            "dra-kubelet-plugin",
            "dra",
            container("gpus", "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v25.8.0"),
            1,
            1,
        )
    )
    return c, Wanted("device-plugin-dra-conflict", "Node d9", ())


# dra-driver-not-ready, dra-selector-mismatch


def _claim(name: str, namespace: str, owner: str, requests: list[Raw], api: str = "resource.k8s.io/v1") -> Raw:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"Pod-{namespace}-{owner}", "controller": True}]
    return thing(
        "ResourceClaim", name, api=api, namespace=namespace, owners=owners, spec={"devices": {"requests": requests}}, status={}
    )


def _claim_pod(name: str, namespace: str, claim: str, status: Raw, on: str = "", owner: tuple[str, str] | None = None) -> Raw:
    box = container("vllm", "vllm/vllm-openai:v0.11.0")
    box["resources"] = {"claims": [{"name": "gpu"}]}
    made = pod(name, namespace, box, status, on, owner, resourceClaims=[{"name": "gpu", "resourceClaimName": claim}])
    made["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": claim}]
    return made


@defect
def no_dra_driver_at_all() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI | {"nvidia.com/gpu.present": "true"}))
    c.add(
        _claim(
            "one",
            "rag",
            "llm-0",
            [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}}],
        )
    )
    c.add(
        _claim_pod(
            "llm-0",
            "rag",
            "one",
            waits("0/1 nodes are available: 1 request gpu: device class gpu.nvidia.com does not exist."),
            "",
            ("StatefulSet", "llm"),
        )
    )
    return c, Wanted("dra-driver-not-ready", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def the_kubelet_does_not_know_the_driver() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI))
    c.add(thing("DeviceClass", "gpu.nvidia.com", api="resource.k8s.io/v1", spec={}))
    claim = _claim("one", "rag", "llm-0", [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}])
    claim["status"] = {"allocation": {"devices": {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "g1", "device": "gpu-0"}]}},
                       "reservedFor": [{"resource": "pods", "name": "llm-0", "uid": "Pod-rag-llm-0"}]}  # fmt: skip
    c.add(claim)
    p = c.add(_claim_pod("llm-0", "rag", "one", stands("ContainerCreating"), "g1", ("StatefulSet", "llm")))
    c.event(
        p,
        "FailedPrepareDynamicResources",
        "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is not registered",
        "kubelet",
    )
    return c, Wanted("dra-driver-not-ready", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def the_drivers_init_container_finds_no_library() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("kind-1", {}, {"nvidia.com/gpu.present": "true"}))
    c.add(thing("DeviceClass", "gpu.nvidia.com", api="resource.k8s.io/v1", spec={}))
    box = container("gpus", "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v25.8.0")
    c.add(daemons("nvidia-dra-driver-gpu-kubelet-plugin", "dra", box, 1))
    c.add(
        pod(
            "nvidia-dra-driver-gpu-kubelet-plugin-xckkd",
            "dra",
            box,
            crashes(),
            "kind-1",
            ("DaemonSet", "nvidia-dra-driver-gpu-kubelet-plugin"),
        )
    )
    c.attachments["logs/nvidia-dra-driver-gpu-kubelet-plugin-xckkd.log"] = (
        'Error: failed to create device library: failed to locate driver libraries: error locating "libnvidia-ml.so.1"\n'
    )
    c.add(_claim("one", "rag", "llm-0", [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]))
    c.add(_claim_pod("llm-0", "rag", "one", waits("0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: "
                     "0/1 nodes are available: 1 Preemption is not helpful for scheduling."), "", ("StatefulSet", "llm")))  # fmt: skip
    return c, Wanted("dra-driver-not-ready", "StatefulSet rag/llm", None)


@defect
def a_class_whose_expression_fits_nothing() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("d1"))
    spec = {"driver": "gpu.nvidia.com", "nodeName": "d1", "pool": {"name": "d1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"productName": {"string": "NVIDIA L4"}}, "capacity": {"memory": {"value": "23034Mi"}}}]}  # fmt: skip
    c.add(thing("ResourceSlice", "0-gpu.nvidia.com-d1-aaaaa", api="resource.k8s.io/v1", spec=spec))
    expression = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"
    c.add(
        thing(
            "DeviceClass",
            "big-gpu",
            api="resource.k8s.io/v1",
            spec={
                "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}, {"cel": {"expression": expression}}]
            },
        )
    )
    c.add(
        _claim(
            "one",
            "rag",
            "llm-0",
            [{"name": "gpu", "exactly": {"deviceClassName": "big-gpu", "allocationMode": "ExactCount", "count": 1}}],
        )
    )
    c.add(_claim_pod("llm-0", "rag", "one", waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("dra-selector-mismatch", "StatefulSet rag/llm", ("rag/llm-0",))


# cdi-device-unresolved


@defect
def containerd_knows_no_such_device() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 2}))
    p = c.add(pod("llm-0", "rag", ENGINE, stands("CreateContainerError"), "g1", ("StatefulSet", "llm")))
    text = "Error: failed to create containerd container: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=GPU-1b2c"
    c.event(p, "Failed", text, "kubelet")
    return c, Wanted("cdi-device-unresolved", "Node g1", ("rag/llm-0",), mentions=("nvidia.com/gpu=GPU-1b2c",))


@defect
def crio_knows_no_such_device() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("ocp-1", {"nvidia.com/mig-1g.10gb": 7}))
    box = container("embed", "registry.example/e:1", {"nvidia.com/mig-1g.10gb": 1})
    text = "setting CDI devices: unresolvable CDI devices k8s.device-plugin.nvidia.com/gpu=MIG-77aa"
    c.add(pod("embed-5-fffff", "rag", box, stands("CreateContainerError", text), "ocp-1", ("ReplicaSet", "embed-5")))
    return c, Wanted("cdi-device-unresolved", "Node ocp-1", ("rag/embed-5-fffff",))


@defect
def the_kubelets_journal_names_the_device() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g7", {}))
    c.attachments["logs/g7-kubelet-journal.txt"] = (
        'Nov 30 20:00:00 g7 kubelet[911]: E1130 20:00:00.1 911 pod_workers.go:1324] "Error syncing pod, skipping" err="failed to '
        '\\"StartContainer\\" for \\"vllm\\" with CreateContainerError: \\"failed to create containerd container: CDI device injection failed: '
        'unresolvable CDI devices k8s.gpu.nvidia.com/claim=8d2e-gpu-0\\""\n'
    )
    c.add(
        pod(
            "llm-0",
            "rag",
            container("vllm", "vllm/vllm-openai:v0.11.0"),
            stands("CreateContainerError"),
            "g7",
            ("StatefulSet", "llm"),
        )
    )
    return c, Wanted("cdi-device-unresolved", "Node g7", None)


# sharing-config-*


SLICES = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"


def _managed(status: Raw, config: str, default: str = "", statuses: int = 2) -> Raw:
    env = {"NODE_LABEL": "nvidia.com/device-plugin.config", "CONFIG_FILE_SRCDIR": "/available-configs", "CONFIG_FILE_DST": "/config/config.yaml",
           "DEFAULT_CONFIG": default, "FALLBACK_STRATEGIES": "named,single"}  # fmt: skip
    manager = container("nvidia-device-plugin-sidecar", "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", None, (), env)
    manager["volumeMounts"] = [{"name": "available-configs", "mountPath": "/available-configs"}]
    box = dict(PLUGIN) | {"env": [{"name": "CONFIG_FILE", "value": "/config/config.yaml"}]}
    volumes = [{"name": "available-configs", "configMap": {"name": config}}]
    assert statuses
    return pod("nvdp-9mmmm", "gpu", [box, manager], status, "g1", ("DaemonSet", "nvdp"), volumes=volumes)


@defect
def the_whole_config_map_was_pasted_in() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 1}, {"nvidia.com/device-plugin.config": "any"}))
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  any: |-\n" + "".join(
        f"    {line}\n" for line in SLICES.splitlines()
    )
    c.add(config_map("slices", {"any": text}))
    c.add(_managed(runs(count=2), "slices"))
    shared = container("e", "registry.example/e:1", {"nvidia.com/gpu.shared": 1})
    c.add(pod("embed-0", "rag", shared, waits(), "", ("StatefulSet", "embed")))
    return c, Wanted("sharing-config-invalid", "ConfigMap gpu/slices", ("rag/embed-0",))


@defect
def replicas_in_quotes() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI | {"nvidia.com/device-plugin.config": "any"}))
    c.add(config_map("slices", {"any": SLICES.replace("replicas: 4", 'replicas: "4"')}))
    p = _managed(crashes(count=2), "slices")
    c.add(p)
    c.attachments["logs/nvidia-device-plugin-ctr.log"] = (
        "E1130 20:00:00.0 1 main.go:173] error starting plugins: unable to load config: unable to finalize config: unable to parse config file: "
        "error parsing config file: unmarshal error: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct\n"
    )
    return c, Wanted("sharing-config-invalid", "ConfigMap gpu/slices", None)


@defect
def a_config_that_the_label_misspells() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI | {"nvidia.com/device-plugin.config": "tesla-t4"}))
    c.add(config_map("configs", {"t4": SLICES, "default": "version: v1\n"}))
    c.add(_managed(crashes(count=2), "configs", "default"))
    c.attachments["logs/nvidia-device-plugin-sidecar.log"] = (
        "F1130 20:00:00 main.go:120] Error: specified config tesla-t4 does not exist\n"
    )
    return c, Wanted("sharing-config-unknown", "Node g1", None, mentions=("tesla-t4",))


@defect
def the_map_is_there_and_the_plugin_does_not_mount_it() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 2}, {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.product": "Tesla-T4"}))
    c.add(config_map("nvidia-device-plugin", {"config.yaml": SLICES}, namespace="kube-system"))
    c.add(daemons("nvidia-device-plugin-daemonset", "kube-system", PLUGIN, 1, 1))
    c.add(_plugin_pod("g1", runs()))
    for n in range(2):
        c.add(pod(f"llm-{n}", "rag", ENGINE, runs(), "g1", ("StatefulSet", "llm")))
    shared = container("e", "registry.example/e:1", {"nvidia.com/gpu.shared": 1})
    c.add(pod("embed-0", "rag", shared, waits(), "", ("StatefulSet", "embed")))
    return c, Wanted(
        "sharing-config-not-applied",
        "ConfigMap kube-system/nvidia-device-plugin",
        ("rag/embed-0",),
        also=("wrong-resource-name",),
    )


# sharing-request-gt-one, mps-not-ready


@defect
def two_shares_in_an_old_plugins_words() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {"nvidia.com/gpu.shared": 8}))
    box = container("vllm", "vllm/vllm-openai:v0.11.0", {"nvidia.com/gpu.shared": 2}, ["-tp", "2"])
    text = ("Allocate failed due to rpc error: code = Unknown desc = request for 'nvidia.com/gpu.shared: 2' too large: maximum request size for "
            "shared resources is 1, which is unexpected")  # fmt: skip
    p = c.add(pod("tp-1-ggggg", "rag", box, refused("UnexpectedAdmissionError", text), "g1", ("ReplicaSet", "tp-1")))
    c.event(p, "UnexpectedAdmissionError", text, "kubelet")
    return c, Wanted("sharing-request-gt-one", "Pod rag/tp-1-ggggg", None)


@defect
def mps_without_its_root() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {}, PCI))
    c.add(config_map("mps", {"config.yaml": SLICES.replace("timeSlicing", "mps")}))
    p = _managed(crashes(count=2), "mps")
    c.add(p)
    c.attachments["logs/nvidia-device-plugin-ctr.log"] = (
        "E1130 main.go:132] error starting plugins: using MPS requires --mps-root to be specified\n"
    )
    return c, Wanted("mps-not-ready", "Node g1", None)


@defect
def the_plugin_waits_for_the_daemon() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 0}, PCI | {"nvidia.com/mps.capable": "true"}))
    c.add(config_map("mps", {"config.yaml": SLICES.replace("timeSlicing", "mps")}))
    c.add(_managed(runs(count=2), "mps"))
    c.attachments["logs/nvdp-9mmmm.log"] = (
        "E1130 20:00:00 1 main.go:211] Failed to start plugin: error waiting for MPS daemon: error checking MPS daemon health: failed to send "
        "command to MPS daemon: exit status 1\nI1130 1 main.go:216] Failed to start one or more plugins. Retrying in 30s...\n"
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("mps-not-ready", "Node g1", None)


# mig-*


A100 = PCI | {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
}


@defect
def single_and_two_profiles() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "",
        node(
            "dgx",
            {GPU: 0},
            A100 | {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID"},
        ),
    )
    c.add(_plugin_pod("dgx", crashes(), "nvidia-device-plugin-daemonset", "gpu-operator"))
    c.attachments["logs/nvidia-device-plugin-ctr.log"] = (
        "error building device map: error building device map from config.resources: invalid MIG configuration: more than one MIG device type present on node\n"
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("mig-strategy-mismatch", "Node dgx", None)


@defect
def a_card_with_mig_and_no_instance() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a30", {}, PCI | {"nvidia.com/mig.capable": "true"}))
    c.add(
        _plugin_pod(
            "a30",
            crashes(
                "error getting plugins: unable to create plugin manager: invalid MIG configuration: device 0 has no MIG devices configured"
            ),
            "nvdp",
            "gpu",
        )
    )
    return c, Wanted("mig-strategy-mismatch", "Node a30", None)


@defect
def a_layout_of_another_card_is_refused() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "", node("dgx", {GPU: 8}, A100 | {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "failed"})
    )
    box = container("nvidia-mig-manager", "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.12.1")
    c.add(pod("nvidia-mig-manager-ttttt", "gpu-operator", box, runs(), "dgx", ("DaemonSet", "nvidia-mig-manager")))
    c.attachments["logs/nvidia-mig-manager-ttttt.log"] = (
        'time="2026-11-30T20:00:00Z" level=error msg="Error applying MIG configuration with hooks: error setting MIGConfig: error attempting '
        'multiple config orderings: all orderings failed"\n'
    )
    return c, Wanted("mig-config-invalid", "Node dgx", None)


@defect
def a_layout_that_is_not_in_the_file() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "", node("dgx", {GPU: 8}, A100 | {"nvidia.com/mig.config": "rag-three", "nvidia.com/mig.config.state": "failed"})
    )
    text = (
        "version: v1\nmig-configs:\n  rag-two:\n  - devices: all\n    mig-enabled: true\n    mig-devices:\n      3g.20gb: 2\n"
    )
    c.add(config_map("custom-mig", {"config.yaml": text}, namespace="gpu-operator"))
    c.add(
        thing(
            "ClusterPolicy",
            "cluster-policy",
            api="nvidia.com/v1",
            spec={"migManager": {"config": {"name": "custom-mig"}}, "mig": {"strategy": "mixed"}},
            status={"state": "ready"},
        )
    )
    return c, Wanted("mig-config-invalid", "Node dgx", (), mentions=("rag-three",))


@defect
def cards_in_use_stop_the_change() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "", node("dgx", {GPU: 8}, A100 | {"nvidia.com/mig.config": "all-1g.5gb", "nvidia.com/mig.config.state": "failed"})
    )
    box = container("nvidia-mig-manager", "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.12.1")
    c.add(pod("nvidia-mig-manager-uuuuu", "gpu-operator", box, runs(), "dgx", ("DaemonSet", "nvidia-mig-manager")))
    c.attachments["logs/nvidia-mig-manager.log"] = (
        'time="2026-11-30T20:00:00Z" level=fatal msg="Error applying MIG configuration with hooks: error setting MIGConfig: error clearing '
        "MigConfig: error destroying Compute instance for profile '(0, 0)': In use by another client\"\n"
    )
    return c, Wanted("mig-reconfig-stuck", "Node dgx", None)


@defect
def pending_for_ever_and_paused() -> tuple[Cluster, Wanted]:
    paused = {
        f"nvidia.com/gpu.deploy.{name}": "paused-for-mig-change"
        for name in ("device-plugin", "gpu-feature-discovery", "dcgm", "nvsm")
    }
    c = Cluster(
        "",
        node(
            "h100",
            {GPU: 0},
            A100 | paused | {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "rebooting"},
        ),
    )
    c.add(
        daemons(
            "nvidia-device-plugin-daemonset",
            "gpu-operator",
            PLUGIN,
            0,
            nodeSelector={"nvidia.com/gpu.deploy.device-plugin": "true"},
        )
    )
    box = container("e", "registry.example/e:1", {"nvidia.com/mig-1g.10gb": 1})
    c.add(pod("e-0", "rag", box, waits(), "", ("StatefulSet", "e")))
    return c, Wanted("mig-reconfig-stuck", "Node h100", ("rag/e-0",))


@defect
def the_exporter_may_not_see_the_slices() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("dgx", {"nvidia.com/mig-1g.5gb": 7}, A100))
    box = container("nvidia-dcgm-exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04")
    c.add(pod("dcgm-exporter-66666", "monitoring", box, crashes(), "dgx", ("DaemonSet", "dcgm-exporter")))
    c.attachments["logs/dcgm-exporter-66666.log"] = (
        "nvidia-container-cli: mount error: open failed: /proc/driver/nvidia/capabilities/mig/monitor: NVIDIA_MIG_MONITOR_DEVICES requires CAP_SYS_ADMIN\n"
    )
    return c, Wanted("mig-monitor-permission", "DaemonSet monitoring/dcgm-exporter", ("monitoring/dcgm-exporter-66666",))


@defect
def the_plugin_may_not_list_instances() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a30", {}, A100))
    box = container("hami-device-plugin", "projecthami/hami:v2.6.1")
    c.add(pod("hami-device-plugin-aio", "kube-system", box, crashes(), "a30", ("DaemonSet", "hami-device-plugin")))
    c.attachments["logs/hami-device-plugin-aio.log"] = "Failed to display compute instances: Insufficient Permissions\n"
    return c, Wanted(
        "mig-monitor-permission", "DaemonSet kube-system/hami-device-plugin", ("kube-system/hami-device-plugin-aio",)
    )


@defect
def discovery_is_denied_the_capability_device() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a30", {"nvidia.com/mig-1g.6gb": 4}, A100))
    box = container("gpu-feature-discovery", "nvcr.io/nvidia/k8s-device-plugin:v0.17.1")
    c.add(
        pod(
            "gpu-feature-discovery-lmnop",
            "gpu-operator",
            box,
            crashes("failed to open /dev/nvidia-caps/nvidia-cap2: permission denied"),
            "a30",
            ("DaemonSet", "gpu-feature-discovery"),
        )
    )
    return c, Wanted(
        "mig-monitor-permission", "DaemonSet gpu-operator/gpu-feature-discovery", ("gpu-operator/gpu-feature-discovery-lmnop",)
    )


# gpu-label-missing


@defect
def discovery_was_never_installed() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 2}), node("g2", {GPU: 2}))
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm"), nodeSelector={"nvidia.com/gpu.memory": "46068"}))
    return c, Wanted("gpu-label-missing", "StatefulSet rag/llm", ("rag/llm-0",), mentions=("nvidia.com/gpu.memory",))


@defect
def an_affinity_on_a_label_that_nobody_wrote() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 2}))
    term = {"matchExpressions": [{"key": "nvidia.com/gpu.compute.major", "operator": "Gt", "values": ["7"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    c.add(workload("Deployment", "llm", "rag", ENGINE, affinity=affinity))
    c.add(pod("llm-8-hhhhh", "rag", ENGINE, waits(), "", ("ReplicaSet", "llm-8"), {"app": "llm"}, affinity=affinity))
    return c, Wanted("gpu-label-missing", "Deployment rag/llm", ("rag/llm-8-hhhhh",))
