"""What the API server fills in before the scheduler sees a pod: only the fields that decide where it goes.

Sources: pkg/apis/core/v1/defaults.go (SetDefaults_Pod, SetDefaults_PodSpec, pod-level resources of KEP-2837),
pkg/registry/core/pod/strategy.go (matchLabelKeys, KEP-3633), plugin/pkg/admission/defaulttolerationseconds. Nothing here looks
at the cluster; what depends on it is `admission`'s.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ragstow import quantity
from ragstow.cluster.defaults import requests_from_limits

Json = dict[str, Any]

_TOLERATED_SECONDS = 300
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_POD_LEVEL_SINCE = (1, 34)


def is_new(raw: Mapping[str, Any]) -> bool:
    """Whether an object was written by a person rather than saved from an API server.

    Saved objects have a uid, a version or a time; a pod's numeric priority is filled in by the server too (people write the
    class).
    """
    meta = raw.get("metadata") or {}
    if any(meta.get(key) for key in ("uid", "resourceVersion", "creationTimestamp")):
        return False
    return not (raw.get("kind") == "Pod" and isinstance((raw.get("spec") or {}).get("priority"), int))


def with_defaults(raw: Mapping[str, Any], numbers: tuple[int, ...] = _POD_LEVEL_SINCE) -> Json:
    """A copy of a pod with the API server's defaults.

    Args:
        raw: the pod as written.
        numbers: the release, such as (1, 34, 1): since 1.34 pod-level resources are filled in.
    """
    pod: Json = copy.deepcopy(dict(raw))
    meta: Json = pod.setdefault("metadata", {})
    meta.setdefault("namespace", "default")
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"]  # what the server appends is chance
    spec: Json = pod.setdefault("spec", {})
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    _requests(spec)
    if tuple(numbers[:2]) >= _POD_LEVEL_SINCE:
        _pod_level(spec)
    if spec.get("hostNetwork") is True:
        _host_ports(spec)
    _merge_label_keys(spec, meta.get("labels") or {})
    _tolerations(spec)
    return pod


def with_requests(raw: Mapping[str, Any], numbers: tuple[int, ...] = _POD_LEVEL_SINCE) -> Json:
    """A copy of a pod that runs already, with the requests that its limits make; all else is as it is."""
    pod: Json = copy.deepcopy(dict(raw))
    spec: Json = pod.get("spec") or {}
    _requests(spec)
    if tuple(numbers[:2]) >= _POD_LEVEL_SINCE:
        _pod_level(spec)
    return pod


def _containers(spec: Json) -> list[Json]:
    return [item for key in ("initContainers", "containers") for item in spec.get(key) or () if isinstance(item, dict)]


def _requests(spec: Json) -> None:
    """A limit without a request is the request too."""
    for key in ("initContainers", "containers"):
        if spec.get(key):
            spec[key] = [requests_from_limits(item) for item in spec[key]]


def _pod_level(spec: Json) -> None:
    """Pod-level limits make pod-level requests: the containers' sum where they ask, else the limit."""
    resources = spec.get("resources")
    if not resources or not resources.get("limits"):
        return
    requests: Json = dict(resources.get("requests") or {})
    for name, limit in resources["limits"].items():
        if name in requests or not (name in ("cpu", "memory") or str(name).startswith("hugepages-")):
            continue
        total = _sum(spec, name) if name in ("cpu", "memory") else 0
        requests[name] = str(quantity.Quantity(total, quantity.parse(limit).format)) if total else limit
    for name in ("cpu", "memory"):
        if name not in requests and (total := _sum(spec, name)):
            requests[name] = str(quantity.Quantity(total))
    resources["requests"] = requests


def _sum(spec: Json, name: str) -> int:
    """The containers' effective request in nano units (AggregateContainerRequests)."""

    def asked(container: Json) -> int:
        written = ((container.get("resources") or {}).get("requests") or {}).get(name)
        return quantity.parse(written).nano if written is not None else 0

    running = sum(asked(container) for container in spec.get("containers") or ())
    sidecars = peak = 0
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars += asked(container)
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + asked(container))
    return max(running + sidecars, peak)


def _host_ports(spec: Json) -> None:
    for container in _containers(spec):
        for port in container.get("ports") or ():
            if not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort")


def _merge_label_keys(spec: Json, labels: Mapping[str, str]) -> None:
    """matchLabelKeys and mismatchLabelKeys of (anti-)affinity terms become part of the selector when the pod is created."""
    affinity = spec.get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        for kind in ("required", "preferred"):
            for item in (affinity.get(side) or {}).get(f"{kind}DuringSchedulingIgnoredDuringExecution") or ():
                term = item.get("podAffinityTerm") if kind == "preferred" else item
                if not isinstance(term, dict) or term.get("labelSelector") is None:
                    continue
                for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
                    for key in term.get(field) or ():
                        if key in labels:
                            term["labelSelector"].setdefault("matchExpressions", []).append(
                                {"key": key, "operator": operator, "values": [labels[key]]}
                            )


def _tolerations(spec: Json) -> None:
    """Every pod tolerates a node that is not ready or unreachable for five minutes, unless it says otherwise."""
    written = spec.get("tolerations") or []
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
        for key in _TOLERATED
        if not any(_covers(item, key) for item in written)
    ]
    if added:
        spec["tolerations"] = [*written, *added]


def _covers(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")
