"""Labels of nodes: which configuration the plugin takes, and at last the pool label that the pods select."""

from __future__ import annotations

from ragstow.plan.model import NodeLayout
from ragstow.render import names
from ragstow.render.model import Context, Manifest, NodePart, RenderedFile, Step
from ragstow.render.nodes.common import (
    KUBELET_LOG,
    allocatable_check,
    gone_first,
    header,
    label_command,
    set_labels,
    unlabel_command,
)
from ragstow.render.yamltext import stream

FILE = "nodes/node-labels.yaml"


def switch_part(context: Context, layouts: tuple[NodeLayout, ...], by_hand: bool) -> NodePart:
    """The labels that choose a configuration, node by node with a check.

    Args:
        context: the rendering.
        layouts: the nodes that change.
        by_hand: whether cards are cut by hand after this, so that what the node offers is checked there.
    """
    steps: list[Step] = []
    undo: list[Step] = []
    for layout in layouts:
        wanted = {key: value for key, value in set_labels(context, layout).items() if key not in (names.POOL, names.MIG_CONFIG)}
        if not wanted:
            continue
        cut_next = by_hand and layout.mig is not None
        command, expected = allocatable_check(layout)
        text = f"{gone_first(layout)} The plugin reads its configuration anew within seconds."
        if not cut_next:
            text += (
                f" From now on the node offers {expected or 'what the plan says'}; where it still offers the old resource "
                "after two minutes, look at the kubelet's log."
            )
        checks = () if cut_next else (command, f"ssh {layout.node} '{KUBELET_LOG} | grep -i nvidia.com'")
        expect = "" if cut_next else f"{expected}; in the log that the plugin's endpoint registered"
        # It is kept closed until it offers what the plan counts on; where cards are cut next, that step opens it.
        commands = (f"kubectl cordon {layout.node}", label_command(layout.node, wanted))
        steps.append(Step(f"Switch {layout.node} over", text, commands, checks, expect))
        undo.append(_back(layout, tuple(wanted)))
    return NodePart((), {}, tuple(steps), tuple(reversed(undo)))


def pool_part(context: Context, layouts: tuple[NodeLayout, ...]) -> NodePart:
    """The pool label, set last; and all labels as partial Nodes for server-side apply."""
    nodes: list[Manifest] = []
    steps: list[Step] = []
    undo: list[Step] = []
    for layout in layouts:
        wanted = set_labels(context, layout)
        if wanted:
            nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": layout.node, "labels": wanted}})
        if names.POOL not in wanted:
            continue
        command, expected = allocatable_check(layout)
        closed = (f"kubectl uncordon {layout.node}",) if set(wanted) - {names.POOL, names.MIG_CONFIG} else ()
        steps.append(
            Step(
                f"Open {layout.node} for the service",
                "The pods select this label, so none of them starts on a node that is not ready for it. Look first whether the "
                "node offers what the plan counts on.",
                (command, *closed, label_command(layout.node, {names.POOL: wanted[names.POOL]})),
                (f"kubectl get node {layout.node} -L {names.POOL}",),
                f"{wanted[names.POOL]}; before that {expected}" if expected else wanted[names.POOL],
            )
        )
        undo.append(_back(layout, (names.POOL,)))
    if not nodes:
        return NodePart()
    about = (
        "The labels of the nodes, for `kubectl apply --server-side --field-manager=ragstow -f` (it sets nothing else).\n"
        "STEPS.md sets them one after the other instead, with a check after each."
    )
    file = RenderedFile(FILE, header(context, about) + stream(nodes))
    return NodePart((file,), {}, tuple(steps), tuple(reversed(undo)))


def _back(layout: NodeLayout, keys: tuple[str, ...]) -> Step:
    former = {key: layout.labels_before[key] for key in keys if key in layout.labels_before}
    gone = [key for key in keys if key not in former]
    commands = (
        *((label_command(layout.node, former),) if former else ()),
        *((unlabel_command(layout.node, gone),) if gone else ()),
    )
    if keys == (names.POOL,):
        return Step(f"Close {layout.node} for the service", "", commands)
    return Step(f"Switch {layout.node} back", "Without its label a node returns to the plugin's default.", commands)
