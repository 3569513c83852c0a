"""What the API server fills in of every pod that it stores, and a pod typed by hand may lack. Nothing else is changed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS = ("containers", "initContainers")


def requests_from_limits(container: Any) -> Any:
    """The container with every limit as a request where it names none (SetDefaults_Pod, pkg/apis/core/v1/defaults.go).

    Returns the same object where nothing is missing, else a copy; what has not the shape of a container comes back as it is.
    """
    asked = container.get("resources") if isinstance(container, Mapping) else None
    limits = asked.get("limits") if isinstance(asked, Mapping) else None
    if not isinstance(limits, Mapping) or not isinstance(asked, Mapping):
        return container
    requests = asked.get("requests")
    if requests is None:
        requests = {}
    if not isinstance(requests, Mapping) or all(name in requests for name in limits):
        return container
    return {**container, "resources": {**asked, "requests": {**limits, **requests}}}


def stored(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod as an API server would hold it, if it was in one (it has a uid or a status); else, and where nothing is missing,
    the same object: what a person is about to apply stays as written."""
    meta, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(spec, Mapping) or not (pod.get("status") or (isinstance(meta, Mapping) and meta.get("uid"))):
        return pod
    filled: dict[str, Any] = {}
    for key in _KINDS:
        items = spec.get(key)
        if isinstance(items, list):
            made = [requests_from_limits(item) for item in items]
            if any(new is not old for new, old in zip(made, items, strict=True)):
                filled[key] = made
    return {**pod, "spec": {**spec, **filled}} if filled else pod
