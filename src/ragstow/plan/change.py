"""What a node's cards could be turned into, and why not into the rest.

A node is re-cut or its sharing changed only while none of its GPU slots is held (which card is free is not in the API), unless
pods of others may be disturbed. Sharing is per node and resource name; MIG is per card. What is possible follows the device
plugin and its chart (nvidia reference 1.3, 1.5, 1.7, 4.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.inventory.model import NodeGpus
from ragstow.plan.alike import asked
from ragstow.plan.cardfacts import CardFacts
from ragstow.plan.kinds import Kind, mps_share, slice_of, time_slice, whole
from ragstow.plan.model import Mode
from ragstow.plan.refusing import listed
from ragstow.plan.situation import Situation
from ragstow.sharing import miglayout, migmode
from ragstow.sharing import modes as modes_
from ragstow.sharing.host import Host
from ragstow.sharing.modes import Given

_STATES = ("exclusive", "time-slicing", "mps", "mig-mixed", "mig-single")


_Ask = Callable[[Host, int, Facts], Given | Reason]
_Make = Callable[[CardFacts, int], Kind]


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


def turns(situation: Situation, gpus: NodeGpus, card: CardFacts, host: Host | None, shares: Sequence[int]) -> Turns:
    """What this node could become.

    Args:
        situation: the cluster.
        gpus: its inventory without the service's own pods.
        card: its cards.
        host: the node as `sharing` sees it; None where its product is not in the facts.
        shares: numbers of shares of one card that are worth a try.
    """
    modes: tuple[Mode, ...] = ("exclusive", "mig", "mps", "time-slicing")
    refused: dict[Mode, Reason] = {}
    if card.gpu is not None and card.geometry is None:
        # Said first, since nothing on this node could change it.
        refused["mig"] = Reason("mig-not-capable", f"{card.gpu.product} cannot be cut into MIG slices")
    reason = _unchangeable(situation, gpus, host)
    if reason is not None or host is None:
        return Turns((), {**({} if reason is None else dict.fromkeys(modes, reason)), **refused})
    possible: list[Turn] = []
    if gpus.sharing != "exclusive":
        possible.append(Turn("exclusive", "exclusive", (("whole", ((whole(card), 1),)),)))
    found = _mig(situation, gpus, card, host)
    if isinstance(found, Reason):
        refused.setdefault("mig", found)
    else:
        possible += found
    uncut = replace(host, cuts=())  # the cards become whole again before they are shared
    ways: tuple[tuple[Mode, _Ask, _Make], ...] = (
        ("mps", modes_.mps, mps_share),
        ("time-slicing", modes_.time_slicing, time_slice),
    )
    for mode, ask, kind in ways:
        for number in shares or (2,):
            given = asked(situation.memo, (mode, number), uncut, partial(_shared, ask, number, situation.facts))
            if isinstance(given, Reason):
                refused.setdefault(mode, given)
                break
            if not shares:
                text = f"{gpus.name}: shares would save no card: the kubelet may spread the pods over its {gpus.cards} cards"
                refused[mode] = Reason("no-gain", text)
                break
            cut = (f"{number} shares", ((kind(card, number), number),))
            possible.append(Turn(f"{mode} x{number}", mode, (cut,)))
    return Turns(tuple(possible), refused, holders(gpus))


def _shared(ask: _Ask, number: int, facts: Facts, host: Host) -> Reason | None:
    """Whether cards can be shared so; what follows for the node's labels is `layouts`' question."""
    found = ask(host, number, facts)
    return found if isinstance(found, Reason) else None


def _unchangeable(situation: Situation, gpus: NodeGpus, host: Host | None) -> Reason | None:
    if host is None:
        return Reason("card-unknown", f"{gpus.name}: {gpus.product or 'its card'} is not in the facts", "--facts adds a card")
    unseen = situation.install.kind == "cloud" and situation.install.daemonset is None
    if unseen and not (host.cloud is not None and host.cloud.plugin_managed):
        return Reason(
            "plugin-unseen",
            f"{gpus.name}: the device plugin's DaemonSet is not in the data, so its sharing stays",
            "add the output of: kubectl get daemonsets,configmaps -A -o json",
        )
    reason = modes_.server_refuses(host, "exclusive")
    if reason is not None:
        return Reason("node-fixed", reason.text, reason.hint)
    if gpus.sharing not in _STATES:
        return Reason("node-state", f"{gpus.name}: its sharing state is {gpus.sharing}, which ragstow does not change")
    sick = unhealthy(gpus)
    if sick is not None:
        return sick
    held = holders(gpus)
    if held and not situation.allow_disturb:
        return Reason(
            "node-held",
            f"{gpus.name}: {listed(held)} {'holds' if len(held) == 1 else 'hold'} GPU slots there, so its sharing stays",
            "--allow-disturb, or a node without GPU pods",
        )
    return None


def unhealthy(gpus: NodeGpus) -> Reason | None:
    """Slots that the node has and does not offer: the device plugin calls them unhealthy, and no API says which card it is."""
    offered = sum(use.allocatable for use in gpus.resources.values())
    for name, use in sorted(gpus.resources.items()):
        left_over = use.allocatable == 0 < offered  # the old name of slots that have another one now
        if use.allocatable < use.capacity and not left_over:
            return Reason(
                "cards-unhealthy",
                f"{gpus.name}: only {use.allocatable} of {use.capacity} x {name} are allocatable: unhealthy cards, so the node "
                "stays as it is",
                f"the device plugin's log on {gpus.name} names the card and the Xid",
            )
    return None


def _mig(situation: Situation, gpus: NodeGpus, card: CardFacts, host: Host) -> list[Turn] | Reason:
    able = asked(situation.memo, "mig", host, lambda alike: migmode.cuttable(alike, situation.facts))
    if isinstance(able, Reason):
        return able
    if situation.nodes[gpus.name].labels.get("nvidia.com/mig.capable") == "false":
        return Reason(
            "mig-not-capable", f"on {gpus.name} the driver says that MIG is not possible (label nvidia.com/mig.capable)"
        )
    install = situation.install
    if install.kind == "operator" and install.mig_config_map is None:
        return Reason("mig-manager", f"{gpus.name}: the GPU Operator's MIG manager is switched off", "migManager.enabled=true")
    plain = {
        profile.name: miglayout.Placement(profile.starts, profile.size, profile.max)
        for profile in able.profiles
        if is_plain(profile.name)
    }
    if install.kind == "operator" and install.mig_strategy == "single" and _single_in_use(situation, gpus):
        return _mig_single(card, plain)
    key = ("cuts", card.product, card.label_mib, card.visible_bytes, able.profiles)
    if key not in situation.memo:
        situation.memo[key] = Turn("mig", "mig", tuple(_mig_cuts(card, plain)))
    return [situation.memo[key]]


def _mig_cuts(card: CardFacts, kinds: Mapping[str, miglayout.Placement]) -> Iterator[tuple[str, tuple[tuple[Kind, int], ...]]]:
    yield "whole", ((whole(card), 1),)
    for layout in miglayout.layouts(kinds).legal:
        slots = tuple((kind, count) for profile, count in layout.items() if (kind := slice_of(card, profile)) is not None)
        yield cut_name(layout), slots


def is_plain(profile: str) -> bool:
    """Whether a profile is cut for compute only: no media or graphics engines of its own, none taken away."""
    return "+" not in profile and "-me" not in profile


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


def cut_name(layout: Mapping[str, int]) -> str:
    """A MIG layout of one card for people: "2 x 1g.10gb + 3g.40gb"."""
    return " + ".join(profile if count == 1 else f"{count} x {profile}" for profile, count in layout.items())
