"""A procedure as JSON and back, for the record of a run: a later ragstow must finish and undo what an earlier one began."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from collections.abc import Mapping
from typing import Any

from ragstow.errors import InputError
from ragstow.render import actions
from ragstow.render.actions import Action, Procedure

_KINDS: dict[str, type] = {kind.__name__: kind for kind in typing.get_args(Action)}
_VERSION = 1


def to_document(procedure: Procedure) -> dict[str, Any]:
    """The procedure as JSON values."""
    return {
        "version": _VERSION,
        "service": procedure.service,
        "namespace": procedure.namespace,
        "digest": procedure.digest,
        "configuration": procedure.configuration,
        "workloads": procedure.workloads,
        "actions": [{"action": type(action).__name__, **dataclasses.asdict(action)} for action in procedure.actions],
    }


def from_document(document: Mapping[str, Any]) -> Procedure:
    """The procedure of such a document.

    Raises:
        InputError: it was written by a ragstow that knows more.
    """
    if document.get("version") != _VERSION or any(row["action"] not in _KINDS for row in document["actions"]):
        raise InputError(
            "record-newer", "the record of the run was written by another version of ragstow", hint="use that version"
        )
    return Procedure(
        document["service"],
        document["namespace"],
        document["digest"],
        tuple(_action(row) for row in document["actions"]),
        document["configuration"],
        document["workloads"],
    )


def digest(procedure: Procedure) -> str:
    """SHA-256 of what the procedure does, in hexadecimal."""
    text = json.dumps(to_document(procedure), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _action(row: Mapping[str, Any]) -> Action:
    kind = _KINDS[row["action"]]
    hints = typing.get_type_hints(kind, vars(actions))
    values = {
        field.name: tuple(row[field.name]) if typing.get_origin(hints[field.name]) is tuple else row[field.name]
        for field in dataclasses.fields(kind)
        if field.name in row
    }
    made: Action = kind(**values)
    return made
