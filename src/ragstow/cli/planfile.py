"""A plan as a file: telling it from a service description, and writing it so that it can be read again."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragstow.errors import InputError, Place

NAME = "plan.json"
"""What `render` calls the plan in its folder."""


def find_plan(text: str, file: str | None) -> Mapping[str, Any] | None:
    """The document of kind Plan in a text; None where it is something else.

    Raises:
        InputError: the text cannot be read, or a plan stands there with other documents.
    """
    from ragstow import kubeyaml

    # A service is read by its own room, which names the line of every fault; here only the kind counts.
    if "Plan" not in text:
        return None
    values = [document.value for document in kubeyaml.load_all(text, file=file)]
    plans = [value for value in values if isinstance(value, dict) and value.get("kind") == "Plan"]
    if len(plans) > 1 or (plans and len(values) > 1):
        raise InputError("plan-many", "more than one document; one plan a file", place=Place(file))
    return plans[0] if plans else None


def read_text(source: str) -> str:
    """A file, or stdin for "-".

    Raises:
        InputError: it cannot be read or is no text.
    """
    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise InputError("unreadable", f"cannot be read: {error.strerror}", place=Place(source)) from None
    except UnicodeDecodeError:
        raise InputError("not-text", "this is not a text file", place=Place(source)) from None


def written(document: Mapping[str, Any]) -> str:
    """A plan document as a file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
