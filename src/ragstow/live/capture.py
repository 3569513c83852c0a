"""Turns what was read of a live cluster into the files of a saved one: plain kubectl JSON, and a manifest of what was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from ragstow.cluster.documents import CAPTURE_KIND, OWN_GROUP
from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import ClusterError, TimeoutReached
from ragstow.facts.stack import Stack
from ragstow.live.client import Client
from ragstow.live.failures import Forbidden, NotFound
from ragstow.live.kinds import file_name
from ragstow.live.read import Listing, Read
from ragstow.live.redact import text
from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.index.stack import GpuStack

MANIFEST = "capture.json"
_AT_ONCE = 4


def files(read: Read, logs: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files of a capture by path: one for each resource that has objects, version.json, logs, and the manifest."""
    made = {
        file_name(item.wanted): _json({"apiVersion": "v1", "kind": "List", "items": list(item.objects)})
        for item in read.listings
        if item.objects
    }
    made["version.json"] = _json({"serverVersion": {"gitVersion": read.version}})
    made.update(logs or {})
    made[MANIFEST] = _json(_manifest(read, logs or {}))
    return made


def _manifest(read: Read, logs: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": f"{OWN_GROUP}/v1alpha1",
        "kind": CAPTURE_KIND,
        "takenAt": read.taken_at,
        "context": read.context,
        "redacted": True,
        "read": [_entry(item, objects=len(item.objects)) for item in read.listings if item.present],
        "forbidden": [_entry(item, rule=str(item.forbidden.right)) for item in read.listings if item.forbidden is not None],
        "absent": [item.wanted.title for item in read.listings if not item.api_version],
        "logs": sorted(logs),
    }


def _entry(item: Listing, **more: Any) -> dict[str, Any]:
    return {"resource": item.wanted.title, "apiVersion": item.api_version, **more}


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def logs(client: Client, snapshot: Snapshot, programs: Stack) -> tuple[dict[str, str], list[str]]:
    """Logs of the pods that use GPUs and of the GPU stack, redacted: path -> text; and why some could not be had.

    Of a container that was restarted, the log of the instance before is there too.
    """
    wanted = [
        (pod, name, previous)
        for pod in sorted(gpu_pods(snapshot, programs), key=lambda pod: pod.key)
        for name, restarts in started(pod)
        for previous in ((False, True) if restarts else (False,))
    ]

    def one(item: tuple[Pod, str, bool]) -> tuple[str, str, ClusterError | TimeoutReached | None]:
        pod, container, previous = item
        path = f"logs/{pod.namespace}/{pod.name}/{container}{'.previous' if previous else ''}.log"
        try:
            return path, text(client.logs(pod.name, pod.namespace, container, previous=previous)), None
        except NotFound:
            return path, "", None
        except (ClusterError, TimeoutReached) as error:
            return path, "", error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(one, wanted))
    found = {path: said for path, said, _ in answers if said}
    failed = [
        # A missing right is the same for every log.
        f"logs: {error.message}" if isinstance(error, Forbidden) else f"{path}: {error.message}"
        for path, _, error in answers
        if error is not None
    ]
    return found, list(dict.fromkeys(failed))


def gpu_pods(snapshot: Snapshot, programs: Stack) -> Iterable[Pod]:
    """The pods that use GPUs, and those of the GPU stack."""
    stack = GpuStack(snapshot, programs)
    for pod in snapshot.pods:
        asks = any(gpu_limits(item.raw) or has_claims(item.raw) for item in (*pod.containers, *pod.init_containers))
        if asks or stack.roles(pod):
            yield pod


def started(pod: Pod) -> Iterable[tuple[str, int]]:
    """Containers that ran at least once, and how often they were restarted."""
    for key in ("initContainerStatuses", "containerStatuses"):
        for status in pod.status.get(key) or ():
            ran = any(
                name in (status.get(where) or {}) for where in ("state", "lastState") for name in ("running", "terminated")
            )
            if ran:
                yield str(status.get("name")), int(status.get("restartCount") or 0)
