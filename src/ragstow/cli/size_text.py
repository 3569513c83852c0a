"""Sums as text: one card with its terms, or a table of cards."""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.sizing import ComponentSizing
from ragstow.spec.model import Component

_GIB = 2**30


def gib(bytes_: int) -> str:
    """Bytes in GiB with two decimals."""
    return f"{bytes_ / _GIB:.2f}"


def one_card(component: Component, answer: ComponentSizing, *, wide: bool, room: int) -> str:
    """All terms on one product; sources are cut to the room of a line unless `wide`."""
    lines = [_head(component), f"  on {_where(answer)}: {_verdict(answer)}"]
    width = max(len(item.name) for item in answer.terms)
    for item in answer.terms:
        beside = "" if item.inside_budget else "  beside the budget"
        lever = f"  lever: {item.lever}" if item.lever else ""
        lines.append(
            f"  {item.name:{width}}  {gib(item.bytes):>7} GiB  {gib(item.band[0])} to {gib(item.band[1])}{beside}{lever}"
        )
        source = f"  {'':{width}}      {item.source}"
        lines.append(source if wide or len(source) <= room else source[: room - 4] + " ...")
    lines.append(f"  {'budget':{width}}  {gib(answer.budget_bytes):>7} GiB  {_budget(answer)}")
    shown = f"{gib(answer.band[0])} to {gib(answer.band[1])}, what nvidia-smi shows at the peak"
    lines.append(f"  {'total':{width}}  {gib(answer.total_bytes):>7} GiB  {shown}")
    lines.append(f"  {'minimum':{width}}  {gib(answer.minimum_bytes):>7} GiB  the smallest slot that is safe")
    if answer.kv_bytes_per_request:
        lines.append("  " + _requests(component, answer))
    if answer.engine_args:
        lines.append(f"  arguments: {' '.join(answer.engine_args)}")
    lines += [f"  {item}" for item in answer.notes]
    return "\n".join([*lines, ""])


def table(component: Component, answers: Sequence[ComponentSizing], *, wide: bool) -> str:
    """One line a product."""
    rows = [["PRODUCT", "VISIBLE", "MINIMUM", "BUDGET", "TOTAL", "KV TOKENS", "FITS"]]
    rows += [_row(answer, wide=wide) for answer in answers]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_head(component), "  GiB per card"]
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, len(row) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    lines += [f"  {note}" for note in dict.fromkeys(note for answer in answers for note in answer.notes)]
    return "\n".join([*lines, ""])


def _row(answer: ComponentSizing, *, wide: bool) -> list[str]:
    return [
        answer.gpu or "-",
        gib(answer.capacity_bytes),
        gib(answer.minimum_bytes),
        gib(answer.budget_bytes),
        gib(answer.total_bytes),
        f"{answer.kv_tokens:,}" if answer.kv_tokens else "-",
        _verdict(answer) if wide or not answer.fits else "yes",
    ]


def without_gpu(component: Component) -> str:
    """A component that takes no GPU memory."""
    return f"{_head(component)}\n  no GPU; host memory {component.memory}, {component.cpu} processors\n"


def _head(component: Component) -> str:
    engine = f"{component.engine} {component.version or ''}".strip() if component.engine is not None else component.image or ""
    model = f"  {component.model}" if component.model is not None else ""
    cards = f"  {component.tensor_parallel} cards a replica" if component.tensor_parallel > 1 else ""
    return f"{component.name}  x{component.replicas}  {engine}{model}{cards}"


def _where(answer: ComponentSizing) -> str:
    return f"{answer.gpu or 'a card'} ({gib(answer.capacity_bytes)} GiB visible)"


def _verdict(answer: ComponentSizing) -> str:
    if answer.refusals:
        return f"no: {answer.refusals[0].text}"
    needs = f"needs {gib(answer.minimum_bytes)} of {gib(answer.capacity_bytes)} GiB"
    return f"yes, {needs}" if answer.fits else f"no: {needs}"


def _budget(answer: ComponentSizing) -> str:
    if answer.budget is None:
        return "the engine has no cap"
    if answer.budget.gpu_memory_utilization is not None:
        return f"{answer.budget.gpu_memory_utilization:.2f} of the slot, all of it reserved"
    return "the KV cache is pinned in bytes, neighbours change nothing"


def _requests(component: Component, answer: ComponentSizing) -> str:
    fits = answer.kv_cache_bytes / answer.kv_bytes_per_request
    return (
        f"{gib(answer.kv_cache_bytes)} GiB of cache hold {answer.kv_tokens:,} tokens; a request of {component.context} takes "
        f"{answer.kv_bytes_per_request / 2**20:.0f} MiB: {fits:.1f} at once, {component.concurrency} wanted"
    )
