"""The Services of the service: do they exist, and do they lead to the pods that they should.

Reads Service and EndpointSlices; what is behind them is asked pod by pod, on the port that the slices name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.errors import ClusterError
from ragstow.live.client import Client
from ragstow.live.endpoints.notes import Found, Notes
from ragstow.live.endpoints.targets import Target
from ragstow.render import names
from ragstow.verification.model import Evidence, ObjectRef

_HEADLESS = "None"
_SLICE_OF = "kubernetes.io/service-name"
_CHECK = "service-backends"


@dataclass(frozen=True, slots=True)
class Backends:
    """The ready backends of one Service: pod names, and the port numbers by port name."""

    pods: frozenset[str]
    waiting: frozenset[str]
    ports: Mapping[str, int]


def check_services(client: Client, service: str, targets: Iterable[Target], notes: Notes) -> dict[str, int]:
    """Check each component's Service; gives the port that its backends serve on, where a slice says it."""
    found: dict[str, int] = {}
    for target in targets:
        if target.port is None:
            continue
        name, item = "", ObjectRef("Service", target.namespace, "")
        try:
            named = _services(client, service, target)
            if named is None:
                notes.check(
                    _CHECK,
                    target.component,
                    ObjectRef("Namespace", "", target.namespace),
                    f"a Service in front of {target.component}",
                    Found("none has its labels", False, hint="ragstow render writes it"),
                )
                continue
            name = str(named["metadata"]["name"])
            item = ObjectRef("Service", target.namespace, name)
            backends = _backends(client, target.namespace, name)
        except ClusterError as error:
            notes.refused(_CHECK, target.component, item, error)
            continue
        if backends is None:
            notes.unseen(
                _CHECK, target.component, item, "the server has no EndpointSlices", "kubectl api-resources", needed=False
            )
            continue
        port = next(iter(backends.ports.values()), None)
        if port is not None:
            found[target.component] = port
        notes.check(_CHECK, target.component, item, *_judged(target, name, backends, port))
    return found


def _judged(target: Target, name: str, backends: Backends, port: int | None) -> tuple[str, Found]:
    wanted = {pod.name for pod in target.pods}
    count = target.replicas if target.replicas is not None else len(wanted)
    expected = f"{count} ready pod{'' if count == 1 else 's'} of {target.component}"
    strangers = sorted((backends.pods | backends.waiting) - wanted)
    text = f"{len(backends.pods & wanted)} ready"
    if backends.waiting:
        text += f", {len(backends.waiting)} not ready ({', '.join(sorted(backends.waiting))})"
    if strangers:
        text += f", and pods of others: {', '.join(strangers)}"
    if port is not None:
        text += f", port {port}"
    passed = len(backends.pods & wanted) == count and not strangers
    hint = "the selector matches pods of others" if strangers else "pods that are not ready get no requests"
    seen = Evidence(
        f"kubectl -n {target.namespace} get endpointslices -l {_SLICE_OF}={name} -o yaml",
        ", ".join(sorted(backends.pods)) or "none",
    )
    return expected, Found(text, passed, (seen,), hint)


def _services(client: Client, service: str, target: Target) -> dict[str, Any] | None:
    """The Service that clients use: of the component's labels, and not the headless one."""
    resource = client.resources().plural("", "services")
    assert resource is not None
    labels = f"{names.SERVICE}={service},{names.COMPONENT}={target.component}"
    found = [
        item
        for item in client.list(resource, target.namespace, labels=labels)
        if (item.get("spec") or {}).get("clusterIP") != _HEADLESS
    ]
    return min(found, key=lambda item: str(item["metadata"]["name"]), default=None)


def _backends(client: Client, namespace: str, name: str) -> Backends | None:
    resource = client.resources().plural("discovery.k8s.io", "endpointslices")
    if resource is None:
        return None
    ready: set[str] = set()
    waiting: set[str] = set()
    ports: dict[str, int] = {}
    for part in client.list(resource, namespace, labels=f"{_SLICE_OF}={name}"):
        for port in part.get("ports") or ():
            if isinstance(port.get("port"), int):
                ports.setdefault(str(port.get("name") or ""), port["port"])
        for endpoint in part.get("endpoints") or ():
            pod = str((endpoint.get("targetRef") or {}).get("name") or ", ".join(endpoint.get("addresses") or ()))
            # An absent condition means ready (EndpointConditions of discovery/v1).
            is_ready = (endpoint.get("conditions") or {}).get("ready") is not False
            (ready if is_ready else waiting).add(pod)
    return Backends(frozenset(ready), frozenset(waiting), dict(sorted(ports.items(), key=lambda pair: pair[0] != "http")))
