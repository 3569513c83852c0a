"""The service's namespace: made where it is not there, deleted again by an undo if nothing else has come into it."""

from __future__ import annotations

from ragstow.errors import ClusterError
from ragstow.live.apply.context import Run
from ragstow.live.apply.record import Record
from ragstow.live.failures import Conflict, Forbidden

MADE_FOR = "ragstow.dev/made-for"
_PASSING = ("events.k8s.io", "coordination.k8s.io", "discovery.k8s.io")


def is_there(going: Run) -> bool:
    return going.get("v1", "Namespace", going.namespace) is not None


def make(going: Run) -> bool:
    """Make the service's namespace where it is not there; whether it was ours to make, now or in a run that died."""
    there = going.get("v1", "Namespace", going.namespace)
    if there is None:
        meta = {"name": going.namespace, "annotations": {MADE_FOR: going.service}}
        try:
            going.ask(lambda: going.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}))
        except Conflict:
            there = going.get("v1", "Namespace", going.namespace)
        else:
            return True
    return ((there or {}).get("metadata", {}).get("annotations") or {}).get(MADE_FOR) == going.service


def remove(going: Run, record: Record) -> None:
    """Delete the namespace if it was made for this service and nothing is in it; what cannot be seen counts as something."""
    if not record.progress.namespace_made:
        return
    there = going.get("v1", "Namespace", going.namespace)
    if there is None or (there["metadata"].get("annotations") or {}).get(MADE_FOR) != going.service:
        return
    found = _in_namespace(going)
    if found:
        going.note(f"namespace {going.namespace}, made for this service, stays: {found}")
        return
    resource = going.resource("v1", "Namespace")
    going.delete(resource, going.namespace, "", str(there["metadata"]["uid"]))


def _in_namespace(going: Run) -> str:
    """What is in the service's namespace, or may be; "" where it is empty."""
    for resource in going.ask(going.client.resources).namespaced():
        if resource.group in _PASSING or resource.kind in (
            "Event",
            "Endpoints",
        ):
            continue
        try:
            items = going.ask(lambda resource=resource: list(going.client.list(resource, going.namespace)))  # type: ignore[misc]  # bound now
        except Forbidden:
            return f"{resource.plural} in it cannot be seen with these rights, so it may not be empty"
        except ClusterError:
            continue  # an aggregated API whose server is down, or one that cannot be listed there
        names = [str(item["metadata"]["name"]) for item in items]
        own = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
        rest = [name for name in names if (resource.kind, name) not in own]
        if rest:
            return f"{resource.kind} {rest[0]} is in it"
    return ""
