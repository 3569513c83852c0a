"""Label selectors and node selectors as the API machinery reads them."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.cluster.build import build, toleration
from ragstow.cluster.objects import Node, Taint
from ragstow.scheduling.selectors import EVERYTHING, NOTHING, label_selector, node_selector
from ragstow.scheduling.taints import first_untolerated


def a_node(**labels: str) -> Node:
    (made,) = build([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}}]).nodes
    return made


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("item", "matches"),
    [
        (expression("gen", "In", "1", "2"), True),
        (expression("gen", "NotIn", "2"), False),
        (expression("rack", "NotIn", "r1"), True),
        (expression("rack", "Exists"), False),
        (expression("rack", "DoesNotExist"), True),
        (expression("gen", "Gt", "1"), True),
        (expression("gen", "Gt", "2"), False),
        (expression("gen", "Lt", "3"), True),
        (expression("tier", "Gt", "1"), False),
        (expression("rack", "Lt", "1"), False),
        (expression("gen", "Gt", "one"), False),
        (expression("gen", "In"), False),
        (expression("gen", "Matches", "2"), False),
    ],
)
def test_node_expressions(item: dict[str, Any], matches: bool) -> None:
    assert node_selector([{"matchExpressions": [item]}]).matches(a_node(gen="2", tier="gold")) is matches


def test_terms_are_alternatives_and_empty_ones_select_nothing() -> None:
    node = a_node(gen="2")
    assert not node_selector([]).matches(node)
    assert not node_selector([{}, {"matchExpressions": []}]).matches(node)
    broken, good = expression("gen", "Gt", "x"), expression("gen", "In", "2")
    assert node_selector([{"matchExpressions": [broken]}, {"matchExpressions": [good]}]).matches(node)
    assert not node_selector([{"matchExpressions": [good, broken]}]).matches(node)


def test_fields_name_one_node_each() -> None:
    node = a_node()
    assert node_selector([{"matchFields": [expression("metadata.name", "In", "n1")]}]).matches(node)
    assert node_selector([{"matchFields": [expression("metadata.name", "NotIn", "n2")]}]).matches(node)
    assert not node_selector([{"matchFields": [expression("metadata.name", "In", "n1", "n2")]}]).matches(node)


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert label_selector(None) == NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.empty
    assert label_selector({}) == EVERYTHING
    assert EVERYTHING.matches({"a": "b"})
    assert EVERYTHING.empty
    assert label_selector({"matchLabels": {"a": "b"}, "matchExpressions": [expression("c", "Exists")]}).matches(
        {"a": "b", "c": ""}
    )


def test_equal_selectors_are_equal_whatever_the_order() -> None:
    one = label_selector({"matchLabels": {"a": "1", "b": "2"}})
    other = label_selector({"matchExpressions": [expression("b", "In", "2"), expression("a", "In", "1")]})
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("raw", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Gt", "value": "1"}, False),
        ({"value": "v"}, True),
    ],
)
def test_tolerations(raw: dict[str, Any], tolerates: bool) -> None:
    taints = [Taint("soft", "", "PreferNoSchedule"), Taint("k", "v", "NoSchedule")]
    assert (first_untolerated(taints, [toleration(raw)]) is None) is tolerates
