"""MIG changes that did not come to an end: whether the layout is at fault, or the node that it could not be applied to.

Shared by the rules on MIG layouts and on stuck changes, so that one state has one cause.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragstow.cluster.objects import Node
from ragstow.facts.mig import Geometry
from ragstow.inventory.identity import identify
from ragstow.rules.configs import config_texts, layouts
from ragstow.rules.context import Context
from ragstow.rules.index.texts import Hit
from ragstow.sharing import miglayout, migparted

CONFIG, STATE, DEPLOY = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/gpu.deploy."
PAUSED = "paused-for-mig-change"
STUCK, INVALID = "mig-reconfig-stuck", "mig-config-invalid"
_UNDERWAY = frozenset({"pending", "rebooting"})


def paused(node: Node) -> tuple[str, ...]:
    """The operator's deploy labels that still say that a MIG change is going on."""
    return tuple(sorted(key for key, value in node.labels.items() if key.startswith(DEPLOY) and value == PAUSED))


def is_stuck(context: Context, node: Node) -> bool:
    """Whether a change of the layout stopped half-way on this node, for no fault of the layout."""
    state = node.labels.get(STATE)
    idle = not any(use.allocatable for use in context.inventory.node(node.name).resources.values())
    if paused(node):
        return state != "success" or idle
    if state in _UNDERWAY:
        return idle or bool(said(context, node, STUCK))
    return state == "failed" and _could_be_applied(context, node)


def said(context: Context, node: Node, cause: str) -> tuple[Hit, ...]:
    """What the MIG manager said about this cause, on this node or on one that the data do not name."""
    return tuple(hit for hit in context.texts.of_cause(cause) if hit.text.node is None or hit.text.node.name == node.name)


def _could_be_applied(context: Context, node: Node) -> bool:
    blamed, in_use = said(context, node, INVALID), said(context, node, STUCK)
    if any(hit.signature.strong for hit in blamed) or (blamed and not in_use):
        return False
    suits = _suits(context, node)
    return suits is True or (suits is None and bool(in_use))


def _suits(context: Context, node: Node) -> bool | None:
    """Whether the layout that the node's label names exists and its cards can hold it; None where nothing tells."""
    name = node.labels.get(CONFIG, "")
    gpu = identify(node, context.facts, (), None).gpu
    geometry = context.facts.mig.of(gpu) if gpu is not None else None
    texts = [config.text for config in config_texts(context.snapshot.of("ConfigMap")) if config.kind == "mig"]
    holding = [text for text in texts if name in layouts(text)]
    if texts and not holding:
        return False
    if geometry is None:
        return None
    if not holding:
        return name in geometry.default_layouts or (None if not name.startswith("all-") else False)
    read = migparted.read(holding[0])
    if isinstance(read, migparted.Failure):
        return False
    return all(_holds(geometry, entry.mig_devices or {}) for entry in read.layouts[name])


def _holds(geometry: Geometry, counts: Mapping[str, int]) -> bool:
    found = {profile: geometry.profile(profile) for profile, count in counts.items() if count}
    wanted = {known.name: counts[profile] for profile, known in found.items() if known is not None}
    return len(wanted) == len(found) and miglayout.fits(geometry, wanted)
