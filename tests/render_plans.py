"""Hand-made services and plans, one for each way in which a node can be configured and a pod can get a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragstow.cluster.objects import Toleration
from ragstow.errors import Reason
from ragstow.plan.model import ClaimKind, ClusterFacts, ComponentPlan, NodeLayout, Plan, PluginInstall, SlotKind
from ragstow.quantity import parse
from ragstow.sizing.model import Budget, ComponentSizing
from ragstow.spec.model import GIVEN, Cache, Component, EnvVar, Footprint, Placement, SecretKey, Service

GIB = 2**30
TAINTED = (Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule", None),)
NO_GPU = SlotKind("none", None, 0, None, None, 1, 0)


def component(name: str, role: str, **changes: Any) -> Component:
    """A component with everything filled in as the normaliser would."""
    given = dict.fromkeys(changes, GIVEN)
    values: dict[str, Any] = {
        "engine": {"llm": "vllm", "embedder": "tei", "reranker": "tei", "vector-store": "qdrant"}.get(role),
        "version": {"llm": "0.33.0", "embedder": "1.9", "reranker": "1.9", "vector-store": "1.19.0"}.get(role),
        "image": None,
        "model": None,
        "model_config": None,
        "quantization": "none",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "tensor_parallel": 1,
        "replicas": 1,
        "context": None,
        "concurrency": None,
        "max_batch_tokens": None,
        "args": (),
        "env": (),
        "footprint": None,
        "gpu": "required" if role in ("llm", "embedder", "reranker") else "never",
        "cpu": parse("4" if role == "llm" else "2"),
        "memory": parse("16Gi" if role == "llm" else "4Gi"),
        "cache": None,
        "port": {"llm": 8000, "embedder": 80, "reranker": 80, "vector-store": 6333, "gateway": 8080}.get(role),
        "vectors": None,
        "dimensions": None,
        "isolation": "memory",
    }
    return Component(name=name, role=role, origins=given, **{**values, **changes})  # type: ignore[arg-type]  # role is a text here


def cache(size: str, access_mode: str = "ReadWriteOnce", storage_class: str | None = None) -> Cache:
    """A model cache."""
    return Cache(parse(size), storage_class, access_mode)  # type: ignore[arg-type]  # access modes are texts here


LLM = component("llm", "llm", model="Qwen/Qwen2.5-7B-Instruct", replicas=2, context=8192, concurrency=16, cache=cache("40Gi"))
EMBEDDER = component("embedder", "embedder", model="BAAI/bge-m3", replicas=2)
RERANKER = component("reranker", "reranker", model="BAAI/bge-reranker-v2-m3")
VECTORS = component("vectors", "vector-store", vectors=5_000_000, dimensions=1024)
GATEWAY = component("gateway", "gateway", image="registry.example/rag-gateway:1.4", replicas=2)


def sized(
    name: str, gib: float, *, args: tuple[str, ...] = (), budget: Budget | None = None, cards: int = 1
) -> ComponentSizing:
    """A sizing with the numbers that rendering reads."""
    total = int(gib * GIB)
    weights = int(total * 0.6)
    return ComponentSizing(
        name, "vllm", None, None, cards, total, (), weights, 0, 0, 0, total, total, (total, total), True, total, budget, args
    )


def got(name: str, slot: SlotKind, replicas: int = 1, sizing: ComponentSizing | None = None, **more: Any) -> ComponentPlan:
    """What a component got."""
    values: dict[str, Any] = {"node_labels": {}, "pool": False, "tolerations": (), "runtime_class": None}
    return ComponentPlan(name=name, replicas=replicas, slot=slot, sizing=sizing, **{**values, **more})


def plan(
    service: Service, components: tuple[ComponentPlan, ...], layouts: tuple[NodeLayout, ...], plugin: PluginInstall
) -> Plan:
    """A feasible plan around those."""
    cluster = ClusterFacts("1.36.4", "version.json", plugin, ("nvidia",), False, "local-path", "c0ffee" * 8)
    return Plan(
        service.name, service.namespace, True, 3, 3, "", True, "exact", components, (), layouts, (), (), (), (), {}, cluster,
        "0123456789abcdef" * 4,
    )  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """A service and its plan."""

    service: Service
    plan: Plan


def exclusive() -> Scenario:
    """Whole cards of two products, tainted, with the chart's plugin; no node changes."""
    service = Service("support", "rag", (LLM, EMBEDDER, RERANKER, VECTORS, GATEWAY), Placement(survive="node"))
    a100 = {"nvidia.com/gpu.product": ("NVIDIA-A100-SXM4-40GB",)}
    t4 = {"nvidia.com/gpu.product": ("Tesla-T4",)}
    more: Mapping[str, Any] = {"tolerations": TAINTED, "runtime_class": "nvidia"}
    big = SlotKind("exclusive", "nvidia.com/gpu", 1, None, "NVIDIA-A100-SXM4-40GB", 1, 39 * GIB)
    small = SlotKind("exclusive", "nvidia.com/gpu", 1, None, "Tesla-T4", 1, 14 * GIB)
    args = ("--max-num-seqs", "16", "--gpu-memory-utilization", "0.9")
    why = (Reason("mode-exclusive", "needs more than any slice or share of this card has"),)
    rows = (
        got("llm", big, 2, sized("llm", 24, args=args), node_labels=a100, spread_nodes=True, reasons=why, **more),
        got("embedder", small, 2, sized("embedder", 4), node_labels=t4, **more),
        got("reranker", small, 1, sized("reranker", 3), node_labels=t4, **more),
        got("vectors", NO_GPU),
        got("gateway", NO_GPU, 2),
    )
    plugin = PluginInstall("chart", "nvidia-device-plugin", "nvdp-nvidia-device-plugin", "nvdp", gfd=True)
    return Scenario(service, plan(service, rows, (), plugin))


