"""MIG layouts where no MIG manager runs: a mig-parted file, and the commands on the node itself."""

from __future__ import annotations

from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.render.model import Context, NodePart, RenderedFile, Step
from ragstow.render.nodes.common import gone_first, header
from ragstow.render.nodes.mig import CONFIG, document, entries, layout_name
from ragstow.render.yamltext import dump


def by_hand(context: Context, layouts: tuple[NodeLayout, ...]) -> NodePart:
    """A mig-parted file, and the commands on the node itself, where no MIG manager runs."""
    plugin = context.plan.cluster.plugin
    config = document({layout_name(context, layout): entries(layout) for layout in layouts})
    about = "Layouts for nvidia-mig-parted, to be applied on the nodes themselves (no MIG manager runs in this cluster)."
    restart = _restart(plugin)
    steps: list[Step] = []
    undone: list[Step] = []
    for layout in layouts:
        on_node = f"nvidia-mig-parted apply -f mig-parted-config.yaml -c {layout_name(context, layout)}"
        steps.append(
            Step(
                f"Cut the cards of {layout.node}",
                f"{gone_first(layout)} Copy {CONFIG} to the node and run there, as root, either mig-parted or nvidia-smi. "
                "Whatever else uses the cards (monitoring, a display) must be stopped. The cut does not survive a reboot of "
                "the node: run the command at boot (mig-parted brings a systemd unit). The device plugin is restarted, since "
                "it looks for slices only at its start.",
                (
                    f"kubectl cordon {layout.node}",
                    f"# on {layout.node}:",
                    on_node,
                    "# or, without mig-parted:",
                    *_smi(layout),
                    "# then, from here:",
                    *(command.replace("{node}", layout.node) for command in restart),
                    f"kubectl uncordon {layout.node}",
                ),
                (f"ssh {layout.node} nvidia-smi -L",),
                "the slices of this layout, each with a UUID",
            )
        )
        indexes = ",".join(str(card) for card, profiles in sorted((layout.mig or {}).items()) if any(profiles.values()))
        undone.append(
            Step(
                f"Undo the cut of {layout.node}",
                "No pod may hold a slice.",
                (
                    f"# on {layout.node}:",
                    f"nvidia-smi mig -i {indexes} -dci && nvidia-smi mig -i {indexes} -dgi && nvidia-smi -i {indexes} -mig 0",
                    "# then, from here:",
                    *(command.replace("{node}", layout.node) for command in restart),
                ),
            )
        )
    return NodePart((RenderedFile(CONFIG, header(context, about) + dump(config)),), {}, tuple(steps), tuple(reversed(undone)))


def _smi(layout: NodeLayout) -> list[str]:
    made: list[str] = []
    for card, profiles in sorted((layout.mig or {}).items()):
        # Largest first: an instance created early takes the lowest place, which can leave no room for a large one.
        wanted = [profile for profile, count in sorted(profiles.items(), key=_size, reverse=True) for _ in range(count)]
        if wanted:
            made.append(f"nvidia-smi -i {card} -mig 1 && nvidia-smi mig -i {card} -cgi {','.join(wanted)} -C")
    return made


def _size(entry: tuple[str, int]) -> tuple[int, str]:
    digits = entry[0].partition("g")[0]
    return int(digits) if digits.isdigit() else 0, entry[0]


def _restart(plugin: PluginInstall) -> tuple[str, ...]:
    namespace, daemonset = plugin.namespace or "kube-system", plugin.daemonset or "nvidia-device-plugin-daemonset"
    return (
        f"kubectl -n {namespace} rollout restart daemonset/{daemonset}",
        f"kubectl -n {namespace} rollout status daemonset/{daemonset} --timeout=10m",
    )
