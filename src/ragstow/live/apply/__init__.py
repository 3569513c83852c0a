"""Carries a procedure out on a live cluster, so that it can be interrupted, gone on with, and taken back.

    run(client, procedure, plan=..., options=Options(...), progress=...) -> Outcome
    resume(client, service, namespace, ...)      finish an interrupted run from its record alone
    undo(client, service, namespace, ...)        take the last run back
    last(client, service, namespace)             its record
    leftovers, with_leftovers                    objects of an earlier plan, deleted by the same run
    needs_helm, needs_person                     what `run` would refuse, for asking before

What an action is stands in `ragstow.render.actions`; nothing here plans, asks a person or prints.
"""

from ragstow.live.apply.engine import last, resume, run, undo
from ragstow.live.apply.model import ApplyStopped, Interrupted, Options, Outcome, Progress, Step
from ragstow.live.apply.prepare import leftovers, needs_helm, needs_person, with_leftovers
from ragstow.live.apply.record import Record

__all__ = [
    "ApplyStopped",
    "Interrupted",
    "Options",
    "Outcome",
    "Progress",
    "Record",
    "Step",
    "last",
    "leftovers",
    "needs_helm",
    "needs_person",
    "resume",
    "run",
    "undo",
    "with_leftovers",
]
