"""The device plugin under the GPU Operator: a ConfigMap with its configurations, and a patch that points at it."""

from __future__ import annotations

from typing import Any

from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.render import names
from ragstow.render.actions import Action, ApplyObject, MergePatch, RestartDaemonSet, WaitReady
from ragstow.render.model import Context, Manifest, NodePart, RenderedFile, Step
from ragstow.render.nodes.common import DAEMONSET_SECONDS, configs, header, rollout
from ragstow.render.yamltext import dump

CONFIG = "nodes/device-plugin-config.yaml"
CONFIG_PATCH = "nodes/device-plugin-config-patch.yaml"
POLICY_PATCH = "nodes/clusterpolicy-device-plugin-patch.yaml"
POLICY = ("nvidia.com/v1", "ClusterPolicy")
PLUGIN_DAEMONSET, GFD_DAEMONSET = "nvidia-device-plugin-daemonset", "gpu-feature-discovery"


def part(context: Context, layouts: tuple[NodeLayout, ...]) -> NodePart:
    """A ConfigMap of ours and the patch that names it; or our keys added to the ConfigMap that is already in use.

    `default` stays empty in the first case: a node without a label then gets the empty configuration, which is what it has
    today (the operator sets FALLBACK_STRATEGIES=empty).
    """
    plugin = context.plan.cluster.plugin
    return _added(context, layouts, plugin) if plugin.config_map else _new(context, layouts, plugin)


def _new(context: Context, layouts: tuple[NodeLayout, ...], plugin: PluginInstall) -> NodePart:
    namespace = plugin.namespace or "gpu-operator"
    name = names.join("ragstow", context.service.name, "plugin")
    config = config_map(context, namespace, name, configs(context, layouts))
    patch: dict[str, Any] = {"spec": {"devicePlugin": {"config": {"name": name, "default": ""}}}}
    policy = plugin.cluster_policy or "cluster-policy"
    before: dict[str, Any] = {"spec": {"devicePlugin": {"config": None}}}
    return NodePart(
        files=(
            RenderedFile(CONFIG, header(context, "Configurations of the device plugin, one key each.") + dump(config)),
            RenderedFile(
                POLICY_PATCH, header(context, f"Merge patch of ClusterPolicy {policy}: points at our ConfigMap.") + dump(patch)
            ),
        ),
        objects={CONFIG: config},
        steps=(
            Step(
                "Give the device plugin its configurations",
                "The operator restarts plugin and feature discovery on all GPU nodes. Running pods keep their devices; a node "
                "without a label goes on as before.",
                (
                    f"kubectl apply -f {CONFIG}",
                    f"kubectl patch clusterpolicies.nvidia.com {policy} --type merge --patch-file {POLICY_PATCH}",
                    f"kubectl -n {namespace} rollout status daemonset/{PLUGIN_DAEMONSET} --timeout=10m",
                ),
                (f"kubectl get clusterpolicies.nvidia.com {policy} -o jsonpath='{{.status.state}}'",),
                "ready",
            ),
        ),
        undo=(
            Step(
                "Point the operator away from our configurations",
                "Only after the nodes have lost their labels.",
                (
                    f"kubectl patch clusterpolicies.nvidia.com {policy} --type merge -p '{_json(before)}'",
                    f"kubectl delete -f {CONFIG}",
                ),
            ),
        ),
        actions=(
            ApplyObject(config),
            MergePatch(*POLICY, "", policy, patch, "points at our configurations of the device plugin"),
            *settled(plugin, namespace, name),
        ),
    )


def settled(plugin: PluginInstall, namespace: str, mentions: str) -> tuple[Action, ...]:
    """Wait until the operator has carried a change of its policy out: the plugin's pods know it, and it says ready."""
    policy = plugin.cluster_policy or "cluster-policy"
    daemonset = plugin.daemonset or PLUGIN_DAEMONSET
    return (
        WaitReady("apps/v1", "DaemonSet", namespace, daemonset, None, DAEMONSET_SECONDS, mentions),
        WaitReady(*POLICY, "", policy, None, DAEMONSET_SECONDS),
    )


def _added(context: Context, layouts: tuple[NodeLayout, ...], plugin: PluginInstall) -> NodePart:
    namespace, name = plugin.namespace or "gpu-operator", plugin.config_map
    added = configs(context, layouts)
    about = f"Patch of ConfigMap {namespace}/{name}: adds our configurations, leaves the others alone."
    restart = (*rollout(namespace, PLUGIN_DAEMONSET), *rollout(namespace, GFD_DAEMONSET))
    gone = {"data": dict.fromkeys(added)}
    return NodePart(
        files=(RenderedFile(CONFIG_PATCH, header(context, about) + dump({"data": added})),),
        steps=(
            Step(
                "Give the device plugin its configurations",
                "The operator does not watch the ConfigMap, so plugin and feature discovery are restarted; running pods keep "
                "their devices.",
                (f"kubectl -n {namespace} patch configmap {name} --type merge --patch-file {CONFIG_PATCH}", *restart),
                (f"kubectl -n {namespace} get configmap {name} -o jsonpath='{{.data}}'",),
                f"the keys {', '.join(sorted({*plugin.config_keys, *plugin.config_data, *added}))}",
            ),
        ),
        undo=(
            Step(
                "Take the configurations back",
                "Only after the nodes have lost their labels.",
                (f"kubectl -n {namespace} patch configmap {name} --type merge -p '{_json(gone)}'", restart[0]),
            ),
        ),
        actions=(
            MergePatch("v1", "ConfigMap", namespace, name or "", {"data": added}, "adds our configurations"),
            *(
                RestartDaemonSet(namespace, found, "the operator does not watch the ConfigMap")
                for found in (PLUGIN_DAEMONSET, GFD_DAEMONSET)
            ),
        ),
    )


def config_map(context: Context, namespace: str, name: str, data: dict[str, str]) -> Manifest:
    """A ConfigMap of ours in the plugin's namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": names.service_labels(context.service.name)},
        "data": data,
    }


def _json(value: Any) -> str:
    import json

    return json.dumps(value)
