"""A claim, template or device class is written in a version of the DRA API that the API server does not serve, or in the shape of
another version.

What
    `apiVersion: resource.k8s.io/v1alpha2`, `v1beta1` ... on a release that has that version no more, not yet, or only when it is
    switched on; or `deviceClassName` beside `name` in v1, where it belongs under `exactly` (v1beta1 has no such level).

Why
    The API server answers "no matches for kind ResourceClaim in version ..." and nothing is created; pods that name the claim or
    template wait for it. A field in the wrong place is refused, or dropped without a word.

Fix
    Write `resource.k8s.io/v1` (served from 1.34 on) with requests of the form `{name, exactly: {deviceClassName, ...}}`.

References
    - Kubernetes: dynamic resource allocation, API reference of resource.k8s.io
    - KEP-4381

Fires (lint): a version that was withdrawn
    apiVersion: resource.k8s.io/v1alpha2
    kind: ResourceClaimTemplate
    metadata: {name: one-gpu, namespace: rag}
    spec: {spec: {resourceClassName: gpu.nvidia.com}}

Quiet (lint): the version of today
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: one-gpu, namespace: rag}
    spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}

Fires (lint): v1 in the shape of v1beta1
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: one-gpu, namespace: rag}
    spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com}]}}

Fires (lint): a beta on a cluster whose default is v1
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {nodeInfo: {kubeletVersion: v1.35.1}, capacity: {cpu: 8}, allocatable: {cpu: 8}}
    ---
    apiVersion: resource.k8s.io/v1beta1
    kind: ResourceClaimTemplate
    metadata: {name: one-gpu, namespace: rag}
    spec: {spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com}]}}}

Quiet (lint): a beta that this cluster does serve
    apiVersion: resource.k8s.io/v1beta1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com, uid: d}
    spec: {}
    ---
    apiVersion: resource.k8s.io/v1beta1
    kind: ResourceClaimTemplate
    metadata: {name: one-gpu, namespace: rag}
    spec: {spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com}]}}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.facts.dra_api import minor
from ragstow.rules.dra_objects import GROUP, KINDS, dra_manifests, known_release, requests
from ragstow.rules.manifests import LintContext, Manifest
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Severity
from ragstow.rules.rule import Rule

_FLAT = frozenset({"v1alpha3", "v1beta1"})
"""Versions whose requests name the class without a level between."""


class DraApiNotServed(Rule):
    """See the page above."""

    cause = "dra-api-not-served"
    severity = "high"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each object whose version is not served, else one for each request of another version's shape."""
        for manifest, version in dra_manifests(context):
            said = self._version(context, version)
            if said is not None:
                text, severity = said
                yield self._finding(manifest, text, ("apiVersion",), severity)
                continue
            for path, request in requests(manifest):
                text = _shape(version, request)
                if text:
                    yield self._finding(manifest, text, path, "high")

    def _version(self, context: LintContext, version: str) -> tuple[str, Severity] | None:
        row = context.facts.dra_apis.version(version)
        cluster = context.cluster
        if cluster is not None and any(
            item.live and item.raw.get("apiVersion") == f"{GROUP}/{version}"
            for kind in (*KINDS, "ResourceSlice")
            for item in cluster.snapshot.of(kind, GROUP)
        ):
            return None
        if row is None:
            return (f"{GROUP}/{version} is no version of the DRA API", "high")
        release = known_release(cluster)
        if release is None:
            if row.until:
                return (f"{GROUP}/{version} was last served by Kubernetes {row.until}", "high")
            return (f"{GROUP}/{version} is served only where it is switched on ({row.switch})", "low") if row.switch else None
        now = minor(release.version)
        if row.until and now > minor(row.until):
            return (f"{GROUP}/{version} was last served by Kubernetes {row.until}; this is {release.minor}", "high")
        if now < minor(row.since):
            return (f"{GROUP}/{version} is served from Kubernetes {row.since} on; this is {release.minor}", "high")
        if row.switch:
            return (
                f"Kubernetes {release.minor} serves {GROUP}/{version} only where it is switched on ({row.switch})",
                "medium",
            )
        return None

    def _finding(self, manifest: Manifest, text: str, path: tuple[str | int, ...], severity: Severity) -> Finding:
        ref = ObjectRef.of(manifest.object)
        return self.finding(
            f"{ref}: {text}",
            "The API server refuses the object, or drops the field; pods that name it wait.",
            Fix("Write resource.k8s.io/v1, with requests of the form {name, exactly: {deviceClassName, ...}}."),
            (ref,),
            evidence=(Evidence(str(manifest.object.raw.get("apiVersion")), ref, ".".join(map(str, path))),),
            severity=severity,
            confidence="certain" if severity == "high" else "likely",
            file=manifest.file,
            line=manifest.line(*path),
        )


def _shape(version: str, request: Mapping[str, Any]) -> str:
    name = request.get("name")
    if version in _FLAT and "exactly" in request:
        return f"request {name} has a level `exactly`, which {version} does not know"
    if version not in _FLAT and "deviceClassName" in request:
        return f"request {name} names its class beside its name; in {version} it belongs under `exactly`"
    return ""
