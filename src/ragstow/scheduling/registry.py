"""Every plugin by name: how it is made, its place in the calling order, its weight.

Source of order and weights: pkg/scheduler/apis/config/v1/default_plugins.go of the releases in `behaviours`. The order of the
list is the order of calls at every extension point. A plugin belongs here with one line in FACTORIES and one in the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.scheduling.behaviours import DECLARED_FEATURES, DYNAMIC_RESOURCES, NODE_NAME_FIRST
from ragstow.scheduling.framework import (
    FilterPlugin,
    Handle,
    Plugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from ragstow.scheduling.plugins.balanced_allocation import BalancedAllocation
from ragstow.scheduling.plugins.default_preemption import DefaultPreemption
from ragstow.scheduling.plugins.dynamic_resources import DynamicResources
from ragstow.scheduling.plugins.image_locality import ImageLocality
from ragstow.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from ragstow.scheduling.plugins.node_affinity import NodeAffinity
from ragstow.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from ragstow.scheduling.plugins.node_name import NodeName
from ragstow.scheduling.plugins.node_ports import NodePorts
from ragstow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from ragstow.scheduling.plugins.node_unschedulable import NodeUnschedulable
from ragstow.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from ragstow.scheduling.plugins.pod_topology_spread import PodTopologySpread
from ragstow.scheduling.plugins.scheduling_gates import SchedulingGates
from ragstow.scheduling.plugins.taint_toleration import TaintToleration
from ragstow.scheduling.plugins.volume_binding import VolumeBinding
from ragstow.scheduling.plugins.volume_restrictions import VolumeRestrictions
from ragstow.scheduling.plugins.volume_zone import VolumeZone
from ragstow.scheduling.release import Release

POINTS: Mapping[str, type[Plugin]] = {
    "preEnqueue": PreEnqueuePlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
}
"""Extension points by their name in the configuration. A plugin has the points whose class it inherits."""

FACTORIES: dict[str, type[Plugin]] = {
    plugin.name: plugin
    for plugin in (
        SchedulingGates,
        NodeName,
        NodeUnschedulable,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        BalancedAllocation,
        ImageLocality,
        NodeDeclaredFeatures,
    )
}

_ORDER = (
    "SchedulingGates", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
    "DynamicResources", "NodeDeclaredFeatures", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality",
)  # fmt: skip

_WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}

# Part of every profile, without an influence on which node is chosen.
_WITHOUT_INFLUENCE = frozenset({"PrioritySort", "DefaultBinder"})


def default_order(release: Release) -> tuple[str, ...]:
    """Names of the release's default plugins in calling order, without those that cannot influence a decision."""
    order = [name for name in _ORDER if name in FACTORIES]
    if NODE_NAME_FIRST.at(release):
        order.remove("NodeName")
        order.insert(order.index("NodeUnschedulable"), "NodeName")
    if not DYNAMIC_RESOURCES.at(release) and "DynamicResources" in order:
        order.remove("DynamicResources")
    if not DECLARED_FEATURES.at(release):
        order.remove("NodeDeclaredFeatures")
    return tuple(order)


def default_weights() -> Mapping[str, int]:
    """Score weights of the default profile."""
    return _WEIGHTS


def known_names() -> frozenset[str]:
    """Names that a configuration may use."""
    return frozenset(_ORDER) | _WITHOUT_INFLUENCE


def make(name: str, handle: Handle, args: Mapping[str, Any]) -> Plugin | None:
    """A plugin, or None for one that cannot influence a decision."""
    factory = FACTORIES.get(name)
    return None if factory is None else factory(handle, args)
