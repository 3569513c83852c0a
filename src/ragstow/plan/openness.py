"""Which components may be scheduled on which nodes, slots and room aside: taints, selectors, and volumes that exist already.

A model cache that is bound to a zone or a node keeps its pod there. Names of claims are not needed: the claims of a component
carry its labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject, Node
from ragstow.plan import taints
from ragstow.plan.situation import COMPONENT_LABEL, SERVICE_LABEL, Situation
from ragstow.plan.supply import Supply, barred
from ragstow.scheduling.selectors import node_selector
from ragstow.spec.model import Component, Service


def closed(situation: Situation, service: Service, offered: Supply) -> dict[str, frozenset[str]]:
    """Node name -> components that may not be there."""
    given = taints.wanted(service.placement.tolerations)
    found: dict[str, frozenset[str]] = {}
    bound = {item.name: _bound_to(situation, item) for item in service.components}
    for node in situation.nodes.values():
        plain = barred(node, service, given) is not None
        tolerant = barred(node, service, (*given, *offered.tolerations.get(node.name, ()))) is not None
        shut = {
            item.name
            for item in service.components
            if (plain if item.gpu == "never" else tolerant) or not _volumes_allow(situation, item, bound[item.name], node)
        }
        if shut:
            found[node.name] = frozenset(shut)
    return found


def _bound_to(situation: Situation, component: Component) -> list[KubeObject]:
    """PersistentVolumes that the component's claims are bound to."""
    found = []
    for claim in situation.snapshot.of("PersistentVolumeClaim"):
        labels = claim.labels
        if claim.namespace != situation.namespace or labels.get(SERVICE_LABEL) != situation.service:
            continue
        if labels.get(COMPONENT_LABEL) != component.name:
            continue
        name = _mapping(claim.raw.get("spec")).get("volumeName")
        volume = situation.snapshot.get("PersistentVolume", str(name)) if name else None
        if volume is not None:
            found.append(volume)
    return found


def _volumes_allow(situation: Situation, component: Component, volumes: list[KubeObject], node: Node) -> bool:
    if volumes:
        return any(_reachable(volume, node) for volume in volumes)
    if component.cache is None:
        return True
    name = component.cache.storage_class
    storage = situation.snapshot.get("StorageClass", name, group="storage.k8s.io") if name else _default_class(situation)
    topologies = storage.raw.get("allowedTopologies") if storage is not None else None
    if not isinstance(topologies, list) or not topologies:
        return True
    return any(
        all(
            node.labels.get(str(item.get("key"))) in [str(value) for value in item.get("values") or ()]
            for item in map(_mapping, _mapping(term).get("matchLabelExpressions") or ())
        )
        for term in topologies
    )


def _reachable(volume: KubeObject, node: Node) -> bool:
    required = _mapping(_mapping(_mapping(volume.raw.get("spec")).get("nodeAffinity")).get("required"))
    terms = required.get("nodeSelectorTerms")
    return not isinstance(terms, list) or node_selector([_mapping(term) for term in terms]).matches(node)


def _default_class(situation: Situation) -> KubeObject | None:
    marked = [
        item
        for item in situation.snapshot.of("StorageClass", "storage.k8s.io")
        if item.annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    ]
    return max(marked, key=lambda item: (item.created or "", item.name)) if marked else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
