"""What is printed is read back by kubectl's rules as exactly what was meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstow import kubeyaml
from ragstow.render import yamltext

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t"), max_size=30)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.none() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "text", ["on", "y", "0777", "0o17", "1e3", "1:30", "2026-11-01", "", "null", "~", "1_000", ".5", "=", "<<"]
)
def test_a_text_that_looks_like_something_else_stays_a_text(text: str) -> None:
    assert kubeyaml.load_all(yamltext.dump({"a": text}))[0].value == {"a": text}


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_round_trip(value: dict[str, Any]) -> None:
    assert kubeyaml.load_all(yamltext.dump(value))[0].value == value


def test_lines_become_a_literal_block_and_keys_keep_their_order() -> None:
    assert yamltext.dump({"b": "one\ntwo\n", "a": [{"x": "true"}]}) == 'b: |\n  one\n  two\na:\n  - x: "true"\n'


def test_a_stream_of_documents() -> None:
    text = yamltext.stream([{"a": 1}, {"a": 2}])
    assert [document.value for document in kubeyaml.load_all(text)] == [{"a": 1}, {"a": 2}]
