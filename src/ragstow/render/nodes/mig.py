"""MIG layouts through the GPU Operator's MIG manager.

The MIG manager does not drain pods and fails on a card that is in use; the steps say what must be gone first. A ConfigMap of
our own replaces the operator's default layouts, so the ones that exist are kept in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ragstow import kubeyaml
from ragstow.errors import InputError
from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.render import names
from ragstow.render.actions import Action, ApplyObject, MergePatch, RestartDaemonSet, WaitReady
from ragstow.render.model import Context, NodePart, RenderedFile, Step
from ragstow.render.nodes.common import DAEMONSET_SECONDS, gone_first, header, label_command, unlabel_command
from ragstow.render.nodes.operator import POLICY, config_map, settled
from ragstow.render.yamltext import dump

CONFIG, CONFIG_PATCH = "nodes/mig-parted-config.yaml", "nodes/mig-parted-config-patch.yaml"
POLICY_PATCH = "nodes/clusterpolicy-mig-patch.yaml"
KEY = "config.yaml"
DEFAULT_CONFIG_MAP = "default-mig-parted-config"
MANAGER_DAEMONSET = "nvidia-mig-manager"
_STRATEGIES = (("mig-mixed", "mixed"), ("mig-single", "single"))
_BASIC = {
    "all-disabled": [{"devices": "all", "mig-enabled": False}],
    "all-enabled": [{"devices": "all", "mig-enabled": True, "mig-devices": {}}],
}


def layout_name(context: Context, layout: NodeLayout) -> str:
    """The name of a node's layout: the plan's, else the service's with the node's."""
    return layout.mig_layout or names.join(context.service.name, layout.node)


def entries(layout: NodeLayout) -> list[dict[str, Any]]:
    """A node's layout as mig-parted lists it: cards that are cut alike together, by their lowest index."""
    groups: dict[str, tuple[dict[str, int], list[int]]] = {}
    for card, profiles in sorted((layout.mig or {}).items()):
        wanted = {profile: count for profile, count in sorted(profiles.items()) if count}
        groups.setdefault(json.dumps(wanted), (wanted, []))[1].append(card)
    made: list[dict[str, Any]] = []
    for wanted, cards in groups.values():
        if wanted:
            made.append({"devices": cards, "mig-enabled": True, "mig-devices": wanted})
        else:
            made.append({"devices": cards, "mig-enabled": False})
    return made


def document(layouts: Mapping[str, Any]) -> dict[str, Any]:
    """A mig-parted file."""
    return {"version": "v1", "mig-configs": dict(layouts)}


def existing(plugin: PluginInstall) -> dict[str, Any]:
    """The layouts that the cluster's MIG manager knows today; empty where the data do not hold them."""
    text = plugin.mig_config_data.get(KEY, "")
    if not text:
        return {}
    try:
        documents = kubeyaml.load_all(text)
    except InputError:
        return {}
    value = documents[0].value if documents else None
    layouts = value.get("mig-configs") if isinstance(value, dict) else None
    return dict(layouts) if isinstance(layouts, dict) else {}


