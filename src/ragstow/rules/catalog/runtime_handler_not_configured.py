"""A RuntimeClass exists, but the container runtime of a node has no such handler.

What
    Sandboxes are not created: `no runtime for "nvidia" is configured`. The RuntimeClass names a handler that containerd or CRI-O on
    that node does not know, mostly because the NVIDIA container toolkit has not configured it or the runtime was not restarted; or
    the handler is there and its program (nvidia-container-runtime) is not. Kubelets that list their handlers show it too.

Why
    Every pod of that class hangs in ContainerCreating on the node, the device plugin and the operator's own pods among them.

Fix
    Let the toolkit write the runtime's configuration and restart the runtime (`nvidia-ctk runtime configure --runtime=containerd`,
    then `systemctl restart containerd`); on k3s restart the k3s service after the toolkit is installed. Check that the
    toolkit wrote the file that the runtime really reads (K3s, RKE2 and MicroK8s have their own).

References
    - Kubernetes: RuntimeClass, handler; node.status.runtimeHandlers
    - NVIDIA GPU Operator troubleshooting: no runtime for "nvidia" is configured

Fires: the sandbox cannot be made
    apiVersion: v1
    kind: Pod
    metadata: {name: plugin-a, namespace: gpu-operator, uid: a}
    spec: {nodeName: gpu-1, runtimeClassName: nvidia, containers: [{name: nvidia-device-plugin, image: k8s-device-plugin}]}
    status: {phase: Pending}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: b}
    status: {capacity: {cpu: 8}, allocatable: {cpu: 8}}
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e1, namespace: gpu-operator, uid: c}
    involvedObject: {kind: Pod, namespace: gpu-operator, name: plugin-a}
    reason: FailedCreatePodSandBox
    type: Warning
    message: 'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured'

Quiet: the pod runs, the event is old
    apiVersion: v1
    kind: Pod
    metadata: {name: plugin-a, namespace: gpu-operator, uid: a}
    spec: {nodeName: gpu-1, runtimeClassName: nvidia, containers: [{name: nvidia-device-plugin, image: k8s-device-plugin}]}
    status:
      phase: Running
      containerStatuses: [{name: nvidia-device-plugin, ready: true, restartCount: 0, state: {running: {}}}]
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e1, namespace: gpu-operator, uid: c}
    involvedObject: {kind: Pod, namespace: gpu-operator, name: plugin-a}
    reason: FailedCreatePodSandBox
    type: Warning
    message: 'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.rules.context import Context
from ragstow.rules.grouping import Site, by_node, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import gpu_nodes

_RUNTIMES = {"containerd://": "containerd", "cri-o://": "crio", "docker://": "docker"}
_FIX = Fix(
    "Let the NVIDIA container toolkit configure the runtime, then restart the runtime (on k3s and RKE2 their own service).",
    disruption="restarts the container runtime of the node; running containers stay",
)


class RuntimeHandlerNotConfigured(Rule):
    """See the page above."""

    cause = "runtime-handler-not-configured"
    severity = "high"
    needs = frozenset({"events", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node whose runtime refuses a handler."""
        for site, hits in by_node(context.texts.of_cause(self.cause)):
            handler = next((value for hit in hits for value in hit.match.groupdict().values() if value), "nvidia")
            if not site.pods and _known_by_now(context, site.node, handler):
                continue
            classes = [
                ObjectRef.of(item)
                for item in context.snapshot.of("RuntimeClass", "node.k8s.io")
                if item.raw.get("handler") == handler
            ]
            headline, explanation = _words(site, hits, handler)
            yield self.finding(
                headline,
                explanation,
                replace(
                    _fix(context, site.node),
                    check="kubectl get node " + (site.node or "<node>") + " -o jsonpath='{.status.runtimeHandlers[*].name}'",
                ),
                (*site.objects, *classes),
                evidence=evidence(hits),
                held=tuple(dict.fromkeys((*site.pods, *_starting(context, site.node, handler)))),
                confidence=sure(hits),
            )
        yield from self._listed(context, {site.node for site, _ in by_node(context.texts.of_cause(self.cause))})

    def _listed(self, context: Context, said: set[str | None]) -> Iterator[Finding]:
        """Nodes whose kubelet lists its runtime's handlers, with pods that wait there for one that is not among them."""
        handlers = {item.name: str(item.raw.get("handler")) for item in context.snapshot.of("RuntimeClass", "node.k8s.io")}
        for node in context.snapshot.nodes:
            listed = node.status.get("runtimeHandlers")
            names = (
                {str(item.get("name") or "") for item in listed if isinstance(item, Mapping)}
                if isinstance(listed, list)
                else set()
            )
            for name, handler in handlers.items():
                held = (
                    _starting(context, node.name, handler) if names and handler not in names and node.name not in said else []
                )
                if held:
                    pods = [pod for pod in context.snapshot.pods if pod.key in held]
                    known = ", ".join(sorted(names - {""})) or "only its default one"
                    yield self.finding(
                        f'the container runtime on node {node.name} has no handler "{handler}"',
                        f"RuntimeClass {name} names it, and the kubelet lists {known}: no pod of that class gets a sandbox there.",
                        _fix(context, node.name),
                        (ObjectRef.of(node), *map(ObjectRef.of, pods), ObjectRef("RuntimeClass", "", name)),
                        evidence=(Evidence(known, ObjectRef.of(node), "status.runtimeHandlers"),),
                        held=held,
                        confidence="likely",
                    )


