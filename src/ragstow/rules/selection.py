"""What nodeSelector and required node affinity ask of a node's labels, key by key, in words; and which keys a node fails.

The scheduler decides; this only says in words why. Semantics: component-helpers nodeaffinity: terms are alternatives, the
expressions of a term and the nodeSelector must all hold.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import Node


def wanted_values(spec: Mapping[str, Any]) -> dict[str, str]:
    """Label key -> what is asked of it, in words (`key=A|B`, `key > 40000`), nodeSelector first; alternatives together."""
    allowed: dict[str, list[str]] = {}
    other: dict[str, str] = {}
    for key, value in _selector(spec).items():
        allowed.setdefault(key, []).append(value)
    for term in _terms(spec):
        for key, operator, values in _expressions(term):
            if operator == "In":
                allowed.setdefault(key, []).extend(values)
            else:
                other.setdefault(key, _words(key, operator, values))
    found = {key: f"{key}={'|'.join(dict.fromkeys(values))}" for key, values in allowed.items()}
    return {**found, **{key: text for key, text in other.items() if key not in found}}


def unmet(spec: Mapping[str, Any], node: Node) -> frozenset[str]:
    """Label keys for which the node fails; of alternatives the keys that fail in any, unless one alternative holds."""
    failed = {key for key, value in _selector(spec).items() if node.labels.get(key) != value}
    terms = list(_terms(spec))
    per_term = [
        {key for key, operator, values in _expressions(term) if not _holds(node.labels.get(key), operator, values)}
        for term in terms
    ]
    if per_term and all(per_term):
        failed.update(key for keys in per_term for key in keys)
    return frozenset(failed)


def indispensable(spec: Mapping[str, Any], present: Container[str]) -> tuple[str, ...]:
    """Label keys that must be there, whatever their value, and are not in `present`; of alternatives where each lacks one."""
    found = [key for key in _selector(spec) if key not in present]
    per_term = [
        [key for key, operator, _ in _expressions(term) if operator not in ("DoesNotExist", "NotIn") and key not in present]
        for term in _terms(spec)
    ]
    if per_term and all(per_term):
        found += [key for keys in per_term for key in keys]
    return tuple(dict.fromkeys(found))


def _selector(spec: Mapping[str, Any]) -> dict[str, str]:
    selector = spec.get("nodeSelector")
    return {str(key): str(value) for key, value in selector.items()} if isinstance(selector, Mapping) else {}


def _terms(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    affinity: Any = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    yield from (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()


def _expressions(term: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for item in term.get("matchExpressions") or ():
        yield str(item.get("key")), str(item.get("operator")), tuple(str(value) for value in item.get("values") or ())


def _holds(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    if operator in ("In", "NotIn"):
        return (value in values) is (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    if value is None or not values or not value.lstrip("-").isdecimal() or not values[0].lstrip("-").isdecimal():
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def _words(key: str, operator: str, values: tuple[str, ...]) -> str:
    signs = {"Gt": ">", "Lt": "<", "NotIn": "not in"}
    if operator in signs:
        return f"{key} {signs[operator]} {', '.join(values)}"
    return f"{key} {'present' if operator == 'Exists' else 'absent'}"


def allowed(spec: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Label key -> values that nodeSelector and `In` expressions allow, alternatives together."""
    found: dict[str, list[str]] = {key: [value] for key, value in _selector(spec).items()}
    for term in _terms(spec):
        for key, operator, values in _expressions(term):
            if operator == "In":
                found.setdefault(key, []).extend(values)
    return {key: tuple(dict.fromkeys(values)) for key, values in found.items()}
