"""Other clusters for the same question: more cards, the DRA driver in the place of the plugin, pods of others gone, and so on.

Each gives a new Situation that says in a sentence what is different; the original stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import KubeObject, Node
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts.gpus import Gpu, split_product
from ragstow.plan.change import holders
from ragstow.plan.kinds import FULL_GPU, GPU_CLASS
from ragstow.plan.refusing import listed, plural
from ragstow.plan.situation import POOL_LABEL, Situation
from ragstow.plan.steering import PRODUCT_LABEL
from ragstow.simulate.whatif import add_nodes

DRA_SINCE = (1, 34)
_PREFIX = "nvidia.com/"
_CONFIG_LABELS = ("nvidia.com/device-plugin.config", "nvidia.com/mig.config", "nvidia.com/mig.config.state", POOL_LABEL)


def more_cards(situation: Situation, template: str, cards: int) -> Situation:
    """One more node like `template` with so many whole cards of its product, free.

    Args:
        situation: the cluster.
        template: an existing GPU node.
        cards: number of cards of the new node.
    """
    gpus = situation.gpus[template]
    added = add_nodes(situation.snapshot, template, 1, situation.facts).snapshot
    known = {node.name for node in situation.snapshot.nodes}
    new = next(node for node in added.nodes if node.name not in known)
    product = gpus.product or "the same card"
    snapshot = _few_devices(added, new, cards) if gpus.sharing == "dra" else added.replace(put=[_whole(new, cards)])
    note = f"{plural(cards, 'more card')} of {product} on a node like {template}"
    found = situation.with_snapshot(snapshot, note)
    assumed = [item for item in situation.assumed if item.node == template]
    if not assumed:
        return found
    return replace(found, assumed=(*found.assumed, *(replace(item, node=new.name, cards=cards) for item in assumed)))


def first_cards(situation: Situation, gpu: Gpu, cards: int) -> Situation:
    """One node with so many cards of a product in a cluster that has none: like its roomiest node, plugin and GFD running."""
    template = max(situation.nodes.values(), key=lambda node: (not node.taints, node.allocatable.get("cpu", 0), node.name))
    raw = _copy(template, f"{template.name}-gpu")
    labels = {
        PRODUCT_LABEL: gpu.product,
        "nvidia.com/gpu.count": str(cards),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/gpu.memory": str(situation.facts.gpus.memory(gpu).mib),
        "nvidia.com/gpu.present": "true",
    }
    raw["metadata"]["labels"] |= labels
    raw["spec"].pop("taints", None)
    for part in ("capacity", "allocatable"):
        raw["status"][part] = {**raw["status"].get(part, {}), FULL_GPU: str(cards)}
    note = f"{plural(cards, 'card')} of {gpu.product} on a node of its own, device plugin and GPU feature discovery running"
    return situation.with_snapshot(situation.snapshot.replace(put=[make(RawObject(raw))]), note)


def with_dra(situation: Situation) -> Situation | None:
    """The DRA driver in the place of the device plugin on every GPU node without GPU pods; None where no node allows it."""
    put: list[KubeObject] = []
    changed: list[str] = []
    for name, node in situation.nodes.items():
        gpus = situation.gpus[name]
        gpu = situation.facts.gpus.find(gpus.product) if gpus.product else None
        if gpus.sharing in ("none", "dra", "hami", "kai") or gpu is None or holders(gpus):
            continue
        raw = _copy(node, name)
        for part in ("capacity", "allocatable"):
            listed_ = raw["status"].get(part, {})
            raw["status"][part] = {key: value for key, value in listed_.items() if not key.startswith(_PREFIX)}
        memory_mib = gpus.memory_mib_per_card or situation.facts.gpus.memory(gpu).mib
        put += [make(RawObject(raw)), _slice(name, gpu, gpus.cards, memory_mib)]
        changed.append(name)
    if not changed:
        return None
    put += [_device_class(GPU_CLASS, "gpu"), _device_class("mig.nvidia.com", "mig")]
    note = f"the DRA driver hands out the cards of {listed(changed)} in the place of the device plugin"
    return situation.with_snapshot(situation.snapshot.replace(put=put), note)


def without_pods(situation: Situation, keys: Sequence[str], note: str) -> Situation:
    """The cluster when these pods ("namespace/name") are gone."""
    gone = [pod for pod in situation.snapshot.pods if pod.key in set(keys)]
    return situation.with_snapshot(situation.snapshot.replace(remove=gone), note)


def reopened(situation: Situation, name: str) -> Situation:
    """The cluster with a node uncordoned and ready, without the taints that the node controller sets for either."""
    raw = _copy(situation.nodes[name], name)
    raw["spec"].pop("unschedulable", None)
    raw["spec"]["taints"] = [
        taint for taint in raw["spec"].get("taints") or () if not str(taint.get("key")).startswith("node.kubernetes.io/")
    ]
    raw["status"]["conditions"] = [
        {**item, "status": "True"} if item.get("type") == "Ready" else item for item in raw["status"].get("conditions") or ()
    ]
    return situation.with_snapshot(situation.snapshot.replace(put=[make(RawObject(raw))]), f"{name} is open to pods")


def with_quotas(situation: Situation, values: Mapping[tuple[str, str], str | None]) -> Situation:
    """Other limits in ResourceQuotas of the service's namespace.

    Args:
        situation: the cluster.
        values: (quota, key) to its new limit; None takes the limit away.
    """
    put: list[KubeObject] = []
    for item in situation.snapshot.of("ResourceQuota"):
        if item.namespace == situation.namespace and any(quota == item.name for quota, _ in values):
            raw = copy.deepcopy(dict(item.raw))
            hard = {key: values.get((item.name, key), value) for key, value in (raw["spec"].get("hard") or {}).items()}
            raw["spec"]["hard"] = {key: value for key, value in hard.items() if value is not None}
            put.append(make(RawObject(raw)))
    return situation.with_snapshot(situation.snapshot.replace(put=put), "larger ResourceQuotas")


def _copy(node: Node, name: str) -> dict[str, Any]:
    raw: dict[str, Any] = copy.deepcopy(dict(node.raw))
    meta = raw.get("metadata") or {}
    labels = dict(meta.get("labels") or {})
    if "kubernetes.io/hostname" in labels:
        labels["kubernetes.io/hostname"] = name
    raw["metadata"] = {**meta, "name": name, "labels": labels}
    raw["spec"] = dict(raw.get("spec") or {})
    raw["status"] = dict(raw.get("status") or {})
    return raw


def _whole(node: Node, cards: int) -> KubeObject:
    """A node with whole cards, whatever the template's were."""
    raw = _copy(node, node.name)
    labels = raw["metadata"]["labels"]
    for key in [key for key in labels if key in _CONFIG_LABELS or key.startswith("nvidia.com/mig-")]:
        del labels[key]
    if PRODUCT_LABEL in labels:
        labels[PRODUCT_LABEL] = split_product(labels[PRODUCT_LABEL]).base
        labels |= {
            "nvidia.com/gpu.count": str(cards),
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/gpu.sharing-strategy": "none",
        }
    for part in ("capacity", "allocatable"):
        kept = {key: value for key, value in raw["status"].get(part, {}).items() if not key.startswith(_PREFIX)}
        raw["status"][part] = {**kept, FULL_GPU: str(cards)}
    return make(RawObject(raw))


