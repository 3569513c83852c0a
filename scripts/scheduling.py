"""Write docs/scheduling.md from the table of behaviours: python scripts/scheduling.py (a test fails while it is stale)."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scheduling.md"
sys.path.insert(0, str(ROOT / "src"))

HEAD = """# Which scheduler, exactly

`simulate`, `plan` and `diagnose` decide as kube-scheduler does: the same filters in the same order, the same integer scores,
ties as a set, the same victims, the same event text. Unmodified schedulers of the releases below were run on recorded clusters;
CI plays every recording and compares every field; none differs. Made by `scripts/scheduling.py`.

| recorded | what is in it |
|---|---|
| mix | taints, selectors, affinity, spreading, images, host ports, init containers, sidecars, overhead, pod-level resources |
| gpu | whole cards, shares and MIG slices as extended resources; three scoring strategies |
| dra | device classes, slices, claims, partitions, shareable devices, device taints, extended resources backed by classes |
| vol | zoned and local volumes, binding modes, capacity, limits, access modes |
| preempt, pdb | priorities, victims, disruption budgets |
| edge | namespaces, resizes in place, nominations, gates, declared features, terminating pods |
| samp | adaptive sampling on up to 420 nodes |
| openb | 8,152 pods onto 1,213 GPU nodes under three profiles |

A release between or beyond the recorded ones is decided by the same table; the answer's `assumptions` name the rules on which
its neighbours differ. A policy file (`--policy`) may change profiles, weights and arguments; extenders and plugins that are not
kube-scheduler's own are not simulated, and named. Equal nodes: kube-scheduler draws one at random, we report all of them and
take the lowest name or a repeatable draw. The search for victims starts at a random node in the original, at the first here;
it matters above 100 candidate nodes only.

## What changed with which release

"""


def text() -> str:
    """The whole page."""
    from ragstow.scheduling.behaviours import RECORDED, TABLE

    lines = [
        f"| rule | what | source | {' | '.join(str(release) for release in RECORDED)} |",
        "|---|---|---|" + "---|" * len(RECORDED),
    ]
    for behaviour in TABLE:
        cells = [_shown(behaviour.at(release)) for release in RECORDED]
        lines.append(f"| {behaviour.name} | {behaviour.what} | {behaviour.source} | {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n"


def _shown(value: bool | str) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
