"""All parts of the node configuration in the order in which they are applied."""

from __future__ import annotations

from ragstow.errors import InputError
from ragstow.render.model import Context, NodePart
from ragstow.render.nodes import chart, labels, mig, mig_hand, operator, static


def node_parts(context: Context) -> tuple[NodePart, ...]:
    """The parts of a plan's node configuration; empty where no node changes.

    Raises:
        InputError: the plan changes the sharing of nodes whose plugin cannot be configured (a plan of another cluster).
    """
    changed = context.changed
    if not changed:
        return ()
    made: list[NodePart] = []
    configured = tuple(layout for layout in changed if layout.plugin_config is not None)
    if configured:
        part = {"chart": chart.part, "operator": operator.part, "static": static.part}.get(context.plan.cluster.plugin.kind)
        if part is None:
            raise InputError(
                "render-plugin",
                f"the plan changes the sharing of {configured[0].node}, but the device plugin there "
                f"({context.plan.cluster.plugin.kind}) takes no configuration",
                hint="plan again on this cluster",
            )
        made.append(part(context, configured))
    cut = tuple(layout for layout in changed if layout.mig is not None)
    by_hand = context.plan.cluster.plugin.kind != "operator"
    switched = labels.switch_part(context, changed, by_hand)
    if by_hand:
        # The plugin must know the MIG strategy before it looks for slices.
        made.append(switched)
        made += [mig_hand.by_hand(context, cut)] if cut else []
    else:
        made += [mig.by_operator(context, cut)] if cut else []
        made.append(switched)
    made.append(labels.pool_part(context, changed))
    return tuple(made)
