"""What the kinds of plugin installation share: configuration texts, commands and checks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.render import names
from ragstow.render.model import Context
from ragstow.render.yamltext import comment, dump

KUBELET_LOG = "journalctl -u kubelet -u k3s -u k3s-agent --since -30min"
"""The kubelet's log on the node; k3s runs the kubelet inside its own unit."""


DAEMONSET_SECONDS = 600
"""How long the pods of a DaemonSet may take to be replaced on all nodes."""


def configs(context: Context, layouts: Iterable[NodeLayout]) -> dict[str, str]:
    """Configuration name -> text of the plugin's file, in the order of the nodes."""
    made: dict[str, str] = {}
    for layout in layouts:
        if layout.plugin_config is not None:
            made.setdefault(key_of(context, layout), dump(dict(layout.plugin_config)))
    return made


def key_of(context: Context, layout: NodeLayout) -> str:
    """The name of a node's configuration: the plan's, else the service's."""
    return layout.plugin_config_key or context.service.name


def set_labels(context: Context, layout: NodeLayout) -> dict[str, str]:
    """The labels that a node gets: those of the plan, and the name of its plugin configuration where it has one."""
    made = dict(layout.labels)
    if layout.plugin_config is not None:
        made.setdefault(names.PLUGIN_CONFIG, key_of(context, layout))
    if layout.mig_layout is not None and context.plan.cluster.plugin.kind == "operator":
        made.setdefault(names.MIG_CONFIG, layout.mig_layout)
    return dict(sorted(made.items()))


def header(context: Context, what: str) -> str:
    """The comment at the head of a file: what it is and which plan it comes from."""
    plan = context.plan
    return comment(f"{what}\nRendered by ragstow for {plan.namespace}/{plan.service}, plan {plan.digest[:16]}.")


def namespace_of(plugin: PluginInstall) -> str:
    """The plugin's namespace; the chart's customary one where the data do not say."""
    return plugin.namespace or "nvidia-device-plugin"


def label_command(node: str, labels: Mapping[str, str]) -> str:
    """The kubectl command that sets labels."""
    return f"kubectl label node {node} --overwrite {' '.join(f'{key}={value}' for key, value in labels.items())}"


def unlabel_command(node: str, keys: Iterable[str]) -> str:
    """The kubectl command that takes labels away."""
    return f"kubectl label node {node} {' '.join(f'{key}-' for key in keys)}"


def rollout(namespace: str, daemonset: str) -> tuple[str, str]:
    """Restart a DaemonSet and wait for it."""
    return (
        f"kubectl -n {namespace} rollout restart daemonset/{daemonset}",
        f"kubectl -n {namespace} rollout status daemonset/{daemonset} --timeout=10m",
    )


def allocatable_check(layout: NodeLayout) -> tuple[str, str]:
    """The command that shows what a node offers, and what it must show."""
    command = f"kubectl get node {layout.node} -o jsonpath='{{.status.allocatable}}{{\"\\n\"}}'"
    expected = ", ".join(f"{name}: {json.dumps(str(count))}" for name, count in sorted(layout.resources_after.items()))
    return command, expected


def gone_first(layout: NodeLayout) -> str:
    """Which pods must leave a node before its cards are cut."""
    if not layout.disturbs:
        return "No pod holds a GPU there."
    return f"These pods hold a GPU there and must be gone first: {', '.join(layout.disturbs)}."
