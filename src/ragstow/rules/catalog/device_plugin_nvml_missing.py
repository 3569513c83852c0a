"""The device plugin runs but cannot load NVML: its own container lacks the driver libraries.

What
    The plugin's log says that it could not load libnvidia-ml.so.1 ("Incompatible platform detected", "Unsupported platform detected",
    "ERROR_LIBRARY_NOT_FOUND"), and it crash-loops or waits for ever; its node offers no GPU.

Why
    The plugin needs the NVIDIA runtime itself: where nvidia is not the default runtime (k3s, RKE2, many kubeadm set-ups) its pod must
    say runtimeClassName nvidia. The host's nvidia-smi works all the same.

Fix
    Set runtimeClassName: nvidia on the plugin (chart value runtimeClassName), or make nvidia the default runtime and restart it.

References
    - NVIDIA device plugin: prerequisites; k3s: NVIDIA container runtime

Fires: libnvidia-ml is not there
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true"}}
    status: {capacity: {cpu: 8}, allocatable: {cpu: 8}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: plugin-a, namespace: kube-system, uid: p}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}
    status:
      phase: Running
      containerStatuses: [{name: nvidia-device-plugin-ctr, ready: false, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: nvidia-device-plugin-ctr.txt
    text: |
      Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1: cannot open shared object file: No such file or directory

Quiet: it serves devices
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true"}}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: plugin-a, namespace: kube-system, uid: p}
    spec: {nodeName: gpu-1, runtimeClassName: nvidia, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}
    status:
      phase: Running
      containerStatuses: [{name: nvidia-device-plugin-ctr, ready: true, restartCount: 0, state: {running: {}}}]
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Node, Pod
from ragstow.inventory.identity import identify
from ragstow.rules.context import Context
from ragstow.rules.drivers import driver_signs, idle_plugin
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import turned_away, unserved, waiting

_WORKLOADS = ("DaemonSet", "Deployment")


class DevicePluginNvmlMissing(Rule):
    """See the page above."""

    cause = "device-plugin-nvml-missing"
    severity = "high"
    needs = frozenset({"logs", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node whose plugin cannot load NVML while it offers no GPU."""
        said: set[str] = set()
        for site, hits in by_node(hit for hit in context.texts.of_cause(self.cause) if not _of_claims(context, hit)):
            said.add(site.node or "")
            if site.node and (_serves(context, site.node) or driver_signs(context, site.node).absent):
                continue  # an old log: the plugin serves by now; or a node without driver, which no plugin can help
            if _without_cards(context, site.node):
                continue
            pods = [hit.text.pod for hit in hits if hit.text.pod is not None]
            handler = next(
                (item for item in context.snapshot.of("RuntimeClass", "node.k8s.io") if item.raw.get("handler") == "nvidia"),
                None,
            )
            bare = bool(pods) and all(pod.runtime_class is None for pod in pods)
            workloads = tuple(dict.fromkeys(context.owners.workload(pod) for pod in pods))
            target = next((ref for ref in workloads if ref.kind in _WORKLOADS), None)
            name = handler.name if handler is not None else "nvidia"
            patch = (
                Patch("strategic", target, {"spec": {"template": {"spec": {"runtimeClassName": name}}}})
                if target and bare and handler is not None
                else None
            )
            yield self.finding(
                f"the device plugin on {site.words} cannot load NVML and serves no GPU",
                "Its own container lacks the driver libraries: it does not run under the NVIDIA runtime"
                + (
                    f" (RuntimeClass {name} exists, the plugin does not use it)."
                    if bare and handler is not None
                    else ", or the runtime has none."
                ),
                Fix(
                    (
                        f"Set runtimeClassName: {name} on the plugin's DaemonSet"
                        if handler is not None
                        else "Create RuntimeClass nvidia and set it on the plugin's DaemonSet"
                    )
                    + ", or make nvidia the default runtime of the node and restart it.",
                    patch=patch,
                    disruption="restarts the device plugin",
                    check=f"kubectl get node {site.node or '<node>'} -o jsonpath='{{.status.allocatable}}'",
                ),
                (*workloads, *site.objects, *([ObjectRef.of(handler)] if handler is not None else [])),
                evidence=(
                    *evidence(hits),
                    *(Evidence("(absent)", ObjectRef.of(pod), "spec.runtimeClassName") for pod in pods[:1] if bare),
                ),
                held=[
                    *(key for group in unserved(context, [site.node] if site.node else ()) for key in group.held),
                    *turned_away(context, site.node),
                ],
                confidence=sure(hits),
            )
        yield from self._silent(context, said)

    def _idle(self, context: Context, pod: Pod) -> bool:
        """Whether the plugin runs and offers nothing on a node that pods wait for."""
        node = next((node for node in context.snapshot.nodes if node.name == pod.node), None)
        return node is not None and idle_plugin(context, node) and bool(unserved(context, [node.name]))

    def _silent(self, context: Context, said: set[str]) -> Iterator[Finding]:
        """Plugins that crash or idle where the NVIDIA runtime is a RuntimeClass that they do not use, and whose log is not in the data."""
        classes = [item for item in context.snapshot.of("RuntimeClass", "node.k8s.io") if item.raw.get("handler") == "nvidia"]
        explained = {hit.text.pod.key for hit in context.texts.hits if hit.text.pod is not None}
        by_plugin: dict[ObjectRef, list[Pod]] = {}
        for pod in context.stack.pods("device-plugin"):
            state = context.states.of(pod)
            if (
                classes
                and pod.node
                and pod.node not in said
                and pod.runtime_class is None
                and pod.key not in explained
                and not context.logs.of(pod)
                and state is not None
                and not _serves(context, pod.node)
                and not driver_signs(context, pod.node).absent
                and (
                    any(c.crashing and c.restarts and not c.init and "config" not in c.name for c in state.containers)
                    or self._idle(context, pod)
                )
            ):
                by_plugin.setdefault(context.owners.workload(pod), []).append(pod)
        for workload, pods in by_plugin.items():
            name, nodes = classes[0].name, [pod.node for pod in pods if pod.node]
            idle = all(self._idle(context, pod) for pod in pods)
            patch = Patch("strategic", workload, {"spec": {"template": {"spec": {"runtimeClassName": name}}}})
            yield self.finding(
                f"{workload} {'serves no GPU' if idle else 'crashes'} on {', '.join(nodes)} without the NVIDIA runtime: runtimeClassName is "
                f"not set, RuntimeClass {name} exists",
                "A plugin that does not run under the NVIDIA runtime cannot load NVML, and ends or waits for ever (failOnInitError). Its log, "
                "which would prove it, is not in the data.",
                Fix(
                    f"Set runtimeClassName: {name} on the plugin's DaemonSet, or make nvidia the default runtime of the node.",
                    patch=patch if workload.kind in _WORKLOADS else None,
                    disruption="restarts the device plugin",
                    check=f"kubectl -n {workload.namespace} logs {pods[0].name} --previous   # before: no ERROR_LIBRARY_NOT_FOUND in it",
                ),
                (
                    workload,
                    *map(ObjectRef.of, pods),
                    *(ObjectRef("Node", "", node) for node in nodes),
                    ObjectRef.of(classes[0]),
                ),
                evidence=(
                    Evidence("(absent)", ObjectRef.of(pods[0]), "spec.runtimeClassName"),
                    Evidence("nvidia", ObjectRef.of(classes[0]), "handler"),
                ),
                held=[key for group in unserved(context, nodes) for key in group.held],
                confidence="likely",
            )


def _of_claims(context: Context, hit: Hit) -> bool:
    """Whether the DRA driver says it, which is another program's matter."""
    return hit.text.pod is not None and "dra-driver" in context.stack.roles(hit.text.pod)


def _without_cards(context: Context, name: str | None) -> bool:
    """Whether the plugin of the static manifest says so on a node that has no card: others serve theirs, nothing makes this one
    look like a GPU node, and nobody waits. Of an unnamed node that is believed where every GPU node serves."""
    nodes = context.snapshot.nodes
    if not any(_serves(context, node.name) for node in nodes) or any(group.wants for group in waiting(context)):
        return False
    asked = [node for node in nodes if node.name == name] if name else nodes
    return bool(asked) and all(_serves(context, node.name) or not _looks_like_gpu_node(context, node) for node in asked)


def _looks_like_gpu_node(context: Context, node: Node) -> bool:
    """By its labels or machine type; that a plugin runs there says nothing, since the static manifest puts it on every node."""
    known = identify(node, context.facts, (), None)
    return known.product is not None or bool(known.cards) or any("10de.present" in key for key in node.labels)


def _serves(context: Context, node: str) -> bool:
    found = context.inventory.find(node)
    return found is not None and any(use.allocatable for use in found.resources.values())
