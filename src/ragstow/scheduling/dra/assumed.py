"""What the answers about devices rest on in a cluster, for the reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragstow.scheduling.dra.model import Claim, Device, Slice
from ragstow.scheduling.dra.rules import DraRules


def dropped(slices: Iterable[Slice], claims: Iterable[Claim], rules: DraRules) -> Iterator[str]:
    """What of the objects the release leaves out, because the feature is off by default: `strategy` does it.

    Args:
        slices: as they are in the data.
        claims: as they are in the data.
        rules: the release.
    """
    found: dict[str, None] = {}
    if not (rules.partitionable and rules.consumable and rules.taints and rules.binding):
        for item in slices:
            if not rules.partitionable and (item.counter_sets or item.per_device):
                found["shared counters and nodes of single devices"] = None
            for device in item.devices:
                found.update(dict.fromkeys(_of_device(device, rules)))
    for claim in claims:
        for request in claim.requests:
            for one in (*([request.exactly] if request.exactly else ()), *request.alternatives):
                if one.capacity and not rules.consumable:
                    found["capacity requests"] = None
                if one.tolerations and not rules.taints:
                    found["device taints and tolerations"] = None
        if rules.distinct == "dropped" and any(entry.distinct_attribute is not None for entry in claim.constraints):
            found["claims with distinctAttribute"] = None
    for what in found:
        yield f"{what}: off by default in this release, so the objects are taken without (a feature gate could turn it on)"


def searched(nodes_pools: Iterable[Sequence[object]], *, in_order: bool) -> Iterator[str]:
    """Where the order of the search is chance in the original."""
    if not in_order and any(len(pools) > 1 for pools in nodes_pools):
        yield "several pools reach a node: this release tries them in random order, here by driver and name"


def bound(slices: Iterable[Slice], rules: DraRules) -> Iterator[str]:
    """Devices that something else must prepare first."""
    if rules.binding and any(device.has_binding_conditions for item in slices for device in item.devices):
        yield "devices with binding conditions are taken to become ready at once"


def _of_device(device: Device, rules: DraRules) -> Iterator[str]:
    if not rules.partitionable and (device.consumes or device.node_name or device.all_nodes or device.scope):
        yield "shared counters and nodes of single devices"
    if not rules.consumable and (device.shareable or any(amount.policy for amount in device.capacity.values())):
        yield "shareable devices and request policies"
    if not rules.taints and device.taints:
        yield "device taints and tolerations"
    if not rules.binding and (device.has_binding_conditions or device.binds_to_node):
        yield "binding conditions"
