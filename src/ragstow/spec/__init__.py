"""What is wanted: the RagService a user types, checked all at once, and the normalised service that everybody else reads.

    load(path, facts)           a file
    load_text(text, facts)      its content
    normalise(document, facts)  data, such as a plan's `spec`
    to_document(service)        back to a document that normalises to the same service

`model` holds the types and costs nothing to import; pydantic is loaded by the first of these calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragstow.facts import Facts
    from ragstow.spec.model import Service

__all__ = ["load", "load_text", "normalise", "to_document"]


def load(path: Path, facts: Facts) -> Service:
    """The service in a file.

    Raises:
        InputError: the file cannot be read or holds no RagService.
        InputErrors: everything that is wrong with the service, each with line, field and hint.
    """
    from ragstow.spec.normaliser import load as _load

    return _load(path, facts)


def load_text(text: str, facts: Facts, *, file: str | None = None, folder: Path | None = None) -> Service:
    """The service in a text.

    Args:
        text: YAML or JSON.
        facts: engines, models, defaults.
        file: its name, for messages.
        folder: where local models (`model: ./folder`) are looked for; None: they are refused.

    Raises:
        InputError, InputErrors: as `load`.
    """
    from ragstow.spec.normaliser import load_text as _load_text

    return _load_text(text, facts, file=file, folder=folder)


def normalise(document: Mapping[str, Any], facts: Facts) -> Service:
    """The service in a document that is data already.

    Raises:
        InputErrors: everything that is wrong with it.
    """
    from ragstow.spec.normaliser import normalise as _normalise

    return _normalise(document, facts)


def to_document(service: Service) -> dict[str, Any]:
    """The service as a document with every value written out; defaults stay marked as such."""
    from ragstow.spec.normaliser import to_document as _to_document

    return _to_document(service)
