"""YAML as kubectl reads it: the table of differences between parsers, and what people really feed a tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstow import kubeyaml
from ragstow.errors import InputError

SCALARS: list[tuple[str, Any]] = [
    # what kubectl makes of it (go-yaml v2 through sigs.k8s.io/yaml)
    ("on", True), ("yes", True), ("y", True), ("Y", True), ("True", True), ("ON", True),
    ("off", False), ("no", False), ("n", False), ("False", False),
    ("yEs", "yEs"), ("oN", "oN"),
    ("0777", 511), ("0o777", 511), ("-0777", -511), ("08", 8), ("0x1F", 31), ("0b11", 3), ("1_000", 1000), ("+1", 1),
    ("0o8", "0o8"), ("0xZZ", "0xZZ"), ("0x_", "0x_"), ("0b", "0b"), ("._", "._"), ("_1", "_1"), ("0x_1F", 31),
    ("1:30", "1:30"), ("190:20:30", "190:20:30"),
    ("2026-11-01", "2026-11-01"), ("2026-11-01T10:00:00Z", "2026-11-01T10:00:00Z"),
    ("1e3", 1000), ("1.5", 1.5), (".5", 0.5), ("1.", 1), ("1e-2", 0.01), ("1e400", "1e400"), ("1_000.5", 1000.5),
    ("12345678901234567890123", 1.2345678901234568e22), ("18446744073709551615", 18446744073709551615),
    ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nULL", "nULL"),
    ("1.2.3", "1.2.3"), ("1Gi", "1Gi"), ("'1'", "1"), ('"on"', "on"), ("v1.37.2", "v1.37.2"), ("1e3Ki", "1e3Ki"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), SCALARS)
def test_scalars(written: str, meant: object) -> None:
    value = kubeyaml.load_all(f"key: {written}\nother: x\n")[0].value["key"]
    assert value == meant
    assert type(value) is type(meant)


def test_keys_become_texts() -> None:
    value = kubeyaml.load_all("on: a\n1: b\n1e3: c\n0777: d\n")[0].value
    assert value == {"true": "a", "1": "b", "1000": "c", "511": "d"}


def test_merge_keys() -> None:
    text = "base: &b {v: 1, w: 2}\nmade:\n  <<: *b\n  w: 3\n"
    document = kubeyaml.load_all(text)[0]
    assert document.value["made"] == {"v": 1, "w": 3}
    assert not document.warnings


def test_a_key_twice_keeps_the_last_and_is_told() -> None:
    document = kubeyaml.load_all("a: 1\nb:\n  c: 1\n  c: 2\n")[0]
    assert document.value["b"] == {"c": 2}
    assert document.warnings == ("line 4: key 'c' again (first on line 3); the last one counts",)


def test_documents_with_their_lines() -> None:
    documents = kubeyaml.load_all("---\na: 1\n---\n# nothing\n---\nb: 2\n...\n---\nc: 3\n")
    assert [(document.value, document.line) for document in documents] == [({"a": 1}, 2), ({"b": 2}, 6), ({"c": 3}, 9)]


def test_lines_of_keys_and_items() -> None:
    document = kubeyaml.load_all("a:\n- x: 1\n- y: 2\n", lines=True)[0]
    assert document.lines[("a", 1, "y")] == 3


def test_json_is_read_as_json() -> None:
    assert kubeyaml.load_all('{"a": "on", "b": 1e3, "t": "2026-11-01"}')[0].value == {"a": "on", "b": 1000.0, "t": "2026-11-01"}


def test_json_values_one_after_the_other() -> None:
    documents = kubeyaml.load_all('{"a": 1}\n\n{"b":\n 2}\n{"c": 3}\n')
    assert [(document.value, document.line) for document in documents] == [({"a": 1}, 1), ({"b": 2}, 3), ({"c": 3}, 5)]


def test_flow_style_yaml_is_no_json() -> None:
    assert kubeyaml.load_all("{a: on, b: [1, 2]}")[0].value == {"a": True, "b": [1, 2]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_editors_and_shells_write(encoding: str) -> None:
    assert kubeyaml.load_all("a: \u00e9\n".encode(encoding))[0].value == {"a": "\u00e9"}
    assert kubeyaml.load_all('{"a": "\u00e9"}'.encode(encoding))[0].value == {"a": "\u00e9"}


def test_tabs_are_named() -> None:
    with pytest.raises(InputError) as caught:
        kubeyaml.load_all("a:\n\tb: 1\n", file="x.yaml")
    assert (caught.value.place.file, caught.value.place.line) == ("x.yaml", 2)
    assert "tabs" in caught.value.hint


@pytest.mark.parametrize("size", [1, 40_000])
def test_json_that_was_cut_off(size: int) -> None:
    text = json.dumps({"items": [{"kind": "Pod", "n": i} for i in range(size)]}, indent=1)[:-3]
    with pytest.raises(InputError) as caught:
        kubeyaml.load_all(text, file="pods.json")
    assert "cut off" in caught.value.hint
    assert caught.value.place.line is not None


def test_no_text() -> None:
    with pytest.raises(InputError) as caught:
        kubeyaml.load_all(b"a: 1\nb: \xff\xfe\n", file="x")
    assert (caught.value.code, caught.value.place.line) == ("not-text", 2)


def test_nested_too_deeply() -> None:
    for text in ("[" * 100_000, "- " * 5_000 + "x"):
        with pytest.raises(InputError):
            kubeyaml.load_all(text)


def test_alias_bombs() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
    )
    with pytest.raises(InputError, match="multiply"):
        kubeyaml.load_all(bomb)
    with pytest.raises(InputError, match="refers to what contains it"):
        kubeyaml.load_all("a: &a [*a]\n")


def test_a_large_list_reads_the_same_in_pieces() -> None:
    item = "- kind: Pod\n  text: |\n    - not an item\n    items:\n  m: 1\n  m: 2\n  on: yes\n"
    text = "apiVersion: v1\nitems:\n" + "".join(item for _ in range(20_000)) + "kind: List\nmetadata:\n  x: 0777\n"
    assert len(text) > 1 << 20
    large = kubeyaml.load_all(text)[0]
    assert large.value["items"][19_999] == {"kind": "Pod", "text": "- not an item\nitems:\n", "m": 2, "true": True}
    assert (large.value["kind"], large.value["metadata"], len(large.value["items"])) == ("List", {"x": 511}, 20_000)
    assert large.warnings[0].startswith("line 8: key 'm' again (first on line 7)")
    assert large.warnings[1].startswith("line 15: key 'm' again (first on line 14)")
    with pytest.raises(InputError) as caught:
        kubeyaml.load_all(text + "---\nx: [\n")
    assert caught.value.place.line == 140_000 + 8


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("---\n", None),
        ("---\n---\na: 1\n", None),
        ("a: 1\n---\na: [\n", {"a": 1}),
        ("# nothing\n", None),
        ("{a: 1,}", {"a": 1}),
    ],
)
def test_the_first_document_alone(text: str, value: object) -> None:
    found = kubeyaml.first(text)
    assert (found.value if found is not None else None) == value


@pytest.mark.parametrize("text", ["a: [", "a: !!int abc", "a: !!float x", "a: !!bool maybe", "a: !!binary '?'"])
def test_what_is_no_yaml_is_told(text: str) -> None:
    with pytest.raises(InputError):
        kubeyaml.first(text)


def test_unknown_tags_are_passed_over() -> None:
    found = kubeyaml.first("a: !mine x\nb: !mine {c: 1}\nd: !mine [2]\ne: !!binary aGk=\nf: !!set {g}\n")
    assert found is not None
    assert found.value == {"a": "x", "b": {"c": 1}, "d": [2], "e": "hi", "f": {"g": None}}
