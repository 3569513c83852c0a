"""What a live diagnosis sees beyond the API: container logs and `nvidia-smi` of the pods in question, as texts under `logs/`.

In question are GPU pods and pods of the GPU stack that are not well, the stack's pods on nodes where such a pod is or a
resource is short, and pods that a person named. What is read is judged by the same rules as a saved cluster's `logs/` folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ragstow.cluster.objects import Pod, Resources
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import ClusterError, TimeoutReached
from ragstow.facts.stack import Stack
from ragstow.live.capture import gpu_pods, started
from ragstow.live.client import Client
from ragstow.live.failures import ApiError, Forbidden, NotFound, Right
from ragstow.live.redact import text
from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.index.stack import GpuStack
from ragstow.rules.index.states import state_of
from ragstow.rules.model import ObjectRef, Unknown

EXEC = Right("create", "pods/exec")
_COMMAND = ("nvidia-smi",)
_AT_ONCE = 4
_SECONDS = 10.0
"""For one log or command: a diagnosis does not wait for a node that is gone."""
_MOST = 200
"""Pods that are looked into at most; a cluster with more of them in trouble has a cause that a few of them tell."""
_VENDOR = "nvidia.com/"


@dataclass(slots=True)
class Looked:
    """Texts by path under `logs/`; what could not be seen for want of a right; `notes` are failures of nodes and pods."""

    texts: dict[str, str] = field(default_factory=dict)
    unknown: tuple[Unknown, ...] = ()
    notes: tuple[str, ...] = ()


def look(client: Client, snapshot: Snapshot, programs: Stack, named: Collection[str] = ()) -> Looked:
    """Read logs and run nvidia-smi, where the user may.

    Args:
        client: the API server.
        snapshot: the cluster.
        programs: the programs of the GPU stack.
        named: pods ("namespace/name") that a person asked about.
    """
    pods = tuple(in_question(snapshot, programs, named))[:_MOST]
    if not pods:
        return Looked()
    running = [(pod, name) for pod in pods for name in _gpu_containers(pod)]
    missing: dict[str, Unknown] = {}
    may_run = bool(running) and client.may(EXEC)
    if running and not may_run:
        missing[str(EXEC)] = _unknown("nvidia-smi", EXEC, [pod for pod, _ in running], "exec")
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.node or "", []).append(pod)

    def on_node(of: list[Pod]) -> tuple[dict[str, str], list[Forbidden], list[str]]:
        """One pod after the other: where a kubelet does not answer, the others of its node are not asked."""
        found: dict[str, str] = {}
        refused: list[Forbidden] = []
        for pod in of:
            try:
                found |= _logs(client, pod, refused)
                if may_run:
                    found |= {path: said for name in _gpu_containers(pod) for path, said in _smi(client, pod, name)}
            except (ClusterError, TimeoutReached) as error:
                return found, refused, [f"{pod.node}: {error.message}"]
        return found, refused, []

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(on_node, (by_node[name] for name in sorted(by_node))))
    made = Looked()
    for found, refused, notes in answers:
        made.texts |= found
        made.notes += tuple(notes)
        for error in refused:
            missing.setdefault(str(error.right), _unknown("logs", error.right, pods, "logs"))
    made.unknown = tuple(missing.values())
    return made


def in_question(snapshot: Snapshot, programs: Stack, named: Collection[str] = ()) -> Iterator[Pod]:
    """The pods to look into, by namespace and name."""
    stack = GpuStack(snapshot, programs)
    troubled = {node.name for node in snapshot.nodes if _lacks(node.capacity, node.allocatable)}
    candidates = sorted(gpu_pods(snapshot, programs), key=lambda pod: pod.key)
    unwell = {pod.key for pod in candidates if not state_of(pod).healthy or _restarted(pod)}
    troubled |= {str(pod.node) for pod in candidates if pod.key in unwell and pod.node}
    for pod in candidates:
        if pod.node is None or not pod.live:
            continue
        if pod.key in unwell or pod.key in named or (stack.roles(pod) and pod.node in troubled):
            yield pod


def _lacks(capacity: Resources, allocatable: Resources) -> bool:
    return any(allocatable.get(name, 0) < count for name, count in capacity.items() if name.startswith(_VENDOR))


def _restarted(pod: Pod) -> bool:
    return any(restarts for _, restarts in started(pod))


def _logs(client: Client, pod: Pod, refused: list[Forbidden]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, restarts in started(pod):
        for previous in (False, True) if restarts else (False,):
            path = f"logs/{pod.namespace}/{pod.name}/{name}{'.previous' if previous else ''}.log"
            try:
                said = text(client.logs(pod.name, pod.namespace, name, previous=previous, timeout_seconds=_SECONDS))
            except Forbidden as error:
                refused.append(error)
                return found
            except NotFound:
                continue
            if said:
                found[path] = said
    return found


def _smi(client: Client, pod: Pod, container: str) -> Iterable[tuple[str, str]]:
    try:
        done = client.execute(pod.name, pod.namespace, container, _COMMAND, timeout_seconds=_SECONDS)
    except ApiError:
        return ()
    except ClusterError as error:
        # The image has no nvidia-smi, or the container ended meanwhile: nothing that says anything about its node.
        if error.code == "exec-failed":
            return ()
        raise
    return ((f"logs/{pod.namespace}/{pod.name}/{container}.nvidia-smi.log", text(done.stdout + done.stderr)),)


def _gpu_containers(pod: Pod) -> Iterator[str]:
    """Running containers that ask for a GPU."""
    asks = {item.name for item in pod.containers if gpu_limits(item.raw) or has_claims(item.raw)}
    for status in pod.status.get("containerStatuses") or ():
        if status.get("name") in asks and "running" in (status.get("state") or {}):
            yield str(status["name"])


def _unknown(what: str, right: Right, pods: Iterable[Pod], verb: str) -> Unknown:
    shown = list(dict.fromkeys((pod.namespace, pod.name) for pod in pods))
    namespace, name = shown[0]
    command = f"kubectl exec -n {namespace} {name} -- nvidia-smi" if verb == "exec" else f"kubectl logs -n {namespace} {name}"
    refs = tuple(ObjectRef("Pod", namespace, name) for namespace, name in shown)
    return Unknown(what, f"the RBAC rule {right}", command, refs)
