"""Several replicas of a GPU Deployment share one volume that only one node can mount.

What
    A Deployment with more than one pod at a time (replicas, or a surge) mounts a PersistentVolumeClaim of the manifests whose only access
    modes are ReadWriteOnce or ReadWriteOncePod.

Why
    The second pod on another node waits in ContainerCreating with "Multi-Attach error"; with ReadWriteOncePod it is not even scheduled.
    Model caches of charts are often such claims, and the default surge makes two pods of one replica.

Fix
    A StatefulSet with volumeClaimTemplates, a ReadWriteMany or ReadOnlyMany volume, or replicas that stay on one node.

References
    - Kubernetes: persistent volumes, access modes

Fires (lint): two replicas, one ReadWriteOnce claim
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {name: models, namespace: rag}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 50Gi}}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec:
          volumes: [{name: m, persistentVolumeClaim: {claimName: models}}]
          containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]

Quiet (lint): ReadWriteMany
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {name: models, namespace: rag}
    spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 50Gi}}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec:
          volumes: [{name: m, persistentVolumeClaim: {claimName: models}}]
          containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.demand import demands
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rollouts import surge
from ragstow.rules.rule import Rule

_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


class CacheClaimNotShareable(Rule):
    """See the page above."""

    cause = "cache-claim-not-shareable"
    severity = "low"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each Deployment and claim."""
        claims = {
            (item.object.namespace, item.object.name): frozenset((item.object.raw.get("spec") or {}).get("accessModes") or ())
            for item in context.of("PersistentVolumeClaim")
        }
        for demand in demands(context):
            item = demand.manifest.object
            pods = demand.replicas + (surge(item) if item.kind == "Deployment" else 0)
            if item.kind != "Deployment" or pods < 2:
                continue
            for volume in demand.spec.spec.get("volumes") or ():
                claim = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
                name = str(claim.get("claimName")) if isinstance(claim, dict) else ""
                modes = claims.get((item.namespace, name), frozenset())
                if not modes or not modes <= _ONE_NODE:
                    continue
                ref, other = ObjectRef.of(item), ObjectRef("PersistentVolumeClaim", item.namespace, name)
                yield self.finding(
                    f"{ref} runs up to {pods} pods with claim {name}, which one node can mount ({', '.join(sorted(modes))})",
                    "A pod on a second node cannot attach the volume and hangs in ContainerCreating.",
                    Fix(
                        "Use a StatefulSet with volumeClaimTemplates, a ReadWriteMany volume, or strategy Recreate for one replica."
                    ),
                    (ref, other),
                    evidence=(Evidence(", ".join(sorted(modes)), other, "spec.accessModes"),),
                    confidence="likely",
                    file=demand.manifest.file,
                    line=demand.manifest.line(*demand.spec.path, "volumes"),
                )
