"""Pages of the fields of a RagService, from the document's own shapes."""

from __future__ import annotations

import json

from ragstow.cli.explain import Page
from ragstow.errors import InputError
from ragstow.spec import fields


def names() -> tuple[str, ...]:
    """Every path below spec."""
    return ("spec", *fields.all_paths())


def page(name: str) -> Page | None:
    """The page of a path; None where no field has it."""
    try:
        found = fields.page(name)
    except InputError:
        if name.startswith("spec."):
            raise
        return None
    example = found.example if isinstance(found.example, str) or found.example is None else json.dumps(found.example)
    says = {
        "meaning": found.meaning,
        "type": found.type,
        "default": "required" if found.required else found.default,
        "example": example,
        "fields": list(found.fields),
    }
    return Page("spec", found.path, says)


def summary(name: str) -> str:  # noqa: ARG001 - names say enough here
    """No line beside the names."""
    return ""
