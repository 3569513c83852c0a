"""A plan for people: does it fit, which cards, which mode and why, what is assumed, what to type next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from ragstow.cli import table

if TYPE_CHECKING:
    from ragstow.cli.cluster import Cluster
    from ragstow.inventory.model import NodeGpus
    from ragstow.plan.model import ComponentPlan, NodeLayout, Placement, Plan, Refusal

_GIB = 2**30
_BAR = 24
_ASSUMED = 4
_REHEARSED = 6
_STATES = {
    "exclusive": "whole cards",
    "time-slicing": "time-slicing",
    "mps": "MPS",
    "mig-mixed": "MIG",
    "mig-single": "MIG (single)",
    "dra": "DRA",
}


def lines(plan: Plan, cluster: Cluster, *, spec: str, where: str, flags: str, wide: bool) -> list[str]:
    """The lines of the text view.

    Args:
        plan: the plan.
        cluster: what it was made for.
        spec: the service file as typed, for the next commands.
        where: the cluster, for people.
        flags: those that name the cluster, as typed.
        wide: every reason and assumption.
    """
    room = table.width()
    if not plan.feasible:
        return _refused(plan, where, room, wide=wide)
    return [
        _headline(plan, cluster, where),
        "",
        *_nodes(plan, cluster, room),
        "",
        *_components(plan, room),
        *(_why_not(plan.refused, room) if wide else []),
        "",
        *_closing(plan, room, wide=wide),
        *_next(spec, flags, live=cluster.snapshot.source.kind == "live"),
    ]


def _headline(plan: Plan, cluster: Cluster, where: str) -> str:
    free = _free(plan, cluster)
    if plan.optimal:
        proof = f"bound {plan.lower_bound}: optimal"
    elif plan.solver == "greedy":
        proof = f"greedy, not proved; at least {plan.lower_bound} needed"
    else:
        proof = f"at least {plan.lower_bound} needed"
    fits = f"{plan.service} on {where}: fits. {_count(plan.cards, 'card')} ({proof}){free}"
    return fits if any(layout.changes for layout in plan.layouts) or not _running(plan, cluster) else f"{fits}; nothing to do"


def _running(plan: Plan, cluster: Cluster) -> bool:
    """Whether as many pods of the service as planned run already."""
    own = [
        pod
        for pod in cluster.snapshot.pods
        if pod.namespace == plan.namespace and pod.labels.get("ragstow.dev/service") == plan.service and pod.node
    ]
    return len(own) >= len(plan.placements) > 0


def _free(plan: Plan, cluster: Cluster) -> str:
    nodes = [node for node in cluster.inventory.nodes if node.cards and node.schedulable]
    total = sum(node.cards for node in nodes)
    counts = [
        (node.cards_free, node.cards_free) if isinstance(node.cards_free, int) else (node.cards_free.min, node.cards_free.max)
        for node in nodes
    ]
    low, high = sum(low for low, _ in counts) - plan.cards, sum(high for _, high in counts) - plan.cards
    if _running(plan, cluster) or low < 0:
        return ""
    return f", {low} of {total} stay free" if low == high else f", {low} to {high} of {total} stay free"


def _nodes(plan: Plan, cluster: Cluster, room: int) -> list[str]:
    made: list[str] = []
    for layout in plan.layouts:
        gpus = cluster.inventory.node(layout.node)
        state = _STATES.get(layout.sharing, layout.sharing)
        change = "; ".join(text for text in layout.changes if not text.startswith("label ")) or "unchanged"
        disturbed = f"   disturbs: {', '.join(layout.disturbs) or 'nobody'}" if layout.changes else ""
        becomes = change if change.startswith(f"{state}:") else f"{state}, {change}"
        made.append(f" {layout.node}  {gpus.cards} x {gpus.product or 'unknown card'}   {becomes}{disturbed}")
        made += _cards(plan, layout, gpus, room)
    return made


def _cards(plan: Plan, layout: NodeLayout, gpus: NodeGpus, room: int) -> list[str]:
    here = [item for item in plan.placements if item.node == layout.node and item.mode != "none"]
    slots = {item.name: item for item in plan.components}
    made: list[str] = []
    for name in dict.fromkeys(item.component for item in here if item.mode in ("exclusive",) or _alone(slots[item.component])):
        pods = [item for item in here if item.component == name]
        made.append(_whole_row(slots[name], pods, gpus))
    groups: dict[tuple[str | None, str | None, int | None, tuple[str, ...]], list[Placement]] = {}
    for item in here:
        if item.mode != "exclusive" and not _alone(slots[item.component]):
            claim = slots[item.component].claim
            together = tuple(sorted({item.component, *claim.shared_with})) if claim is not None and claim.shared_with else ()
            groups.setdefault((item.resource, item.profile, item.card, together), []).append(item)
    for (resource, _, card, _), pods in groups.items():
        cells = [_cell(slots[item.component], item) for item in pods]
        left = layout.resources_after.get(resource or "", 0) - len(pods)
        if layout.changes and left > 0:
            cells.append(f"{left} free")
        label = "any" if card is None else str(card)
        made += _wrapped(f"   {label:<4} |", cells, room)
    return made


def _alone(component: ComponentPlan) -> bool:
    return component.slot.mode == "dra" and component.slot.sharers == 1 and component.slot.profile is None


def _whole_row(component: ComponentPlan, pods: Sequence[Placement], gpus: NodeGpus) -> str:
    used, has = pods[0].memory_bytes, component.slot.memory_bytes
    filled = max(1, min(_BAR, round(_BAR * used / has))) if has else 0
    cards = len(pods) * component.slot.count
    bar = "#" * filled + " " * (_BAR - filled)
    each = " each" if cards > 1 else ""
    return f"   any  |{component.name} {bar} {used / _GIB:.1f} of {has / _GIB:.1f} GiB{each}|   {cards} of {gpus.cards} cards"


def _cell(component: ComponentPlan, item: Placement) -> str:
    return f"{component.name} {item.memory_bytes / _GIB:.1f}/{component.slot.memory_bytes / _GIB:.1f}"


def _wrapped(start: str, cells: Iterable[str], room: int) -> list[str]:
    made = [start]
    for cell in cells:
        if len(made[-1]) + len(cell) + 1 > room and made[-1] != start:
            made.append(" " * (len(start) - 1) + "|")
        made[-1] += f"{cell}|"
    return made


def _components(plan: Plan, room: int) -> list[str]:
    rows = []
    for item in plan.components:
        slot = item.slot
        if slot.mode == "none":
            rows.append([item.name, str(item.replicas), "no GPU", "", ""])
            continue
        mode = f"{slot.mode} {slot.profile}" if slot.profile else slot.mode
        if slot.sharers > 1:
            mode += f" x{slot.sharers}"
        if slot.count > 1:
            mode += f" {slot.count} cards"
        rows.append([item.name, str(item.replicas), mode, _memory(item), "; ".join(reason.text for reason in item.reasons)])
    return _table(["component", "x", "mode", "memory", "why this"], rows, room)


def _memory(item: ComponentPlan) -> str:
    if item.sizing is None:
        return ""
    low, high = item.sizing.band
    total = item.sizing.total_bytes
    off = max(high - total, total - low) / _GIB
    return f"{total / _GIB:.1f} GiB" if off < 0.05 else f"{total / _GIB:.1f} +-{off:.1f} GiB"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[str]:
    """A table whose last column is wrapped at blanks."""
    widths = [max(len(head[column]), *(len(row[column]) for row in rows)) for column in range(len(head) - 1)]
    start = sum(widths) + 2 * len(widths) + 1
    made = [" " + "  ".join([*(head[column].ljust(widths[column]) for column in range(len(widths))), head[-1]]).rstrip()]
    for row in rows:
        pieces = wrap(row[-1], max(room - start, 30)) or [""]
        made.append(
            (" " + "  ".join([*(row[column].ljust(widths[column]) for column in range(len(widths))), pieces[0]])).rstrip()
        )
        made += [" " * start + piece for piece in pieces[1:]]
    return made


def _why_not(refused: Sequence[Refusal], room: int) -> list[str]:
    rows = [[item.component, item.mode, str(item.reason)] for item in refused]
    return ["", " why not", *_table(["component", "mode", "because"], rows, room)] if rows else []


def _closing(plan: Plan, room: int, *, wide: bool) -> list[str]:
    made: list[str] = []
    waits = [f"{item.name} after {', '.join(item.start_after)}" for item in plan.components if item.start_after]
    if waits:
        made += _paragraph(" starts one after the other: ", "; ".join(waits), room)
    tolerated = list(
        dict.fromkeys(
            f"{item.key}{'=' + item.value if item.value else ''}:{item.effect}"
            for row in plan.components
            for item in row.tolerations
        )
    )
    if tolerated:
        made += _paragraph(" tolerates: ", ", ".join(tolerated), room)
    from ragstow.render.rehearsalwords import rehearsed

    told = rehearsed(plan)
    for number, (about, text) in enumerate(told):
        if wide or number < _REHEARSED:
            made += _paragraph(f" {about}: " if number < 2 else f"   {about}: ", text, room)
    if len(told) > _REHEARSED and not wide:
        made.append(f"          and {len(told) - _REHEARSED} more nodes (-o wide)")
    shown = plan.assumptions if wide else plan.assumptions[:_ASSUMED]
    for number, text in enumerate(shown):
        made += _paragraph(" assumes: " if number == 0 else "          ", text, room)
    if len(plan.assumptions) > len(shown):
        made.append(f"          and {len(plan.assumptions) - len(shown)} more (-o wide)")
    return made


def _next(spec: str, flags: str, *, live: bool) -> list[str]:
    more = f" {flags}" if flags else ""
    return [
        f" next: ragstow plan {spec}{more} -o json > plan.json",
        f"       ragstow apply plan.json{more} --dry-run=server" if live else "       ragstow render plan.json --out out/",
    ]


def _refused(plan: Plan, where: str, room: int, *, wide: bool) -> list[str]:
    need = f"at least {_count(plan.lower_bound, 'card')} needed ({plan.lower_bound_reason})" if plan.lower_bound else ""
    made = [f"{plan.service} on {where}: does not fit{'; ' + need if need else ''}", "", " why"]
    for reason in plan.reasons:
        made += _paragraph("  - ", str(reason), room)
    if plan.alternatives:
        made += ["", " ways out, each tried: with it, the service fits"]
        for number, way in enumerate(plan.alternatives, 1):
            cards = f" ({_count(way.cards, 'card')})" if way.cards else ""
            made += _paragraph(f"  {number}. ", f"{way.text}{cards}", room)
    else:
        made += ["", " no way out was found among the changes that were tried"]
    if wide:
        made += _why_not(plan.refused, room)
        for text in plan.assumptions:
            made += _paragraph(" assumes: ", text, room)
    return made


def _paragraph(start: str, text: str, room: int) -> list[str]:
    pieces = wrap(text, max(room - len(start), 30)) or [""]
    return [start + pieces[0], *(" " * len(start) + piece for piece in pieces[1:])]


def _count(number: int, one: str) -> str:
    return f"{number} {one if number == 1 else one + 's'}"
