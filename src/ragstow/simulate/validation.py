"""What the API server refuses in a pod before anything else: no container, the rules for extended resources, in its own words.

Source: pkg/apis/core/validation (ValidateContainerResource..., validateExtendedResource). Only rules that people run into with
GPUs are here; a manifest that passes may still be refused for other reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow import quantity
from ragstow.cluster.objects import Pod
from ragstow.errors import InputError
from ragstow.scheduling.amounts import is_extended

_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
"""Of these a container's request may be smaller than its limit, but not larger."""


def refusals(pod: Pod) -> tuple[str, ...]:
    """Why the API server refuses the pod, as "field: text"; empty where it does not."""
    found: list[str] = []
    if not pod.spec.get("containers"):
        found.append("spec.containers: Required value")
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod.spec.get(field) or ()):
            if isinstance(container, Mapping):
                found += _container(f"spec.{field}[{index}].resources", container.get("resources") or {})
    return tuple(found)


def _container(field: str, resources: Mapping[str, Any]) -> Iterator[str]:
    requests: Mapping[str, Any] = resources.get("requests") or {}
    limits: Mapping[str, Any] = resources.get("limits") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if not is_extended(name):
                continue
            nano = _nano(amount)
            if nano is None or nano % quantity.NANO or nano < 0:
                yield f'{field}.{side}.{name}: Invalid value: "{amount}": must be an integer'
    for name, amount in requests.items():
        if not is_extended(name):
            if name in _OVERCOMMITTED and name in limits and (_nano(amount) or 0) > (_nano(limits[name]) or 0):
                asked, limit = quantity.parse(amount), quantity.parse(limits[name])
                yield f'{field}.requests: Invalid value: "{asked}": must be less than or equal to {name} limit of {limit}'
            continue
        if name not in limits:
            yield f"{field}.limits: Required value: Limit must be set for non overcommitable resources"
        elif _nano(amount) != _nano(limits[name]):
            yield f'{field}.requests: Invalid value: "{amount}": must be equal to {name} limit of {limits[name]}'


def _nano(amount: object) -> int | None:
    try:
        return quantity.parse(amount).nano  # type: ignore[arg-type]  # parse refuses what it does not take
    except InputError:
        return None
