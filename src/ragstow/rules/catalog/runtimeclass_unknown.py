"""A manifest names a RuntimeClass that the cluster does not have.

What
    `runtimeClassName` of a pod, and neither the cluster nor the manifests have a RuntimeClass of that name.

Why
    The API server's admission refuses the pod ("RuntimeClass … not found"); its controller reports FailedCreate and no pod exists. Charts
    for vLLM set runtimeClassName: nvidia by default; the GPU Operator with NRI removes that class.

Fix
    Create the RuntimeClass, name one that exists, or drop the field where CDI or a default runtime does the work.

References
    - Kubernetes: runtime class; NVIDIA container toolkit

Fires (lint): nobody knows it
    apiVersion: node.k8s.io/v1
    kind: RuntimeClass
    metadata: {name: kata, uid: r}
    handler: kata
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {runtimeClassName: nvidia, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): the cluster has it
    apiVersion: node.k8s.io/v1
    kind: RuntimeClass
    metadata: {name: nvidia, uid: r}
    handler: nvidia
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {runtimeClassName: nvidia, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class RuntimeclassUnknown(Rule):
    """See the page above."""

    cause = "runtimeclass-unknown"
    severity = "high"
    needs = frozenset({"manifest", "snapshot"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each pod spec."""
        there = context.cluster.snapshot.of("RuntimeClass", "node.k8s.io") if context.cluster is not None else ()
        if not there:
            return  # classes may not be in the data at all
        known = {item.name for item in there} | {manifest.object.name for manifest in context.of("RuntimeClass")}
        for pod in context.pod_specs:
            name = pod.spec.get("runtimeClassName")
            if not isinstance(name, str) or not name or name in known:
                continue
            ref = ObjectRef.of(pod.manifest.object)
            yield self.finding(
                f"{ref} names RuntimeClass {name}, which does not exist",
                f"The cluster has {', '.join(sorted(known))}. The pods are refused at creation.",
                Fix("Create the RuntimeClass, name one that exists, or drop runtimeClassName where the nodes need none."),
                (ref,),
                evidence=(Evidence(name, ref, ".".join(map(str, (*pod.path, "runtimeClassName")))),),
                file=pod.manifest.file,
                line=pod.manifest.line(*pod.path, "runtimeClassName"),
            )
