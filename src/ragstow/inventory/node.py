"""One node: from labels, resources, configuration and holders to cards, slots and what is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.inventory import resources, state, vendors
from ragstow.inventory.count import Cards, count_cards
from ragstow.inventory.dranode import Dra, DraNode
from ragstow.inventory.identity import Assumption, Identity, identify
from ragstow.inventory.inforce import in_force
from ragstow.inventory.model import Device, NodeGpus, PluginConfigInForce, Range, ResourceUse, Sharing, between
from ragstow.inventory.plugin import Plugins

_PRESENT_LABELS = (
    "nvidia.com/gpu.present",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
)


@dataclass(frozen=True, slots=True)
class World:
    """What all nodes share: made once for a snapshot."""

    snapshot: Snapshot
    facts: Facts
    pods: Mapping[str, Sequence[Pod]]
    plugins: Plugins
    dra: Dra
    assumed: Mapping[str, Assumption]
    kai: bool


def describe(node: Node, world: World) -> NodeGpus:
    """The GPUs of one node."""
    pods = world.pods.get(node.name, ())
    uses = resources.use(node, pods)
    published = world.dra.node(node.name)
    if published is not None:
        return _dra_node(node, world, published, uses)
    hami = vendors.hami_cards(node, pods)
    identity = identify(node, world.facts, hami, world.assumed.get(node.name))
    offers = any(use.capacity for use in uses.values())
    plugin = world.plugins.on(node, serves=offers)
    if not offers and not identity.cards and not _has_gpu(node) and plugin is None and not uses:
        return _node(node, world, identity, "none", None, {}, Cards(0, 0), None, ())
    config = in_force(world.snapshot, node, plugin)
    if hami:
        found = state.State("hami", max(card.shares for card in hami))
        cards = Cards(len(hami), _hami_free(hami, uses))
        devices = _hami_devices(hami, identity.product)
        config = PluginConfigInForce("HAMi's own device plugin", None)
    else:
        found = state.of_node(node, uses, identity, config)
        cards = count_cards(node, world.snapshot, world.facts, uses, identity, found)
        shared_by_kai = vendors.kai_cards(pods)
        if found.sharing == "exclusive" and (shared_by_kai or any(map(vendors.asks_kai_for_a_fraction, pods))):
            found = state.State("kai", None, found.notes)
        devices = _devices(uses, identity, found, cards, shared_by_kai, world.facts)
    notes = (*identity.notes, *found.notes, *cards.notes)
    return _node(node, world, identity, found.sharing, found.replicas, uses, cards, config, devices, notes)


def _node(
    node: Node,
    world: World,
    identity: Identity,
    sharing: Sharing,
    replicas: int | None,
    uses: Mapping[str, ResourceUse],
    cards: Cards,
    config: PluginConfigInForce | None,
    devices: tuple[Device, ...],
    notes: tuple[str, ...] = (),
) -> NodeGpus:
    return NodeGpus(
        name=node.name,
        schedulable=not node.unschedulable,
        ready=node.ready,
        product=identity.product,
        cards=cards.count,
        memory_mib_per_card=identity.memory_mib,
        sharing=sharing,
        replicas=replicas,
        layout=cards.layout,
        resources=uses,
        claims=(),
        cards_free=cards.free,
        taints=taints(node),
        driver=identity.driver,
        cuda=identity.cuda,
        allocators=_allocators(node, world, cards.count > 0 or bool(uses)),
        config=config,
        devices=devices,
        assumed=notes,
    )


def _dra_node(node: Node, world: World, published: DraNode, uses: Mapping[str, ResourceUse]) -> NodeGpus:
    labels = identify(node, world.facts, (), world.assumed.get(node.name))
    product = published.product or labels.product
    gpu = world.facts.gpus.find(product) if product else None
    notes: tuple[str, ...] = ()
    if len(published.products) > 1:
        notes = (f"{len(published.products)} products on this node: {', '.join(published.products)}",)
    if any(use.capacity for use in uses.values()):
        notes = (*notes, "a device plugin offers GPUs of this node too: each card may be handed out twice")
    return NodeGpus(
        name=node.name,
        schedulable=not node.unschedulable,
        ready=node.ready,
        product=product,
        cards=published.cards,
        memory_mib_per_card=published.memory_mib or labels.memory_mib or (gpu.memory_mib if gpu is not None else None),
        sharing="dra",
        replicas=None,
        layout=(),
        resources=uses,
        claims=published.claims,
        cards_free=published.cards_free,
        taints=taints(node),
        driver=labels.driver or published.driver,
        cuda=labels.cuda or published.cuda,
        allocators=_allocators(node, world, True),
        config=None,
        devices=published.devices,
        assumed=notes,
    )


def _hami_free(hami: Sequence[vendors.HamiCard], uses: Mapping[str, ResourceUse]) -> int | Range:
    """HAMi writes down which card a pod got; only holders without that note are somewhere unknown."""
    noted = {pod for card in hami for pod in card.pods}
    left = sum(1 for card in hami if not card.pods)
    unknown = sum(count for use in uses.values() for pod, count in use.holders.items() if pod not in noted)
    return between(max(0, left - unknown), left)


def _hami_devices(hami: Sequence[vendors.HamiCard], product: str | None) -> tuple[Device, ...]:
    return tuple(
        Device(card.index, "card", product, card.memory_mib, uuid=card.uuid, holders=card.pods, known=True) for card in hami
    )


def _devices(
    uses: Mapping[str, ResourceUse],
    identity: Identity,
    found: state.State,
    cards: Cards,
    kai: Sequence[vendors.KaiCard],
    facts: Facts,
) -> tuple[Device, ...]:
    """Cards and slices one by one; holders only where they cannot be elsewhere."""
    holders = {pod for use in uses.values() for pod in use.holders}
    known = not holders or (cards.count == 1 and not cards.layout)
    if found.sharing == "exclusive" and len(holders) == 1 and cards.free == 0:
        known = True
    whole = tuple(sorted(holders)) if known else ()
    reserved = [
        Device(None, "card", identity.product, identity.memory_mib, uuid=card.uuid, holders=card.pods, known=True)
        for card in kai
    ]
    made: list[Device] = []
    if not cards.layout:
        for index in range(cards.count - len(reserved)):
            at = None if reserved else index
            made.append(Device(at, "card", identity.product, identity.memory_mib, holders=whole, known=known))
        return (*reserved, *made)
    for group in cards.layout:
        for at in group.cards if group.cards is not None else (None,) * group.count:
            if group.mig is None:
                made.append(Device(at, "card", identity.product, identity.memory_mib, known=not holders))
                continue
            for profile, instances in group.mig.items():
                size = _slice_mib(identity.product, profile, facts)
                one = Device(
                    at, "slice", identity.product, size, profile=profile, known=not holders, memory_of_facts=size is not None
                )
                made.extend([one] * instances)
    return tuple(made)


def _slice_mib(product: str | None, profile: str, facts: Facts) -> int | None:
    """The memory of a slice as facts have it, measured or estimated; None where card or profile is unknown there."""
    gpu = facts.gpus.find(product) if product else None
    geometry = facts.mig.of(gpu) if gpu is not None else None
    found = geometry.profile(profile) if geometry is not None else None
    return found.memory.mib if found is not None else None


def _allocators(node: Node, world: World, has_gpu: bool) -> tuple[str, ...]:
    """Who hands out the GPUs of this node, as far as pods, annotations and slices show it."""
    roles = {
        program.role
        for pod in world.pods.get(node.name, ())
        for container in pod.containers
        if (program := world.facts.stack.program(container.name, container.image)) is not None
    }
    plugin = world.plugins.on(node, serves=False)
    found = {
        "device-plugin": plugin is not None and plugin.vendor,
        "cloud-device-plugin": plugin is not None and not plugin.vendor,
        "dra": "dra-driver" in roles or world.dra.node(node.name) is not None,
        "hami": "hami-device-plugin" in roles or vendors.HAMI_REGISTER in node.annotations,
        "kai": world.kai and has_gpu,
    }
    return tuple(name for name, present in found.items() if present)


def _has_gpu(node: Node) -> bool:
    return any(node.labels.get(label) == "true" for label in _PRESENT_LABELS)


def taints(node: Node) -> tuple[str, ...]:
    """Taints as kubectl writes them: key=value:effect, or key:effect."""
    return tuple(
        f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}" for taint in node.taints
    )