MIG_LAYOUT = NodeLayout(
    "gpu-h100-1",
    "mig-mixed",
    ("card 0: 4 x 1g.10gb, 1 x 3g.40gb",),
    mig={0: {"1g.10gb": 4, "3g.40gb": 1}, **{card: {} for card in range(1, 8)}},
    mig_layout="ragstow-research",
    labels={"nvidia.com/mig.config": "ragstow-research", "ragstow.dev/pool": "research"},
    labels_before={"nvidia.com/mig.config": "all-disabled"},
    labels_after={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "ragstow.dev/pool": "research"},
    resources_after={"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-3g.40gb": 1},
)
H100 = "NVIDIA-H100-80GB-HBM3"


def research(**changes: Any) -> Service:
    """A large LLM on two cards, small models in slices."""
    llm = component(
        "llm", "llm", model="Qwen/Qwen2.5-32B-Instruct", tensor_parallel=2, replicas=2, context=8192, cache=cache("100Gi")
    )
    judge = component("judge", "llm", model="Qwen/Qwen2.5-14B-Instruct", quantization="fp8", context=4096, concurrency=8)
    secrets: dict[str, Any] = {"image_pull_secrets": ("registry",), "model_token_secret": SecretKey("hugging-face", "token")}
    return Service("research", "rag", (llm, judge, EMBEDDER, RERANKER), Placement(), **{**secrets, **changes})


def mig_rows() -> tuple[ComponentPlan, ...]:
    """What the components of `research` get: cards, and slices of one card."""
    tiny = SlotKind("mig", "nvidia.com/mig-1g.10gb", 1, "1g.10gb", H100, 1, 9 * GIB)
    half = SlotKind("mig", "nvidia.com/mig-3g.40gb", 1, "3g.40gb", H100, 1, 39 * GIB)
    whole = SlotKind("exclusive", "nvidia.com/gpu", 2, None, H100, 1, 79 * GIB)
    labels = {"nvidia.com/gpu.product": (H100,)}
    return (
        got("llm", whole, 2, sized("llm", 50, budget=Budget(gpu_memory_utilization=0.92), cards=2), node_labels=labels),
        got("judge", half, 1, sized("judge", 20, budget=Budget(gpu_memory_utilization=0.9)), pool=True),
        got("embedder", tiny, 2, sized("embedder", 4), pool=True),
        got("reranker", tiny, 1, sized("reranker", 3), pool=True),
    )


def mig_operator() -> Scenario:
    """MIG slices under the GPU Operator, strategy already mixed, the operator's default layouts in use."""
    text = "version: v1\nmig-configs:\n  all-disabled:\n  - devices: all\n    mig-enabled: false\n"
    text += "  all-1g.10gb:\n  - devices: all\n    mig-enabled: true\n    mig-devices:\n      1g.10gb: 7\n"
    plugin = PluginInstall(
        "operator", "gpu-operator", "nvidia-device-plugin-daemonset", cluster_policy="cluster-policy", mig_strategy="mixed",
        mig_config_map="default-mig-parted-config", mig_config_data={"config.yaml": text}, gfd=True,
    )  # fmt: skip
    service = research()
    return Scenario(service, plan(service, mig_rows(), (MIG_LAYOUT,), plugin))


