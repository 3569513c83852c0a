"""A Service's name makes Kubernetes set an environment variable that the server reads as its own setting.

What
    A server fails to parse a port that looks like `tcp://10.43.0.10:8000`. A Service called `vllm` (or as another server's prefix)
    in the pod's namespace makes the kubelet set VLLM_PORT=tcp://… in every container, and vLLM reads VLLM_PORT.

Why
    The server crashes at start in one namespace and works everywhere else, and works in docker.

Fix
    Set `enableServiceLinks: false` in the pod spec, or rename the Service.

References
    - Kubernetes: Service, environment variables (docker links format)
    - vLLM documentation: VLLM_PORT

Fires: vLLM and a Service of its name
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: false, restartCount: 6, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: vllm, namespace: rag, uid: b}
    spec: {clusterIP: 10.43.0.10, ports: [{port: 8000}]}
    ---
    kind: Log
    name: vllm.txt
    text: |
      ERROR engine.py:400] invalid literal for int() with base 10: 'tcp://10.43.0.10:8000'

Quiet: service links are off
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      enableServiceLinks: false
      nodeName: gpu-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: vllm, namespace: rag, uid: b}
    spec: {clusterIP: 10.43.0.10, ports: [{port: 8000}]}

Fires (lint): the Service and the server in one set of manifests
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      containers: [{name: server, image: "vllm/vllm-openai:v0.19.0"}]
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: vllm, namespace: rag}
    spec: {ports: [{port: 8000}]}

Quiet (lint): the Service has another name
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      containers: [{name: server, image: "vllm/vllm-openai:v0.19.0"}]
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: llm, namespace: rag}
    spec: {ports: [{port: 8000}]}

Quiet (lint): a server that reads no such variable
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: qdrant, namespace: rag}
    spec:
      selector: {matchLabels: {app: qdrant}}
      template:
        metadata: {labels: {app: qdrant}}
        spec: {containers: [{name: qdrant, image: "docker.io/qdrant/qdrant:v1.16.0"}]}
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: qdrant, namespace: rag}
    spec: {ports: [{port: 6333}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.facts.store import Facts
from ragstow.rules.context import Context
from ragstow.rules.engines import words
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule

_WORD = re.compile(r"[^a-z0-9]+")


class ServiceEnvCollision(Rule):
    """See the page above."""

    cause = "service-env-collision"
    severity = "medium"
    needs = frozenset({"manifest", "logs", "snapshot"})
    asks_cluster = True

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that failed to parse such a value while service links are on."""
        for site, hits in by_workload(context, context.texts.of_cause(self.cause)):
            pods = [hit.text.pod for hit in hits if hit.text.pod is not None]
            if pods and all(pod.spec.get("enableServiceLinks") is False for pod in pods):
                continue
            near = [item for item in context.snapshot.of("Service") if pods and item.namespace == pods[0].namespace]
            # The address in the text tells whose variable it is; without it the name does.
            services = [item for item in near if any(_address(item) in hit.text.value for hit in hits)] or [
                item for item in near if any(_collides(item, c.image, c.name) for c in pods[0].containers)
            ]
            if not services and not any(hit.signature.strong for hit in hits):
                continue
            service = services[0] if services else None
            yield self.finding(
                f"{site.words} reads a Service's environment variable as its own port"
                + (f": Service {service.namespace}/{service.name}" if service is not None else ""),
                "Kubernetes sets <SERVICE>_PORT=tcp://… in every container of the namespace; the server has a setting of that very "
                "name and cannot parse the value.",
                _fix(site.workload),
                (*site.objects, *(ObjectRef.of(item) for item in services)),
                evidence=evidence(hits),
                held=site.pods,
                confidence=sure(hits) if service is not None else "likely",
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each pod spec beside a Service that has its server's name."""
        services = [item.object for item in context.of("Service")]
        if context.cluster is not None:
            services += list(context.cluster.snapshot.of("Service"))
        for pod in context.pod_specs:
            if pod.spec.get("enableServiceLinks") is False:
                continue
            for path, container in pod.containers():
                variables = _read(context.facts, container)
                for service in services:
                    if service.namespace == pod.manifest.object.namespace and _sets(service) in variables:
                        ref = ObjectRef.of(pod.manifest.object)
                        yield self.finding(
                            f"Service {service.namespace}/{service.name} sets a variable that the server of {ref} reads as its port",
                            "The kubelet sets <SERVICE>_PORT=tcp://… in every container of the namespace unless enableServiceLinks "
                            "is false.",
                            _fix(ref),
                            (ref, ObjectRef.of(service)),
                            evidence=(Evidence(service.name, ObjectRef.of(service), "metadata.name"),),
                            file=pod.manifest.file,
                            line=pod.manifest.line(*path),
                        )


def _address(service: KubeObject) -> str:
    """What the kubelet writes into the variables of a Service; a headless one has none."""
    spec = service.raw.get("spec")
    address = str(spec.get("clusterIP") or "") if isinstance(spec, Mapping) else ""
    return f"tcp://{address}:" if address not in ("", "None") else "(headless)"


def _read(facts: Facts, container: Mapping[str, Any]) -> frozenset[str]:
    """The variables that the engine in a container reads its port from, as its image or its program names the engine."""
    names = {
        *_WORD.split(_name(str(container.get("image") or ""))),
        *(word.rpartition("/")[2] for word in words(container)[:1]),
    }
    return frozenset(row.port_variable for row in facts.engines.rows if row.port_variable and row.name in names)


def _sets(service: KubeObject) -> str:
    """The variable that the kubelet makes of a Service's name."""
    return service.name.upper().replace("-", "_") + "_PORT"


def _name(image: str) -> str:
    return image.rsplit("/", 1)[-1].split(":", 1)[0].split("@", 1)[0]


def _collides(service: KubeObject, image: str, container: str) -> bool:
    """Whether the Service's name is the prefix of the server's settings: the first word of its image (vllm of vllm-openai)."""
    return service.name in {_WORD.split(_name(image))[0], _WORD.split(container)[0]} - {""}


def _fix(workload: ObjectRef | None) -> Fix:
    patch = None
    if workload is not None and workload.kind in ("Deployment", "StatefulSet", "DaemonSet"):
        patch = Patch("strategic", workload, {"spec": {"template": {"spec": {"enableServiceLinks": False}}}})
    return Fix(
        "Set enableServiceLinks: false in the pod spec, or rename the Service.",
        patch=patch,
        disruption=f"restarts {workload}" if workload is not None else "restarts the pod",
        check="env in the container shows no such variable",
    )
