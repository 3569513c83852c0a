"""A simulation in words: a line for each pod, then what stands in the way, loudest first.

Texts of kube-scheduler and the kubelet are quoted as they are; ours say node, number and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import click

from ragstow.cli import output, table
from ragstow.simulate.model import (
    CardChoice,
    Displaced,
    Disruption,
    FreePick,
    KubeletAnswer,
    NearMiss,
    PodEntry,
    Rollout,
    Simulation,
)

_SHOWN_WORDS = 4
_SHOWN_STEPS = 12
_SHOWN_TIES = 3
_RULE = re.compile(r"[a-z0-9-]+ as in [0-9.]+: ")
"""An assumption about one rule of a release that was not recorded."""


def lines(answer: Simulation, *, wide: bool) -> list[str]:
    """The whole answer for people; `wide` adds refusals in full, steps and everything assumed."""
    last = _last_attempts(answer)
    blocks: list[list[str]] = [_summary(answer, last)]
    blocks.append(_placed(answer, last, wide=wide))
    blocks.append(_evictions(answer))
    blocks += _unplaced(answer, last, wide=wide)
    blocks += [[f"LOOP  {loop.text}", f"  node says: {loop.message}"] for loop in answer.loops]
    blocks += [_rollout(item, wide=wide) for item in answer.rollouts]
    blocks += [_disruption(item) for item in answer.disruptions]
    blocks.append([f"warning: {item.text} ({item.hint})" if item.hint else f"warning: {item.text}" for item in answer.warnings])
    blocks.append(_assumptions(answer, wide=wide))
    found: list[str] = []
    for block in blocks:
        if block:
            found += ["", *block] if found else block
    return found


def _last_attempts(answer: Simulation) -> dict[str, PodEntry]:
    last: dict[str, PodEntry] = {}
    for entry in answer.pods:
        last[entry.key] = entry
    return last


def _summary(answer: Simulation, last: Mapping[str, PodEntry]) -> list[str]:
    basis = f"Kubernetes {answer.release}, by {answer.release_origin}"
    if not last:
        return [f"nothing waits for a node   ({basis})"]
    placed = sum(1 for key in last if key in answer.final)
    text = f"{placed} of {len(last)} pods placed"
    if answer.displaced:
        text += f", {len(answer.displaced)} EVICTED"
    return [f"{_bold(text)}   ({basis})"]


def _placed(answer: Simulation, last: Mapping[str, PodEntry], *, wide: bool) -> list[str]:
    rows = []
    for key, entry in last.items():
        node = answer.final.get(key)
        if node is None or entry.node is None:
            continue
        others = [name for name in entry.ties if name != entry.node]
        how = f"{entry.feasible} of the nodes fit" if entry.feasible != 1 else "the only node that fits"
        if entry.by_name:
            how = "named by spec.nodeName"
        if others:
            shown = others if wide else others[:_SHOWN_TIES]
            more = f" and {len(others) - len(shown)} more" if len(others) > len(shown) else ""
            how += f"; {', '.join(shown)}{more} would do as well"
        rows.append((key, node, _devices(entry), how))
    return table.render(("pod", "node", "device", "choice"), rows, table.width(), indent=" ") if rows else []


def _devices(entry: PodEntry) -> str:
    """Claims' devices, or the kubelet's; "one of ..." where that is open."""
    claimed = [
        f"{item.get('pool')}/{item.get('device')}" for shown in entry.devices.values() for item in shown.get("results") or ()
    ]
    if claimed:
        return ", ".join(claimed)
    if entry.kubelet is not None:
        return _held(entry.kubelet)
    return "; ".join(_cards(choice) for choice in entry.cards.values())


def _cards(choice: CardChoice) -> str:
    """ "card 0", "cards 0, 1", "1 of cards 0-3", "1 of 4 cards"."""
    word = "card" if choice.of == 1 else "cards"
    named = f"{word} {_ranges(choice.cards)}" if choice.cards else f"{choice.of} {word}"
    return named if choice.certain else f"{choice.count} of {named}"


def _ranges(numbers: tuple[int, ...]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers))


def _held(answer: KubeletAnswer) -> str:
    said: dict[str, None] = {}
    for container, held in answer.devices.items():
        for resource, ids in held.items():
            pick = answer.open.get(container, {}).get(resource)
            said[_open(pick) if pick is not None else ", ".join(ids)] = None
    return "; ".join(said)


def _open(pick: FreePick) -> str:
    taken = f"{', '.join(pick.taken)} and " if pick.taken else ""
    return f"{taken}any {pick.count} of {', '.join(pick.pool)}"


def _evictions(answer: Simulation) -> list[str]:
    return [_bold(_eviction(item)) for item in answer.displaced]


def _eviction(item: Displaced) -> str:
    text = f"EVICTS {item.pod} (priority {item.priority}) to make room for {item.by}"
    if not item.recreated:
        return f"{text}; no controller makes it again: it is gone"
    if item.node is not None:
        return f"{text}; its successor goes to {item.node}"
    return f"{text}; its successor finds no place: {item.message}"


def _unplaced(answer: Simulation, last: Mapping[str, PodEntry], *, wide: bool) -> Iterator[list[str]]:
    """One block for pods of one workload with the same text."""
    groups: dict[tuple[str | None, str], list[PodEntry]] = {}
    for key in answer.unplaced:
        entry = last[key]
        groups.setdefault((entry.workload or key, _event(entry).replace(f'"{entry.name}"', "...")), []).append(entry)
    for entries in groups.values():
        first = entries[0]
        event = _event(first)
        more = f" and {len(entries) - 1} more of {first.workload}" if len(entries) > 1 else ""
        block = [_bold(f"{first.key}{more} {_what(first)}")]
        if event:
            said = "why" if _own_words(first) else "event" if first.number else "API server"
            block.append(f"  {said}: {event}")
        shown = first.words if wide else first.words[:_SHOWN_WORDS]
        block += [
            f"  {count} node{'s' if count != 1 else ''}: {reason.text}" + (f" ({reason.hint})" if reason.hint else "")
            for reason, count in shown
        ]
        block += _near_miss(answer.near_misses.get(first.key))
        yield block


def _own_words(entry: PodEntry) -> bool:
    """Whether the text is ours: of a pod that waits for another of its workload, or whose node does not exist."""
    return (entry.number == 0 and entry.refusal is None) or (entry.by_name and entry.kubelet is None)


def _what(entry: PodEntry) -> str:
    if entry.number == 0:
        return "is not created"
    if entry.kubelet is not None and not entry.kubelet.admitted:
        return f"is rejected by {entry.node}: {entry.kubelet.reason}"
    if entry.by_name:
        return "has no node"
    if entry.message.startswith("no profile is called "):
        return "is left to another scheduler"
    return "is held back" if entry.preenqueue is not None and not entry.message else "fits nowhere"


def _event(entry: PodEntry) -> str:
    if entry.kubelet is not None and not entry.kubelet.admitted:
        return entry.kubelet.message
    return entry.message or (entry.preenqueue or "")


def _near_miss(miss: NearMiss | None) -> list[str]:
    if miss is None:
        return []
    found = [f"  nearest: {miss.text}"]
    found += [f"  {'fix' if number == 0 else 'or'}: {change.text}" for number, change in enumerate(miss.changes)]
    return found


def _rollout(item: Rollout, *, wide: bool) -> list[str]:
    how = item.strategy
    if item.strategy == "RollingUpdate":
        how += f", maxSurge {item.surge}, maxUnavailable {item.unavailable}"
    verdict = "goes through" if item.done else "STANDS STILL"
    block = [
        _bold(f"rollout of {item.workload}: {verdict}") + f"   ({how}; {item.least_ready} of {item.replicas} ready at least)"
    ]
    steps = item.steps if wide else item.steps[:_SHOWN_STEPS]
    for number, step in enumerate(steps, 1):
        where = f" on {step.node}" if step.node else ""
        end = "" if step.node or step.action == "delete" else ": Pending"
        block.append(f"  {number:>2} {step.action} {step.pod}{where}{end}   ({step.ready} ready)")
    if len(item.steps) > len(steps):
        block.append(f"  .. and {len(item.steps) - len(steps)} more steps (-o wide)")
    if item.deadlock:
        block.append(f"  why: {item.deadlock}")
    if item.remedy:
        block.append(f"  fix: {item.remedy}")
    return block


def _disruption(item: Disruption) -> list[str]:
    what = f"{item.kind} of {item.node}"
    lost = [moved for moved in item.moved if moved.outcome == "pending"]
    blocked = [moved for moved in item.moved if moved.outcome == "blocked"]
    verdict = "HANGS" if blocked else f"{len(lost)} pod(s) find no place" if lost else "every pod finds a place"
    block = [_bold(f"{what}: {verdict}")]
    for moved in item.moved:
        if moved.outcome in ("stays",) or (moved.outcome == "lost" and moved.successor is None and not moved.message):
            continue
        to = {
            "moved": f"-> {moved.node}",
            "pending": f"-> nowhere: {moved.message}",
            "blocked": f"stays: {moved.message}",
            "lost": f"is lost: {moved.message}",
        }[moved.outcome]
        block.append(f"  {moved.pod} {to}")
    if item.without_replica:
        block.append(f"  without a running pod: {', '.join(item.without_replica)}")
    return block


def _assumptions(answer: Simulation, *, wide: bool) -> list[str]:
    if wide:
        return [f"assumed: {text}" for text in answer.assumptions]
    told = [text for text in answer.assumptions[:-1] if not _RULE.match(text)]
    rules = sum(1 for text in answer.assumptions if _RULE.match(text))
    if rules:
        told.append(f"{rules} rules of the scheduler are taken from the release nearest to it (-o wide lists them)")
    return [f"assumed: {text}" for text in told]


def _bold(text: str) -> str:
    return click.style(text, bold=True) if output.coloured() else text
