"""The score of prioritised lists: the earlier the alternative that was taken, the better (KEP-4816).

Source: computeScore of pkg/scheduler/framework/plugins/dynamicresources. In 1.35 it looks up the i-th new allocation for the
i-th claim, and fails where a claim had been allocated before.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.scheduling.dra.model import MAX_ALTERNATIVES, Allocation, Claim


def of_node(claims: Sequence[Claim], allocations: Sequence[Allocation], scorer: str) -> int:
    """The raw score of a node.

    Args:
        claims: all claims of the pod in order.
        allocations: for those that had none, in order.
        scorer: "new" or "all", see `DraRules`.

    Raises:
        ValueError: there are fewer allocations than claims; the text is upstream's.
    """
    total = 0
    fresh = iter(allocations)
    for index, claim in enumerate(claims):
        if scorer == "new":
            if index >= len(allocations):
                raise ValueError(f"number of allocations {len(allocations)} is smaller than number of claims")
            allocation = allocations[index]
        else:
            allocation = claim.allocation if claim.allocation is not None else next(fresh)
        taken = {item.request for item in allocation.results}
        for request in claim.requests:
            for position, alternative in enumerate(request.alternatives):
                if f"{request.name}/{alternative.name}" in taken:
                    total += MAX_ALTERNATIVES - position
    return total