def _few_devices(snapshot: Snapshot, node: Node, cards: int) -> Snapshot:
    put = []
    for item in snapshot.of("ResourceSlice", "resource.k8s.io"):
        spec = item.raw.get("spec") or {}
        if spec.get("nodeName") == node.name and spec.get("driver") == GPU_CLASS:
            raw = copy.deepcopy(dict(item.raw))
            raw["spec"]["devices"] = raw["spec"]["devices"][:cards]
            put.append(make(RawObject(raw)))
    return snapshot.replace(put=put)


def _slice(node: str, gpu: Gpu, cards: int, memory_mib: int) -> KubeObject:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "productName": {"string": gpu.name},
                "uuid": {"string": f"GPU-{node}-{index}"},
                "cudaComputeCapability": {"version": f"{gpu.compute_capability}.0"},
            },
            "capacity": {"memory": {"value": f"{memory_mib}Mi"}},
        }
        for index in range(cards)
    ]
    spec = {
        "driver": GPU_CLASS,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    meta = {"name": f"0-{GPU_CLASS}-{node}"}
    return make(RawObject({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}))


def _device_class(name: str, kind: str) -> KubeObject:
    expression = f"device.driver == '{GPU_CLASS}' && device.attributes['{GPU_CLASS}'].type == '{kind}'"
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return make(
        RawObject({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec})
    )
