"""LimitRange: defaults for containers, and what is too small or too large (plugin/pkg/admission/limitranger)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow import quantity
from ragstow.cluster.objects import KubeObject

Json = dict[str, Any]


def apply_defaults(pod: Json, ranges: list[KubeObject]) -> None:
    """Fill in the requests and limits that a namespace's LimitRanges give to containers, in place."""
    for item in _items(ranges, "Container"):
        requests, limits = _container_defaults(item)
        for key in ("initContainers", "containers"):
            for container in (pod.get("spec") or {}).get(key) or ():
                resources = container.setdefault("resources", {})
                for side, values in (("limits", limits), ("requests", requests)):
                    if values:
                        resources[side] = {**values, **(resources.get(side) or {})}


def refusals(pod: Json, ranges: list[KubeObject]) -> list[str]:
    """The texts with which LimitRanges refuse the pod."""
    found: list[str] = []
    spec = pod.get("spec") or {}
    containers = [item for key in ("initContainers", "containers") for item in spec.get(key) or ()]
    for item in _items(ranges, "Container"):
        for container in containers:
            resources = container.get("resources") or {}
            found += _bounds("Container", item, resources.get("requests") or {}, resources.get("limits") or {})
    for item in _items(ranges, "Pod"):
        names = {name for side in ("max", "min", "maxLimitRequestRatio") for name in item.get(side) or ()}
        requests = _sums(spec, "requests", names)
        limits = _sums(spec, "limits", names)
        found += _bounds("Pod", item, *_whole(spec, requests, limits))
    return found


def _whole(spec: Mapping[str, Any], requests: Json, limits: Json) -> tuple[Json, Json]:
    """What the pod's own resources make of its containers' sums.

    Where every container has a limit, the whole pod's is at least what it requests.
    """
    level = spec.get("resources") or {}
    asked, most = level.get("requests") or {}, level.get("limits") or {}
    containers = [item for key in ("initContainers", "containers") for item in spec.get(key) or ()]
    given = {name for name in asked if all(name in ((item.get("resources") or {}).get("limits") or {}) for item in containers)}
    raised = {name: max(limits[name], amount, key=_nano) for name, amount in asked.items() if name in given & limits.keys()}
    return {**requests, **asked}, {**limits, **raised, **most}


def _items(ranges: list[KubeObject], kind: str) -> Iterator[Mapping[str, Any]]:
    for item in ranges:
        for limit in (item.raw.get("spec") or {}).get("limits") or ():
            if limit.get("type") == kind:
                yield limit


def _container_defaults(item: Mapping[str, Any]) -> tuple[Json, Json]:
    """Default requests and limits; what is not written follows from max, default and min (SetDefaults_LimitRangeItem)."""
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    return requests, limits


def _bounds(kind: str, item: Mapping[str, Any], requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[str]:
    for name, least in sorted((item.get("min") or {}).items()):
        if name not in requests:
            yield f"minimum {name} usage per {kind} is {least}.  No request is specified"
        elif _nano(requests[name]) < _nano(least):
            yield f"minimum {name} usage per {kind} is {least}, but request is {_text(requests[name])}"
    for name, most in sorted((item.get("max") or {}).items()):
        if name not in limits:
            yield f"maximum {name} usage per {kind} is {most}.  No limit is specified"
        elif _nano(limits[name]) > _nano(most):
            yield f"maximum {name} usage per {kind} is {most}, but limit is {_text(limits[name])}"
        elif name in requests and _nano(requests[name]) > _nano(most):
            yield f"maximum {name} usage per {kind} is {most}, but request is {_text(requests[name])}"
    for name, most in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        said = f"{name} max limit to request ratio per {kind} is {most}, but"
        request, limit = _nano(requests.get(name, 0)), _nano(limits.get(name, 0))
        if not request:
            yield f"{said} no request is specified or request is 0"
        elif not limit:
            yield f"{said} no limit is specified or limit is 0"
        elif limit * quantity.NANO > _nano(most) * request:
            yield f"{said} provided ratio is {limit / request:.6f}"


def _sums(spec: Mapping[str, Any], side: str, names: set[str]) -> Json:
    """Effective amounts of the pod, for names that some container gives."""
    total: Json = {}
    for name in sorted(names):
        running = sidecars = peak = 0
        seen = False
        for key in ("initContainers", "containers"):
            for container in spec.get(key) or ():
                written = ((container.get("resources") or {}).get(side) or {}).get(name)
                seen = seen or written is not None
                amount = _nano(written) if written is not None else 0
                if key == "containers":
                    running += amount
                elif container.get("restartPolicy") == "Always":
                    sidecars += amount
                    peak = max(peak, sidecars)
                else:
                    peak = max(peak, sidecars + amount)
        if seen:
            total[name] = str(quantity.Quantity(max(running + sidecars, peak)))
    return total


def _nano(amount: Any) -> int:
    return quantity.parse(amount).nano


def _text(amount: Any) -> str:
    return str(quantity.parse(amount))
