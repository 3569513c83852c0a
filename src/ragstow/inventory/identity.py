"""Which card a node has: product, memory, number, driver, and which of the sources says so.

In this order: GPU Feature Discovery's labels, the books of HAMi, a cloud's accelerator label, the machine type, and last what
the user assumes. A name that no source gives is unknown; it is never guessed from memory or numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragstow.cluster.objects import Node
from ragstow.facts import Facts
from ragstow.facts.clouds import Cloud
from ragstow.facts.gpus import Gpu, split_product
from ragstow.inventory.vendors import HamiCard

_PREFIX = "nvidia.com"
_INSTANCE_LABEL = "node.kubernetes.io/instance-type"
INVALID = "INVALID"
"""GFD's profile name where strategy single meets cards that are not cut alike."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known of a node's cards.

    `product` without suffixes; `profile` the MIG profile in the product label (strategy single); `memory_mib` of a whole card;
    `cards` as a label counts them; `labelled` whether GFD's labels are there; `note` what rests on an assumption.
    """

    product: str | None = None
    gpu: Gpu | None = None
    profile: str | None = None
    memory_mib: int | None = None
    cards: int | None = None
    labelled: bool = False
    driver: str | None = None
    cuda: str | None = None
    cloud: Cloud | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assumption:
    """--assume NODE=PRODUCT[:CARDS]."""

    node: str
    product: str
    cards: int | None


def identify(node: Node, facts: Facts, hami: Sequence[HamiCard], assumed: Assumption | None) -> Identity:
    """What the node's labels and annotations say of its cards."""
    cloud = facts.clouds.of_node(node.labels, provider_id(node), node.kubelet_version or "")
    base = Identity(driver=driver(node.labels), cuda=_runtime(node.labels), cloud=cloud, cards=_cloud_count(node.labels, cloud))
    found = _of_labels(node.labels, facts, base) or _of_hami(hami, facts, base) or _of_cloud(node.labels, facts, base)
    if assumed is None:
        return found or base
    if found is not None and found.product is not None:
        return replace(found, notes=(*found.notes, f"--assume is not needed: the node's own data name {found.product}"))
    gpu = facts.gpus.find(assumed.product)
    cards = f", {assumed.cards} cards" if assumed.cards is not None else ""
    return replace(
        base,
        product=assumed.product,
        gpu=gpu,
        memory_mib=None if gpu is None else gpu.memory_mib,
        cards=assumed.cards if assumed.cards is not None else base.cards,
        notes=(f"assumed on the command line: {assumed.product}{cards}",),
    )


def _of_labels(labels: Mapping[str, str], facts: Facts, base: Identity) -> Identity | None:
    """GPU Feature Discovery (k8s-device-plugin internal/lm)."""
    label, count = labels.get(f"{_PREFIX}/gpu.product"), labels.get(f"{_PREFIX}/gpu.count", "")
    cards = int(count) if count.isdigit() else None
    if not label:
        return None if cards is None else replace(base, cards=cards, memory_mib=_memory(labels, facts), labelled=True)
    product = split_product(label)
    gpu = facts.gpus.find(product.base)
    memory = _memory(labels, facts) if product.profile is None else gpu.memory_mib if gpu is not None else None
    # Under strategy single the labels describe the slices: their number and memory, not the cards'.
    return replace(
        base,
        product=product.base,
        gpu=gpu,
        profile=product.profile,
        memory_mib=memory,
        cards=cards if product.profile is None else None,
        labelled=True,
    )


def _of_hami(hami: Sequence[HamiCard], facts: Facts, base: Identity) -> Identity | None:
    if not hami:
        return None
    gpu = facts.gpus.find(hami[0].type)
    return replace(base, product=gpu.product if gpu else None, gpu=gpu, memory_mib=hami[0].memory_mib, cards=len(hami))


def _of_cloud(labels: Mapping[str, str], facts: Facts, base: Identity) -> Identity | None:
    """A cloud's accelerator label, else the machine type; memory is the card's own, not what the cloud prints."""
    label = base.cloud.accelerator_label if base.cloud is not None else None
    named = facts.clouds.product(labels)
    gpu = facts.gpus.find(named or labels.get(label or "", "")) if named or label in labels else None
    if named is not None or gpu is not None:
        product = gpu.product if gpu is not None else named
        return replace(base, product=product, gpu=gpu, memory_mib=None if gpu is None else gpu.memory_mib)
    instance = facts.instances.find(labels.get(_INSTANCE_LABEL, ""))
    if instance is None:
        return None
    gpu = facts.gpus.find(instance.product)
    return replace(
        base,
        product=instance.product,
        gpu=gpu,
        memory_mib=None if gpu is None else gpu.memory_mib,
        cards=base.cards if base.cards is not None else instance.cards,
        notes=(f"product and number of cards are those of the machine type {instance.instance}",),
    )


def _memory(labels: Mapping[str, str], facts: Facts) -> int | None:
    return facts.gpus.label_mib(labels.get(f"{_PREFIX}/gpu.memory", ""))


def _cloud_count(labels: Mapping[str, str], cloud: Cloud | None) -> int | None:
    text = labels.get(cloud.count_label, "") if cloud is not None and cloud.count_label else ""
    return int(text) if text.isdigit() and int(text) > 0 else None


def provider_id(node: Node) -> str:
    """spec.providerID, empty where there is none."""
    spec = node.raw.get("spec")
    value = spec.get("providerID") if isinstance(spec, Mapping) else None
    return value if isinstance(value, str) else ""


def driver(labels: Mapping[str, str]) -> str | None:
    """The driver version: the current label, else the deprecated parts."""
    full = labels.get(f"{_PREFIX}/cuda.driver-version.full")
    if full:
        return full
    parts = [labels.get(f"{_PREFIX}/cuda.driver.{part}", "") for part in ("major", "minor", "rev")]
    return ".".join(part for part in parts if part) or None


def _runtime(labels: Mapping[str, str]) -> str | None:
    """The highest CUDA version that the driver supports (cuDriverGetVersion), not an installed toolkit."""
    full = labels.get(f"{_PREFIX}/cuda.runtime-version.full")
    if full:
        return full
    major, minor = (labels.get(f"{_PREFIX}/cuda.runtime.{part}", "") for part in ("major", "minor"))
    return f"{major}.{minor}" if major and minor else None