def mig_operator_custom() -> Scenario:
    """The same with a ConfigMap of the cluster's own, strategy single, and a pod in the way."""
    before = mig_operator()
    plugin = replace(
        before.plan.cluster.plugin,
        mig_strategy="single",
        mig_config_map="our-layouts",
        mig_config_data={"config.yaml": "version: v1\nmig-configs:\n  ours:\n  - devices: all\n    mig-enabled: false\n"},
    )
    layout = replace(MIG_LAYOUT, disturbs=("research/notebook-0",))
    return Scenario(before.service, plan(before.service, mig_rows(), (layout,), plugin))


def mig_by_hand() -> Scenario:
    """MIG slices with the plugin's chart and nobody to cut the cards."""
    layout = replace(
        MIG_LAYOUT,
        plugin_config={"version": "v1", "flags": {"migStrategy": "mixed"}},
        plugin_config_key="research-mig",
        labels={"nvidia.com/device-plugin.config": "research-mig", "ragstow.dev/pool": "research"},
        labels_before={},
    )
    plugin = PluginInstall(
        "chart", "nvidia-device-plugin", "nvdp-nvidia-device-plugin", "nvdp", gfd=True,
        image="nvcr.io/nvidia/k8s-device-plugin:v0.19.2",
    )  # fmt: skip
    service = research(image_pull_secrets=(), model_token_secret=None)
    return Scenario(service, plan(service, mig_rows(), (layout,), plugin))


