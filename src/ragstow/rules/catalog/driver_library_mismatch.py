"""The loaded NVIDIA kernel module and the user-space libraries on a node differ in version.

What
    A program on the node says "Driver/library version mismatch" (NVML error 18) or the kernel logs an API mismatch: the
    libraries were replaced, usually by an unattended upgrade, while the old module stayed loaded.

Why
    Nothing new can use a GPU of that node: the device plugin cannot start, nvidia-smi fails, new pods get no device. Pods that
    run keep running until they restart, so the fault shows late.

Fix
    Drain the node and reboot it (or unload and reload the nvidia modules), then hold the driver packages so that they are
    upgraded together with the node.

References
    - NVML error codes: NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)
    - NVIDIA kernel log: "NVRM: API mismatch"

Fires: the plugin cannot initialise NVML
    apiVersion: v1
    kind: Pod
    metadata: {name: nvidia-device-plugin-x7k2p, namespace: kube-system, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin:v0.17.0}]
    status:
      phase: Running
      containerStatuses:
      - name: nvidia-device-plugin-ctr
        ready: false
        restartCount: 12
        state: {waiting: {reason: CrashLoopBackOff}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: b}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 0}}
    ---
    kind: Log
    name: nvidia-device-plugin-ctr.txt
    text: |
      failed to initialize NVML: Driver/library version mismatch

Quiet: the node was rebooted
    apiVersion: v1
    kind: Pod
    metadata: {name: nvidia-device-plugin-x7k2p, namespace: kube-system, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin:v0.17.0}]
    status:
      phase: Running
      containerStatuses: [{name: nvidia-device-plugin-ctr, ready: true, restartCount: 13, state: {running: {}}}]
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: b}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 4}}
    ---
    kind: Log
    name: nvidia-device-plugin-ctr.txt
    text: |
      Registered device plugin for 'nvidia.com/gpu' with Kubelet
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import unserved


class DriverLibraryMismatch(Rule):
    """See the page above."""

    cause = "driver-library-mismatch"
    severity = "critical"
    needs = frozenset({"logs", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node that says so."""
        # An image that is newer than the driver brings libraries of its own, and says both.
        newer = {
            hit.text.pod.key
            for hit in context.texts.of_cause("driver-cuda-mismatch")
            if hit.text.pod is not None and hit.match.groupdict().get("has")
        }
        said = [hit for hit in context.texts.of_cause(self.cause) if hit.text.pod is None or hit.text.pod.key not in newer]
        for site, hits in by_node(said):
            node = site.node or "<node>"
            yield self.finding(
                f"the driver libraries on {site.words} do not match its loaded kernel module",
                "The NVIDIA libraries were replaced while the old kernel module stayed loaded. No new process on the node can "
                "open a GPU; what runs keeps running until it restarts.",
                Fix(
                    "Drain the node and reboot it, then hold the driver packages so that they change only with a reboot.",
                    command=f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data   # then reboot",
                    disruption="drains the node",
                    check=f"kubectl get node {node} -o jsonpath='{{.status.allocatable}}'   # the GPUs are back",
                ),
                site.objects,
                evidence=evidence(hits),
                held=(
                    *site.pods,
                    *(key for group in unserved(context, [site.node] if site.node else []) for key in group.held),
                ),
                confidence=sure(hits),
            )
