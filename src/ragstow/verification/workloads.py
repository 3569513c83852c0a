"""The pods of the service themselves: as many as planned, ready, and on nodes that the plan allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragstow.cluster.objects import Node, Pod
from ragstow.plan.model import Plan
from ragstow.render.names import COMPONENT, POOL
from ragstow.rules.index.states import PodState, state_of
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome


def check_workloads(pods: Sequence[Pod], plan: Plan | None, service: ObjectRef, nodes: Mapping[str, Node]) -> Outcome:
    """One check for each component's number and one or two for each pod.

    Args:
        pods: the service's pods, those on their way out left aside.
        plan: what was planned, where it is known.
        service: the service.
        nodes: all nodes by name.
    """
    checks: list[Check] = []
    remarks: list[str] = []
    for row in plan.components if plan is not None else ():
        found = [pod for pod in pods if pod.labels.get(COMPONENT) == row.name]
        right = len(found) == row.replicas
        checks.append(
            Check(
                "component-replicas",
                service,
                f"{row.replicas} {'pod' if row.replicas == 1 else 'pods'} of {row.name}",
                f"{len(found)}",
                right,
                (Evidence(_list_command(service, row.name), ", ".join(pod.name for pod in found) or "no pod"),),
                ""
                if right
                else "the service is not (or not wholly) applied, or a controller cannot make its pods: kubectl get events",
                row.name,
            )
        )
    if plan is None and not pods:
        command = f"kubectl get pods -n {service.namespace} -l ragstow.dev/service={service.name}"
        checks.append(
            Check(
                "component-replicas",
                service,
                "pods of the service",
                "none",
                False,
                (Evidence(command, "no pod"),),
                "the service is not applied here: check -n and the name",
            )
        )
    for pod in pods:
        state = state_of(pod)
        checks.append(_ready(pod, state))
        if plan is not None and pod.node is not None:
            made, remark = _node(pod, plan, nodes)
            checks += made
            remarks += [remark] if remark else []
    return Outcome(tuple(checks), remarks=tuple(remarks))


def _ready(pod: Pod, state: PodState) -> Check:
    restarts = max((item.restarts for item in state.containers), default=0)
    words = state.state if state.state != "running" else "ready"
    reason = next((item.reason for item in state.containers if item.crashing and item.reason), "") or state.reason
    said = " ".join(part for part in (words, f"({reason})" if reason and words != "ready" else "") if part)
    said = f"{said}, {restarts} restarts" if restarts else said
    right = state.state == "running"
    message = next((item.last_message or item.message for item in state.containers if item.crashing), "") or state.message
    source = f"kubectl get pod -n {pod.namespace} {pod.name}"
    evidence = (Evidence(source, f"{pod.phase or 'no phase'}{f': {message}' if message and not right else ''}"),)
    hint = "" if right else f"ragstow diagnose {pod.namespace}/{pod.name}"
    return Check("pod-ready", ObjectRef.of(pod), "ready", said, right, evidence, hint, pod.labels.get(COMPONENT))


def _node(pod: Pod, plan: Plan, nodes: Mapping[str, Node]) -> tuple[list[Check], str]:
    """Whether the pod is where the plan said, or at least where the plan's labels allow it; and a remark in that case.

    Pods are steered by resource, labels and taints, not by host name: after a node was down they may be elsewhere.
    """
    component = pod.labels.get(COMPONENT, "")
    said = sorted({node for row in plan.placements if row.component == component for node in row.nodes})
    if not said:
        return [], ""
    row = next((row for row in plan.components if row.name == component), None)
    node = nodes.get(pod.node or "")
    labels = dict(row.node_labels) if row is not None else {}
    if row is not None and row.pool:
        labels[POOL] = (plan.service,)
    planned = pod.node in said
    right = planned or (node is not None and all(node.labels.get(key) in values for key, values in labels.items()))
    wanted = f"one of {', '.join(said)}" if len(said) > 1 else said[0]
    allowed = ", ".join(f"{key}={'|'.join(values)}" for key, values in sorted(labels.items()))
    check = Check(
        "pod-node",
        ObjectRef.of(pod),
        f"{wanted}, or another node with {allowed or 'room'}",
        pod.node or "none",
        right,
        (Evidence(f"kubectl get pod -n {pod.namespace} {pod.name} -o wide", f"spec.nodeName: {pod.node}"),),
        ""
        if right
        else "the pod is on a node that its own affinity excludes: was it bound by hand, or were labels changed since?",
        component,
    )
    remark = f"{pod.name} is on {pod.node}, the plan had it on {wanted}" if right and not planned else ""
    return [check], remark


def _list_command(service: ObjectRef, component: str) -> str:
    return f"kubectl get pods -n {service.namespace} -l ragstow.dev/service={service.name},ragstow.dev/component={component}"
