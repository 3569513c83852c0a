"""The engine's command line: the component's wishes, then what sizing worked out, then the user's own arguments as they are.

A flag that sizing gives replaces the component's; nothing here decides a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.facts.serving import EngineFlags
from ragstow.render.model import Item


def arguments(item: Item) -> list[str]:
    """The arguments of the engine's container, without its command."""
    serving = item.serving
    if serving is None:
        return list(item.component.args)
    start = [
        text.replace("{model}", item.component.model or "").replace("{port}", str(item.port or serving.port))
        for text in serving.args
    ]
    sized = _sized(item)
    own = without(_own(item, serving.flags), sized)
    return [*without(start, sized), *own, *sized, *item.component.args]


def _own(item: Item, flags: EngineFlags) -> list[str]:
    component = item.component
    budget = item.planned.sizing.budget if item.planned.sizing else None
    cards = max(item.slot.count, item.planned.claim.count if item.planned.claim else 0)
    wishes: list[tuple[str | None, object]] = [
        (flags.tensor_parallel, component.tensor_parallel if cards > 1 or component.tensor_parallel > 1 else None),
        (flags.context, component.context),
        (flags.concurrency, component.concurrency if component.given("concurrency") else None),
        (flags.batch_tokens, component.max_batch_tokens),
        (flags.dtype, component.dtype if component.given("dtype") else None),
        # Where the engine was sized, the sum says what it must be told: mostly nothing, since the checkpoint knows.
        (flags.quantization, component.quantization if component.given("quantization") and not _sized(item) else None),
        (flags.kv_dtype, component.kv_cache_dtype if component.given("kv_cache_dtype") else None),
        (flags.utilization, budget.gpu_memory_utilization if budget else None),
        (flags.kv_bytes, budget.kv_cache_memory_bytes if budget else None),
    ]
    made: list[str] = []
    for flag, value in wishes:
        if flag is not None and value not in (None, "none", "auto"):
            made += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return made


def _sized(item: Item) -> tuple[str, ...]:
    return item.planned.sizing.engine_args if item.planned.sizing else ()


def without(arguments: Sequence[str], others: Sequence[str]) -> list[str]:
    """The arguments, less each flag (and its values) that also stands in `others`."""
    given = {text.partition("=")[0] for text in others if text.startswith("--")}
    kept: list[str] = []
    skipping = False
    for text in arguments:
        if text.startswith("--"):
            skipping = text.partition("=")[0] in given
        if not skipping:
            kept.append(text)
    return kept
