"""Differences of two versions of an object: paths, order, what is never shown."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragstow.live.preview.fields import changes, hidden, shown, unified


def paths(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    return [(item.path, item.before, item.after) for item in changes(before, after)]


def test_fields_are_named_as_kubectl_names_them() -> None:
    before = {
        "spec": {"replicas": 1, "template": {"containers": [{"name": "llm", "image": "a"}, {"name": "log", "image": "l"}]}}
    }
    after = {
        "spec": {"replicas": 2, "template": {"containers": [{"name": "log", "image": "l"}, {"name": "llm", "image": "b"}]}}
    }
    assert paths(before, after) == [
        (".spec.replicas", 1, 2),
        (".spec.template.containers[name=llm].image", "a", "b"),
        (".spec.template.containers", ["llm", "log"], ["log", "llm"]),
    ]


def test_new_and_gone_fields_have_no_other_side() -> None:
    assert paths({"a": 1, "labels": {"x/y": "1"}}, {"labels": {}, "b": [1]}) == [
        (".a", 1, None),
        (".labels['x/y']", "1", None),
        (".b", None, [1]),
    ]


def test_lists_without_names_change_as_a_whole() -> None:
    assert paths({"args": ["a", "b"]}, {"args": ["a"]}) == [(".args", ["a", "b"], ["a"])]


def test_what_the_server_keeps_is_left_out() -> None:
    item = {
        "kind": "Deployment",
        "metadata": {
            "name": "x",
            "uid": "1",
            "resourceVersion": "2",
            "generation": 3,
            "creationTimestamp": "now",
            "managedFields": [{}],
            "annotations": {"ragstow.dev/plan": "abc", "deployment.kubernetes.io/revision": "1"},
        },
        "spec": {"replicas": 1},
        "status": {"ready": 1},
    }
    assert shown(item) == {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"replicas": 1}}
    assert shown(None) is None


def test_a_secret_shows_only_that_a_value_changes() -> None:
    old = {"kind": "Secret", "data": {"a": "w-one", "b": "w-two"}}
    new = {"kind": "Secret", "data": {"a": "w-one", "b": "w-three", "c": "w-four"}, "stringData": {"d": "w-five"}}
    before, after = hidden(old, new)
    found = [*map(str, changes(before, after)), *unified(before, after, "Secret rag/x")]
    assert not any("w-" in line for line in found)
    assert [item.path for item in changes(before, after)] == [".data.b", ".data.c", ".stringData"]


def test_a_unified_diff_shows_only_what_differs_whatever_the_order_of_keys() -> None:
    before = {"kind": "X", "spec": {"b": 1, "a": 2, "c": {"z": 1, "x": 2}}}
    after = {"spec": {"c": {"x": 2, "z": 5}, "a": 2, "b": 1}, "kind": "X"}
    assert unified(before, after, "X n") == [
        "--- live/X n",
        "+++ applied/X n",
        "@@ -3,5 +3,5 @@",
        "   b: 1",
        "   a: 2",
        "   c:",
        "-    z: 1",
        "+    z: 5",
        "     x: 2",
    ]
    assert unified(before, before, "X n") == []
    assert unified(None, {"kind": "X"}, "X n")[0:2] == ["--- /dev/null", "+++ applied/X n"]


values = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "key", "x", "y/z"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values, values)
def test_there_is_a_change_exactly_where_there_is_a_difference(one: Any, other: Any) -> None:
    found = list(changes(one, other))
    assert (not found) == (one == other)
    assert found == list(changes(one, other))
