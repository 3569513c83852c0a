"""The service's namespace: made where it is not there, deleted again by an undo if nothing else has come into it."""

from __future__ import annotations

from ragstow.errors import ClusterError
from ragstow.live.apply.context import Run
from ragstow.live.apply.record import Record
from ragstow.live.failures import Conflict, Forbidden

MADE_FOR = "ragstow.dev/made-for"
_PASSING = ("events.k8s.io", "coordination.k8s.io", "discovery.k8s.io")
_ALWAYS = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
"""What the control plane puts into every namespace."""


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
    unseen: list[str] = []
    for resource in going.ask(going.client.resources).namespaced():
        if resource.group in _PASSING or resource.kind in ("Event", "Endpoints"):
            continue
        try:
            items = list(going.client.list(resource, going.namespace))
        except Forbidden:
            unseen.append(resource.plural)
            continue
        except ClusterError as error:
            if getattr(error, "status", 0) != 405:
                unseen.append(resource.plural)
            continue
        names = [str(item["metadata"]["name"]) for item in items]
        rest = [name for name in names if (resource.kind, name) not in _ALWAYS]
        if rest:
            return f"{resource.kind} {rest[0]} is in it"
    if not unseen:
        return ""
    # Secrets first: they are what a person puts there, and what would be missed most.
    shown = sorted(unseen, key=lambda plural: (plural != "secrets", plural))
    more = f" and {len(shown) - 1} other kinds" if len(shown) > 1 else ""
    return f"{shown[0]}{more} cannot be seen with these rights, so it may not be empty"
