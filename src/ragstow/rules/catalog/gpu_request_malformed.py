"""A GPU request that the API server refuses: a fraction, a request without a limit, a request that differs from its limit.

What
    `resources` of a container ask for an NVIDIA resource with a fractional amount, in requests only, or with different amounts in requests
    and limits.

Why
    Extended resources are whole numbers and are not overcommitted. The object is refused ("must be an integer", "Limit must be set for non
    overcommitable resources", "must be equal to nvidia.com/gpu limit"); behind a controller it shows only as FailedCreate.

Fix
    Write the whole number in limits; requests may be left out. A part of a card is a MIG slice, or a share of the plugin's.

References
    - Kubernetes: extended resources; pkg/apis/core/validation

Fires (lint): half a GPU
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 0.5}}}]}

Quiet (lint): one, written as milli-units
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1000m}}}]}

Fires (lint): a request without a limit
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}}}]}

Quiet (lint): both alike
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: "1"}}}]}

Fires: half a GPU, refused by the API server
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: embedder-5f, namespace: rag, uid: r}
    spec: {replicas: 1, selector: {matchLabels: {app: embedder}}}
    status: {replicas: 0, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: "Pod \\"embedder-5f-x\\" is invalid: spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: resource.Quantity{}: must be an integer"}]}

Quiet: its pods are there
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: embedder-5f, namespace: rag, uid: r}
    spec: {replicas: 1, selector: {matchLabels: {app: embedder}}}
    status: {replicas: 1}

Quiet (lint): a variable that something else fills in
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: "${GPUS}"}}}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragstow import quantity
from ragstow.errors import InputError
from ragstow.rules.context import Context
from ragstow.rules.creation import refused
from ragstow.rules.engines import is_device, limits
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_REFUSED = re.compile(r"resources\.(?:limits|requests)\[nvidia\.com/[^\]]+\]: Invalid value: .*must be (?:an integer|equal to)")
"""pkg/apis/core/validation."""


class GpuRequestMalformed(Rule):
    """See the page above."""

    cause = "gpu-request-malformed"
    severity = "high"
    needs = frozenset({"manifest", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload whose pods are refused for it."""
        for workload, said in refused(context, lambda message: bool(_REFUSED.search(message))).items():
            yield self.finding(
                f"{workload}: its pods are refused for the way in which they ask for GPUs",
                f"The API server says: {said[0].value.removeprefix('Error creating: ')}. No pod object exists, so nothing is Pending.",
                Fix(
                    "Write the GPU as a whole number in limits, and leave it out of requests. Shares of a card are made by time-slicing, MPS or "
                    "MIG, not by fractions.",
                    check=f"kubectl -n {workload.namespace} get events --field-selector reason=FailedCreate   # no new one",
                ),
                (workload,),
                evidence=said[:3],
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container and resource."""
        for pod in context.pod_specs:
            for path, container in pod.containers():
                for name, text, where in _wrong(container):
                    ref = ObjectRef.of(pod.manifest.object)
                    yield self.finding(
                        f"container {container.get('name')} of {ref}: {text}",
                        "The API server refuses such a pod; its controller reports FailedCreate, and nothing is Pending.",
                        Fix(f"Write {name} as a whole number in limits, and leave it out of requests."),
                        (ref,),
                        evidence=(Evidence(text, ref, ".".join(map(str, (*path, "resources", where))) + f"[{name}]"),),
                        file=pod.manifest.file,
                        line=pod.manifest.line(*path, "resources", where, name),
                    )


def _wrong(container: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    asked, limited = limits(container, "requests"), limits(container)
    for name in dict.fromkeys((*asked, *limited)):
        if not is_device(str(name)) or any("${" in str(value) for value in (asked.get(name), limited.get(name))):
            continue  # a variable that is filled in before the API server sees it
        amounts = {key: _amount(value) for key, value in (("requests", asked.get(name)), ("limits", limited.get(name)))}
        broken = next((key for key, value in amounts.items() if value is not None and value % quantity.NANO), None)
        if broken is not None:
            yield name, f"{name} is {(asked if broken == 'requests' else limited)[name]}, and must be an integer", broken
        elif name not in limited:
            yield name, f"{name} stands in requests only; a limit must be set", "requests"
        elif name in asked and amounts["requests"] != amounts["limits"]:
            yield name, f"the request of {name} ({asked[name]}) is not equal to its limit ({limited[name]})", "requests"


def _amount(value: object) -> int | None:
    """Nano units of an amount; a text that is no quantity counts as a fraction."""
    if value is None:
        return None
    try:
        return quantity.parse(value if isinstance(value, int | float) else str(value)).nano
    except InputError:
        return 1
