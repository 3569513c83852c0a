"""A GPU workload with several replicas has no PodDisruptionBudget.

What
    A Deployment or StatefulSet whose pods hold GPUs, with two replicas or more, that no PodDisruptionBudget of its namespace selects,
    among these manifests or in the cluster.

Why
    A drain, for a driver upgrade for instance, may evict all replicas at once; each needs minutes to load its model on a card that must
    be free first. A budget keeps one serving.

Fix
    A PodDisruptionBudget with `maxUnavailable: 1` for the workload's labels.

References
    - Kubernetes: disruptions, PodDisruptionBudget

Fires (lint): two replicas, no budget
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}}

Quiet (lint): with a budget
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}}
    ---
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: llm, namespace: rag}
    spec: {maxUnavailable: 1, selector: {matchLabels: {app: llm}}}

Quiet (lint): one replica, which no budget can keep
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 1
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.rules.dra_objects import mapping
from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.manifests import LintContext, PodSpec
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rollouts import replicas
from ragstow.rules.rule import Rule


class DisruptionBudgetMissing(Rule):
    """See the page above."""

    cause = "disruption-budget-missing"
    severity = "info"
    needs = frozenset({"manifest"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each such workload."""
        budgets = [item.object for item in context.of("PodDisruptionBudget")]
        if context.cluster is not None:
            budgets += list(context.cluster.snapshot.of("PodDisruptionBudget", "policy"))
        for pod in context.pod_specs:
            item = pod.manifest.object
            if item.kind not in ("Deployment", "StatefulSet") or replicas(item) < 2 or not _holds_gpus(pod):
                continue
            labels = mapping(pod.metadata.get("labels"))
            if any(budget.namespace == item.namespace and _selects(budget, labels) for budget in budgets):
                continue
            ref = ObjectRef.of(item)
            yield self.finding(
                f"{ref} has {replicas(item)} replicas with GPUs and no PodDisruptionBudget",
                "A drain may evict all of them at once, and each needs minutes to load its model again.",
                Fix("Add a PodDisruptionBudget with maxUnavailable: 1 for its labels."),
                (ref,),
                evidence=(Evidence(str(replicas(item)), ref, "spec.replicas"),),
                file=pod.manifest.file,
                line=pod.manifest.line("spec", "replicas"),
            )


def _holds_gpus(pod: PodSpec) -> bool:
    return any(any(gpu_limits(container).values()) or has_claims(container) for _, container in pod.containers())


def _selects(budget: KubeObject, labels: Mapping[str, Any]) -> bool:
    selector = mapping(mapping(budget.raw.get("spec")).get("selector"))
    wanted = mapping(selector.get("matchLabels"))
    # An expression may select it too: the doubt is the budget's.
    return bool(selector.get("matchExpressions")) or all(labels.get(key) == value for key, value in wanted.items())
