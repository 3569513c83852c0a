"""Small reports about placement, queues, quotas and autoscalers."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster
from broken.small import GPU, container, node, pod, runs, waits, workload
from makers import thing

ENGINE = container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: 1})
SHARED = {
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.product": "NVIDIA-L4",
    "nvidia.com/gpu.count": "1",
}


# scheduler-bypass


@defect
def hami_memory_at_the_default_scheduler() -> tuple[Cluster, Wanted]:
    register = '[{"id":"GPU-1","count":10,"devmem":23034,"devcore":100,"type":"NVIDIA-NVIDIA L4","health":true}]'
    n = node("hami-1", {GPU: 10})
    n["metadata"]["annotations"] = {"hami.io/node-nvidia-register": register}
    c = Cluster("", n)
    box = container("embed", "x/e:1", {GPU: 1, "nvidia.com/gpumem": 4000})
    c.add(pod("embed-0", "rag", box, waits(), "", ("StatefulSet", "embed")))
    return c, Wanted("scheduler-bypass", "StatefulSet rag/embed", ("rag/embed-0",))


@defect
def a_fraction_at_the_default_scheduler() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("kai-1", {GPU: 1}))
    c.add(pod("held-0", "rag", ENGINE, runs(), "kai-1", ("StatefulSet", "held")))
    box = container("embed", "x/e:1", {GPU: 1})
    c.add(pod("embed-1", "rag", box, waits(), "", ("Job", "embed"), annotations={"gpu-fraction": "0.5"}))
    return c, Wanted("scheduler-bypass", "Job rag/embed", ("rag/embed-1",))


@defect
def a_privileged_pod_with_gpucores() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("hami-1", {GPU: 10}))
    box = container("train", "x/t:1", {GPU: 1, "nvidia.com/gpucores": 30}, securityContext={"privileged": True})
    c.add(workload("Deployment", "train", "rag", box))
    c.add(
        pod(
            "train-1-aaaaa",
            "rag",
            box,
            waits("0/1 nodes are available: 1 Insufficient nvidia.com/gpucores."),
            "",
            ("ReplicaSet", "train-1"),
            {"app": "train"},
        )
    )
    return c, Wanted("scheduler-bypass", "Deployment rag/train", ("rag/train-1-aaaaa",), mentions=("privileged",))


# queue-misconfigured


@defect
def kai_without_a_queue_label() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("k1", {GPU: 2}))
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm"), schedulerName="kai-scheduler"))
    return c, Wanted("queue-misconfigured", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def kueue_without_that_queue() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("k1", {GPU: 2}))
    c.add(thing("LocalQueue", "gpu", api="kueue.x-k8s.io/v1beta1", namespace="rag", spec={"clusterQueue": "gpu"}))
    status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
    c.add(
        pod(
            "index-aaaaa",
            "rag",
            ENGINE,
            status,
            "",
            ("Job", "index"),
            {"kueue.x-k8s.io/queue-name": "gpus"},
            schedulingGates=[{"name": "kueue.x-k8s.io/admission"}],
        )
    )
    return c, Wanted("queue-misconfigured", "Job rag/index", ("rag/index-aaaaa",), mentions=("gpus",))


@defect
def volcano_finds_no_queue() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("volc-1", {GPU: 2}))
    p = c.add(
        pod("train-0", "rag", ENGINE, waits("queue team-b not found"), "", ("StatefulSet", "train"), schedulerName="volcano")
    )
    c.event(p, "FailedScheduling", "queue team-b not found", "volcano")
    return c, Wanted("queue-misconfigured", "StatefulSet rag/train", ("rag/train-0",))


# quota-blocked


@defect
def a_statefulset_over_its_quota() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 4}))
    made = c.add(workload("StatefulSet", "llm", "team-a", ENGINE, 2, {"replicas": 1, "readyReplicas": 1}))
    c.add(pod("llm-0", "team-a", ENGINE, runs(), "g1", ("StatefulSet", "llm"), {"app": "llm"}))
    hard = {"requests.nvidia.com/gpu": "1"}
    c.add(thing("ResourceQuota", "compute", namespace="team-a", spec={"hard": hard}, status={"hard": hard, "used": hard}))
    c.event(made, "FailedCreate", 'create Pod llm-1 in StatefulSet llm failed error: pods "llm-1" is forbidden: exceeded quota: compute, requested: '
            "requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=1, limited: requests.nvidia.com/gpu=1", "statefulset-controller")  # fmt: skip
    return c, Wanted("quota-blocked", "StatefulSet team-a/llm", ())


@defect
def a_priority_class_that_is_not_there() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 4}))
    made = c.add(
        thing(
            "ReplicaSet",
            "llm-66",
            api="apps/v1",
            namespace="rag",
            spec={"replicas": 1, "template": {"spec": {"containers": [ENGINE]}}},
            status={"replicas": 0},
        )
    )
    c.event(
        made,
        "FailedCreate",
        'Error creating: pods "llm-66-" is forbidden: no PriorityClass with name llm-high was found',
        "replicaset-controller",
    )
    return c, Wanted("quota-blocked", "ReplicaSet rag/llm-66", ())


# volumes, rollouts, affinity, counts


@defect
def a_statefulset_whose_disk_is_elsewhere() -> tuple[Cluster, Wanted]:
    zone = "topology.kubernetes.io/zone"
    c = Cluster("", node("g-a", {GPU: 1}, {zone: "eu-1a"}), node("c-b", {}, {zone: "eu-1b"}))
    affinity = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": zone, "operator": "In", "values": ["eu-1b"]}]}]}
    }
    c.add(thing("PersistentVolume", "pv-1", spec={"capacity": {"storage": "50Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"},
                "claimRef": {"namespace": "rag", "name": "cache-llm-0"}, "nodeAffinity": affinity, "storageClassName": "gp3"}, status={"phase": "Bound"}))  # fmt: skip
    claim = thing("PersistentVolumeClaim", "cache-llm-0", namespace="rag", spec={"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1", "storageClassName": "gp3",
                  "resources": {"requests": {"storage": "50Gi"}}}, status={"phase": "Bound"}, annotations={"pv.kubernetes.io/bind-completed": "yes"})  # fmt: skip
    c.add(claim)
    c.add(
        pod(
            "llm-0",
            "rag",
            ENGINE,
            waits(),
            "",
            ("StatefulSet", "llm"),
            volumes=[{"name": "c", "persistentVolumeClaim": {"claimName": "cache-llm-0"}}],
        )
    )
    return c, Wanted("volume-topology-conflict", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def spread_over_hosts_with_one_gpu_host() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 4}), node("c1"))
    term = {"labelSelector": {"matchLabels": {"app": "llm"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    c.add(pod("llm-0", "rag", ENGINE, runs(), "g1", ("StatefulSet", "llm"), {"app": "llm"}, affinity=affinity))
    c.add(pod("llm-1", "rag", ENGINE, waits(), "", ("StatefulSet", "llm"), {"app": "llm"}, affinity=affinity))
    return c, Wanted("pod-affinity-conflict", "StatefulSet rag/llm", ("rag/llm-1",))


@defect
def three_cards_of_a_two_card_box() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("ws", {GPU: 2}))
    c.add(pod("train", "lab", container("t", "x/t:1", {GPU: 3}), waits(), ""))
    return c, Wanted("gpu-count-exceeds-node", "Pod lab/train", ("lab/train",), mentions=("3", "2"))


# autoscalers


@defect
def a_group_scaled_to_zero() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("cpu-1"), node("cpu-2"))
    p = c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    c.event(
        p,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 2 Insufficient nvidia.com/gpu",
        "cluster-autoscaler",
        kind="Normal",
    )
    return c, Wanted("autoscaler-template-missing-gpu", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def a_mig_group_scaled_to_zero() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("cpu-1"))
    box = container("e", "x/e:1", {"nvidia.com/mig-1g.10gb": 1})
    for n in range(2):
        p = c.add(pod(f"e-{n}", "rag", box, waits(), "", ("StatefulSet", "e")))
        c.event(p, "NotTriggerScaleUp", "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 Insufficient nvidia.com/mig-1g.10gb, 1 node(s) had "
                "untolerated taint {dedicated: db}", "cluster-autoscaler", kind="Normal")  # fmt: skip
    return c, Wanted("autoscaler-template-missing-gpu", "StatefulSet rag/e", ("rag/e-0", "rag/e-1"))


@defect
def karpenter_knows_no_type_with_that_resource() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("cpu-1"))
    p = c.add(
        pod(
            "llm-0", "rag", ENGINE, waits("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."), "", ("StatefulSet", "llm")
        )
    )
    c.event(p, "FailedScheduling", 'Failed to schedule pod, incompatible with nodepool "default", daemonset overhead={"cpu":"150m","pods":"4"}, no instance type satisfied '
            'resources {"cpu":"150m","nvidia.com/gpu":"1","pods":"5"} and requirements karpenter.sh/nodepool In [default], '
            "karpenter.k8s.aws/instance-category In [c m r] (no instance type has enough resources)", "karpenter")  # fmt: skip
    return c, Wanted("autoscaler-template-missing-gpu", "StatefulSet rag/llm", ("rag/llm-0",), also=("nodepool-limit",))


@defect
def the_autoscaler_counts_cards_and_the_pods_shares() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {"nvidia.com/gpu.shared": 4, GPU: 0}, SHARED))
    box = container("e", "x/e:1", {"nvidia.com/gpu.shared": 1})
    for n in range(4):
        c.add(pod(f"busy-{n}", "rag", box, runs(), "g1", ("StatefulSet", "busy")))
    p = c.add(pod("e-0", "rag", box, waits(), "", ("StatefulSet", "e")))
    c.event(
        p,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 Insufficient nvidia.com/gpu.shared",
        "cluster-autoscaler",
        kind="Normal",
    )
    return c, Wanted("autoscaler-sharing-unaware", "StatefulSet rag/e", ("rag/e-0",), also=("gpu-exhausted",))


@defect
def the_autoscaler_and_shares_that_kept_their_name() -> tuple[Cluster, Wanted]:
    labels = SHARED | {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}
    c = Cluster("", node("g1", {GPU: 4}, labels))
    for n in range(4):
        c.add(pod(f"busy-{n}", "rag", ENGINE, runs(), "g1", ("StatefulSet", "busy")))
    p = c.add(pod("e-1-zzzzz", "rag", ENGINE, waits(), "", ("ReplicaSet", "e-1")))
    c.event(
        p,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 Insufficient nvidia.com/gpu",
        "cluster-autoscaler",
        kind="Normal",
    )
    return c, Wanted(
        "autoscaler-sharing-unaware",
        "Pod rag/e-1-zzzzz",
        ("rag/e-1-zzzzz",),
        also=("gpu-exhausted", "autoscaler-template-missing-gpu"),
    )


@defect
def karpenter_and_shares() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {"nvidia.com/gpu.shared": 2, GPU: 0}, SHARED | {"karpenter.sh/nodepool": "gpu"}))
    box = container("e", "x/e:1", {"nvidia.com/gpu.shared": 1})
    for n in range(2):
        c.add(pod(f"busy-{n}", "rag", box, runs(), "g1", ("StatefulSet", "busy")))
    p = c.add(pod("e-0", "rag", box, waits(), "", ("StatefulSet", "e")))
    c.event(p, "FailedScheduling", 'Failed to schedule pod, incompatible with nodepool "gpu", daemonset overhead={"cpu":"150m"}, no instance type satisfied resources '
            '{"cpu":"150m","nvidia.com/gpu.shared":"1","pods":"5"} and requirements karpenter.sh/nodepool In [gpu] (no instance type has enough resources)', "karpenter")  # fmt: skip
    return c, Wanted("autoscaler-sharing-unaware", "StatefulSet rag/e", ("rag/e-0",), also=("gpu-exhausted",))


@defect
def karpenter_at_the_limit_of_its_pool() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 1}, {"karpenter.sh/nodepool": "gpu"}))
    c.add(pod("busy-0", "rag", ENGINE, runs(), "g1", ("StatefulSet", "busy")))
    p = c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    c.event(
        p,
        "FailedScheduling",
        'Failed to schedule pod, all available instance types exceed limits for nodepool: "gpu"',
        "karpenter",
    )
    return c, Wanted("nodepool-limit", "StatefulSet rag/llm", ("rag/llm-0",), also=("gpu-exhausted",))


@defect
def the_cloud_has_no_cards_left() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 1}))
    c.add(pod("busy-0", "rag", ENGINE, runs(), "g1", ("StatefulSet", "busy")))
    p = c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    c.event(
        p,
        "FailedScaleUp",
        "Node scale up in zones us-central1-a associated with this pod failed: GCE out of resources. Pod is at risk of not being scheduled.",
        "cluster-autoscaler",
    )
    return c, Wanted("nodepool-limit", "StatefulSet rag/llm", ("rag/llm-0",), also=("gpu-exhausted",))
