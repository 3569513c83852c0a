"""Adds to a finding what every finding has and no rule must gather itself: since when, what changed just before, and, among its
objects, the pods that it holds."""

from __future__ import annotations

from dataclasses import replace

from ragstow.rules.context import Context
from ragstow.rules.model import Finding, ObjectRef


def complete(context: Context, finding: Finding) -> Finding:
    """The finding with its held pods, `since` (theirs, where the rule knows no better) and `changed`; those that follow too."""
    since = finding.since or _since(context, finding)
    moment = since or context.now
    changed = context.changes.before(finding.objects, moment) if moment else ()
    # What a rule says itself is told by the data's own record of the rollout, with its time, where there is one.
    return replace(
        finding,
        objects=tuple(dict.fromkeys((*finding.objects, *map(_pod, finding.held)))),
        since=since,
        changed=changed or finding.changed,
        follows=tuple(complete(context, other) for other in finding.follows),
    )


def _pod(key: str) -> ObjectRef:
    namespace, _, name = key.partition("/")
    return ObjectRef("Pod", namespace, name)


def _since(context: Context, finding: Finding) -> str | None:
    states = (context.states.of(pod) for pod in finding.held)
    return min((state.since for state in states if state is not None and state.since), default=None)
