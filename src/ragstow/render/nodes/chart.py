"""The device plugin installed by its own chart: its configurations are Helm values, or an external ConfigMap."""

from __future__ import annotations

import re

from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.render.actions import Action, HelmUpgrade, MergePatch, RestartDaemonSet, WaitReady
from ragstow.render.model import Context, Manifest, NodePart, RenderedFile, Step
from ragstow.render.nodes.common import DAEMONSET_SECONDS, configs, header, namespace_of, rollout
from ragstow.render.yamltext import dump

VALUES, PATCH = "nodes/device-plugin-values.yaml", "nodes/device-plugin-config-patch.yaml"


def part(context: Context, layouts: tuple[NodeLayout, ...]) -> NodePart:
    """Values for `helm upgrade`, or a patch of the external ConfigMap where the chart was pointed at one.

    The chart's own map carries a checksum, so the upgrade restarts the plugin; an external ConfigMap is not watched
    (device-plugin chart 0.20.0), so the plugin is restarted by hand, and before a node is labelled: a name that the
    plugin does not know yet ends its process.
    """
    plugin = context.plan.cluster.plugin
    if plugin.config_map is not None and not integrated(plugin):
        return _external(context, layouts, plugin)
    return _values(context, layouts, plugin)


def integrated(plugin: PluginInstall) -> bool:
    """Whether the ConfigMap is the chart's own (named after the DaemonSet) and not one that somebody made beside it."""
    return plugin.config_map == f"{plugin.daemonset}-configs"


def wants_strategy(layouts: tuple[NodeLayout, ...]) -> set[str]:
    """The MIG strategies that the nodes' configurations ask for."""
    flags = (dict((layout.plugin_config or {}).get("flags") or {}) for layout in layouts)
    return {str(found["migStrategy"]) for found in flags if "migStrategy" in found}


def needs_gfd(context: Context, layouts: tuple[NodeLayout, ...]) -> bool:
    """MPS runs only on nodes with a label that GFD publishes."""
    return not context.plan.cluster.plugin.gfd and any(
        "mps" in (layout.plugin_config or {}).get("sharing", {}) for layout in layouts
    )


def _values(context: Context, layouts: tuple[NodeLayout, ...], plugin: PluginInstall) -> NodePart:
    entries = dict(plugin.config_data)
    first_time = not entries
    if first_time:
        entries["default"] = "version: v1\n"
    default = plugin.config_default or ("default" if first_time or "default" in entries else "")
    entries.update(configs(context, layouts))
    values: Manifest = {"config": {"map": entries, **({"default": default} if default else {})}}
    if first_time and plugin.mig_strategy and wants_strategy(layouts) - {plugin.mig_strategy}:
        # The chart's value becomes an environment variable, which beats every file; so it moves into the default file.
        values["migStrategy"] = None
        entries["default"] = dump({"version": "v1", "flags": {"migStrategy": plugin.mig_strategy}})
    if needs_gfd(context, layouts):
        values["gfd"] = {"enabled": True}
    namespace, release = namespace_of(plugin), plugin.release or "nvdp"
    about = "Helm values of the device plugin: its configurations. Nodes without a label keep the default."
    version = chart_version(plugin)
    program = context.facts.charts["device-plugin"]
    upgrade = (
        f"helm upgrade {release} {program.chart} --repo {program.repository} --namespace {namespace} "
        f"--version {version} --reuse-values --values {VALUES}"
    )
    daemonset = plugin.daemonset or f"{release}-nvidia-device-plugin"
    return NodePart(
        files=(RenderedFile(VALUES, header(context, about) + dump(values)),),
        steps=(
            Step(
                "Give the device plugin its configurations",
                "The upgrade restarts the plugin on all nodes. Running pods keep their devices; nothing changes on a node "
                "before it is labelled."
                + (
                    "" if plugin.image else f" Put the version that `helm -n {namespace} list` shows in the place of {version}."
                ),
                (upgrade, f"kubectl -n {namespace} rollout status daemonset/{daemonset} --timeout=10m"),
                (f"kubectl -n {namespace} get configmap {daemonset}-configs -o jsonpath='{{.data}}'",),
                f"the keys {', '.join(entries)}",
            ),
        ),
        undo=(
            Step(
                "Take the configurations back",
                "Only after the nodes have lost their labels: a label that names a missing configuration ends the plugin.",
                (f"helm rollback {release} --namespace {namespace}",),
            ),
        ),
        actions=_actions(context, layouts, plugin, values, first_time=first_time),
    )