def _words(site: Site, hits: Iterable[Hit], handler: str) -> tuple[str, str]:
    """Headline and explanation, after what is amiss: no handler, one without its program, or a toolkit that could write none."""
    kinds = {hit.signature.id for hit in hits}
    if kinds == {"runtime-binary-missing"}:
        return (
            f'handler "{handler}" of the container runtime on {site.words} names a program that is not there',
            (
                "The configuration outlived the NVIDIA container toolkit, or was written before it: the runtime knows the handler and cannot "
                "start it."
            ),
        )
    if kinds == {"toolkit-runtime"}:
        return (
            f"the NVIDIA container toolkit could not configure the container runtime on {site.words}",
            (
                f'The toolkit does not reach the runtime\'s socket or its configuration, so that the runtime has no handler "{handler}". K3s, '
                "RKE2 and MicroK8s have theirs in other places (CONTAINERD_SOCKET, CONTAINERD_CONFIG of the toolkit)."
            ),
        )
    return (
        f'the container runtime on {site.words} has no handler "{handler}"',
        (
            f"RuntimeClass objects only name a handler; the runtime of each node must know it. On {site.words} it does not, so that "
            "no pod of that class gets a sandbox there."
        ),
    )


def _fix(context: Context, name: str | None) -> Fix:
    """The fix with the command for the node's own runtime."""
    info = next((node.status.get("nodeInfo") for node in context.snapshot.nodes if node.name == name), None)
    version = str(info.get("containerRuntimeVersion") or "") if isinstance(info, Mapping) else ""
    runtime = next((word for scheme, word in _RUNTIMES.items() if version.startswith(scheme)), "containerd")
    return replace(
        _FIX, command=f"nvidia-ctk runtime configure --runtime={runtime} && systemctl restart {runtime}   # on the node"
    )


def _starting(context: Context, node: str | None, handler: str) -> list[str]:
    """Pods of a node that wait for their sandbox under a class of this handler."""
    classes = {
        item.name for item in context.snapshot.of("RuntimeClass", "node.k8s.io") if str(item.raw.get("handler")) == handler
    }
    return [
        state.pod.key
        for state in context.states.in_state("starting")
        if node is not None and state.pod.node == node and state.pod.runtime_class in classes
    ]


def _known_by_now(context: Context, name: str | None, handler: str) -> bool:
    """Whether the node (or every GPU node, where it is unnamed) lists the handler: the line is from before it was set up."""
    names = [name] if name else [node.name for node in gpu_nodes(context)]
    nodes = [context.snapshot.get("Node", item) for item in names]
    return bool(nodes) and all(
        node is not None and any(isinstance(item, Mapping) and item.get("name") == handler for item in _handlers(node))
        for node in nodes
    )


def _handlers(node: KubeObject) -> Sequence[Any]:
    status = node.raw.get("status")
    listed = status.get("runtimeHandlers") if isinstance(status, Mapping) else None
    return listed if isinstance(listed, list) else ()
