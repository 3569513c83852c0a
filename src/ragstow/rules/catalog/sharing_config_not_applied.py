"""A valid sharing configuration exists, but the plugin of a node does not use it.

What
    A ConfigMap holds a valid time-slicing or MPS configuration, and no node runs with it: the plugin does not mount it (taken as
    environment variables, for instance), no node label and no default selects its key, or the plugin was not restarted since.

Why
    The node keeps offering whole cards. The GPU Operator falls back to an empty configuration when neither a label nor
    `devicePlugin.config.default` names a key: "I created the ConfigMap and nothing changed".

Fix
    Mount the ConfigMap and point CONFIG_FILE at it (or use the chart's `config.name`), name a default or label the node
    `nvidia.com/device-plugin.config=<key>`, and restart the plugin.

References
    - NVIDIA device plugin: updating per-node configuration with a node label
    - NVIDIA GPU Operator: time-slicing GPUs

Fires: the plugin takes the ConfigMap as environment, not as a file
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: ts, namespace: nvidia, uid: c}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: plugin, namespace: nvidia, uid: d}
    spec:
      selector: {matchLabels: {app: plugin}}
      template:
        metadata: {labels: {app: plugin}}
        spec: {containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin, envFrom: [{configMapRef: {name: ts}}]}]}
    status: {desiredNumberScheduled: 1, currentNumberScheduled: 1}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-A2}}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}

Fires: an event of the plugin's pod is all there is
    apiVersion: v1
    kind: Event
    metadata: {name: plugin.1, namespace: gpu-operator, uid: e}
    involvedObject: {kind: Pod, name: nvidia-device-plugin-daemonset-q9, namespace: gpu-operator, uid: a}
    reason: FailedMount
    message: 'MountVolume.SetUp failed for volume "time-slicing-config" : configmap "time-slicing-config" not found'

Quiet: the node offers the shares
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: ts, namespace: nvidia, uid: c}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-A2, nvidia.com/gpu.replicas: "4", nvidia.com/gpu.sharing-strategy: time-slicing}}
    status: {capacity: {nvidia.com/gpu.shared: 4}, allocatable: {nvidia.com/gpu.shared: 4}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import KubeObject
from ragstow.inventory.model import NodeGpus
from ragstow.inventory.resources import FULL_GPU
from ragstow.inventory.state import shared_as
from ragstow.rules.configs import ConfigText, config_texts, given, shares, trouble
from ragstow.rules.context import Context
from ragstow.rules.fixes import template_patch
from ragstow.rules.grouping import by_workload, evidence, said_by
from ragstow.rules.index.stack import template
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import FIT, gpu_nodes, unserved

_LABEL = "nvidia.com/device-plugin.config"
_OTHERWISE = frozenset({"mig-single", "mig-mixed", "dra", "hami", "kai", "none", "unknown"})
"""States in which the number of slots for each card says nothing about time-slicing or MPS."""


class SharingConfigNotApplied(Rule):
    """See the page above."""

    cause = "sharing-config-not-applied"
    severity = "medium"
    needs = frozenset({"snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each ConfigMap whose sharing no node runs with, where a plugin should have taken it, or could."""
        yield from self._stale(context)
        yield from self._unselected(context)
        yield from self._elsewhere(context)
        served = [node for node in gpu_nodes(context) if any(use.capacity for use in node.resources.values())]
        if not served or any(node.sharing in ("time-slicing", "mps") for node in served):
            return
        for item in context.snapshot.of("ConfigMap"):
            sharing = [
                config
                for config in config_texts((item,))
                if config.kind == "plugin" and not trouble(config) and shares(config.text)
            ]
            plain = [config for config in config_texts((item,)) if config.kind == "plugin" and not shares(config.text)]
            if not sharing:
                continue
            why = self._why(context, item, plain, served)
            if why:
                plugins = context.stack.workloads("device-plugin")
                ref = ObjectRef.of(item)
                yield self.finding(
                    f"{ref} configures sharing, and no node runs with it: {why[0].value}",
                    f"{len(served)} node(s) with GPUs offer whole cards. " + "; ".join(entry.value for entry in why) + ".",
                    Fix(
                        "Give the plugin the file (mount the ConfigMap, CONFIG_FILE or the chart's config.name), select the key (a default, "
                        "or the node label nvidia.com/device-plugin.config), and restart the plugin.",
                        patch=_selecting(context, why, item.name, sharing[0].key),
                        disruption="restarts the device plugin; running pods keep their devices",
                        check="kubectl get nodes -o jsonpath='{.items[*].status.allocatable}'",
                    ),
                    (ref, *map(ObjectRef.of, plugins), *(ObjectRef("Node", "", node.name) for node in served[:3])),
                    evidence=(
                        *why,
                        *(Evidence(f"replicas in key {config.key}", ref, f"data[{config.key}]") for config in sharing[:1]),
                    ),
                    held=[key for group in unserved(context, [node.name for node in served]) for key in group.held],
                )

    def _stale(self, context: Context) -> Iterator[Finding]:
        """Nodes that offer something else than the configuration that their plugin is given."""
        behind: dict[tuple[tuple[str, str], str], list[tuple[NodeGpus, int, int]]] = {}
        for node in gpu_nodes(context):
            config = node.config
            if (
                config is None
                or config.config is None
                or config.config_map is None
                or not config.key
                or node.sharing in _OTHERWISE
            ):
                continue
            wanted, now = shared_as(config.config, FULL_GPU), node.replicas or 1
            factor = wanted[1] if wanted is not None else 1
            slots = sum(use.capacity for name, use in node.resources.items() if name.startswith(FULL_GPU))
            if factor != now and node.cards and slots == node.cards * now:
                behind.setdefault((config.config_map, config.key), []).append((node, factor, now))
        for (config_map, key), found in behind.items():
            ref, names = ObjectRef("ConfigMap", *config_map), [node.name for node, _, _ in found]
            _, factor, now = found[0]
            plugins = [item for item in context.stack.workloads("device-plugin") if item.namespace == config_map[0]]
            target = ObjectRef.of(plugins[0]) if plugins else None
            yield self.finding(
                f"{ref} key {key} says {factor} slot(s) for each card, {', '.join(names[:5])} offer(s) {now}: the plugin has not read it",
                "A running plugin does not notice that its ConfigMap changed; it reads it when it starts, or when the node's label changes.",
                Fix(
                    "Restart the device plugin (and GPU feature discovery).",
                    command=f"kubectl -n {config_map[0]} rollout restart daemonset {target.name}" if target is not None else "",
                    disruption="restarts the device plugin; running pods keep their devices",
                    check=f"kubectl get node {names[0]} -o jsonpath='{{.status.allocatable}}'",
                ),
                (ref, *map(ObjectRef.of, plugins), *(ObjectRef("Node", "", name) for name in names)),
                evidence=(
                    Evidence(f"replicas {factor}", ref, f"data[{key}]"),
                    *(
                        Evidence(
                            f"{node.cards} card(s), {now} slot(s) each", ObjectRef("Node", "", node.name), "status.capacity"
                        )
                        for node, _, now in found[:3]
                    ),
                ),
                held=_held(context, names),
                confidence="likely",
                severity="high" if _held(context, names) else None,
            )

    def _unselected(self, context: Context) -> Iterator[Finding]:
        """A configuration that would offer what pods wait for, and that no node and no default selects."""
        served = [node for node in gpu_nodes(context) if any(use.capacity for use in node.resources.values())]
        offered = {name for node in served for name, use in node.resources.items() if use.capacity}
        groups = [
            group
            for group in unserved(context, [node.name for node in served])
            if any(name not in offered for name in group.wants)
        ]
        if not groups:
            return
        used = {(node.config.config_map, node.config.key) for node in gpu_nodes(context) if node.config is not None}
        maps = {config_map for config_map, _ in used if config_map is not None}
        for namespace, name in sorted(maps):
            item = context.snapshot.get("ConfigMap", name, namespace)
            for config in config_texts((item,) if item is not None else ()):
                if (
                    config.kind != "plugin"
                    or trouble(config)
                    or not shares(config.text)
                    or ((namespace, name), config.key) in used
                ):
                    continue
                held = [key for group in groups if set(group.wants) & (given(config.text) - offered) for key in group.held]
                nodes = [node.name for node in served if any(group.only(node, FIT) for group in groups)]
                if not held or not nodes:
                    continue
                ref = ObjectRef("ConfigMap", namespace, name)
                yield self.finding(
                    f"{ref} key {config.key} would offer {', '.join(sorted(given(config.text) - offered))}, and no node selects it",
                    f"{len(held)} pod(s) wait for it. Neither the label {_LABEL} of a GPU node nor the default names the key; the nodes offer "
                    f"{', '.join(sorted(offered))}.",
                    Fix(
                        f"Label the nodes that are to share with {_LABEL}={config.key}.",
                        command=f"kubectl label node {nodes[0]} {_LABEL}={config.key} --overwrite",
                        disruption="reloads the device plugin of the node; running pods keep their devices",
                        check=f"kubectl get node {nodes[0]} -o jsonpath='{{.status.allocatable}}'",
                    ),
                    (ref, *(ObjectRef("Node", "", node) for node in nodes[:5])),
                    evidence=(
                        Evidence(f"key {config.key}", ref, f"data[{config.key}]"),
                        *(
                            Evidence(_label(context, node), ObjectRef("Node", "", node), f"metadata.labels[{_LABEL}]")
                            for node in nodes[:3]
                        ),
                    ),
                    held=held,
                    severity="high",
                )

    def _elsewhere(self, context: Context) -> Iterator[Finding]:
        """Plugin pods that cannot start, since their ConfigMap is not in their namespace."""
        hits = [
            hit
            for hit in context.texts.of_cause(self.cause)
            if hit.signature.software == "kubelet"
            and said_by(context, hit, "device-plugin")
            and context.snapshot.get("ConfigMap", hit.match["name"], _space(hit)) is None
        ]
        for site, members in by_workload(context, hits):
            name = members[0].match["name"]
            space = _space(members[0])
            there = [item for item in context.snapshot.of("ConfigMap") if item.name == name]
            yield self.finding(
                f"{site.words} cannot start: ConfigMap {name} is not in its namespace {space}"
                + (f", it is in {there[0].namespace}" if there else ""),
                "A pod mounts ConfigMaps of its own namespace only; until it is there the plugin waits, and its node offers no GPU.",
                Fix(
                    f"Create the ConfigMap {name} in namespace {space}, or name one that is there.",
                    command=f"kubectl -n {there[0].namespace} get configmap {name} -o yaml "
                    f"| sed 's/namespace: {there[0].namespace}/namespace: {space}/' | kubectl apply -f -"
                    if there
                    else f"kubectl -n {space} get configmaps",
                    check=f"kubectl -n {space} get pods   # the plugin pods start by themselves",
                ),
                (*site.objects, *map(ObjectRef.of, there)),
                evidence=evidence(members),
                held=[key for group in unserved(context, [site.node] if site.node else ()) for key in group.held],
                confidence="certain" if there else "likely",
                severity="high",
            )

    def _why(self, context: Context, item: KubeObject, plain: list[ConfigText], served: list[NodeGpus]) -> list[Evidence]:
        found: list[Evidence] = []
        for plugin in context.stack.workloads("device-plugin"):
            ref = ObjectRef.of(plugin)
            if plugin.namespace != item.namespace:
                if _named_by_label(context, item, served) and not _configured(plugin):
                    text = f"the plugin is in namespace {plugin.namespace}, and mounts no ConfigMap at all"
                    found.append(Evidence(text, ref, "spec.template.spec.volumes"))
                continue
            if _from_environment(plugin, item.name):
                found.append(
                    Evidence("the plugin takes the ConfigMap as environment variables, which it does not read", ref, "envFrom")
                )
            elif not _mounts(plugin, item.name):
                found.append(Evidence("the plugin does not mount the ConfigMap", ref, "spec.template.spec.volumes"))
        for policy in context.snapshot.of("ClusterPolicy", "nvidia.com"):
            config = ((policy.raw.get("spec") or {}).get("devicePlugin") or {}).get("config") or {}
            if (
                config.get("name") == item.name
                and not config.get("default")
                and not any(_labelled(context, node) for node in served)
            ):
                text = (
                    "ClusterPolicy names the ConfigMap, but neither devicePlugin.config.default nor a node label selects a key"
                )
                found.append(Evidence(text, ObjectRef.of(policy), "spec.devicePlugin.config"))
        if found and plain and not any("environment" in entry.value for entry in found):
            return []  # whole cards may be what the chosen key says
        return found


