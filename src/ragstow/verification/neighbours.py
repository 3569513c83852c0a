"""Neighbours: pods that must share a card really do, pods that must not really do not, by the UUIDs that they see.

Promises are those of the spec (`together`, `apart`) and of the mode: a whole card or a slice is nobody else's, a shared card
has at most as many pods as it has shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ragstow.verification.memory import Use, by_device, uses
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome, Unknown
from ragstow.verification.pods import exec_command
from ragstow.verification.seen import Look
from ragstow.verification.targets import Target

_ALONE = ("exclusive", "mig")


def check_neighbours(
    seen: Sequence[tuple[Target, Look]],
    service: ObjectRef,
    together: Sequence[Sequence[str]],
    apart: Sequence[Sequence[str]],
    replicas: Mapping[str, int],
) -> Outcome:
    """Who shares with whom.

    Args:
        seen: the pods that could be looked into.
        service: what a promise of the spec is about.
        together: groups of components whose replicas share a card, replica by replica.
        apart: groups of components no two pods of which share a card; a group of one: its replicas.
        replicas: component -> planned number of pods.
    """
    found = uses(seen)
    checks = [check for group in by_device(found).values() for check in _own(group)]
    unknown: list[Unknown] = []
    for rule, groups in (("together", together), ("apart", apart)):
        for group in groups:
            blind = [name for name in group if _visible(found, name) < replicas.get(name, 1)]
            if blind:
                missing = f"the cards of {', '.join(blind)} could not all be seen"
                command = _command(seen, blind)
                unknown.append(Unknown(f"gpu-{rule}", service, missing, command))
                continue
            checks.append(_together(found, service, group, replicas) if rule == "together" else _apart(found, service, group))
    return Outcome(tuple(checks), tuple(unknown))


def _own(group: Sequence[Use]) -> list[Check]:
    """One device and the pods of the service that see it."""
    pods = {use.target.pod.key: use for use in group}
    made: list[Check] = []
    for use in pods.values():
        expected = use.target.expected
        others = [other.target.pod.name for key, other in pods.items() if key != use.target.pod.key]
        if expected.mode in _ALONE:
            wanted, right = "no other pod of the service on this device", not others
        elif expected.sharers > 1:
            wanted, right = f"at most {expected.sharers} pods on this card", len(pods) <= expected.sharers
        else:
            continue
        made.append(
            Check(
                "gpu-neighbours",
                ObjectRef.of(use.target.pod),
                wanted,
                f"shares it with {', '.join(others)}" if others else "alone on it",
                right,
                _evidence(use),
                ""
                if right
                else "two pods were given the same device: how is the node shared (labels gpu.replicas, gpu.sharing-strategy)?",
                use.target.component,
            )
        )
    return made


def _together(found: Sequence[Use], service: ObjectRef, group: Sequence[str], replicas: Mapping[str, int]) -> Check:
    """Replica i of each member on one card, for i up to the smallest number: enough cards that hold one of each member."""
    cards = {name: _cards(found, name) for name in group}
    pairs = min(replicas.get(name, 1) for name in group)
    met = sum(min(cards[name][uuid] for name in group) for uuid in sorted(cards[group[0]]))
    right = met >= pairs
    return Check(
        "gpu-together",
        service,
        f"{' and '.join(group)} on one card, {pairs} {'time' if pairs == 1 else 'times'}",
        "; ".join(f"{name} on {_listed(cards[name])}" for name in group),
        right,
        tuple(evidence for use in found if use.target.component in group for evidence in _evidence(use)),
        "" if right else "the promise `together` is broken: plan again, or recreate the pods in the order of STEPS.md",
    )


def _apart(found: Sequence[Use], service: ObjectRef, group: Sequence[str]) -> Check:
    cards = {name: _cards(found, name) for name in group}
    total: Counter[str] = sum(cards.values(), Counter())
    if len(group) == 1:
        wanted, bad = f"replicas of {group[0]} on different cards", [uuid for uuid, count in total.items() if count > 1]
    else:
        wanted = f"{' and '.join(group)} on different cards"
        bad = [uuid for uuid in total if sum(uuid in cards[name] for name in group) > 1]
    return Check(
        "gpu-apart",
        service,
        wanted,
        "; ".join(f"{name} on {_listed(cards[name])}" for name in group),
        not bad,
        tuple(evidence for use in found if use.target.component in group for evidence in _evidence(use)),
        "" if not bad else "the promise `apart` is broken: plan again, or delete one of the pods so that it lands elsewhere",
    )


def _cards(found: Sequence[Use], component: str) -> Counter[str]:
    """Card UUID -> pods of a component on it."""
    pairs = {
        (use.target.pod.key, f"{use.target.pod.node} {use.device.card_uuid or ''}".strip())
        for use in found
        if use.target.component == component
    }
    return Counter(uuid for _, uuid in sorted(pairs))


def _visible(found: Sequence[Use], component: str) -> int:
    """Pods of a component whose cards are all known by UUID."""
    pods: dict[str, bool] = {}
    for use in found:
        if use.target.component == component:
            pods[use.target.pod.key] = pods.get(use.target.pod.key, True) and bool(use.device.card_uuid)
    return sum(pods.values())


def _listed(cards: Counter[str]) -> str:
    return ", ".join(sorted(cards)) or "no card"


def _evidence(use: Use) -> tuple[Evidence, ...]:
    return use.look.evidence("list", use.device.uuid or "", use.device.card_uuid or "") or use.look.evidence(
        "rows", use.device.uuid or ""
    )


def _command(seen: Sequence[tuple[Target, Look]], components: Sequence[str]) -> str:
    target = next((target for target, _ in seen if target.component in components), None)
    return exec_command(target, "nvidia-smi -L") if target is not None else "kubectl get pods"
