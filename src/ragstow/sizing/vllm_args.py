"""The arguments that make vLLM take what was summed. Names come from the serving facts, values from the sum."""

from __future__ import annotations

from ragstow.facts import Facts
from ragstow.sizing.model import Budget, Slot
from ragstow.sizing.resolve import Resolved

_BF16_FROM = (8, 0)
_POOLING_ROLES = ("embedder", "reranker")


def arguments(
    case: Resolved, slot: Slot, facts: Facts, budget: Budget, share: float, sequences: int, batch_tokens: int
) -> tuple[str, ...]:
    """Flags and values, in a fixed order.

    With pinned cache bytes the fraction is given too: vLLM ignores it for the cache, but checks at start that so much of the
    card is free, and its default would refuse a card that a neighbour already uses.
    """
    serving = facts.serving.get(case.engine.name)
    if serving is None:
        return ()
    flags = serving.flags
    listed: list[tuple[str | None, str]] = [
        (flags.context, str(case.context)),
        (flags.concurrency, str(sequences)),
        (flags.batch_tokens, str(max(batch_tokens, sequences))),
    ]
    if case.cards > 1:
        listed.append((flags.tensor_parallel, str(case.cards)))
    if budget.kv_cache_memory_bytes is not None:
        listed.append((flags.kv_bytes, str(budget.kv_cache_memory_bytes)))
    listed.append((flags.utilization, f"{share:.3f}".removesuffix("0")))
    if slot.compute_capability is not None and slot.compute_capability < _BF16_FROM and case.dtype == "bfloat16":
        listed.append((flags.dtype, "float16"))
    elif case.component.given("dtype"):
        listed.append((flags.dtype, case.dtype))
    own = case.model.quantization or "none"
    if case.scheme.flag is not None and case.scheme.name != own:
        listed.append((flags.quantization, case.scheme.flag))
    if case.kv_dtype.flag is not None:
        listed.append((flags.kv_dtype, case.kv_dtype.flag))
    found = [part for flag, value in listed if flag is not None for part in (flag, value)]
    if case.component.role in _POOLING_ROLES:
        found += ["--runner", "pooling"]
    return tuple(found)