def _actions(
    context: Context, layouts: tuple[NodeLayout, ...], plugin: PluginInstall, values: Manifest, *, first_time: bool
) -> tuple[Action, ...]:
    """The upgrade; or, where the chart has its ConfigMap and only configurations are new, a patch of it and a restart.

    The patch spares the cluster a Helm that may not be at hand. The values are rendered all the same, since the next upgrade
    without them would take the configurations away again.
    """
    namespace, release = namespace_of(plugin), plugin.release or "nvdp"
    daemonset = plugin.daemonset or f"{release}-nvidia-device-plugin"
    if plugin.config_map is not None and not first_time and set(values) == {"config"}:
        return _patched(context, layouts, plugin, f"adds our configurations (keep {VALUES} for the next helm upgrade)")
    program = context.facts.charts["device-plugin"]
    texts: dict[str, str] = values["config"]["map"]
    return (
        HelmUpgrade(
            namespace, release, program.chart or "", program.repository or "", chart_version(plugin), values, VALUES,
            f"{daemonset}-configs", texts,
        ),
        WaitReady("apps/v1", "DaemonSet", namespace, daemonset, None, DAEMONSET_SECONDS),
    )  # fmt: skip


def _patched(context: Context, layouts: tuple[NodeLayout, ...], plugin: PluginInstall, what: str) -> tuple[Action, ...]:
    namespace, name = namespace_of(plugin), plugin.config_map or ""
    daemonset = plugin.daemonset or f"{plugin.release or 'nvdp'}-nvidia-device-plugin"
    restarted = [daemonset, *([f"{daemonset}-gpu-feature-discovery"] if plugin.gfd else [])]
    return (
        MergePatch("v1", "ConfigMap", namespace, name, {"data": configs(context, layouts)}, what),
        *(RestartDaemonSet(namespace, found, "it does not watch its ConfigMap") for found in restarted),
    )


def chart_version(plugin: PluginInstall) -> str:
    """The chart's version, which is that of its image; a placeholder where the image is not known."""
    match = re.search(r":v?(\d+\.\d+\.\d+)", plugin.image or "")
    return match.group(1) if match else "VERSION"


def _external(context: Context, layouts: tuple[NodeLayout, ...], plugin: PluginInstall) -> NodePart:
    namespace, name = namespace_of(plugin), plugin.config_map
    daemonset = plugin.daemonset or f"{plugin.release or 'nvdp'}-nvidia-device-plugin"
    added = configs(context, layouts)
    about = f"Patch of ConfigMap {namespace}/{name}: adds our configurations, leaves the others alone."
    restart = [*rollout(namespace, daemonset)]
    if plugin.gfd:
        restart += rollout(namespace, f"{daemonset}-gpu-feature-discovery")
    gone = "{" + ", ".join(f'"{key}": null' for key in added) + "}"
    return NodePart(
        files=(RenderedFile(PATCH, header(context, about) + dump({"data": added})),),
        steps=(
            Step(
                "Give the device plugin its configurations",
                "The plugin does not watch the ConfigMap, so it is restarted; running pods keep their devices.",
                (f"kubectl -n {namespace} patch configmap {name} --type merge --patch-file {PATCH}", *restart),
                (f"kubectl -n {namespace} get configmap {name} -o jsonpath='{{.data}}'",),
                f"the keys {', '.join(sorted({*plugin.config_keys, *plugin.config_data, *added}))}",
            ),
        ),
        undo=(
            Step(
                "Take the configurations back",
                "Only after the nodes have lost their labels.",
                (
                    f"kubectl -n {namespace} patch configmap {name} --type merge -p '{{\"data\": {gone}}}'",
                    rollout(namespace, daemonset)[0],
                ),
            ),
        ),
        actions=_patched(context, layouts, plugin, "adds our configurations"),
    )
