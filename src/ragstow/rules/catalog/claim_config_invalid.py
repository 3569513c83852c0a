"""A ResourceClaim or its template has a configuration that the NVIDIA driver refuses, or a container names a claim that is not there.

What
    An opaque configuration for gpu.nvidia.com with another apiVersion than resource.nvidia.com/v1beta1, an unknown kind, strategy or
    interval; or `resources.claims[].name` that `spec.resourceClaims` does not have.

Why
    The claim is allocated and the node's driver then refuses to prepare it: the pod hangs in ContainerCreating. A name that is not there is
    refused by the API server.

Fix
    Write the configuration as the driver's API has it; MPS and TimeSlicing settings need feature gates of the driver as well.

References
    - dra-driver-nvidia-gpu: api/nvidia.com/resource/v1beta1

Fires (lint): a strategy spelt otherwise
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: shared, namespace: rag}
    spec:
      spec:
        devices:
          requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]
          config:
          - opaque:
              driver: gpu.nvidia.com
              parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig, sharing: {strategy: time-slicing}}

Quiet (lint): as the driver has it
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: shared, namespace: rag}
    spec:
      spec:
        devices:
          requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]
          config:
          - opaque:
              driver: gpu.nvidia.com
              parameters:
                apiVersion: resource.nvidia.com/v1beta1
                kind: GpuConfig
                sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}

Fires (lint): the container names another claim
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: shared}]
      containers: [{name: c, image: i, resources: {claims: [{name: card}]}}]

Quiet (lint): it names this one
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: shared}]
      containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_DRIVER, _VERSION = "gpu.nvidia.com", "resource.nvidia.com/v1beta1"
_KINDS = ("GpuConfig", "MigDeviceConfig", "VfioDeviceConfig")
_STRATEGIES = ("TimeSlicing", "MPS")
_INTERVALS = ("Default", "Short", "Medium", "Long")


class ClaimConfigInvalid(Rule):
    """See the page above."""

    cause = "claim-config-invalid"
    severity = "high"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each mistake."""
        for manifest in context.of("ResourceClaim", "ResourceClaimTemplate"):
            spec = _mapping(manifest.object.raw.get("spec"))
            at: tuple[str | int, ...] = ("spec",)
            if manifest.object.kind == "ResourceClaimTemplate":
                spec, at = _mapping(spec.get("spec")), ("spec", "spec")
            listed = _mapping(spec.get("devices")).get("config")
            for index, entry in enumerate(listed if isinstance(listed, list) else ()):
                opaque = _mapping(_mapping(entry).get("opaque"))
                ref = ObjectRef.of(manifest.object)
                for text in _wrong(_mapping(opaque.get("parameters"))) if opaque.get("driver") == _DRIVER else ():
                    yield self.finding(
                        f"{ref}: {text}",
                        "The node's driver refuses to prepare the claim; pods that use it hang in ContainerCreating.",
                        Fix("Write the configuration as the driver's API has it."),
                        (ref,),
                        evidence=(Evidence(text, ref, f"devices.config[{index}].opaque.parameters"),),
                        file=manifest.file,
                        line=manifest.line(*at, "devices", "config", index),
                    )
        for pod in context.pod_specs:
            known = {str(_mapping(item).get("name")) for item in pod.spec.get("resourceClaims") or ()}
            for path, container in pod.containers():
                for item in _mapping(container.get("resources")).get("claims") or ():
                    name = str(_mapping(item).get("name"))
                    if name in known:
                        continue
                    ref = ObjectRef.of(pod.manifest.object)
                    yield self.finding(
                        f"container {container.get('name')} of {ref} uses claim {name}, which spec.resourceClaims does not have",
                        f"It has {', '.join(sorted(known)) or 'none'}. The API server refuses the pod.",
                        Fix("Name a claim of spec.resourceClaims."),
                        (ref,),
                        evidence=(Evidence(name, ref, ".".join(map(str, (*path, "resources", "claims")))),),
                        file=pod.manifest.file,
                        line=pod.manifest.line(*path, "resources", "claims"),
                    )


def _wrong(parameters: Mapping[str, Any]) -> Iterator[str]:
    version, kind = parameters.get("apiVersion"), parameters.get("kind")
    if version != _VERSION:
        yield f"apiVersion {version} of the configuration; the driver reads {_VERSION}"
    if kind not in _KINDS:
        yield f"kind {kind} of the configuration is none of {', '.join(_KINDS)}"
    sharing = _mapping(parameters.get("sharing"))
    strategy = sharing.get("strategy")
    if sharing and strategy not in _STRATEGIES:
        yield f"sharing strategy {strategy} is none of {', '.join(_STRATEGIES)}"
    interval = _mapping(sharing.get("timeSlicingConfig")).get("interval")
    if interval is not None and interval not in _INTERVALS:
        yield f"time-slicing interval {interval} is none of {', '.join(_INTERVALS)}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
