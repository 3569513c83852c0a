"""Label selectors and node selectors, compiled once and matched often.

Semantics: k8s.io/apimachinery pkg/labels/selector.go, pkg/apis/meta/v1/helpers.go (LabelSelectorAsSelector) and
k8s.io/component-helpers scheduling/corev1/nodeaffinity. A selector that the API server would have refused matches nothing.
Selectors are values: equal ones compare equal and can be keys of caches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragstow.cluster.objects import Node

Labels = Mapping[str, str]

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement; `values` are sorted. Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether labels meet it; NotIn and DoesNotExist are met by an absent key."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        found, limit = parse_integer(value), parse_integer(self.values[0])
        if found is None or limit is None:
            return False
        return found > limit if self.operator == "Gt" else found < limit


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction of requirements; `nothing` matches no object at all (an absent selector)."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def empty(self) -> bool:
        """Selects everything: no requirement and not `nothing`."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Labels) -> bool:
        """Whether all requirements are met."""
        if self.nothing:
            return False
        for requirement in self.requirements:
            if requirement.operator == "In" and len(requirement.values) == 1:
                if labels.get(requirement.key) != requirement.values[0]:
                    return False
            elif not requirement.matches(labels):
                return False
        return True

    def plus(self, labels: Labels) -> Selector:
        """This selector and exact matches for `labels` (an absent selector becomes just those)."""
        return Selector(_sorted([*exact(labels).requirements, *self.requirements]))


NOTHING = Selector(nothing=True)
EVERYTHING = Selector()


def exact(labels: Labels) -> Selector:
    """The selector of a plain map: every key with this value."""
    return Selector(_sorted(Requirement(key, "In", (value,)) for key, value in labels.items()))


def both(one: Selector, other: Selector) -> Selector:
    """The conjunction; requirements of `nothing` are none (labels.Selector.Requirements)."""
    return Selector(_sorted([*one.requirements, *other.requirements]), one.nothing)


def label_selector(raw: Mapping[str, Any] | None) -> Selector:
    """A metav1.LabelSelector: absent selects nothing, empty selects everything."""
    if raw is None:
        return NOTHING
    found = [Requirement(str(key), "In", (str(value),)) for key, value in (raw.get("matchLabels") or {}).items()]
    for item in raw.get("matchExpressions") or ():
        made = _requirement(item, ("In", "NotIn", "Exists", "DoesNotExist"))
        if made is None:
            return NOTHING
        found.append(made)
    return Selector(_sorted(found))


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One node selector term: expressions over labels and over fields, all of them; `broken` matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    broken: bool = False

    def matches(self, node: Node) -> bool:
        """Whether the node meets every expression and field."""
        if self.broken:
            return False
        for requirement in self.expressions:
            if not requirement.matches(node.labels):
                return False
        return all(requirement.matches({"metadata.name": node.name}) for requirement in self.fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Alternatives: a node that meets any term is selected; no term selects none."""

    terms: tuple[NodeTerm, ...]

    def matches(self, node: Node) -> bool:
        """Whether any term is met."""
        return any(term.matches(node) for term in self.terms)


def node_term(raw: Mapping[str, Any]) -> NodeTerm | None:
    """One term; None for an empty one, which selects no node."""
    expressions, fields = raw.get("matchExpressions") or (), raw.get("matchFields") or ()
    if not expressions and not fields:
        return None
    made = [_requirement(item, ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")) for item in expressions]
    over = [_requirement(item, ("In", "NotIn")) for item in fields]
    broken = any(item is None for item in made) or any(item is None or len(item.values) != 1 for item in over)
    return NodeTerm(tuple(item for item in made if item is not None), tuple(item for item in over if item is not None), broken)


def node_selector(raw_terms: Iterable[Mapping[str, Any]]) -> NodeSelector:
    """A v1.NodeSelector's terms."""
    return NodeSelector(tuple(term for raw in raw_terms if (term := node_term(raw)) is not None))


@lru_cache(maxsize=65536)
def parse_integer(text: str | None) -> int | None:
    """strconv.ParseInt of a label value, or None."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


def _requirement(raw: Mapping[str, Any], allowed: tuple[str, ...]) -> Requirement | None:
    key, operator = str(raw.get("key") or ""), str(raw.get("operator") or "")
    values = tuple(sorted({str(value) for value in raw.get("values") or ()}))
    if operator not in allowed or not key:
        return None
    if operator in ("In", "NotIn"):
        return Requirement(key, operator, values) if values else None
    if operator in ("Exists", "DoesNotExist"):
        return None if values else Requirement(key, operator)
    if len(values) != 1 or parse_integer(values[0]) is None:
        return None
    return Requirement(key, operator, values)


def _sorted(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda item: (item.key, item.operator, item.values)))
