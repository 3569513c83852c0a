"""Checks every endpoint of one service: its Services, each replica, its stores, and the whole way of a question."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ragstow.cluster.objects import Pod
from ragstow.errors import ClusterError
from ragstow.live.client import Client
from ragstow.live.endpoints import postgres, roundtrip, storecheck
from ragstow.live.endpoints.backends import check_services
from ragstow.live.endpoints.engines import Replica, replica
from ragstow.live.endpoints.http import Failed, Server
from ragstow.live.endpoints.notes import Found, Notes, took
from ragstow.live.endpoints.targets import Target, Wanted
from ragstow.verification import vectors
from ragstow.verification.model import ObjectRef, Outcome

REQUEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """How endpoints are asked.

    `timeout_seconds` is for one request, `key` is sent as API key (None: none), `round_trip` and `services` say whether these
    parts are wanted, `store` whether something may be kept in vector stores for a moment, `pause` sleeps between repeats.
    """

    timeout_seconds: float = REQUEST_SECONDS
    key: str | None = None
    round_trip: bool = True
    services: bool = True
    store: bool = True
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Reach:
    """The way to the pods' ports."""

    client: Client
    options: Options

    @contextmanager
    def server(self, target: Target, pod: Pod, port: int | None = None) -> Iterator[Server]:
        """The HTTP server on a pod's port.

        Raises:
            ClusterError: the port cannot be forwarded.
        """
        number = port or target.port
        assert number is not None
        options = self.options
        with (
            self.client.forward(pod.name, pod.namespace, number) as (address, local),
            Server(
                address,
                local,
                pod=target.ref(pod),
                pod_port=number,
                timeout_seconds=options.timeout_seconds,
                key=options.key,
                tls=target.tls,
                pause=options.pause,
            ) as server,
        ):
            yield server


def check_endpoints(client: Client, wanted: Wanted, options: Options | None = None) -> Outcome:
    """Whether the service answers.

    Args:
        client: the cluster.
        wanted: the service's components and pods, as `targets.wanted` makes them.
        options: time limits, API key, which parts.
    """
    reach = Reach(client, options or Options())
    notes = Notes()
    ports = check_services(client, wanted.service, wanted.targets, notes) if reach.options.services else {}
    targets = tuple(replace(target, port=ports.get(target.component, target.port)) for target in wanted.targets)
    working: dict[str, Replica] = {}
    for target in targets:
        if target.port is None:
            continue
        if not target.pods:
            notes.unseen(
                "endpoint-health",
                target.component,
                ObjectRef("Namespace", "", target.namespace),
                f"{target.component} has no pod",
                f"ragstow diagnose -n {target.namespace}",
            )
            continue
        checked = [_replica(reach, target, pod, notes) for pod in target.pods]
        _agree(target, checked, notes)
        chosen = next((item for item in checked if item.works), checked[0])
        working[target.component] = chosen
        if not reach.options.store and target.role == "vector-store":
            notes.remark(f"{target.component}: nothing was kept in it (--no-store)")
        elif target.paths is not None and target.paths.store is not None:
            storecheck.check(reach, target, [pod for pod, item in zip(target.pods, checked, strict=True) if item.works], notes)
        elif target.role == "vector-store" and chosen.works:
            notes.unseen(
                "store",
                target.component,
                chosen.pod,
                f"ragstow asks {target.engine or 'this store'} only for its health",
                f"kubectl -n {target.namespace} logs {chosen.pod.name}",
                needed=False,
            )
    if reach.options.round_trip:
        roundtrip.check(reach, replace(wanted, targets=targets), working, notes)
    return notes.outcome()


def _replica(reach: Reach, target: Target, pod: Pod, notes: Notes) -> Replica:
    ref = target.ref(pod)
    if pod.phase != "Running":
        state = pod.phase or "without a status"
        where = f"ragstow diagnose {pod.namespace}/{pod.name}"
        notes.unseen("endpoint-health", target.component, ref, f"the pod is {state}", where)
        return Replica(ref, False, target.model)
    paths = target.paths
    try:
        if paths is not None and paths.store == "postgres":
            return _postgres(reach, target, pod, notes)
        if target.health is None:
            return _open(reach, target, pod, notes)
        with reach.server(target, pod, paths.health_port if paths is not None else None) as server:
            return replica(server, target, notes)
    except ClusterError as error:
        notes.refused("endpoint-health", target.component, ref, error)
        return Replica(ref, False, target.model)


def _postgres(reach: Reach, target: Target, pod: Pod, notes: Notes) -> Replica:
    assert target.port is not None
    with reach.client.forward(pod.name, pod.namespace, target.port) as (address, local):

        def look() -> Found:
            seconds = postgres.answers(address, local, reach.options.timeout_seconds)
            return Found(f"it does, in {took(seconds)}", True)

        works = notes.attempt(
            "endpoint-health", target.component, target.ref(pod), f"port {target.port} speaks PostgreSQL", look
        )
    return Replica(target.ref(pod), works, None)


def _open(reach: Reach, target: Target, pod: Pod, notes: Notes) -> Replica:
    """No path is known: the port must take a connection and keep it for a moment."""
    assert target.port is not None
    with reach.client.forward(pod.name, pod.namespace, target.port) as (address, local):

        def look() -> Found:
            try:
                with socket.create_connection((address, local), reach.options.timeout_seconds) as connection:
                    connection.settimeout(1.0)
                    try:
                        closed = connection.recv(1) == b""
                    except TimeoutError:
                        closed = False
            except OSError as error:
                raise Failed("unreachable", f"port {target.port} does not answer: {error}") from None
            if closed:
                raise Failed("unreachable", f"port {target.port} closes every connection")
            return Found("it is", True, hint="")

        notes.remark(
            f"{target.component}: no path for its health is known, so only its port was tried; name one with "
            f"--health {target.component}=/path"
        )
        works = notes.attempt("endpoint-health", target.component, target.ref(pod), f"port {target.port} is open", look)
    return Replica(target.ref(pod), works, target.model)


def _agree(target: Target, checked: list[Replica], notes: Notes) -> None:
    """All replicas of an embedder must give the same vector, or search depends on which one was asked."""
    known = [item for item in checked if item.vector is not None]
    for item in known[1:]:
        first = known[0]
        assert first.vector is not None
        assert item.vector is not None
        alike = vectors.cosine(first.vector, item.vector)
        found = Found(f"cosine {alike:.4f}", alike >= vectors.SAME, hint="the replicas do not run the same model")
        expected = f"the vector of {first.pod.name}: cosine {vectors.SAME} or more"
        notes.check("embedding-replicas-agree", target.component, item.pod, expected, found)
