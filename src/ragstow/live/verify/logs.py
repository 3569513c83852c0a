"""Reads the logs that a verification looks through: of the GPU stack, of pods that are not well, of kubelets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlencode

from ragstow.cluster.objects import Node, Pod
from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.client import Client
from ragstow.live.failures import Forbidden, NotFound
from ragstow.live.redact import text as redacted
from ragstow.live.verify.probe import in_parallel
from ragstow.rules.index.states import state_of
from ragstow.verification.model import ObjectRef
from ragstow.verification.stack import Log

_LINES = 1000


def pod_logs(client: Client, pods: Iterable[Pod]) -> tuple[Log, ...]:
    """The logs of all containers that run or ran; of one that crashes also the log of the instance before."""
    wanted = [item for pod in pods for item in _containers(pod)]

    def one(item: tuple[Pod, str, bool]) -> Log:
        pod, container, previous = item
        flag = " --previous" if previous else ""
        command = f"kubectl logs -n {pod.namespace} {pod.name} -c {container} --tail={_LINES}{flag}"
        ref = ObjectRef.of(pod)
        try:
            said = client.logs(pod.name, pod.namespace, container, previous=previous, tail_lines=_LINES)
        except Forbidden as error:
            return Log(ref, command, missing=error.message, forbidden=True)
        except (ClusterError, TimeoutReached) as error:
            return Log(ref, command, missing=f"container {container}: {error.message}")
        return Log(ref, command, redacted(said))

    return tuple(in_parallel(one, wanted))


def _containers(pod: Pod) -> list[tuple[Pod, str, bool]]:
    found = []
    for item in state_of(pod).containers:
        if item.state == "running" or (item.state == "terminated" and item.init):
            found.append((pod, item.name, False))
        if item.crashing and item.restarts:
            found.append((pod, item.name, True))
    return found


def kubelet_logs(client: Client, nodes: Sequence[Node], since: dict[str, str]) -> tuple[Log, ...]:
    """The kubelet's log of each node, through the node log query (KEP-2258; `enableSystemLogQuery` of the kubelet).

    Args:
        client: the API server.
        nodes: whose.
        since: node -> RFC 3339 time from which on lines matter.
    """

    def one(node: Node) -> Log:
        query = {"query": "kubelet", "tailLines": str(_LINES)}
        if since.get(node.name):
            query["sinceTime"] = since[node.name]
        path = f"logs/?{urlencode(query, quote_via=quote)}"
        command = f"kubectl get --raw '/api/v1/nodes/{node.name}/proxy/{path}'"
        ref = ObjectRef.of(node)
        try:
            said = client.node_proxy(node.name, path).decode("utf-8", "replace")
        except Forbidden:
            missing = "not allowed to get nodes/proxy (ragstow's own roles leave it out: it opens the whole kubelet)"
            return Log(ref, command, missing=missing, forbidden=True)
        except NotFound:
            return Log(ref, command, missing="the node log query is off (kubelet: enableSystemLogQuery)")
        except (ClusterError, TimeoutReached) as error:
            return Log(ref, command, missing=error.message)
        if said.lstrip().startswith("<"):
            return Log(ref, command, missing="the node log query is off (kubelet: enableSystemLogQuery)")
        return Log(ref, command, redacted(said))

    return tuple(in_parallel(one, nodes))
