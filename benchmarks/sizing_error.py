"""Print the errors of the sums against public logs: python -m benchmarks.sizing_error (the figures of docs/sizing.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]


def main() -> None:
    """One line for each figure: what, number of logs, mean, median and largest absolute error, and which log that is."""
    import sizing_truth as truth
    from ragstow.facts import load

    runs = list(truth.runs(load()))
    subsets: list[tuple[str, Callable[[truth.Run], float | None], Callable[[truth.Run], bool]]] = [
        ("weights, text models", truth.weight_error, truth.is_text),
        ("weights, multimodal", truth.weight_error, lambda run: not truth.is_text(run)),
        ("tokens given cache bytes", truth.token_error, lambda _: True),
        ("cache bytes, text, vLLM >= 0.19", truth.kv_error, lambda run: truth.is_text(run) and truth.since(run, "0.19")),
        (
            "cache bytes, text, vLLM 0.8 to 0.18",
            truth.kv_error,
            lambda run: truth.is_text(run) and truth.since(run, "0.8") and not truth.since(run, "0.19"),
        ),
        ("cache bytes, text, vLLM <= 0.7", truth.kv_error, lambda run: truth.is_text(run) and not truth.since(run, "0.8")),
        ("cache bytes, multimodal", truth.kv_error, lambda run: not truth.is_text(run)),
    ]
    lines = ["| what | logs | mean | median | largest |", "|---|---|---|---|---|"]
    for name, measure, keep in subsets:
        found = sorted((abs(error), run.id) for run in runs if keep(run) and (error := measure(run)) is not None)
        if not found:
            continue
        values = [error for error, _ in found]
        mean, median, (most, worst) = sum(values) / len(values), values[len(values) // 2], found[-1]
        lines.append(f"| {name} | {len(found)} | {mean:.2%} | {median:.2%} | {most:.2%} ({worst}) |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
