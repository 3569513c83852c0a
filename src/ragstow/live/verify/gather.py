"""Everything that a verification needs of a live cluster, asked at once: the `Scene` that is then judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.inventory.model import Inventory
from ragstow.live.client import Client
from ragstow.live.verify import probe
from ragstow.live.verify.logs import kubelet_logs, pod_logs
from ragstow.plan.model import Plan
from ragstow.rules.index.stack import GpuStack
from ragstow.rules.index.states import state_of
from ragstow.verification.judge import Scene, gpu_nodes, nodes_of
from ragstow.verification.stack import stack_pods
from ragstow.verification.targets import Target, pods_of, targets

_HOST_ROLES = ("driver", "device-plugin", "dra-driver", "feature-discovery")
"""Whose containers see the host's driver, the most direct first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is asked: `exec_seconds` for one command; `logs` and `kubelet` say whether these are read."""

    exec_seconds: float = probe.EXEC_SECONDS
    logs: bool = True
    kubelet: bool = True


def gather(
    client: Client,
    snapshot: Snapshot,
    inventory: Inventory,
    facts: Facts,
    service: str,
    namespace: str,
    plan: Plan | None,
    limits: Limits | None = None,
) -> Scene:
    """Ask pods, nodes and logs.

    Args:
        client: the API server.
        snapshot, inventory: the cluster as it was read.
        facts: cards, drivers, programs, signatures.
        service, namespace: what is verified.
        plan: what was planned, where it is known.
        limits: how much is asked.
    """
    limits = limits or Limits()
    pods = pods_of(snapshot, service, namespace)
    found = targets(pods, plan, inventory, facts)
    nodes = nodes_of(snapshot, plan, found)
    stack = stack_pods(snapshot, facts, {node.name for node in nodes})
    looks = probe.looks(client, [target for target in found if _asks(target)], timeout_seconds=limits.exec_seconds)
    hosts = probe.hosts(client, _host_pods(snapshot, facts, gpu_nodes(found)), timeout_seconds=limits.exec_seconds)
    with_gpu = [node for node in nodes if node.name in gpu_nodes(found)]
    unwell = [pod for pod in pods if state_of(pod).state in ("crashing", "unready")]
    return Scene(
        service=service,
        namespace=namespace,
        plan=plan,
        snapshot=snapshot,
        inventory=inventory,
        facts=facts,
        pods=pods,
        targets=found,
        nodes=nodes,
        stack=stack,
        looks=looks,
        hosts=hosts,
        stack_logs=pod_logs(client, [pod for pod, _ in stack]) if limits.logs else (),
        pod_logs=pod_logs(client, unwell) if limits.logs else (),
        kubelet_logs=kubelet_logs(client, with_gpu, _since(pods)) if limits.kubelet else (),
    )


def _asks(target: Target) -> bool:
    """Whether the container runs, so that a command can be run in it; of others `pod-ready` tells."""
    return any(item.name == target.container.name and item.state == "running" for item in state_of(target.pod).containers)


def _host_pods(snapshot: Snapshot, facts: Facts, nodes: Sequence[str]) -> Mapping[str, Sequence[tuple[Pod, str, str]]]:
    stack = GpuStack(snapshot, facts.stack)
    found: dict[str, Sequence[tuple[Pod, str, str]]] = {}
    for node in nodes:
        rows = []
        for role in _HOST_ROLES:
            for pod in stack.pods(role, node=node):
                name = _container(pod, role, facts)
                if name is not None and state_of(pod).state == "running":
                    program = facts.stack.role(role)
                    rows.append((pod, name, program.title if program is not None else role))
        found[node] = rows
    return found


def _container(pod: Pod, role: str, facts: Facts) -> str | None:
    """The container of a pod that runs this program."""
    for item in pod.containers:
        program = facts.stack.program(item.name, item.image)
        if program is not None and program.role == role:
            return item.name
    return None


def _since(pods: Sequence[Pod]) -> dict[str, str]:
    """Node -> when the first of our pods there began: older lines of the kubelet are not about them."""
    found: dict[str, str] = {}
    for pod in pods:
        begun = str(pod.status.get("startTime") or pod.created or "")
        if pod.node and begun:
            found[pod.node] = min(begun, found.get(pod.node, begun))
    return found
