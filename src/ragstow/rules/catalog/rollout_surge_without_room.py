"""A rolling update of a GPU Deployment needs GPUs beside those that it holds, and keeps every old pod until a new one is ready.

What
    A Deployment with GPUs, strategy RollingUpdate, a maxUnavailable that rounds to 0 and a maxSurge above 0 (the default for up to three
    replicas). Against a cluster: the nodes that its pods may use have fewer free slots than the surge needs.

Why
    On a full pool the surge pod waits for a card that the old pod keeps: the rollout never ends (rolling-update-gpu-deadlock).

Fix
    `maxSurge: 0, maxUnavailable: 1`, or `Recreate` for one replica; or keep as many GPUs free as the surge needs.

References
    - Kubernetes: Deployment, rolling update: maxUnavailable is rounded down, maxSurge up

Fires (lint): the default strategy, one replica
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 1
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 2}}}]}

Quiet (lint): no surge
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 1
      strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 2}}}]}

Fires (lint): one card, and the Deployment takes it
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): room for the surge
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.demand import Demand, demands, supply
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rollouts import removes_last, surge
from ragstow.rules.rule import Rule


class RolloutSurgeWithoutRoom(Rule):
    """See the page above."""

    cause = "rollout-surge-without-room"
    severity = "medium"
    needs = frozenset({"manifest"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each Deployment that cannot be rolled out on a full pool, or has no room in the cluster given."""
        for demand in demands(context):
            item = demand.manifest.object
            if item.kind != "Deployment" or not demand.replicas or not removes_last(item):
                continue
            ref, extra = ObjectRef.of(item), surge(item)
            known = supply(context, demand)
            if known is not None and known.free - _not_running(context, demand) >= demand.count:
                continue
            room = (
                f"; {known.free} of {known.total} are free, and its own pods need {_not_running(context, demand)} of them"
                if known is not None
                else ""
            )
            yield self.finding(
                f"{ref}: a rolling update needs {demand.count * extra} {demand.resource} more than it holds{room}",
                f"maxSurge makes {extra} new pod(s) before any old one goes (maxUnavailable rounds to 0). On a full pool the rollout waits "
                "for itself for ever.",
                Fix(
                    "Set maxSurge: 0 and maxUnavailable: 1 (or strategy Recreate for one replica).",
                    patch=Patch(
                        "merge",
                        ref,
                        {
                            "spec": {
                                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
                            }
                        },
                    ),
                    disruption="none; the next rollout replaces pods one by one",
                ),
                (ref,),
                evidence=(Evidence(str((item.raw.get("spec") or {}).get("strategy") or "(default)"), ref, "spec.strategy"),),
                severity="medium" if known is not None else "low",
                confidence="likely",
                file=demand.manifest.file,
                line=demand.manifest.line("spec", "strategy"),
            )


def _not_running(context: LintContext, demand: Demand) -> int:
    """GPU slots that replicas which do not run yet will take first."""
    item = demand.manifest.object
    pods = context.cluster.owners.pods(item) if context.cluster is not None else ()
    return max(demand.replicas - sum(1 for pod in pods if pod.node and not pod.finished), 0) * demand.count
