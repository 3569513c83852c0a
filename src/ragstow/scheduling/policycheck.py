"""Whether a KubeSchedulerConfiguration document can be read at all: every mistake at once, with its field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.errors import InputError, Place

_VERSION = "kubescheduler.config.k8s.io/v1"
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def problems(document: Mapping[str, Any]) -> list[InputError]:
    """What is wrong with the document, in the order of its fields; empty where nothing is."""
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind != "KubeSchedulerConfiguration" or version != _VERSION:
        return [
            InputError(
                "policy-kind",
                f"expected a KubeSchedulerConfiguration of {_VERSION}, found {kind or 'none'} of {version or 'none'}",
                place=Place(field="kind"),
            )
        ]
    found = list(_percentage(document, ""))
    found += _each(document.get("extenders"), "extenders", _anything)
    names: set[str] = set()

    def profile(item: Mapping[str, Any], field: str) -> Iterator[InputError]:
        name = str(item.get("schedulerName") or "default-scheduler")
        if name in names:
            yield _wrong("policy-twice", f"two profiles are called {name}", f"{field}.schedulerName")
        names.add(name)
        yield from _percentage(item, f"{field}.")
        yield from _plugins(item.get("plugins"), f"{field}.plugins")
        yield from _each(item.get("pluginConfig"), f"{field}.pluginConfig", _arguments)

    found += _each(document.get("profiles"), "profiles", profile)
    return found


def _percentage(raw: Mapping[str, Any], prefix: str) -> Iterator[InputError]:
    value = raw.get("percentageOfNodesToScore")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 100):
        yield _wrong("policy-percentage", f"{value} is not a percentage from 0 to 100", f"{prefix}percentageOfNodesToScore")


def _plugins(value: Any, field: str) -> Iterator[InputError]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield _wrong("policy-shape", "plugins must be a mapping of extension points", field)
        return
    for point, lists in value.items():
        if lists is not None and not isinstance(lists, Mapping):
            yield _wrong("policy-shape", "an extension point must have the lists enabled and disabled", f"{field}.{point}")
            continue
        for which in ("enabled", "disabled"):
            yield from _each((lists or {}).get(which), f"{field}.{point}.{which}", _plugin)


def _plugin(item: Mapping[str, Any], field: str) -> Iterator[InputError]:
    if not isinstance(item.get("name"), str):
        yield _wrong("policy-shape", "a plugin must have a name", f"{field}.name")
    if item.get("weight") is not None and not isinstance(item["weight"], int):
        yield _wrong("policy-shape", "a weight must be a whole number", f"{field}.weight")


def _arguments(item: Mapping[str, Any], field: str) -> Iterator[InputError]:
    args = item.get("args")
    if args is not None and not isinstance(args, Mapping):
        yield _wrong("policy-shape", "args must be a mapping", f"{field}.args")
        return
    given = args or {}
    where = f"{field}.args"
    yield from _each(given.get("resources"), f"{where}.resources", _resource)
    yield from _each(given.get("defaultConstraints"), f"{where}.defaultConstraints", _anything)
    strategy = given.get("scoringStrategy")
    if strategy is None:
        return
    where = f"{where}.scoringStrategy"
    if not isinstance(strategy, Mapping):
        yield _wrong("policy-shape", "a scoring strategy must be a mapping", where)
        return
    kind = strategy.get("type") or "LeastAllocated"
    if kind not in _STRATEGIES:
        yield _wrong("policy-strategy", f"scoring strategy {kind} is not one of {', '.join(_STRATEGIES)}", f"{where}.type")
    yield from _each(strategy.get("resources"), f"{where}.resources", _resource)
    ratio = strategy.get("requestedToCapacityRatio")
    shape = ratio.get("shape") if isinstance(ratio, Mapping) else None
    if kind == "RequestedToCapacityRatio" and not shape:
        yield _wrong("policy-strategy", "RequestedToCapacityRatio needs a shape", f"{where}.requestedToCapacityRatio.shape")
    yield from _each(shape, f"{where}.requestedToCapacityRatio.shape", _point)


def _resource(item: Mapping[str, Any], field: str) -> Iterator[InputError]:
    if not isinstance(item.get("name"), str):
        yield _wrong("policy-shape", "a resource must have a name", f"{field}.name")
    if item.get("weight") is not None and not isinstance(item["weight"], int):
        yield _wrong("policy-shape", "a weight must be a whole number", f"{field}.weight")


def _point(item: Mapping[str, Any], field: str) -> Iterator[InputError]:
    for name, most in (("utilization", 100), ("score", 10)):
        value = item.get(name, 0)
        if not isinstance(value, int) or not 0 <= value <= most:
            yield _wrong("policy-shape", f"{name} must be a whole number from 0 to {most}", f"{field}.{name}")


def _anything(_item: Mapping[str, Any], _field: str) -> Iterator[InputError]:
    return iter(())


def _each(value: Any, field: str, check: Any) -> list[InputError]:
    """The problems of a list's items; of the list itself where it is none."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        return [_wrong("policy-shape", "must be a list", field)]
    found: list[InputError] = []
    for number, item in enumerate(value):
        at = f"{field}[{number}]"
        if isinstance(item, Mapping):
            found.extend(check(item, at))
        else:
            found.append(_wrong("policy-shape", "must be a mapping", at))
    return found


def _wrong(code: str, text: str, field: str) -> InputError:
    return InputError(code, text, place=Place(field=field))
