"""From the cluster options to what every command starts with: snapshot, facts, inventory, release. Warnings go to stderr."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstow.cli import live
from ragstow.cli.output import note
from ragstow.cluster.read import read
from ragstow.cluster.release import Release, detect
from ragstow.cluster.snapshot import Problem, Snapshot
from ragstow.errors import InputError, Place, UsageError
from ragstow.facts import Facts, load
from ragstow.inventory.assume import parse
from ragstow.inventory.build import inventory
from ragstow.inventory.model import Inventory
from ragstow.scheduling.behaviours import NEWEST

_SHOWN_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a command works on. `facts` are those of the run, a user's folder laid over ours."""

    snapshot: Snapshot
    inventory: Inventory
    release: Release
    facts: Facts


def open_cluster(
    from_: str | None,
    *,
    facts: str | None = None,
    assumed: Sequence[str] = (),
    release: str | None = None,
    quiet: bool = False,
    as_listed: bool = False,
    scheduling: bool = False,
    nodeless: bool = False,
) -> Cluster:
    """Read the cluster that the options name, saved or live, and say on stderr what could not be used of it.

    Args:
        from_: --from; without it the live cluster.
        facts: --facts.
        assumed: --assume, as typed.
        release: --release.
        quiet: say nothing (for commands that report problems themselves).
        as_listed: keep the order in which objects are listed.
        scheduling: the answer is about what the scheduler will do, so that whatever it looks at must be readable.
        nodeless: go on without any node: a report may hold only pods, events or logs.

    Raises:
        UsageError: no cluster is named, or an option is wrong.
        InputError: the saved cluster cannot be read, or has no node.
        ClusterError: the live cluster cannot be reached, or a right is missing.
    """
    known = load(Path(facts) if facts is not None else None)
    if from_ is None:
        snapshot = live.snapshot(("cards", "placement") if scheduling else ("cards",), as_listed=as_listed)
    elif flags := live.given():
        raise UsageError("two-clusters", f"--from names a saved cluster, {flags[0]} a live one", hint="give one of them")
    else:
        snapshot = read(from_, stdin=sys.stdin.buffer if from_ == "-" else None, as_listed=as_listed)
    gc.freeze()  # the snapshot lives as long as the process: the collector need not go through it again and again
    if not quiet:
        warn(snapshot.problems)
    if not snapshot.nodes and not (nodeless and from_ is not None):
        raise InputError(
            "no-nodes",
            f"{sum(map(len, snapshot.objects.values()))} objects, but no Node among them",
            place=Place(from_ or f"context {snapshot.source.location}"),
            hint="add the output of: kubectl get nodes -o json" if from_ else "",
        )
    found = inventory(snapshot, known, assumed=parse(assumed, snapshot, known))
    return Cluster(snapshot, found, detect(snapshot, newest_recorded=str(NEWEST), asked=release), known)


def warn(problems: Sequence[Problem]) -> None:
    """What could not be used, the first few in full and the number of the rest."""
    for problem in problems[:_SHOWN_PROBLEMS]:
        place = f"{problem.place}: " if str(problem.place) else ""
        hint = f" ({problem.hint})" if problem.hint else ""
        note(f"warning: {place}{problem.message}{hint}")
    if len(problems) > _SHOWN_PROBLEMS:
        note(f"warning: and {len(problems) - _SHOWN_PROBLEMS} more of this kind")
