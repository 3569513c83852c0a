"""What carrying out a procedure is told, says on the way, and gives in the end. Data only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ragstow.errors import RagstowError


@dataclass(frozen=True, slots=True)
class Options:
    """How to carry out.

    `timeout_seconds` is for each wait in the place of its own; `force_conflicts` takes fields over from other managers;
    `helm` are the global flags that point `helm` at the same cluster; `delete_claims` lets an undo delete the claims of
    StatefulSets with their data; `typed` are the user's flags that choose the cluster, for the commands in hints;
    `lease_seconds` is how long a run that died keeps others out. `disturb` ("namespace/name") are
    pods of others that an undo may evict from nodes that it turns back; any other pod there ends it.
    """

    timeout_seconds: float | None = None
    force_conflicts: bool = False
    helm: tuple[str, ...] = ()
    delete_claims: bool = False
    typed: str = ""
    lease_seconds: int = 30
    disturb: tuple[str, ...] = ()
    unschedulable_seconds: float = 120.0
    """How long a pod may find no node before the run stops: nodes and autoscalers need a moment."""
    poll_seconds: float = 5.0
    """How often pods are looked at while a workload is waited for."""


Phase = Literal["start", "wait", "done", "note"]


@dataclass(frozen=True, slots=True)
class Step:
    """One report of progress: action `number` of `total` starts, waits (`text` says for what) or is done.

    `text` of `done` is "already so" where nothing was changed. A `note` has a text and no action.
    """

    phase: Phase
    number: int
    total: int
    title: str
    text: str = ""


Progress = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `applied`, `unchanged` (all was so before; no record is kept) or `undone`."""

    state: Literal["applied", "unchanged", "undone"]
    record: str
    """Namespace and name of the ConfigMap that an undo starts from; "" where there is none any more."""
    changed: int
    notes: tuple[str, ...] = ()
    """What a person should know or do: what was kept, what must be undone by hand."""


class ApplyStopped(RagstowError):
    """The run stopped at an action and went no further; the next run or an undo goes on from its record."""

    exit_code = 1


class Interrupted(RagstowError):
    """Ctrl-C; the next run or an undo goes on from the record."""

    exit_code = 130
