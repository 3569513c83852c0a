"""DRA: what a pod's claim asks for, templates for claims of one pod, and claims that several pods share.

Shapes are those of resource.k8s.io/v1 (GA in Kubernetes 1.34). Two pods share a card only through one and the same
ResourceClaim; a template makes a new claim for every pod.
"""

from __future__ import annotations

from ragstow.plan.model import ClaimKind
from ragstow.render import names
from ragstow.render.model import Context, Item, Manifest

API = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"


def kind_of(item: Item) -> ClaimKind:
    """The plan's claim, or the one that the slot means: class and selectors for its product and profile.

    The product label is the card's name with dashes for blanks (GFD), so the selector compares it in that form.
    """
    if item.planned.claim is not None:
        return item.planned.claim
    slot = item.slot
    attribute = f"device.attributes['{DRIVER}']"
    selectors: list[str] = []
    if slot.profile is not None:
        selectors.append(f"{attribute}.profile == '{slot.profile}'")
    elif slot.product is not None:
        selectors.append(f"{attribute}.productName.replace(' ', '-') == '{slot.product}'")
    return ClaimKind("mig.nvidia.com" if slot.profile is not None else DRIVER, max(slot.count, 1), tuple(selectors))


def devices(kind: ClaimKind) -> Manifest:
    """The `devices` part of a claim."""
    exactly: Manifest = {"deviceClassName": kind.device_class, "allocationMode": "ExactCount", "count": kind.count}
    if kind.selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in kind.selectors]
    return {"requests": [{"name": "gpu", "exactly": exactly}]}


def template(item: Item) -> Manifest:
    """The template of the claims that one pod each gets."""
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": names.of(item, "gpu"), "namespace": item.service.namespace, "labels": names.labels(item)},
        "spec": {"metadata": {"labels": names.selector(item)}, "spec": {"devices": devices(kind_of(item))}},
    }


def sharers(context: Context, item: Item) -> tuple[Item, ...]:
    """The components that share claims with this one, itself included, in the order of the spec; empty where none does."""
    if item.slot.mode != "dra" or item.planned.claim is None or not item.planned.claim.shared_with:
        return ()
    wanted = {item.name, *item.planned.claim.shared_with}
    return tuple(other for other in context.items if other.name in wanted)


def shared_count(context: Context, item: Item) -> int:
    """How many shared claims there are: one for each replica up to the smallest replica count of the group."""
    group = sharers(context, item)
    return min(member.component.replicas for member in group) if group else 0


def shared_name(group: tuple[Item, ...], index: int, count: int) -> str:
    """The name of the shared claim of replica `index`."""
    return names.join(group[0].service.name, *(member.name for member in group), str(index) if count > 1 else "")


def shared(context: Context) -> list[Manifest]:
    """All shared claims, each once, in the order of the spec."""
    made: dict[str, Manifest] = {}
    for item in context.items:
        group = sharers(context, item)
        count = shared_count(context, item)
        for index in range(count):
            name = shared_name(group, index, count)
            made.setdefault(
                name,
                {
                    "apiVersion": API,
                    "kind": "ResourceClaim",
                    "metadata": {
                        "name": name,
                        "namespace": item.service.namespace,
                        "labels": names.service_labels(item.service.name),
                    },
                    "spec": {"devices": devices(kind_of(group[0]))},
                },
            )
    return list(made.values())
