"""The default normalisation of raw scores (framework/plugins/helper/normalize_score.go)."""

from __future__ import annotations

from ragstow.scheduling.framework import MAX_NODE_SCORE


def default_normalize(scores: list[int], *, reverse: bool = False) -> None:
    """Scale to 0..100 by the largest score, in place; `reverse` turns the scale round (all 100 if every score is 0)."""
    largest = max(scores, default=0)
    if largest <= 0:
        if reverse:
            scores[:] = [MAX_NODE_SCORE] * len(scores)
        return
    for i, score in enumerate(scores):
        scaled = MAX_NODE_SCORE * score // largest
        scores[i] = MAX_NODE_SCORE - scaled if reverse else scaled
