"""MPS sharing is configured, but its control daemon does not serve: daemon, root folder or label are missing.

What
    The plugin waits for the MPS control daemon or ends for lack of --mps-root; the daemon's DaemonSet has no ready pod on the
    node, mostly because GPU feature discovery does not set nvidia.com/mps.capable=true.

Why
    The plugin serves a resource under MPS only while that resource's daemon answers: until then the node offers nothing.

Fix
    Enable feature discovery (it publishes mps.capable), give the plugin an MPS root, and look at the daemon's log; MPS does not go with
    MIG, nor with more than 48 (16 before compute capability 7.5) replicas.

References
    - NVIDIA device plugin: MPS

Fires: the plugin waits for the daemon
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true"}}
    status: {capacity: {cpu: 8}, allocatable: {cpu: 8}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: plugin-a, namespace: nvidia, uid: p}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}
    status: {phase: Running, containerStatuses: [{name: nvidia-device-plugin-ctr, ready: true, restartCount: 0, state: {running: {}}}]}
    ---
    kind: Log
    name: nvidia-device-plugin-ctr.txt
    text: |
      Failed to start plugin: error waiting for MPS daemon: error checking MPS daemon health: failed to send command to MPS daemon

Quiet: the shares are offered
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true", nvidia.com/mps.capable: "true", nvidia.com/gpu.sharing-strategy: mps, nvidia.com/gpu.replicas: "4"}}
    status: {capacity: {nvidia.com/gpu.shared: 4}, allocatable: {nvidia.com/gpu.shared: 4}}
    ---
    kind: Log
    name: nvidia-device-plugin-ctr.txt
    text: |
      Failed to start plugin: error waiting for MPS daemon: error checking MPS daemon health: failed to send command to MPS daemon
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.configs import ConfigText, config_texts, shares_by_mps
from ragstow.rules.context import Context
from ragstow.rules.engines import is_device
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import gpu_nodes, turned_away, unserved
from ragstow.rules.youth import passing

_CAPABLE = "nvidia.com/mps.capable"
_DRA = "dra-driver"
_NO_ROOT = "--mps-root"


class MpsNotReady(Rule):
    """See the page above."""

    cause = "mps-not-ready"
    severity = "high"
    needs = frozenset({"logs", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node where MPS is wanted and nothing is served."""
        idle = {node.name for node in gpu_nodes(context) if not any(use.allocatable for use in node.resources.values())}
        served = {node.name for node in gpu_nodes(context)} - idle
        said: set[str] = set()
        strong = context.texts.of_cause(self.cause, strong=True)
        yield from self._of_claims([hit for hit in strong if hit.signature.software == _DRA])
        for site, hits in by_node(hit for hit in strong if hit.signature.software != _DRA):
            if site.node in served or (site.node is None and served and not idle):
                continue
            said.add(site.node or "")
            rootless = any(_NO_ROOT in hit.text.value for hit in hits)
            yield self._finding(
                context, site.node, (*site.objects,), evidence(hits), sure(hits) == "certain", rootless=rootless
            )
        coming = {node.name for node in context.snapshot.nodes if passing(context, node)}
        for name in sorted(idle - said - coming):
            daemons = context.stack.pods("mps-daemon", node=name)
            runs = any((state := context.states.of(pod)) is not None and state.healthy for pod in daemons)
            if _wants_mps(context, name) and not runs:
                yield self._finding(context, name, (ObjectRef("Node", "", name), *map(ObjectRef.of, daemons)), (), True)

        yield from self._clients(context)

    def _of_claims(self, hits: list[Hit]) -> Iterator[Finding]:
        """Claims that ask for MPS, whose daemon the DRA driver cannot bring up."""
        for site, members in by_node(hit for hit in hits if hit.text.pod is not None or hit.text.about is not None):
            yield self.finding(
                f"the MPS control daemon that a claim asks for does not come up on {site.words}",
                "The DRA driver makes a Deployment of the daemon for the claim, and prepares the pod's devices when its pod is ready: "
                + members[0].text.value.strip()[:300],
                Fix(
                    "Look at that Deployment in the driver's namespace: its pod may be forbidden (service account, security constraints), not "
                    "scheduled, or the driver may not be allowed to read it.",
                    command="kubectl get deployments,pods -A | grep mps-control-daemon",
                    check="the pod's containers start by themselves at the next retry",
                ),
                site.objects,
                evidence=evidence(members),
                held=site.pods,
                confidence=sure(members),
            )

    def _clients(self, context: Context) -> Iterator[Finding]:
        """Pods on nodes with MPS shares whose programs find the cards busy: they do not reach the daemon."""
        hits = [
            hit
            for hit in context.texts.of_cause(self.cause)
            if not hit.signature.strong
            and hit.text.pod is not None
            and not context.stack.roles(hit.text.pod)
            and (
                context.inventory.node(hit.text.node.name).sharing == "mps"
                if hit.text.node is not None
                else bool(_mps_texts(context)) and any(map(is_device, context.requests(hit.text.pod)))
            )
            and (state := context.states.of(hit.text.pod)) is not None
            and not state.healthy
        ]
        for site, members in by_node(hits):
            yield self.finding(
                f"programs on {site.words} do not reach the MPS daemon: the cards are busy for them",
                "The daemon holds the cards in exclusive-process mode; a process that does not find the daemon's pipe is turned away.",
                Fix(
                    "Look at the daemon's pod on the node and restart it; the pods need the plugin's mounts (CUDA_MPS_PIPE_DIRECTORY, /dev/shm) "
                    "and must not use host PID or IPC settings of their own.",
                    command="kubectl get pods -A -o wide | grep mps-control-daemon",
                    disruption="none until the daemon is restarted; that restarts every client",
                    check="the pod's log shows its CUDA context",
                ),
                (*site.objects, *map(ObjectRef.of, context.stack.pods("mps-daemon", node=site.node))),
                evidence=evidence(members),
                held=site.pods,
                confidence="likely",
            )

    def _finding(
        self,
        context: Context,
        node: str | None,
        objects: tuple[ObjectRef, ...],
        said: tuple[Evidence, ...],
        certain: bool,
        *,
        rootless: bool = False,
    ) -> Finding:
        found = context.snapshot.get("Node", node or "")
        label = found.labels.get(_CAPABLE, "(absent)") if found is not None else ""
        return self.finding(
            f"MPS is configured on {node or 'a node'}, but its control daemon does not serve: the node offers no GPU",
            "The plugin is told to share by MPS and given no MPS root, the folder in which it meets the daemon: it ends."
            if rootless
            else "The plugin advertises MPS shares only while the control daemon answers."
            + (
                f" Label {_CAPABLE} is {label}; the daemon runs only where it is true, and feature discovery sets it."
                if found and label != "true"
                else ""
            ),
            Fix(
                "Give the plugin and the daemon the same root (--mps-root or MPS_ROOT, /run/nvidia/mps, mounted from the host); the chart does."
                if rootless
                else "Enable GPU feature discovery (gfd.enabled), set the MPS root, and look at the daemon's log.",
                command="kubectl get daemonset -A | grep mps-control-daemon",
                disruption="none on a node that offers no GPU",
                check=f"kubectl get node {node or '<node>'} -o jsonpath='{{.status.allocatable}}'",
            ),
            (*objects, *map(ObjectRef.of, context.stack.workloads("mps-daemon"))),
            evidence=(
                *said,
                *([Evidence(label, ObjectRef.of(found), f"metadata.labels[{_CAPABLE}]")] if found is not None else []),
            ),
            held=[
                *(key for group in unserved(context, [node] if node else ()) for key in group.held),
                *turned_away(context, node),
            ],
            confidence="certain" if certain else "likely",
        )


def _wants_mps(context: Context, name: str) -> bool:
    """Whether the node's plugin shares by MPS: by the configuration it is given, else, where that cannot be followed, by the only
    kind of configuration there is for a plugin that runs beside an MPS daemon without pods."""
    wants = context.inventory.node(name).config
    if wants is not None and wants.config is not None:
        return bool(((wants.config.get("sharing") or {}).get("mps") or {}).get("resources"))
    daemons = context.stack.workloads("mps-daemon")
    idle = [item for item in daemons if not (item.raw.get("status") or {}).get("numberReady")]
    plugins = [item for item in context.stack.workloads("device-plugin") if (item.raw.get("status") or {}).get("numberReady")]
    spaces = {item.namespace for item in idle} & {item.namespace for item in plugins}
    texts = [
        config
        for config in config_texts(context.snapshot.of("ConfigMap"))
        if config.kind == "plugin" and config.map.namespace in spaces
    ]
    return bool(texts) and all(config in _mps_texts(context) for config in texts)


def _mps_texts(context: Context) -> list[ConfigText]:
    """Plugin configurations that share by MPS."""
    return [
        config
        for config in config_texts(context.snapshot.of("ConfigMap"))
        if config.kind == "plugin" and shares_by_mps(config.text)
    ]
