"""What `apply` shows a person before it asks: short where all is well, complete about whom it costs what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from ragstow.cli import table
from ragstow.cli.applyview import View
from ragstow.live.preview.fields import unified
from ragstow.live.preview.model import FieldChange, ObjectPreview
from ragstow.plan.evictions import BudgetEffect, Evicted
from ragstow.plan.model import Plan
from ragstow.render.impact import Affected, Closed, Impact, Restarted

_MARKS = {"create": "+", "change": "~", "delete": "-", "same": "=", "unknown": "?"}
_FIELDS = 12
"""Fields of an object that are listed where there is no diff to show."""


def lines(view: View, *, wide: bool) -> Iterator[str]:
    """The lines of the text view.

    Args:
        view: what to show.
        wide: also the steps, the objects that stay, and new objects in full.
    """
    room = table.width()
    yield f"{view.service} in namespace {view.namespace}, cluster {view.cluster}: {_summary(view)}"
    if view.resumed:
        yield from _paragraph(" goes on: ", view.resumed, room)
    if view.edited:
        yield from _paragraph(" edited by hand: ", ", ".join(view.edited), room)
    if view.nothing_to_do:
        yield from _notes(view, room)
        return
    if view.replanned:
        yield from ("", *_replanned(view, room))
    yield from ("", " who is disturbed", *disturbed(view.impact, room))
    yield from ("", " objects", *_objects(view, room, wide=wide))
    if wide or view.dry_run:
        yield from ("", " steps", *(f"  {number:>3}. {step.title}" for number, step in enumerate(view.steps, 1)))
    yield from _notes(view, room)


def refused(plan: Plan, *, changed: bool) -> Iterator[str]:
    """Why there is no plan for the cluster of now, and what would help; `changed`: it did fit when the plan was made."""
    room = table.width()
    why = "the cluster changed since the plan, and now it does not fit" if changed else "does not fit"
    yield f"{plan.service} in namespace {plan.namespace}: {why}"
    yield " why"
    for reason in plan.reasons:
        yield from _paragraph("  - ", str(reason), room)
    if plan.alternatives:
        yield " ways out, each tried: with it, the service fits"
        for number, way in enumerate(plan.alternatives, 1):
            yield from _paragraph(f"  {number}. ", way.text, room)


def _summary(view: View) -> str:
    if view.nothing_to_do:
        return "nothing to do"
    counts = {what: sum(item.what == what for item in view.changes if item.kind != "Node") for what in _MARKS}
    nodes = sum(item.kind == "Node" and item.what == "change" for item in view.changes)
    said = [
        f"{count} {word}"
        for count, word in (
            (counts["create"], "new"),
            (counts["change"], "changed"),
            (counts["delete"], "deleted"),
            (counts["same"], "the same"),
        )
        if count
    ]
    objects = f"objects: {', '.join(said)}" if said else "no objects"
    return f"{objects}; nodes: {nodes} changed" if nodes else f"{objects}; no node changes"


def _replanned(view: View, room: int) -> Iterator[str]:
    if not view.differences and not view.rendered:
        yield " the cluster changed since the plan was made; planned again, with the same answer"
        return
    yield " the cluster changed since the plan was made; planned again, and this differs"
    for item in view.differences:
        yield from _paragraph(f"  {item.subject}: ", f"{item.before or 'nothing'} -> {item.after or 'nothing'}", room)
    for found in view.rendered:
        listed = f": {', '.join(change.path for change in found.fields)}" if found.fields else ""
        yield from _paragraph(f"  {found.ref}: ", f"{found.what}{listed}", room)


def disturbed(impact: Impact, room: int) -> Iterator[str]:
    """The blast radius, one line or paragraph for each node, pod, budget, DaemonSet and workload."""
    for closed in impact.nodes:
        yield from _paragraph(f"  node {closed.node}: ", _closed(closed), room)
    for pod in impact.pods:
        yield from _paragraph(f"  pod {pod.pod} on {pod.node}: ", _pod(pod), room)
    for key in impact.preempted:
        yield f"  pod {key}: pushed out by one of these with a higher priority"
    for budget in impact.budgets:
        yield from _paragraph(f"  budget {budget.budget}: ", _budget(budget), room)
    for item in impact.daemon_sets:
        yield from _paragraph(f"  DaemonSet {item.daemon_set}: ", _restarted(item), room)
    for workload in impact.workloads:
        if workload.pods and workload.change in ("replaced", "scaled", "deleted"):
            yield from _paragraph(f"  {workload.workload}: ", _workload(workload), room)
    if not impact.disturbed:
        yield "  no pod of anybody else loses a GPU"
    if impact.stopped_at is not None:
        yield from _paragraph(
            "  ! ", f"pods cannot leave {impact.stopped_at}: the run would wait there until it times out", room
        )


def _closed(item: Closed) -> str:
    most = f" (gives up after {_duration(item.at_most_seconds)})" if item.at_most_seconds else ""
    stays = "; it is closed now and stays so" if item.stays else ""
    return f"takes no new pods while: {', '.join(item.until)}{most}{stays}"


def _pod(item: Evicted) -> str:
    whose = f" ({item.workload})" if item.workload else ""
    if item.own:
        return f"evicted; it is the service's own, whose new pods come last{whose}"
    if item.outcome == "moves":
        return f"moves to {item.to}{whose}"
    if item.outcome == "returns":
        return f"waits until the node is back, then runs on {item.to}{whose}"
    if item.outcome == "waits":
        return f"finds no place any more and stays Pending{whose}: {item.message}"
    if item.outcome == "lost":
        return "LOST: nothing makes it again"
    if item.outcome == "blocked":
        return f"cannot be evicted{whose}: {item.message}"
    return f"stays: its controller puts it back on the node at once{whose}"


def _budget(item: BudgetEffect) -> str:
    pods = f"{len(item.pods)} of its pods leave {item.node}" if len(item.pods) > 1 else f"one of its pods leaves {item.node}"
    if item.verdict == "blocks":
        return f"BLOCKS: {pods}, {item.allowed} may go"
    if item.verdict == "delays":
        return f"delays: {pods}, {item.allowed} at a time"
    return f"lets go: {pods}"


def _restarted(item: Restarted) -> str:
    return f"restarts on {', '.join(item.nodes) or 'no node now'}: {'; '.join(item.why)}; pods keep their GPUs"


def _workload(item: Affected) -> str:
    how = {"replaced": "its pods are replaced", "scaled": "its number of pods changes", "deleted": "deleted with its pods"}
    return f"{how[item.change]}: {', '.join(item.pods)}"


def _objects(view: View, room: int, *, wide: bool) -> Iterator[str]:
    for item in view.changes:
        if item.what == "same" and not wide and not item.problem:
            continue
        note = f"  ({item.note})" if item.note else ""
        yield f"  {_MARKS[item.what]} {item.ref}{note}"
        yield from _details(item, room, wide=wide)
    same = [item for item in view.changes if item.what == "same" and not item.problem]
    if same and not wide:
        yield f"  = {len(same)} more as they are"


def _details(item: ObjectPreview, room: int, *, wide: bool) -> Iterator[str]:
    if item.problem:
        yield from _paragraph("      refused: ", item.problem, room)
    for owned in item.conflicts:
        yield f"      {owned.field} belongs to field manager {owned.manager}"
    for text in item.warnings:
        yield from _paragraph("      the server warns: ", text, room)
    if item.what == "change" and (item.before is None or item.kind == "Node"):
        yield from (f"      {line}" for line in _fields(item.fields))
    elif item.what == "change" or (item.what in ("create", "delete") and wide):
        yield from (f"      {line}" for line in unified(item.before, item.after, item.ref))


def _fields(fields: Sequence[FieldChange]) -> Iterator[str]:
    for change in fields[:_FIELDS]:
        yield f"{change.path}: {_value(change.before)} -> {_value(change.after)}"
    if len(fields) > _FIELDS:
        yield f"and {len(fields) - _FIELDS} more fields"


def _value(value: object) -> str:
    return "(none)" if value is None else f"{value}"


def _notes(view: View, room: int) -> Iterator[str]:
    for text in view.notes:
        yield from _paragraph(" note: ", text, room)
    if view.problems:
        yield from ("", " what is in the way")
        for text in view.problems:
            first, *rest = text.split("\n")
            yield from (*_paragraph("  - ", first, room), *(f"    {line}" for line in rest))


def _duration(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 120 else f"{seconds:g} s"


def _paragraph(start: str, text: str, room: int) -> Iterable[str]:
    pieces = wrap(text, max(room - len(start), 40), break_long_words=False, break_on_hyphens=False) or [""]
    return [start + pieces[0], *(" " * min(len(start), 8) + piece for piece in pieces[1:])]
