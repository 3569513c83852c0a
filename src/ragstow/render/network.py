"""Services in front of a component, and the budget of how many of its pods may be away at once."""

from __future__ import annotations

from ragstow.render import names
from ragstow.render.container import ports
from ragstow.render.model import Context, Item, Manifest
from ragstow.render.units import units
from ragstow.render.workload import headless_name


def services(context: Context, item: Item) -> list[Manifest]:
    """The Service that clients use, and a headless one for each StatefulSet."""
    made: list[Manifest] = []
    listed = ports(item)
    if listed:
        made.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": names.of(item), "namespace": item.service.namespace, "labels": names.labels(item)},
                "spec": {
                    "selector": names.selector(item),
                    "ports": [
                        {"name": port["name"], "port": port["containerPort"], "targetPort": port["name"], "protocol": "TCP"}
                        for port in listed
                        if port["name"] != "peers"
                    ],
                },
            }
        )
    made += [_headless(item, headless_name(unit)) for unit in units(context, item) if unit.stateful]
    return made


def _headless(item: Item, name: str) -> Manifest:
    listed = [
        {"name": port["name"], "port": port["containerPort"], "targetPort": port["name"], "protocol": "TCP"}
        for port in ports(item)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": item.service.namespace, "labels": names.labels(item)},
        "spec": {
            "clusterIP": "None",
            # Replicas must find each other before they are ready.
            "publishNotReadyAddresses": True,
            "selector": names.selector(item),
            **({"ports": listed} if listed else {}),
        },
    }


def disruption_budget(item: Item) -> Manifest | None:
    """At most one pod away by eviction; None for a single replica, whose budget would only block drains."""
    if item.component.replicas < 2:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": names.of(item), "namespace": item.service.namespace, "labels": names.labels(item)},
        "spec": {
            "maxUnavailable": 1,
            # A pod that never became ready must not block the drain of its node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": names.selector(item)},
        },
    }
