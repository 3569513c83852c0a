"""An NVSwitch system runs without a working fabric manager (CUDA error 802, "system not yet initialized").

What
    A program on a node with NVSwitch (HGX, DGX: SXM cards) says "system not yet initialized" (CUDA 802), or the fabric manager's
    own log says that it failed or does not match the driver.

Why
    Until the fabric manager of exactly the driver's version has set up the switches, CUDA does not start on any card of the node,
    although nvidia-smi lists them all and the plugin advertises them: pods land there and crash.

Fix
    Install the fabric manager of the same version as the driver and start it (`nvidia-fabricmanager`); with the GPU Operator's
    own driver it is part of the driver container: restart that pod. Then check `nvidia-smi -q | grep -A2 Fabric`.

References
    - CUDA error 802 (cudaErrorSystemNotReady)
    - NVIDIA Fabric Manager user guide: version must match the driver

Fires: CUDA is not ready
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: hgx-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 8}}}]
    status:
      phase: Running
      containerStatuses:
      - name: vllm
        ready: false
        restartCount: 4
        state: {waiting: {reason: CrashLoopBackOff}}
        lastState: {terminated: {exitCode: 1, message: "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: hgx-1, uid: b}
    status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 8}}

Quiet: the server runs
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: hgx-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 8}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: true, restartCount: 1, state: {running: {}}}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragstow.rules.context import Context
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import unserved

_NO_SWITCH = re.compile("NV_WARN_NOTHING_TO_DO")


def _needless(context: Context, hits: Sequence[Hit]) -> bool:
    """Whether the service fails on a machine that has no NVSwitch, where nothing needs it: it says so, and no program minds."""
    return all(hit.signature.software == "fabric-manager" for hit in hits) and any(
        True
        for log in (*context.logs.all, *context.logs.files)
        if log.path in {hit.text.evidence.file for hit in hits}
        for _ in log.find(_NO_SWITCH)
    )


class FabricManagerDown(Rule):
    """See the page above."""

    cause = "fabric-manager-down"
    severity = "critical"
    needs = frozenset({"logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node that says so."""
        for site, hits in by_node(context.texts.of_cause(self.cause)):
            if _needless(context, hits):
                continue
            yield self.finding(
                f"the fabric manager on {site.words} is down or does not match the driver",
                "The NVSwitch fabric is not set up, so that CUDA says that the system is not yet initialized (error 802): nvidia-smi and "
                "the plugin show all cards, but no program can use one.",
                Fix(
                    "Start the fabric manager of the driver's own version on the node; with the operator's driver restart the driver pod.",
                    command="systemctl restart nvidia-fabricmanager && systemctl status nvidia-fabricmanager   # on the node",
                    disruption="none (no program can use the cards)",
                    check="nvidia-smi -q | grep -A2 Fabric   # State: Completed, Status: Success",
                ),
                site.objects,
                evidence=evidence(hits),
                held=(
                    *site.pods,
                    *(key for group in unserved(context, [site.node] if site.node else []) for key in group.held),
                ),
                confidence=sure(hits),
            )
