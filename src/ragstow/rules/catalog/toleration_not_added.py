"""Pods for GPU nodes of a cloud that adds tolerations by itself, but not to these pods.

What
    A pod that selects the GPU nodes of a cloud with the ExtendedResourceToleration plugin (by its accelerator label), and tolerates no
    taint of them, while it asks for its GPU by another name than the taint's key: a claim, `nvidia.com/gpu.shared`, a `mig-` resource, or
    not at all.

Why
    The plugin adds a toleration whose key is the very name of a requested resource. A pod that asks for `nvidia.com/gpu` gets one for the
    taint `nvidia.com/gpu=present:NoSchedule`; the others get none, and wait. The cloud sets the taint as soon as the cluster has a pool
    without GPUs, so that it works at first and stops later.

Fix
    Write the toleration yourself: `{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}`.

References
    - Kubernetes: admission controllers, ExtendedResourceToleration
    - Google Kubernetes Engine: GPU node pools and their taint

Fires (lint): a pod with a claim for the cloud's accelerator
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
      containers: [{name: vllm, image: "vllm:1", resources: {claims: [{name: gpu}]}}]

Quiet (lint): it asks for the resource that the taint is called after
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]

Fires (lint): a helper for the GPU node that asks for no GPU
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: kv-cache, namespace: rag}
    spec:
      selector: {matchLabels: {app: kv-cache}}
      template:
        metadata: {labels: {app: kv-cache}}
        spec:
          affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: cloud.google.com/gke-accelerator, operator: Exists}]}]}}}
          containers: [{name: cache, image: "cache:1"}]

Quiet (lint): it says its toleration
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: kv-cache, namespace: rag}
    spec:
      selector: {matchLabels: {app: kv-cache}}
      template:
        metadata: {labels: {app: kv-cache}}
        spec:
          nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
          tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
          containers: [{name: cache, image: "cache:1"}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.rules.engines import limits
from ragstow.rules.fixes import template_patch
from ragstow.rules.manifests import LintContext, PodSpec
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.selection import wanted_values


class TolerationNotAdded(Rule):
    """See the page above."""

    cause = "toleration-not-added"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each pod spec and taint."""
        clouds = [
            cloud for cloud in context.facts.clouds.rows if cloud.extended_resource_toleration and cloud.accelerator_label
        ]
        for pod in context.pod_specs:
            wanted = wanted_values(pod.spec)
            for cloud in clouds:
                label = str(cloud.accelerator_label)
                if label not in wanted or wanted[label].endswith("absent"):
                    continue
                for taint in cloud.taints:
                    if (
                        not taint.automatic
                        or _asks(pod, taint.key)
                        or _tolerates(pod.spec, taint.key, taint.value, taint.effect)
                    ):
                        continue
                    ref = ObjectRef.of(pod.manifest.object)
                    toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
                    yield self.finding(
                        f"{ref} selects GPU nodes by {label} and does not tolerate their taint {taint.key}={taint.value}:{taint.effect}",
                        f"{cloud.name} adds a toleration only to pods that ask for {taint.key} by that name. The taint is there when {taint.when}.",
                        Fix(
                            f"Add the toleration {{key: {taint.key}, operator: Exists, effect: {taint.effect}}}.",
                            patch=template_patch(ref, {"tolerations": [*(pod.spec.get("tolerations") or ()), toleration]}),
                            disruption=f"restarts {ref}",
                            check="the pod gets a node",
                        ),
                        (ref,),
                        evidence=(Evidence(wanted[label], ref, ".".join(map(str, pod.path))),),
                        confidence="likely",
                        file=pod.manifest.file,
                        line=pod.manifest.line(*pod.path),
                    )


def _asks(pod: PodSpec, key: str) -> bool:
    return any(key in limits(container) or key in limits(container, "requests") for _, container in pod.containers())


def _tolerates(spec: Mapping[str, Any], key: str, value: str, effect: str) -> bool:
    listed = spec.get("tolerations")
    return any(
        isinstance(item, Mapping)
        and item.get("key", key) == key
        and item.get("effect", effect) in (effect, "", None)
        and (item.get("operator") == "Exists" or item.get("value", "") == value)
        for item in (listed if isinstance(listed, list) else ())
    )
