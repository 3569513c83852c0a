"""The device plugin from a static manifest: it has one configuration for all nodes, so ours runs beside it.

The old DaemonSet is kept off the labelled nodes, and one DaemonSet of ours for each configuration runs there; two plugins on
one node would fight for the kubelet's socket.
"""

from __future__ import annotations

from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.render import names
from ragstow.render.actions import ApplyObject, MergePatch, WaitReady
from ragstow.render.model import Context, Manifest, NodePart, RenderedFile, Step
from ragstow.render.nodes.common import DAEMONSET_SECONDS, configs, header, key_of
from ragstow.render.nodes.operator import config_map
from ragstow.render.yamltext import dump

CONFIG, DAEMONSET, PATCH = "nodes/device-plugin-config.yaml", "nodes/device-plugin-{key}.yaml", "nodes/device-plugin-patch.yaml"

AFFINITY_GONE = '{"spec": {"template": {"spec": {"affinity": null}}}}'


def part(context: Context, layouts: tuple[NodeLayout, ...]) -> NodePart:
    """A ConfigMap, a DaemonSet for each configuration, and the patch that keeps the old DaemonSet off those nodes."""
    plugin = context.plan.cluster.plugin
    namespace, old = plugin.namespace or "kube-system", plugin.daemonset or "nvidia-device-plugin-daemonset"
    name = names.join("ragstow", context.service.name, "plugin")
    data = configs(context, layouts)
    config = config_map(context, namespace, name, data)
    files = [RenderedFile(CONFIG, header(context, "Configurations of the device plugin, one key each.") + dump(config))]
    objects = {CONFIG: config}
    for key in data:
        path = DAEMONSET.replace("{key}", key)
        objects[path] = daemonset(context, plugin, namespace, name, key)
        files.append(
            RenderedFile(path, header(context, f"The device plugin of the nodes labelled {key}.") + dump(objects[path]))
        )
    expression = {"key": names.PLUGIN_CONFIG, "operator": "NotIn", "values": list(data)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    patch = {
        "spec": {
            "template": {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}}
        }
    }
    about = f"Patch of DaemonSet {namespace}/{old}: keeps it off the nodes of ours (it replaces a nodeAffinity of its own)."
    files.append(RenderedFile(PATCH, header(context, about) + dump(patch)))
    ours = [names.join("ragstow", context.service.name, key) for key in data]
    return NodePart(
        files=tuple(files),
        objects=objects,
        steps=(
            Step(
                "Put a plugin with our configuration beside the one that is there",
                "Running pods keep their devices. Nothing changes on a node before it is labelled.",
                (
                    f"kubectl -n {namespace} patch daemonset {old} --type strategic --patch-file {PATCH}",
                    f"kubectl -n {namespace} rollout status daemonset/{old} --timeout=10m",
                    *(f"kubectl apply -f {path}" for path in objects),
                ),
                (f"kubectl -n {namespace} get daemonset {old} {' '.join(ours)}",),
                f"DESIRED of {old} as before, of ours 0 until the nodes are labelled",
            ),
        ),
        undo=(
            Step(
                "Take our plugin away and let the old one back",
                "Only after the nodes have lost their labels.",
                (
                    *(f"kubectl delete -f {path}" for path in reversed(objects)),
                    f"kubectl -n {namespace} patch daemonset {old} --type merge -p '{AFFINITY_GONE}'",
                ),
            ),
        ),
        actions=(
            MergePatch("apps/v1", "DaemonSet", namespace, old, patch, "keeps it off the nodes that ours will serve"),
            WaitReady("apps/v1", "DaemonSet", namespace, old, None, DAEMONSET_SECONDS),
            *(ApplyObject(item) for item in objects.values()),
        ),
    )


def daemonset(context: Context, plugin: PluginInstall, namespace: str, config: str, key: str) -> Manifest:
    """The plugin for the nodes that carry one configuration's label."""
    name = names.join("ragstow", context.service.name, key)
    labels = {"app.kubernetes.io/name": "nvidia-device-plugin", "app.kubernetes.io/instance": name}
    facts = context.plan.cluster
    runtime = "nvidia" if facts.runtime_class_needed and "nvidia" in facts.runtime_classes else None
    image = plugin.image or context.facts.charts["device-plugin"].image
    config_of = next(dict(row.plugin_config or {}) for row in context.changed if key_of(context, row) == key)
    cut = dict(config_of.get("flags", {})).get("migStrategy", "none") != "none"
    security: Manifest = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if cut:
        # Watching MIG devices needs the driver's monitor capability (static manifest and chart of the plugin).
        security = {"capabilities": {"add": ["SYS_ADMIN"]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels, **names.service_labels(context.service.name)},
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **({"runtimeClassName": runtime} if runtime else {}),
                    "priorityClassName": "system-node-critical",
                    "automountServiceAccountToken": False,
                    "nodeSelector": {names.PLUGIN_CONFIG: key},
                    "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [
                        {
                            "name": "nvidia-device-plugin-ctr",
                            "image": image,
                            "env": [
                                {"name": "CONFIG_FILE", "value": f"/config/{key}"},
                                *([{"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"}] if cut else []),
                            ],
                            "securityContext": security,
                            "volumeMounts": [
                                {"name": "device-plugin", "mountPath": "/var/lib/kubelet/device-plugins"},
                                {"name": "config", "mountPath": "/config", "readOnly": True},
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}},
                        {"name": "config", "configMap": {"name": config}},
                    ],
                },
            },
        },
    }
