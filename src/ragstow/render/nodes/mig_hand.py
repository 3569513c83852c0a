"""MIG layouts where no MIG manager runs: a mig-parted file, and the commands on the node itself."""

from __future__ import annotations

from ragstow.facts.gpus import split_product
from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.render.model import Context, NodePart, RenderedFile, Step
from ragstow.render.nodes.common import allocatable_check, gone_first, header, rollout
from ragstow.render.nodes.mig import CONFIG, document, entries, layout_name
from ragstow.render.yamltext import dump
from ragstow.sharing import miglayout

PRODUCT = "nvidia.com/gpu.product"


def by_hand(context: Context, layouts: tuple[NodeLayout, ...]) -> NodePart:
    """A mig-parted file, and the commands on the node itself, where no MIG manager runs."""
    config = document({layout_name(context, layout): entries(layout) for layout in layouts})
    about = "Layouts for nvidia-mig-parted, to be applied on the nodes themselves (no MIG manager runs in this cluster)."
    restart = _restart(context.plan.cluster.plugin)
    steps = [_cut(context, layout, restart) for layout in layouts]
    undone = [_undo(layout, restart) for layout in reversed(layouts) if _indexes(layout)]
    return NodePart((RenderedFile(CONFIG, header(context, about) + dump(config)),), {}, tuple(steps), tuple(undone))


def _cut(context: Context, layout: NodeLayout, restart: tuple[str, ...]) -> Step:
    command, expected = allocatable_check(layout)
    return Step(
        f"Cut the cards of {layout.node}",
        f"{gone_first(layout)} Copy {CONFIG} to the node and run there, as root, either mig-parted or nvidia-smi. "
        "Whatever else uses the cards (monitoring, a display) must be stopped. The cut does not survive a reboot of the node: "
        "run the command at boot (mig-parted brings a systemd unit). The device plugin is restarted, since it looks for slices "
        "only at its start.",
        (
            f"kubectl cordon {layout.node}",
            f"# on {layout.node}:",
            f"nvidia-mig-parted apply -f mig-parted-config.yaml -c {layout_name(context, layout)}",
            "# or, without mig-parted:",
            *smi_commands(context, layout),
            "# then, from here:",
            *restart,
            f"kubectl uncordon {layout.node}",
        ),
        (f"ssh {layout.node} nvidia-smi -L", command),
        f"the slices of this layout, each with a UUID; {expected}",
    )


def smi_commands(context: Context, layout: NodeLayout) -> list[str]:
    """nvidia-smi commands that make a node's layout: old instances away, then the new ones, each at a start that leaves room
    for the others (an instance that is placed carelessly can take the only place of another)."""
    made: list[str] = []
    for card, profiles in sorted((layout.mig or {}).items()):
        away = f"nvidia-smi mig -i {card} -dci; nvidia-smi mig -i {card} -dgi"
        wanted = {profile: count for profile, count in profiles.items() if count}
        if not wanted:
            made.append(f"{away}; nvidia-smi -i {card} -mig 0")
            continue
        instances = ",".join(_placed(context, layout, wanted))
        made.append(f"{away}; nvidia-smi -i {card} -mig 1 && nvidia-smi mig -i {card} -cgi {instances} -C")
    return made


def _placed(context: Context, layout: NodeLayout, wanted: dict[str, int]) -> list[str]:
    gpu = context.facts.gpus.find(split_product(layout.labels_after.get(PRODUCT, "")).base)
    geometry = context.facts.mig.of(gpu) if gpu is not None else None
    if geometry is not None:
        kinds = miglayout.kinds_of(geometry)
        places = miglayout.place(kinds, wanted, miglayout.exclusive_of(kinds))
        if places is not None:
            return [f"{profile}:{start}" for profile, start in sorted(places, key=lambda place: place[1])]
    # Unknown card: largest first is what fits most often.
    return [profile for profile, count in sorted(wanted.items(), key=_size, reverse=True) for _ in range(count)]


def _size(entry: tuple[str, int]) -> tuple[int, str]:
    digits = entry[0].partition("g")[0]
    return int(digits) if digits.isdigit() else 0, entry[0]


def _indexes(layout: NodeLayout) -> str:
    return ",".join(str(card) for card, profiles in sorted((layout.mig or {}).items()) if any(profiles.values()))


def _undo(layout: NodeLayout, restart: tuple[str, ...]) -> Step:
    cards = _indexes(layout)
    return Step(
        f"Undo the cut of {layout.node}",
        "No pod may hold a slice.",
        (
            f"# on {layout.node}:",
            f"nvidia-smi mig -i {cards} -dci && nvidia-smi mig -i {cards} -dgi && nvidia-smi -i {cards} -mig 0",
            "# then, from here:",
            *restart,
        ),
    )


def _restart(plugin: PluginInstall) -> tuple[str, ...]:
    return rollout(*plugin_of(plugin))


def plugin_of(plugin: PluginInstall) -> tuple[str, str]:
    """Namespace and name of the device plugin's DaemonSet."""
    return plugin.namespace or "kube-system", plugin.daemonset or "nvidia-device-plugin-daemonset"
