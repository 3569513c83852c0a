"""The `Apply` document: what was shown, what was done, how it ended (schema: apply.schema.json)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragstow.cli.applyview import View
from ragstow.cli.output import plain
from ragstow.errors import RagstowError
from ragstow.live.preview.fields import unified
from ragstow.live.preview.model import ObjectPreview
from ragstow.render.actions import Action

Json = dict[str, Any]


def shown(view: View) -> Json:
    """The part that is known before anything is done."""
    return {
        "service": view.service,
        "namespace": view.namespace,
        "cluster": view.cluster,
        "dryRun": view.dry_run or None,
        "digest": view.digest,
        "replanned": view.replanned,
        "resumed": view.resumed or None,
        "differences": plain(view.differences),
        "rendered": plain(view.rendered),
        "edited": plain(view.edited),
        "impact": {**plain(view.impact), "disturbed": plain(view.impact.disturbed)},
        "changes": [_change(item) for item in view.changes],
        "steps": _steps(view.steps),
        "problems": plain(view.problems),
        "notes": plain(view.notes),
    }


def ended(
    state: str, *, record: str = "", changed: int = 0, notes: Sequence[str] = (), error: RagstowError | None = None
) -> Json:
    """How it ended."""
    said = {"code": error.code, "message": str(error.message), "hint": error.hint} if error is not None else None
    return {"state": state, "record": record or None, "changed": changed, "told": list(notes), "error": said}


def _change(item: ObjectPreview) -> Json:
    return {
        "apiVersion": item.api_version,
        "kind": item.kind,
        "namespace": item.namespace or None,
        "name": item.name,
        "change": item.what,
        "anew": item.anew,
        "fields": plain(item.fields),
        "diff": "\n".join(unified(item.before, item.after, item.ref))
        if item.after is not None or item.before is not None
        else "",
        "conflicts": plain(item.conflicts),
        "warnings": plain(item.warnings),
        "problem": item.problem or None,
        "note": item.note or None,
    }


def _steps(steps: Sequence[Action]) -> list[Json]:
    return [{"number": number, "action": type(step).__name__, "title": step.title} for number, step in enumerate(steps, 1)]