def _space(hit: Hit) -> str:
    """The namespace of the pod that a text is about."""
    about = hit.text.pod or hit.text.about
    return about.namespace if about is not None else ""


def _held(context: Context, nodes: list[str]) -> list[str]:
    return [key for group in unserved(context, nodes) for key in group.held]


def _label(context: Context, name: str) -> str:
    node = context.snapshot.get("Node", name)
    return node.labels.get(_LABEL, "(absent)") if node is not None else "(absent)"


def _labelled(context: Context, node: NodeGpus) -> bool:
    found = context.snapshot.get("Node", node.name)
    return found is not None and "nvidia.com/device-plugin.config" in found.labels


def _selecting(context: Context, why: list[Evidence], name: str, key: str) -> Patch | None:
    """What gives the plugin this key of the ConfigMap: the operator's default, or the file mounted and named."""
    ref = why[0].object
    if ref is None:
        return None
    if ref.kind == "ClusterPolicy":
        return Patch("merge", ref, {"spec": {"devicePlugin": {"config": {"name": name, "default": key}}}})
    plugin = next((item for item in context.stack.workloads("device-plugin") if ObjectRef.of(item) == ref), None)
    containers = template(plugin).get("containers") or () if plugin is not None else ()
    program = context.facts.stack.program
    called = [
        str(c.get("name"))
        for c in containers
        if (found := program(str(c.get("name")), str(c.get("image")))) and found.role == "device-plugin"
    ]
    if len(called) != 1:
        return None
    container = {
        "name": called[0],
        "env": [{"name": "CONFIG_FILE", "value": f"/config/{key}"}],
        "volumeMounts": [{"name": "sharing-config", "mountPath": "/config"}],
    }
    volume = {"name": "sharing-config", "configMap": {"name": name}}
    return template_patch(ref, {"containers": [container], "volumes": [volume]})


def _from_environment(plugin: KubeObject, name: str) -> bool:
    return any(
        (source.get("configMapRef") or {}).get("name") == name
        for container in template(plugin).get("containers") or ()
        for source in container.get("envFrom") or ()
    )


def _named_by_label(context: Context, item: KubeObject, served: list[NodeGpus]) -> bool:
    """Whether the label of a GPU node asks for a key of the ConfigMap."""
    data = item.raw.get("data") or {}
    return any(_label(context, node.name) in data for node in served)


def _configured(plugin: KubeObject) -> bool:
    return any(volume.get("configMap") or volume.get("projected") for volume in template(plugin).get("volumes") or ())


def _mounts(plugin: KubeObject, name: str) -> bool:
    for volume in template(plugin).get("volumes") or ():
        projected = (volume.get("projected") or {}).get("sources") or ()
        if (volume.get("configMap") or {}).get("name") == name or any(
            (s.get("configMap") or {}).get("name") == name for s in projected
        ):
            return True
    return False
