"""Small readers of raw pod specs: containers, environment, volumes. Absent and broken parts read as empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Spec = Mapping[str, Any]


def mapping(value: object) -> Spec:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def containers(spec: Spec, key: str = "containers") -> list[Spec]:
    """The containers (or, with key "initContainers", those) of a pod spec."""
    return [mapping(item) for item in sequence(spec.get(key))]


def environment(container: Spec) -> dict[str, str]:
    """Literal environment variables of a container; those from ConfigMaps, Secrets and fields are left out."""
    return {
        str(item.get("name")): str(item.get("value"))
        for item in map(mapping, sequence(container.get("env")))
        if item.get("value") is not None
    }


def words(container: Spec, key: str) -> tuple[str, ...]:
    """command or args."""
    return tuple(str(word) for word in sequence(container.get(key)))


def volume(spec: Spec, name: str) -> Spec:
    """A volume of a pod spec by its name."""
    return next((item for item in map(mapping, sequence(spec.get("volumes"))) if item.get("name") == name), {})


def mounts(container: Spec) -> list[tuple[str, Spec]]:
    """(path without a slash at its end, mount) of a container."""
    return [
        (str(item.get("mountPath") or "").rstrip("/"), item) for item in map(mapping, sequence(container.get("volumeMounts")))
    ]


def config_map_name(found: Spec) -> str | None:
    """The ConfigMap behind a volume; None where it is of another kind."""
    name = mapping(found.get("configMap")).get("name")
    return name if isinstance(name, str) and name else None
