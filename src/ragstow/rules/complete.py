"""Adds to a finding what every finding has and no rule must gather itself: since when, and what changed just before."""

from __future__ import annotations

from dataclasses import replace

from ragstow.rules.context import Context
from ragstow.rules.model import Finding


def complete(context: Context, finding: Finding) -> Finding:
    """The finding with `since` (of its pods, where the rule knows no better) and `changed`; those that follow likewise."""
    since = finding.since or _since(context, finding)
    moment = since or context.now
    changed = context.changes.before(finding.objects, moment) if moment else ()
    # What a rule says itself is told by the data's own record of the rollout, with its time, where there is one.
    return replace(
        finding,
        since=since,
        changed=changed or finding.changed,
        follows=tuple(complete(context, other) for other in finding.follows),
    )


def _since(context: Context, finding: Finding) -> str | None:
    states = (context.states.of(pod) for pod in finding.held)
    return min((state.since for state in states if state is not None and state.since), default=None)
