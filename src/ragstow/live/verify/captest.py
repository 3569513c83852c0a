"""Runs cap tests: makes the throw-away pods, waits for their answers, and takes them away again whatever happens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.client import Client, Object
from ragstow.live.discovery import Resource
from ragstow.live.failures import Forbidden
from ragstow.verification.captest import DEADLINE_SECONDS, LABEL, CapTest, Ended, answered

_POLL_SECONDS = 0.5
_UNSCHEDULABLE_SECONDS = 20.0
"""How long a pod may wait for a free slot."""


class Creator(Client, Protocol):
    """A client that can also create."""

    def create(self, item: Object) -> dict[str, Any]:
        """Create an object."""
        ...


def run_tests(
    client: Creator, tests: Sequence[CapTest], service: str, namespace: str, *, seconds: float = DEADLINE_SECONDS
) -> tuple[Ended, ...]:
    """The tests one after the other, since they may need the same slot; what a killed run left is deleted first."""
    pods = client.resources().plural("", "pods")
    if pods is None or not tests:
        return ()
    with suppress(ClusterError, TimeoutReached):
        for item in list(client.list(pods, namespace, labels=f"{LABEL}={service}")):
            client.delete(pods, item["metadata"]["name"], namespace)
    return tuple(_run(client, pods, test, seconds) for test in tests)


def _run(client: Creator, pods: Resource, test: CapTest, seconds: float) -> Ended:
    ref = test.ref
    command = f"kubectl logs -n {ref.namespace} {ref.name}"
    try:
        with _made(client, pods, test):
            return _waited(client, pods, test, command, seconds)
    except Forbidden as error:
        return Ended(test, "ragstow rbac verify --cap-test | kubectl apply -f -", missing=error.message, forbidden=True)
    except (ClusterError, TimeoutReached) as error:
        return Ended(test, command, missing=error.message)


@contextmanager
def _made(client: Creator, pods: Resource, test: CapTest) -> Iterator[None]:
    """The pod, for the time of the block; it is deleted after an interrupt too."""
    ref = test.ref
    try:
        client.create(test.manifest)
        yield
    finally:
        # Also after an interrupt during the request: the server may have made it.
        with suppress(ClusterError, TimeoutReached):
            client.delete(pods, ref.name, ref.namespace)


def _waited(client: Creator, pods: Resource, test: CapTest, command: str, seconds: float) -> Ended:
    ref = test.ref
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        item = client.get(pods, ref.name, ref.namespace)
        if item is None:
            return Ended(test, command, missing="the pod was deleted by somebody else")
        status = item.get("status") or {}
        phase = status.get("phase")
        if phase in ("Running", "Succeeded", "Failed"):
            with suppress(ClusterError):
                log = client.logs(ref.name, ref.namespace, "probe")
                if answered(log) or phase != "Running":
                    return Ended(test, command, log)
        why = _refused(status)
        if phase == "Failed":
            return Ended(test, command, missing=why or "the pod failed before it said anything")
        if why and time.monotonic() - begin > _UNSCHEDULABLE_SECONDS:
            return Ended(test, command, missing=f"the test needs one free slot of its kind on that node: {why}")
        _pause()
    return Ended(test, command, missing=f"no answer within {seconds:g} s")


def _pause() -> None:
    time.sleep(_POLL_SECONDS)


def _refused(status: dict[str, Any]) -> str:
    """What the scheduler or the kubelet says against the pod."""
    if status.get("reason"):
        return str(status.get("message") or status["reason"])
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason"))
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff", "CreateContainerError", "RunContainerError"):
            return f"{waiting['reason']}: {waiting.get('message') or ''}".rstrip(": ")
    return ""