SLICED = {
    "version": "v1",
    "sharing": {"timeSlicing": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}},
}
SHARED_LAYOUT = NodeLayout(
    "ragbox",
    "time-slicing",
    ("time-slicing: 2 shares of each card, renamed nvidia.com/gpu.shared",),
    plugin_config=SLICED,
    plugin_config_key="notes-shared-2",
    labels={"nvidia.com/device-plugin.config": "notes-shared-2", "ragstow.dev/pool": "notes"},
    resources_after={"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 4},
)


def notes(rows: tuple[ComponentPlan, ...], plugin: PluginInstall, layout: NodeLayout = SHARED_LAYOUT) -> Scenario:
    """A small service on one node with two cards."""
    llm = replace(LLM, replicas=1, cache=cache("30Gi", storage_class="local-path"))
    embedder = replace(EMBEDDER, replicas=1, max_batch_tokens=8192)
    service = Service("notes", "rag", (llm, embedder, RERANKER), Placement(), isolation="none")
    made = plan(service, rows, (layout,), plugin)
    return Scenario(service, replace(made, cluster=replace(made.cluster, runtime_class_needed=True)))


def shared_rows(**more: Any) -> tuple[ComponentPlan, ...]:
    """Three components on shares of two cards; the LLM starts when its neighbours have loaded."""
    share = SlotKind("time-slicing", "nvidia.com/gpu.shared", 1, None, "NVIDIA-GeForce-RTX-3090", 2, 23 * GIB)
    budget = Budget(kv_cache_memory_bytes=3 * GIB)
    base: dict[str, Any] = {"pool": True, "runtime_class": "nvidia", **more}
    return (
        got("llm", share, 1, sized("llm", 19, budget=budget), start_after=("embedder", "reranker"), **base),
        got("embedder", share, 1, sized("embedder", 3), **base),
        got("reranker", share, 1, sized("reranker", 3), **base),
    )


def time_slicing_chart() -> Scenario:
    """Time-slicing with the plugin's chart, which had no configuration so far."""
    plugin = PluginInstall(
        "chart", "nvidia-device-plugin", "nvdp-nvidia-device-plugin", "nvdp", image="nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    )
    return notes(shared_rows(), plugin)


def time_slicing_static() -> Scenario:
    """Time-slicing with the plugin's static manifest."""
    plugin = PluginInstall("static", "kube-system", "nvidia-device-plugin-daemonset")
    return notes(shared_rows(), plugin)


def time_slicing_operator() -> Scenario:
    """Time-slicing under the GPU Operator, without a configuration so far."""
    plugin = PluginInstall(
        "operator", "gpu-operator", "nvidia-device-plugin-daemonset", cluster_policy="cluster-policy", mig_strategy="single"
    )
    return notes(shared_rows(), plugin)


def mps_external() -> Scenario:
    """MPS with the chart pointed at a ConfigMap of the cluster's own."""
    config = {
        "version": "v1",
        "sharing": {"mps": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
    }
    layout = replace(SHARED_LAYOUT, sharing="mps", plugin_config=config, resources_after={"nvidia.com/gpu.shared": 8})
    plugin = PluginInstall(
        "chart", "nvidia-device-plugin", "nvdp-nvidia-device-plugin", "nvdp", config_map="sharing", config_keys=("default",),
        config_default="default", config_data={"default": "version: v1\n"}, gfd=True,
    )  # fmt: skip
    share = SlotKind("mps", "nvidia.com/gpu.shared", 1, None, "NVIDIA-L4", 4, 5 * GIB)
    embedder = replace(EMBEDDER, replicas=3)
    small = component("rewriter", "llm", model="Qwen/Qwen2.5-1.5B-Instruct", replicas=2, context=2048, concurrency=4)
    service = Service("notes", "rag", (embedder, small), Placement())
    rows = (
        got("embedder", share, 3, sized("embedder", 3), pool=True, tolerations=TAINTED, not_beside=("rewriter",)),
        got(
            "rewriter", share, 2, sized("rewriter", 4, budget=Budget(kv_cache_memory_bytes=GIB)), pool=True, tolerations=TAINTED
        ),
    )
    return Scenario(service, plan(service, rows, (layout,), plugin))


def operator_added() -> Scenario:
    """Time-slicing under the operator, beside configurations that are there."""
    plugin = PluginInstall(
        "operator", "gpu-operator", "nvidia-device-plugin-daemonset", config_map="sharing", config_keys=("team-a",),
        config_data={"team-a": "version: v1\n"}, cluster_policy="cluster-policy", mig_strategy="single",
    )  # fmt: skip
    return notes(shared_rows(runtime_class=None, tolerations=TAINTED), plugin)


def dra() -> Scenario:
    """Claims: the LLM alone, embedder and reranker together, one embedder more."""
    product = "NVIDIA-GeForce-RTX-3090"
    whole = SlotKind("dra", None, 1, None, product, 1, 23 * GIB)
    both = SlotKind("dra", None, 1, None, product, 2, 23 * GIB)
    embedder = replace(EMBEDDER, replicas=3, isolation="none", cache=cache("5Gi"))
    reranker = replace(RERANKER, replicas=2, isolation="none")
    llm = replace(LLM, replicas=1, cache=None)
    service = Service("notes", "rag", (llm, embedder, reranker), Placement(together=(("embedder", "reranker"),)))
    selector = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA GeForce RTX 3090'"
    rows = (
        got("llm", whole, 1, sized("llm", 19, budget=Budget(gpu_memory_utilization=0.9))),
        got("embedder", both, 3, sized("embedder", 3), claim=ClaimKind("gpu.nvidia.com", 1, (selector,), ("reranker",))),
        got("reranker", both, 2, sized("reranker", 3), claim=ClaimKind("gpu.nvidia.com", 1, (selector,), ("embedder",))),
    )
    return Scenario(service, plan(service, rows, (), PluginInstall("dra", "dra-driver-nvidia-gpu")))


def dra_mig() -> Scenario:
    """MIG devices by claim."""
    tiny = SlotKind("dra", None, 1, "1g.10gb", H100, 1, 9 * GIB)
    service = Service("research", "rag", (EMBEDDER,), Placement())
    return Scenario(service, plan(service, (got("embedder", tiny, 2, sized("embedder", 4)),), (), PluginInstall("dra")))


def cloud() -> Scenario:
    """A private server by footprint, a store of three replicas, the user's own selector and variables, on a cloud."""
    nim = component(
        "ocr", "ingest", image="registry.example/ocr:2.1", gpu="required", footprint=Footprint(9000), port=9000,
        env=(EnvVar("MODE", "fast"), EnvVar("KEY", None, {"secretKeyRef": {"name": "ocr", "key": "key"}})),
        cache=cache("20Gi", "ReadWriteMany", "filestore"), replicas=2, args=("--verbose",),
    )  # fmt: skip
    store = replace(VECTORS, replicas=3, cache=cache("50Gi"), memory=parse("40Gi"))
    placement = Placement(node_selector={"cloud.google.com/gke-spot": "false"})
    service = Service("docs", "rag", (nim, store), placement)
    slot = SlotKind("exclusive", "nvidia.com/gpu", 1, None, "NVIDIA-L4", 1, 22 * GIB)
    labels = {"cloud.google.com/gke-accelerator": ("nvidia-l4",)}
    rows = (
        got("ocr", slot, 2, None, node_labels=labels, tolerations=TAINTED, not_beside=("ocr",)),
        got("vectors", NO_GPU, 3, not_beside=("vectors",)),
    )
    return Scenario(service, plan(service, rows, (), PluginInstall("cloud")))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "exclusive": exclusive,
    "mig-operator": mig_operator,
    "mig-operator-custom": mig_operator_custom,
    "mig-by-hand": mig_by_hand,
    "time-slicing-chart": time_slicing_chart,
    "time-slicing-static": time_slicing_static,
    "time-slicing-operator": time_slicing_operator,
    "time-slicing-operator-added": operator_added,
    "mps-external": mps_external,
    "dra": dra,
    "dra-mig": dra_mig,
    "cloud": cloud,
}
