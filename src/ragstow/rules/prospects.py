"""What would become of manifests in a cluster: their pods are put into its snapshot as waiting pods, and a rule looks at them.

Only what cannot pass is of interest (a taint, a label, a name, a count): that all GPUs are taken now is no mistake of anybody.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ragstow.cluster.build import build
from ragstow.cluster.objects import KubeObject
from ragstow.rules.context import Context
from ragstow.rules.engines import GPU_DOMAIN, limits
from ragstow.rules.index.stack import template
from ragstow.rules.manifests import LintContext, Manifest, PodSpec
from ragstow.rules.model import Finding, ObjectRef, Unknown
from ragstow.rules.states import gpu_holders

_AHEAD = "ragstow.dev/ahead-of-time"
_UNWRITTEN = "default"


def in_cluster(context: LintContext, ask: Callable[[Context], Iterable[Finding | Unknown]]) -> Iterator[Finding]:
    """The findings of a rule's diagnose about the pods that these manifests would make, each with its file and line."""
    cluster = context.cluster
    if cluster is None or cluster.elsewhere is None:
        return
    made, places = _ahead(context, cluster)
    if not places:
        return
    for finding in ask(made):
        if not isinstance(finding, Finding):
            continue
        ours = [key for key in finding.held if key in places]
        if not ours:
            continue
        manifest = places[ours[0]].manifest
        ref = ObjectRef.of(manifest.object)
        others = (item for item in finding.objects if item.kind != "Pod" and item != ref)
        yield replace(
            finding,
            objects=(ref, *others),
            held=(),
            evidence=tuple(entry for entry in finding.evidence if not entry.field.startswith("event")),
            headline=finding.headline.replace(f"{len(finding.held)} pod(s) wait", "its pods would wait"),
            confidence="likely" if finding.confidence == "certain" else finding.confidence,
            since=None,
            file=manifest.file,
            line=manifest.line(*places[ours[0]].path),
        )


def _ahead(context: LintContext, cluster: Context) -> tuple[Context, Mapping[str, PodSpec]]:
    """The cluster with one waiting pod for each pod spec of the manifests; remembered, since several rules ask."""

    def made() -> tuple[Context, Mapping[str, PodSpec]]:
        places: dict[str, PodSpec] = {}
        gone: list[KubeObject] = []
        tolerated = _tolerates_by_itself(cluster)
        put: list[KubeObject] = [manifest.object for manifest in context.manifests if _counts(manifest)]
        for number, spec in enumerate(context.pod_specs):
            if spec.manifest.object.kind == "DaemonSet" or not _uses_gpus(spec):
                continue
            pod = next(iter(build([_pod(spec, number, tolerated)]).pods), None)
            if pod is None:
                continue  # its requests are no quantities, which the reader has no reason to look at in a template
            gone.extend(cluster.owners.pods(spec.manifest.object))
            places[f"{pod.namespace}/{pod.name}"] = spec
            put.append(pod)
        snapshot = cluster.snapshot.replace(put=put, remove=gone)
        elsewhere = cluster.elsewhere
        return replace(cluster, snapshot=snapshot, pending=elsewhere(snapshot) if elsewhere is not None else None), places

    return context.remember("ahead", made)


def _counts(manifest: Manifest) -> bool:
    """Whether the object decides where its pods may go, or who owns them."""
    return manifest.object.kind in (
        "ResourceClaim",
        "ResourceClaimTemplate",
        "DeviceClass",
        "PersistentVolumeClaim",
        "Deployment",
    )


def _uses_gpus(spec: PodSpec) -> bool:
    return bool(spec.spec.get("resourceClaims")) or any(
        str(name).startswith(GPU_DOMAIN) and str(amount) != "0"
        for _, c in spec.containers()
        for name, amount in limits(c).items()
    )


def _tolerates_by_itself(cluster: Context) -> bool:
    """Whether the API server adds tolerations of extended resources (ExtendedResourceToleration): a running pod
    tolerates its GPU resource, and the template that it was made from does not."""
    for pod in gpu_holders(cluster):
        owner = cluster.owners.object(cluster.owners.workload(pod))
        written = template(owner).get("tolerations") if owner is not None else ()
        for name in cluster.requests(pod):
            has = any(item.key == name for item in pod.tolerations)
            if owner is not None and has and not any(item.get("key") in (name, None) for item in written or ()):
                return True
    return False


def _pod(spec: PodSpec, number: int, tolerated: bool) -> dict[str, Any]:
    owner = spec.manifest.object
    inner = copy.deepcopy(dict(spec.spec))
    for container in (*(inner.get("containers") or ()), *(inner.get("initContainers") or ())):
        amounts = container.get("resources") if isinstance(container, dict) else None
        if isinstance(amounts, dict) and isinstance(amounts.get("limits"), Mapping):
            # The API server defaults requests of extended resources to the limits.
            amounts["requests"] = {**amounts["limits"], **(amounts.get("requests") or {})}
            if tolerated:
                added = [
                    {"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in amounts["requests"] if "/" in name
                ]
                inner["tolerations"] = [*(inner.get("tolerations") or ()), *added]
    inner.pop("nodeName", None)
    meta: dict[str, Any] = {
        "name": f"{owner.name}-ahead-{number}",
        "namespace": owner.namespace or _UNWRITTEN,
        "uid": f"{_AHEAD}-{number}",
        "labels": dict(spec.metadata.get("labels") or {}),
        "annotations": dict(spec.metadata.get("annotations") or {}),
    }
    if owner.kind != "Pod":
        meta["ownerReferences"] = [
            {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": "", "controller": True}
        ]
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": inner,
        "status": {"phase": "Pending", "conditions": conditions},
    }
