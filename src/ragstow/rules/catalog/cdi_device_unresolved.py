"""The container runtime cannot resolve the CDI name of the device that a container was given.

What
    Containers fail to start with "unresolvable CDI devices …" or "CDI device injection failed": the device plugin (or DRA driver)
    handed out a CDI name, and no CDI specification on that node defines it.

Why
    The pod has its card on paper and never starts. Specifications lie in /etc/cdi and /var/run/cdi, the latter is empty after a
    reboot until somebody writes it again; a changed MIG layout or driver makes old ones stale.

Fix
    Generate the specification again (`nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml`, or restart the plugin, the
    toolkit pod or the DRA driver's pod that writes it), and check that the runtime has CDI enabled and reads that folder.

References
    - Container Device Interface: specification folders
    - NVIDIA Container Toolkit: CDI support

Fires: an unknown device name
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Pending
      containerStatuses:
      - name: vllm
        ready: false
        restartCount: 0
        state: {waiting: {reason: CreateContainerError, message: "error creating container: failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=3"}}

Fires: an event is all there is
    apiVersion: v1
    kind: Event
    metadata: {name: nbody.1, namespace: rag, uid: e}
    involvedObject: {kind: Pod, name: nbody, namespace: rag, uid: a}
    reason: Failed
    message: "Error: failed to create containerd container: CDI device injection failed: unresolvable CDI devices k8s.gpu.nvidia.com/device=gpu-1"

Quiet: the container runs
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule


class CdiDeviceUnresolved(Rule):
    """See the page above."""

    cause = "cdi-device-unresolved"
    severity = "high"
    needs = frozenset({"events", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node that cannot resolve a device."""
        for site, hits in by_node(context.texts.of_cause(self.cause)):
            device = next((hit.match.groupdict().get("device") for hit in hits if hit.match.groupdict().get("device")), None)
            yield self.finding(
                f"the runtime on {site.words} does not know CDI device {device}"
                if device
                else f"CDI devices cannot be resolved on {site.words}",
                "The pod was given a device by its CDI name, and no CDI specification on the node defines that name: it was not "
                "generated, was lost at a reboot, or is older than the present driver or MIG layout.",
                Fix(
                    "Generate the specification again, or restart the plugin, toolkit or DRA driver pod that writes it; CDI must be "
                    "enabled in the runtime.",
                    command="nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml && nvidia-ctk cdi list   # on the node",
                    disruption="none",
                    check="the container starts by itself at the next retry",
                ),
                site.objects,
                evidence=evidence(hits),
                held=site.pods,
                confidence=sure(hits),
            )
