"""Deployments and StatefulSets, with update strategies that cannot deadlock when every card is taken.

A GPU pod that is replaced must first give its card back: no surge ever, and a single replica is recreated. Pods without a GPU
surge as usual.
"""

from __future__ import annotations

from ragstow.render import names, volumes
from ragstow.render.container import start_seconds
from ragstow.render.model import Context, Item, Manifest
from ragstow.render.podspec import WAIT_SECONDS, pod_template, wait_container
from ragstow.render.units import Unit, units


def workloads(context: Context, item: Item) -> list[Manifest]:
    """Claims of their own and workloads of a component, in the order in which they are applied."""
    made: list[Manifest] = []
    for unit in units(context, item):
        claim_name = None
        if not unit.stateful and volumes.claim_spec(item) is not None:
            claim_name = names.join(unit.name, "models")
            claim = volumes.claim(item, claim_name)
            if claim is not None:
                made.append(claim)
        made.append(
            stateful_set(context, item, unit, claim_name) if unit.stateful else deployment(context, item, unit, claim_name)
        )
    return made


def deployment(context: Context, item: Item, unit: Unit, claim_name: str | None) -> Manifest:
    """The Deployment of one unit."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(context, item, unit),
        "spec": {
            "replicas": unit.replicas,
            "strategy": strategy(item, unit),
            # The default of 600 s would call a rollout failed while a large model is still loading.
            "progressDeadlineSeconds": start_seconds(item) + 600 + (WAIT_SECONDS if wait_container(context, item) else 0),
            "selector": {"matchLabels": _selector(item, unit)},
            "template": pod_template(context, item, unit, None, claim_name),
        },
    }


def strategy(item: Item, unit: Unit) -> Manifest:
    """How pods are replaced."""
    if not item.has_gpu and (volumes.claim_spec(item) is None or unit.replicas > 1):
        return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    if unit.replicas == 1:
        return {"type": "Recreate"}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def stateful_set(context: Context, item: Item, unit: Unit, claim_name: str | None) -> Manifest:
    """The StatefulSet of one unit; its pods are replaced one by one, the old one first."""
    spec = volumes.claim_spec(item) if volumes.claim_per_replica(item) else None
    kept = volumes.storage(item)
    claims: list[Manifest] = []
    if spec is not None and kept is not None:
        claims = [{"metadata": {"name": kept[0], "labels": names.labels(item)}, "spec": spec}]
    headless = headless_name(unit)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(context, item, unit),
        "spec": {
            "replicas": unit.replicas,
            "serviceName": headless,
            "podManagementPolicy": "OrderedReady" if unit.in_order else "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": _selector(item, unit)},
            "template": pod_template(context, item, unit, headless, claim_name),
            **({"volumeClaimTemplates": claims} if claims else {}),
        },
    }


def headless_name(unit: Unit) -> str:
    """The headless Service that gives the pods of a StatefulSet their names."""
    return names.join(unit.name, "peers")


def _selector(item: Item, unit: Unit) -> dict[str, str]:
    return {**names.selector(item), **({names.UNIT: unit.label} if unit.label is not None else {})}


def _metadata(context: Context, item: Item, unit: Unit) -> Manifest:
    return {
        "name": unit.name,
        "namespace": item.service.namespace,
        "labels": names.labels(item),
        "annotations": {names.PLAN: context.plan.digest[:16]},
    }
