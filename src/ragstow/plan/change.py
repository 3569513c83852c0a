"""What a node's cards could be turned into, and why not into the rest.

A node is re-cut or its sharing changed only while none of its GPU slots is held (which card is free is not in the API), unless
pods of others may be disturbed. Sharing is per node and resource name; MIG is per card. What is possible follows the device
plugin and its chart (nvidia reference 1.3, 1.5, 1.7, 4.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragstow.cluster.objects import Node
from ragstow.errors import Reason
from ragstow.facts.drivers import version
from ragstow.inventory.model import NodeGpus
from ragstow.plan.cardfacts import CardFacts
from ragstow.plan.kinds import Kind, mps_share, slice_of, time_slice, whole
from ragstow.plan.model import Mode
from ragstow.plan.refusing import listed
from ragstow.plan.situation import Situation
from ragstow.sharing import miglayout
from ragstow.sharing.mpsdaemon import most_clients

_CHANGEABLE = ("chart", "operator", "static")
_STATES = ("exclusive", "time-slicing", "mps", "mig-mixed", "mig-single")


@dataclass(frozen=True, slots=True)
class Turn:
    """A state that a node could be turned into: for each possible cut of one card, how many slots of which kind."""

    name: str
    mode: Mode
    cuts: tuple[tuple[str, tuple[tuple[Kind, int], ...]], ...]


@dataclass(frozen=True, slots=True)
class Turns:
    """All of them for a node, and the reason for each mode that is not among them."""

    possible: tuple[Turn, ...]
    refused: Mapping[Mode, Reason] = field(default_factory=dict)
    disturbs: tuple[str, ...] = ()


def holders(node: NodeGpus) -> tuple[str, ...]:
    """Pods of others that hold GPU slots of a node, by name."""
    held = {pod for use in node.resources.values() for pod in use.holders}
    held |= {pod for claim in node.claims for pod in claim.pods}
    return tuple(sorted(held))


def turns(situation: Situation, node: Node, gpus: NodeGpus, card: CardFacts, shares: Sequence[int]) -> Turns:
    """What this node could become.

    Args:
        situation: the cluster.
        node: the node.
        gpus: its inventory without the service's own pods.
        card: its cards.
        shares: numbers of shares of one card that are worth a try.
    """
    modes: tuple[Mode, ...] = ("exclusive", "mig", "mps", "time-slicing")
    reason = _unchangeable(situation, gpus)
    if reason is not None:
        return Turns((), dict.fromkeys(modes, reason))
    possible: list[Turn] = []
    refused: dict[Mode, Reason] = {}
    if gpus.sharing != "exclusive":
        possible.append(Turn("exclusive", "exclusive", (("whole", ((whole(card), 1),)),)))
    found = _mig(situation, node, gpus, card)
    if isinstance(found, Reason):
        refused["mig"] = found
    else:
        possible += found
    no_mps = _no_mps(situation, gpus, card)
    if no_mps is not None:
        refused["mps"] = no_mps
    else:
        most = most_clients(card.compute_capability)
        possible += [
            Turn(f"mps x{number}", "mps", ((f"{number} shares", ((mps_share(card, number), number),)),))
            for number in shares
            if number <= most
        ]
    possible += [
        Turn(f"time-slicing x{number}", "time-slicing", ((f"{number} shares", ((time_slice(card, number), number),)),))
        for number in shares
    ]
    return Turns(tuple(possible), refused, holders(gpus))


def _unchangeable(situation: Situation, gpus: NodeGpus) -> Reason | None:
    install = situation.install
    if gpus.sharing == "dra":
        return Reason("node-dra", f"{gpus.name}: the DRA driver hands out its cards, there is no sharing to configure")
    if install.kind == "cloud":
        cloud = situation.facts.clouds.of_node(situation.nodes[gpus.name].labels)
        hint = cloud.how_to_share if cloud is not None else ""
        return Reason(
            "node-cloud", f"{gpus.name}: the cloud runs the device plugin there and decides how cards are shared", hint
        )
    if install.kind not in _CHANGEABLE:
        return Reason("node-no-plugin", f"{gpus.name}: no device plugin that could be configured was found")
    if gpus.sharing not in _STATES:
        return Reason("node-state", f"{gpus.name}: its sharing state is {gpus.sharing}, which ragstow does not change")
    held = holders(gpus)
    if held and not situation.allow_disturb:
        return Reason(
            "node-held",
            f"{gpus.name}: {listed(held)} {'holds' if len(held) == 1 else 'hold'} GPU slots there, so its sharing stays",
            "--allow-disturb, or a node without GPU pods",
        )
    return None


def _mig(situation: Situation, node: Node, gpus: NodeGpus, card: CardFacts) -> list[Turn] | Reason:
    product = card.product or "this card"
    if card.geometry is None or node.labels.get("nvidia.com/mig.capable") == "false":
        return Reason("mig-incapable", f"{product} cannot be cut into MIG instances")
    least = card.geometry.card.min_driver
    if card.driver and least and version(card.driver) < version(least):
        return Reason("mig-driver", f"{gpus.name}: MIG on {product} needs driver {least}, there is {card.driver}")
    install = situation.install
    if install.kind == "operator" and install.mig_config_map is None:
        return Reason("mig-manager", f"{gpus.name}: the GPU Operator's MIG manager is switched off", "migManager.enabled=true")
    kinds = miglayout.kinds_of(card.geometry, driver=card.driver)
    plain = {name: kind for name, kind in kinds.items() if "+" not in name and "-me" not in name}
    if install.kind == "operator" and install.mig_strategy == "single" and _single_in_use(situation, gpus):
        return _mig_single(card, plain)
    layouts = miglayout.layouts(plain)
    cuts: list[tuple[str, tuple[tuple[Kind, int], ...]]] = [("whole", ((whole(card), 1),))]
    for layout in layouts.legal:
        slots = tuple((kind, count) for profile, count in layout.items() if (kind := slice_of(card, profile)) is not None)
        cuts.append((cut_name(layout), slots))
    return [Turn("mig", "mig", tuple(cuts))]


def _mig_single(card: CardFacts, kinds: Mapping[str, miglayout.Placement]) -> list[Turn]:
    made = []
    for profile, placement in kinds.items():
        kind = slice_of(card, profile, single=True)
        if kind is not None:
            cut = (cut_name({profile: placement.max}), ((kind, placement.max),))
            made.append(Turn(f"mig-single {profile}", "mig", (cut,)))
    return made


def _single_in_use(situation: Situation, gpus: NodeGpus) -> bool:
    """Whether another node lives by strategy single, which is one setting for all nodes of the operator."""
    return any(other.sharing == "mig-single" and other.name != gpus.name for other in situation.inventory.nodes)


def _no_mps(situation: Situation, gpus: NodeGpus, card: CardFacts) -> Reason | None:
    install = situation.install
    product = card.product or "this card"
    if not install.gfd:
        return Reason(
            "mps-gfd",
            f"{gpus.name}: MPS needs GPU feature discovery, whose label starts the MPS daemon; none is installed",
            "chart value gfd.enabled=true",
        )
    if install.mig_strategy == "mixed":
        return Reason(
            "mps-mixed", f"{gpus.name}: the device plugin refuses MPS under MIG strategy mixed", "mig.strategy single"
        )
    if card.gpu is None or card.gpu.mps != "yes":
        why = "clients cannot be limited one by one before Volta" if card.gpu is not None else "nothing is known of it"
        return Reason("mps-card", f"{product}: {why}")
    return None


def cut_name(layout: Mapping[str, int]) -> str:
    """A MIG layout of one card for people: "2 x 1g.10gb + 3g.40gb"."""
    return " + ".join(profile if count == 1 else f"{count} x {profile}" for profile, count in layout.items())