def by_operator(context: Context, layouts: tuple[NodeLayout, ...]) -> NodePart:
    """Layouts for the MIG manager, then the label that makes it cut each node."""
    plugin = context.plan.cluster.plugin
    namespace, policy = plugin.namespace or "gpu-operator", plugin.cluster_policy or "cluster-policy"
    known = existing(plugin)
    # A layout that switches MIG off is in every configuration of the operator's own making.
    there = known or _BASIC
    added = {name: entries(layout) for layout in layouts if (name := layout_name(context, layout)) not in there}
    strategy = next((wanted for sharing, wanted in _STRATEGIES if any(row.sharing == sharing for row in layouts)), None)
    spec: dict[str, Any] = {}
    if strategy is not None and plugin.mig_strategy != strategy:
        spec["mig"] = {"strategy": strategy}
    files: list[RenderedFile] = []
    objects: dict[str, Any] = {}
    commands: list[str] = []
    undo: list[str] = []
    actions: list[Action] = []
    text = ""
    if added and plugin.mig_config_map and plugin.mig_config_map != DEFAULT_CONFIG_MAP:
        merged = {KEY: dump(document({**known, **added}))}
        about = f"Patch of ConfigMap {namespace}/{plugin.mig_config_map}: its layouts and ours."
        files.append(RenderedFile(CONFIG_PATCH, header(context, about) + dump({"data": merged})))
        commands.append(
            f"kubectl -n {namespace} patch configmap {plugin.mig_config_map} --type merge --patch-file {CONFIG_PATCH}"
        )
        actions.append(
            MergePatch("v1", "ConfigMap", namespace, plugin.mig_config_map, {"data": merged}, "its MIG layouts and ours")
        )
    elif added:
        name = names.join("ragstow", context.service.name, "mig")
        config = config_map(context, namespace, name, {KEY: dump(document({**there, **added}))})
        about = "Layouts for the MIG manager: those that the operator brings, and ours."
        if not known:
            about += (
                "\nThe operator's default layouts were not in the data: nodes that use one need it here "
                f"(kubectl -n {namespace} get configmap {DEFAULT_CONFIG_MAP} -o yaml)."
            )
            text = " The ConfigMap replaces the operator's default layouts; those in use elsewhere must be added to it first."
        files.append(RenderedFile(CONFIG, header(context, about) + dump(config)))
        objects[CONFIG] = config
        spec["migManager"] = {"config": {"name": name}}
        commands.append(f"kubectl apply -f {CONFIG}")
        actions.append(ApplyObject(config))
    if spec:
        about = f"Merge patch of ClusterPolicy {policy}."
        files.append(RenderedFile(POLICY_PATCH, header(context, about) + dump({"spec": spec})))
        commands.append(f"kubectl patch clusterpolicies.nvidia.com {policy} --type merge --patch-file {POLICY_PATCH}")
        what = "our layouts for the MIG manager" if objects else f"MIG strategy {strategy}"
        actions += [
            MergePatch(*POLICY, "", policy, {"spec": spec}, what),
            *settled(plugin, namespace, str(strategy) if "mig" in spec else ""),
        ]
        before = {key: {"config": {"name": ""}} if key == "migManager" else {"strategy": plugin.mig_strategy} for key in spec}
        undo.append(f"kubectl patch clusterpolicies.nvidia.com {policy} --type merge -p '{json.dumps({'spec': before})}'")
    if "mig" in spec:
        text += (
            f" The MIG strategy becomes {strategy} on all nodes of the operator (it was {plugin.mig_strategy or 'not set'})."
        )
    if objects:
        undo.append(f"kubectl delete -f {CONFIG}")
    steps: list[Step] = []
    if commands:
        restart = (
            f"kubectl -n {namespace} rollout restart daemonset/nvidia-mig-manager",
            f"kubectl -n {namespace} rollout status daemonset/nvidia-mig-manager --timeout=10m",
        )
        steps.append(
            Step(
                "Give the MIG manager its layouts",
                "Nothing changes on a node before it is labelled." + text,
                (*commands, *restart),
                (f"kubectl get clusterpolicies.nvidia.com {policy} -o jsonpath='{{.status.state}}'",),
                "ready",
            )
        )
        if objects:
            name = objects[CONFIG]["metadata"]["name"]
            actions.append(WaitReady("apps/v1", "DaemonSet", namespace, MANAGER_DAEMONSET, None, DAEMONSET_SECONDS, name))
        actions.append(RestartDaemonSet(namespace, MANAGER_DAEMONSET, "so that it knows the new layouts"))
    steps += [_cut(context, layout, namespace) for layout in layouts]
    undone = [
        Step(
            f"Undo the cut of {layout.node}",
            "Without a layout of its own the operator sets all-disabled. No pod may hold a slice.",
            (_former(layout), *_state(layout)),
        )
        for layout in reversed(layouts)
    ]
    if undo:
        undone.append(Step("Take the MIG configuration back", "", tuple(undo)))
    return NodePart(tuple(files), objects, tuple(steps), tuple(undone), tuple(actions))


def _former(layout: NodeLayout) -> str:
    before = layout.labels_before.get(names.MIG_CONFIG)
    if before is not None:
        return label_command(layout.node, {names.MIG_CONFIG: before})
    return unlabel_command(layout.node, (names.MIG_CONFIG,))


def _state(layout: NodeLayout) -> tuple[str, str]:
    # The label still says `success` of the last layout until the manager has seen the new one.
    wait = f"kubectl wait node/{layout.node} --for=jsonpath='{{.metadata.labels.nvidia\\.com/mig\\.config\\.state}}'="
    return f"{wait}pending --timeout=60s || true", f"{wait}success --timeout=15m"


def _cut(context: Context, layout: NodeLayout, namespace: str) -> Step:
    name = layout_name(context, layout)
    return Step(
        f"Cut the cards of {layout.node}",
        f"{gone_first(layout)} The manager pauses plugin and feature discovery of the node, cuts (seconds to minutes, with a "
        "reset or a reboot where the card needs one) and starts them again. State `failed` means that a card was in use: "
        "see the log.",
        (
            f"kubectl cordon {layout.node}",
            label_command(layout.node, {names.MIG_CONFIG: name}),
            *_state(layout),
            f"kubectl uncordon {layout.node}",
        ),
        (f"kubectl -n {namespace} logs -l app=nvidia-mig-manager --tail=20",),
        f"the layout {name} applied on {layout.node}",
    )
