"""Where a set of pods lands: the one question that the planner asks of the simulation.

It answers with a node for each pod (ties by name) and with the set of nodes that are possible for it over every way the
scheduler may break a tie. It changes nothing and prints nothing; what it had to assume stands in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason


@dataclass(frozen=True, slots=True)
class Placed:
    """One pod. `node` is None where it fits nowhere (then `message` is the event's text and `reasons` say why in words);
    `nodes` is the possible set in name order: every node that some order of breaking ties gives it."""

    pod: str
    node: str | None
    nodes: tuple[str, ...]
    message: str = ""
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Placing:
    """All pods in the order given. `complete` says that the possible sets are whole: every tie was followed within the
    budget; else they are what was seen, and a pod may also land elsewhere. `may_fail` names pods that some way of breaking
    ties leaves without a node although the answer by name places them."""

    pods: tuple[Placed, ...]
    complete: bool
    may_fail: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


def place(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    *,
    release: str | None = None,
    policy: Mapping[str, Any] | None = None,
    budget: int = 256,
) -> Placing:
    """Place `pods`, in the order given, into the cluster of `snapshot`, without preemption.

    Args:
        snapshot: the cluster; pods with a node in it hold what they ask for, other pods of it are left aside.
        pods: the arrivals, not part of the snapshot; API-server defaults are filled in here.
        release: Kubernetes release to decide as ("1.34" or "1.34.1"); default: the snapshot's.
        policy: a KubeSchedulerConfiguration document; default: the release's default profile.
        budget: how many ways of breaking ties are followed at most for the possible sets; 1 asks for the answer by name only.
    """
    raise NotImplementedError(f"the engine is not in place yet: {len(snapshot.nodes)} {len(pods)} {release} {policy} {budget}")
