"""A claim or device class uses a part of the DRA API that the cluster's release has behind a feature gate that is off.

What
    A field of an alpha feature (off by default), or of one that the release does not know: alternatives, admin access, extended
    resources of a DeviceClass, tolerations of device taints, a part of a device's capacity.

Why
    The API server drops the field without a word: the claim asks for something else than it says, or the extended resource is handed
    out by nobody.

Fix
    Switch the gate on in API server, scheduler, controller manager and kubelet, upgrade, or do without the field.

References
    - Kubernetes: feature gates
    - KEP-4816, KEP-5018, KEP-5004, KEP-5055, KEP-5075

Fires (lint): an extended resource on a release where it is alpha
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {nodeInfo: {kubeletVersion: v1.34.2}, capacity: {cpu: 8}, allocatable: {cpu: 8}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com}
    spec: {extendedResourceName: nvidia.com/gpu}

Quiet (lint): the release has it on
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {nodeInfo: {kubeletVersion: v1.36.0}, capacity: {cpu: 8}, allocatable: {cpu: 8}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com}
    spec: {extendedResourceName: nvidia.com/gpu}

Fires (lint): a share of a card's memory on 1.35
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {nodeInfo: {kubeletVersion: v1.35.0}, capacity: {cpu: 8}, allocatable: {cpu: 8}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: part, namespace: rag}
    spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, capacity: {requests: {memory: 8Gi}}}}]}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.facts.dra_api import minor
from ragstow.rules.dra_objects import dra_manifests, known_release, mapping, requests
from ragstow.rules.manifests import LintContext, Manifest
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class DraFeatureOff(Rule):
    """See the page above."""

    cause = "dra-feature-off"
    severity = "medium"
    needs = frozenset({"manifest", "snapshot"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each object and feature."""
        release = known_release(context.cluster)
        if release is None:
            return
        now = minor(release.version)
        for manifest, _ in dra_manifests(context):
            used = dict(_fields(manifest))
            for row in context.facts.dra_apis.features:
                on = row.beta or row.ga
                if row.field not in used or (on and now >= minor(on)):
                    continue
                ref = ObjectRef.of(manifest.object)
                state = f"has no {row.id} yet" if now < minor(row.since) else f"has {row.id} off by default"
                yield self.finding(
                    f"{ref} uses {row.words}; Kubernetes {release.minor} {state}",
                    "Where the gate is off the API server drops the field without a word.",
                    Fix(
                        f"Switch the feature gate {row.id} on"
                        + (f", upgrade to {on}" if on else "")
                        + f", or do without {row.field}."
                    ),
                    (ref,),
                    evidence=(Evidence(f"{row.id}: on by default from {on or '(not yet)'}", ref, row.field),),
                    confidence="likely" if now >= minor(row.since) else "certain",
                    file=manifest.file,
                    line=manifest.line(*used[row.field]),
                )


def _fields(manifest: Manifest) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Every key of the class's spec, of each request and of what is inside it, with its path."""
    if manifest.object.kind == "DeviceClass":
        for key in mapping(manifest.object.raw.get("spec")):
            yield str(key), ("spec", str(key))
    for path, request in requests(manifest):
        yield from _keys(path, request)
        yield from _keys((*path, "exactly"), mapping(request.get("exactly")))
        alternatives = request.get("firstAvailable")
        for index, item in enumerate(alternatives if isinstance(alternatives, list) else ()):
            yield from _keys((*path, "firstAvailable", index), mapping(item))


def _keys(path: tuple[str | int, ...], value: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    for key, inner in value.items():
        if inner not in (None, False, [], {}):
            yield str(key), (*path, str(key))
