"""On which cards of its node a pod's devices may sit, where nothing names the devices.

The device plugin's resource says how many, the node's layout says which cards offer it; which of them it is decides the
kubelet. So the answer is a set of cards, certain only where the set leaves no choice.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragstow.cluster.demand import pod_demand
from ragstow.cluster.objects import Pod
from ragstow.inventory.model import NodeGpus
from ragstow.inventory.resources import is_gpu_resource, mig_profile
from ragstow.simulate.model import CardChoice


def choices(pod: Pod, resources: Mapping[str, int], node: NodeGpus) -> dict[str, CardChoice]:
    """GPU resource of the pod -> cards of the node that offer it.

    Args:
        pod: the pod.
        resources: what it asks for, by resource.
        node: its node as the inventory knows it.
    """
    found: dict[str, CardChoice] = {}
    for resource in resources:
        count = pod_demand(pod, resource)
        if count <= 0 or not is_gpu_resource(resource) or resource not in node.resources:
            continue
        cards = _offering(node, resource)
        if cards:
            numbered = tuple(sorted({card for card in cards if card is not None})) if None not in cards else ()
            found[resource] = CardChoice(count, numbered, len(cards))
    return found


def _offering(node: NodeGpus, resource: str) -> list[int | None]:
    """The card of each device that stands behind the resource, each card once; None where it has no number."""
    profile = mig_profile(resource)
    kind = "slice" if profile is not None or node.sharing == "mig-single" else "card"
    cards: list[int | None] = []
    for device in node.devices:
        alike = profile is None or device.profile is None or _plain(device.profile) == _plain(profile)
        if device.kind == kind and alike and (device.card is None or device.card not in cards):
            cards.append(device.card)
    return cards


def _plain(profile: str) -> str:
    return profile.replace("+", ".")
