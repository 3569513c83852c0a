"""What a user sees of an error: place, sentence, hint; and the exit codes that scripts rely on."""

from __future__ import annotations

import pytest

from ragstow import errors
from ragstow.errors import InputError, InputErrors, Place, Reason


def test_a_place_reads_from_the_file_inwards() -> None:
    place = Place("a/nodes.yaml", 12, "Node gpu-1", "status.capacity")
    assert str(place) == "a/nodes.yaml:12, Node gpu-1, status.capacity"
    assert str(Place(line=3)) == "line 3"
    assert str(Place()) == ""


def test_an_error_says_where_what_and_what_to_do() -> None:
    error = InputError("x", "is wrong", place=Place("f", 1), hint="do this")
    assert str(error) == "f:1: is wrong\n  hint: do this"
    assert str(InputError("x", "is wrong")) == "is wrong"


def test_all_errors_at_once() -> None:
    both = InputErrors([InputError("a", "one"), InputError("b", "two", hint="h")])
    assert str(both) == "one\ntwo\n  hint: h"
    with pytest.raises(ValueError, match="at least one"):
        InputErrors([])


def test_a_reason_prints_with_its_hint() -> None:
    assert str(Reason("c", "no room", "add a card")) == "no room (add a card)"
    assert str(Reason("c", "no room")) == "no room"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("RagstowError", 70),
        ("UsageError", 2),
        ("InputError", 2),
        ("InputErrors", 2),
        ("FactsError", 2),
        ("ClusterError", 3),
        ("TimeoutReached", 4),
    ],
)
def test_exit_codes(kind: str, code: int) -> None:
    assert getattr(errors, kind).exit_code == code
