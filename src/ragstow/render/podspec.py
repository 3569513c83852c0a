"""The pod of a component: where it may go, what it waits for, its container and volumes.

Node and pod affinity are exactly those of the plan: what was simulated is what is applied.
"""

from __future__ import annotations

from ragstow.cluster.objects import Toleration as NodeToleration
from ragstow.render import names, volumes
from ragstow.render.container import CLAIM, container
from ragstow.render.model import Context, Item, Manifest
from ragstow.render.units import Unit
from ragstow.spec.model import Toleration as WantedToleration

WAIT_SECONDS = 1800
"""How long a pod waits at most for the neighbours that must start before it; then it tries."""

_WAIT = """\
import sys, time, urllib.request
end = time.time() + {seconds}
for url in sys.argv[1:]:
    print("waiting for", url, flush=True)
    while time.time() < end:
        try:
            urllib.request.urlopen(url, timeout=5)
            break
        except OSError:
            time.sleep(5)
"""


def pod_template(context: Context, item: Item, unit: Unit, headless: str | None, claim_name: str | None) -> Manifest:
    """The pod template of one workload.

    Args:
        context: the rendering.
        item: the component.
        unit: which of its workloads.
        headless: the headless Service of a StatefulSet.
        claim_name: the PersistentVolumeClaim of its own that the workload uses.
    """
    labels = names.labels(item)
    if unit.label is not None:
        labels[names.UNIT] = unit.label
    return {
        "metadata": {"labels": labels, "annotations": {"kubectl.kubernetes.io/default-container": item.name}},
        "spec": pod_spec(context, item, unit, headless, claim_name),
    }


def pod_spec(context: Context, item: Item, unit: Unit, headless: str | None, claim_name: str | None) -> Manifest:
    """The spec of that pod."""
    planned, service = item.planned, item.service
    mounted = volumes.volumes(item, claim_name, templated=unit.stateful and volumes.claim_per_replica(item))
    waiting = wait_container(context, item)
    tolerations = _tolerations(planned.tolerations, service.placement.tolerations)
    affinity = _affinity(item)
    group = item.serving.group if item.serving else None
    user = item.serving.user if item.serving else None
    claim = {"resourceClaimName": unit.claim} if unit.claim else {"resourceClaimTemplateName": unit.template}
    return {
        **({"runtimeClassName": planned.runtime_class} if planned.runtime_class else {}),
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": item.serving.stop_seconds if item.serving else 30,
        "securityContext": {
            "seccompProfile": {"type": "RuntimeDefault"},
            **({"runAsUser": user, "runAsGroup": group or user, "runAsNonRoot": True} if user is not None else {}),
            **({"fsGroup": group, "fsGroupChangePolicy": "OnRootMismatch"} if group is not None else {}),
        },
        **({"imagePullSecrets": [{"name": name} for name in service.image_pull_secrets]} if service.image_pull_secrets else {}),
        **({"nodeSelector": dict(sorted(service.placement.node_selector.items()))} if service.placement.node_selector else {}),
        **({"affinity": affinity} if affinity else {}),
        **({"topologySpreadConstraints": [_spread(item)]} if planned.spread_nodes else {}),
        **({"tolerations": tolerations} if tolerations else {}),
        **({"resourceClaims": [{"name": CLAIM, **claim}]} if item.slot.mode == "dra" else {}),
        **({"initContainers": [waiting]} if waiting else {}),
        "containers": [container(item, unit.name, headless)],
        **({"volumes": mounted} if mounted else {}),
    }


def wait_container(context: Context, item: Item) -> Manifest | None:
    """A container that waits until the neighbours which must start first answer; None where there is nothing to wait for.

    An engine that checks free memory at its start must not do so while a neighbour is still loading. The wait is bounded, so
    that a neighbour that is down for good takes nobody with it. Only images with an interpreter can wait by themselves; for
    others STEPS.md gives the order.
    """
    if item.serving is None or not item.serving.wait:
        return None
    urls = [url for name in item.planned.start_after if (url := health_url(context.item(name)))]
    if not urls:
        return None
    amounts = {"cpu": "100m", "memory": "128Mi"}
    return {
        "name": "wait-for-neighbours",
        "image": item.image,
        "command": list(item.serving.wait),
        "args": [_WAIT.replace("{seconds}", str(WAIT_SECONDS)), *urls],
        # The image would see every card of the node on a runtime that reads this variable.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def health_url(item: Item) -> str | None:
    """Where a component's Service says that it is healthy; None where it serves no such page."""
    page = (item.serving.ready or item.serving.health) if item.serving is not None else None
    return f"http://{names.of(item)}:{item.port}{page}" if page and item.port is not None else None


def _affinity(item: Item) -> Manifest:
    planned = item.planned
    wanted: dict[str, tuple[str, ...]] = dict(sorted(planned.node_labels.items()))
    if planned.pool:
        wanted[names.POOL] = (item.service.name,)
    made: Manifest = {}
    if wanted:
        expressions = [{"key": key, "operator": "In", "values": list(values)} for key, values in wanted.items()]
        terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        made["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    for key, components in (("podAffinity", planned.beside), ("podAntiAffinity", planned.not_beside)):
        if components:
            selector = {
                "matchLabels": {names.SERVICE: item.service.name},
                "matchExpressions": [{"key": names.COMPONENT, "operator": "In", "values": sorted(components)}],
            }
            term = {"labelSelector": selector, "topologyKey": names.HOSTNAME}
            made[key] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return made


def _spread(item: Item) -> Manifest:
    # Never all on one node; more than that is not promised, so it must not keep a pod from starting.
    return {
        "maxSkew": max(item.component.replicas - 1, 1),
        "minDomains": 2,
        "topologyKey": names.HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": names.selector(item)},
    }


def _tolerations(planned: tuple[NodeToleration, ...], wanted: tuple[WantedToleration, ...]) -> list[Manifest]:
    made: list[Manifest] = []
    every: list[NodeToleration | WantedToleration] = [*planned, *wanted]
    for toleration in every:
        manifest: Manifest = {
            **({"key": toleration.key} if toleration.key else {}),
            "operator": toleration.operator or "Equal",
            **({"value": toleration.value} if toleration.value else {}),
            **({"effect": toleration.effect} if toleration.effect else {}),
            **({"tolerationSeconds": toleration.seconds} if toleration.seconds is not None else {}),
        }
        if manifest not in made:
            made.append(manifest)
    return made
