"""From a cluster to the nodes and slots of a planning problem.

Every node that a pod of the service could be on is in the supply, GPU or not; a GPU node that cannot be used says why. What
is decided here is only what can be told apart: slots that steering cannot distinguish get one identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragstow.cluster.objects import Node, Toleration
from ragstow.errors import Reason
from ragstow.inventory.model import NodeGpus
from ragstow.plan import taints
from ragstow.plan.cardfacts import CardFacts, card_facts
from ragstow.plan.change import Turns, holders, turns
from ragstow.plan.claimquota import counted_as, extended_names
from ragstow.plan.hosts import host_of
from ragstow.plan.kinds import Kind, Offer, offers
from ragstow.plan.model import Mode
from ragstow.plan.problem import Config, Cut, NodeSupply, Slot
from ragstow.plan.situation import POOL_LABEL, Situation
from ragstow.plan.steering import Labels, identity, product_labels, separator
from ragstow.sharing.host import Host
from ragstow.spec.model import Service


@dataclass(frozen=True)
class Supply:
    """Nodes and slots, and what was learnt on the way.

    `labels` steers to a slot; `cards` are the cards of usable GPU nodes; `excluded` says why a GPU node is out; `unchangeable`
    why a node cannot be turned into a mode; `disturbs` whose pods a change would disturb; `tolerations` what a GPU pod must
    tolerate beside the user's own to be on a node.
    """

    nodes: tuple[NodeSupply, ...]
    slots: Mapping[str, Slot]
    kinds: Mapping[str, Kind]
    labels: Mapping[str, Labels]
    cards: Mapping[str, CardFacts]
    excluded: Mapping[str, Reason]
    unchangeable: Mapping[str, Mapping[Mode, Reason]]
    disturbs: Mapping[str, tuple[str, ...]]
    tolerations: Mapping[str, tuple[Toleration, ...]]
    hosts: Mapping[str, Host]


@dataclass(slots=True)
class _Site:
    """A GPU node while the supply is made."""

    node: Node
    gpus: NodeGpus
    card: CardFacts
    offers: list[Offer]
    turns: Turns
    host: Host | None


def supply(situation: Situation, service: Service, shares: Mapping[str | None, Sequence[int]]) -> Supply:
    """What the cluster offers to a service.

    Args:
        situation: the cluster.
        service: for its tolerations, node selector and name.
        shares: numbers of shares of one card that are worth a try, by product.
    """
    given = taints.wanted(service.placement.tolerations)
    excluded: dict[str, Reason] = {}
    tolerations: dict[str, tuple[Toleration, ...]] = {}
    sites: list[_Site] = []
    for node in situation.nodes.values():
        gpus = situation.gpus[node.name]
        if gpus.sharing == "none":
            continue
        more = taints.added(node, given, situation.facts)
        site = _site(situation, service, node, gpus, (*given, *more), shares)
        if isinstance(site, Reason):
            excluded[node.name] = site
        else:
            tolerations[node.name] = more
            sites.append(site)
    slots = _Slots(situation, sites)
    nodes = tuple(_node_supply(situation, service, node, slots) for node in situation.nodes.values())
    return Supply(
        nodes=nodes,
        slots=slots.slots,
        kinds=slots.kinds,
        labels=slots.labels,
        cards={site.node.name: site.card for site in sites},
        excluded=excluded,
        unchangeable={site.node.name: site.turns.refused for site in sites},
        disturbs={site.node.name: site.turns.disturbs for site in sites},
        tolerations=tolerations,
        hosts={site.node.name: site.host for site in sites if site.host is not None},
    )


def barred(node: Node, service: Service, tolerations: tuple[Toleration, ...]) -> Reason | None:
    """Why no pod of the service can be on a node, whatever it asks for."""
    if node.ready is False:
        return Reason("node-not-ready", f"{node.name} is not ready")
    if node.unschedulable:
        return Reason("node-cordoned", f"{node.name} is cordoned", f"kubectl uncordon {node.name}")
    for key, value in service.placement.node_selector.items():
        if node.labels.get(key) != value:
            return Reason("node-selector", f"{node.name} does not carry {key}={value} (placement.nodeSelector)")
    taint = taints.in_the_way(node, tolerations)
    if taint is not None:
        text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        return Reason("node-taint", f"{node.name} is tainted {text}", "placement.tolerations")
    return None


def _site(
    situation: Situation,
    service: Service,
    node: Node,
    gpus: NodeGpus,
    tolerations: tuple[Toleration, ...],
    shares: Mapping[str | None, Sequence[int]],
) -> _Site | Reason:
    reason = barred(node, service, tolerations)
    if reason is not None:
        return reason
    card = card_facts(gpus, situation.facts)
    if isinstance(card, Reason):
        return card
    found = offers(gpus, card)
    if isinstance(found, Reason):
        return found
    host = host_of(situation, node, gpus, card)
    return _Site(node, gpus, card, found, turns(situation, gpus, card, host, shares.get(gpus.product, ())), host)


class _Slots:
    """Keys, identities and labels of every slot that some node offers or could offer."""

    def __init__(self, situation: Situation, sites: Sequence[_Site]) -> None:
        self.situation = situation
        self.sites = {site.node.name: site for site in sites}
        self.slots: dict[str, Slot] = {}
        self.kinds: dict[str, Kind] = {}
        self.labels: dict[str, Labels] = {}
        self._extended = extended_names(situation.snapshot, situation.facts)
        self._nameless = self._without_labels(sites)
        self._extra: dict[tuple[str, str], Labels] = {}
        self._separate(sites)
        for site in sites:
            for offer in site.offers:
                self.key(site, offer.kind, changed=False)
            for turn in site.turns.possible:
                for _, cut in turn.cuts:
                    for kind, _ in cut:
                        self.key(site, kind, changed=True)

    def key(self, site: _Site, kind: Kind, *, changed: bool) -> str:
        """The slot key of a kind on a node, made on first use; memory is the least of all nodes that offer it."""
        labels = self._labels(site, kind, changed=changed)
        text = " ".join(f"{label}={'|'.join(values)}" for label, values in labels)
        key = f"{kind.name} [{kind.resource or kind.device_class}] {text}".strip()
        known = self.slots.get(key)
        if known is None:
            self.kinds[key], self.labels[key] = kind, labels
            self.slots[key] = Slot(
                key=key,
                mode=kind.mode,
                identity=identity(kind.resource, labels) if kind.mode != "dra" else key,
                resource=kind.resource,
                product=kind.product,
                profile=kind.profile,
                sharers=kind.sharers,
                memory_bytes=kind.memory_bytes,
                alone=kind.alone,
                capped=kind.capped,
                isolation=kind.isolation,
                counted=counted_as(kind.device_class, self._extended) if kind.device_class else (),
            )
        elif kind.memory_bytes < known.memory_bytes:
            self.slots[key] = replace(known, memory_bytes=kind.memory_bytes)
        return key

    def _labels(self, site: _Site, kind: Kind, *, changed: bool) -> Labels:
        if (kind.resource or "") in self._nameless:
            return ()
        base = product_labels(site.node, kind, self.situation.facts, changed=changed)
        extra = () if changed else self._extra.get((identity(kind.resource, base), kind.name), ())
        return tuple(sorted((*base, *extra)))

    def _without_labels(self, sites: Sequence[_Site]) -> set[str]:
        """Resources that some node offers without any product label: there only the name steers, on all nodes."""
        return {
            offer.kind.resource
            for site in sites
            for offer in site.offers
            if offer.kind.resource and not product_labels(site.node, offer.kind, self.situation.facts, changed=False)
        }

    def _separate(self, sites: Sequence[_Site]) -> None:
        groups: dict[str, dict[str, list[Node]]] = {}
        for site in sites:
            for offer in site.offers:
                base = product_labels(site.node, offer.kind, self.situation.facts, changed=False)
                if offer.kind.mode != "dra":
                    groups.setdefault(identity(offer.kind.resource, base), {}).setdefault(offer.kind.name, []).append(site.node)
        for name, kinds in groups.items():
            found = separator(kinds, self.situation.facts) if len(kinds) > 1 else None
            if found is not None:
                label, values = found
                self._extra.update({(name, kind): ((label, values[kind]),) for kind in kinds})


def _node_supply(situation: Situation, service: Service, node: Node, slots: _Slots) -> NodeSupply:
    cpu, memory, pods = situation.room(node)
    site = slots.sites.get(node.name)
    pooled = node.labels.get(POOL_LABEL) == service.name
    if site is None:
        return NodeSupply(node.name, 0, (), {}, pooled=pooled, cpu_milli=cpu, memory_bytes=memory, pods=pods)
    keys = [(slots.key(site, offer.kind, changed=False), offer) for offer in site.offers]
    cards = max([site.gpus.cards, *(len(offer.by_card) for offer in site.offers)])
    present = []
    for index in range(cards):
        here = tuple((key, offer.by_card[index]) for key, offer in keys if index < len(offer.by_card) and offer.by_card[index])
        present.append(Cut(" + ".join(f"{count} x {key}" for key, count in here) or "nothing", here))
    configs = tuple(
        Config(
            turn.name,
            turn.mode,
            tuple(
                Cut(name, tuple((slots.key(site, kind, changed=True), count) for kind, count in cut)) for name, cut in turn.cuts
            ),
        )
        for turn in site.turns.possible
    )
    # What others take on uncapped shares is not in the API: each may take the whole card.
    foreign = {
        key: (offer.kind.memory_bytes,) * len(holders(site.gpus)) for key, offer in keys if offer.kind.mode == "time-slicing"
    }
    return NodeSupply(
        name=node.name,
        cards=cards,
        present=tuple(present),
        free={key: offer.free for key, offer in keys},
        configs=configs,
        foreign_bytes=foreign,
        disturbs=len(site.turns.disturbs),
        pooled=pooled,
        cpu_milli=cpu,
        memory_bytes=memory,
        pods=pods,
    )
