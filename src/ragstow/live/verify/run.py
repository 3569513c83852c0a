"""One verification from the cluster as it was read to the whole answer: the library's verb behind `ragstow verify`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import InputError
from ragstow.facts import Facts
from ragstow.inventory.build import inventory
from ragstow.live.client import ApiClient
from ragstow.live.endpoints.check import Options, check_endpoints
from ragstow.live.endpoints.targets import Wanted
from ragstow.live.endpoints.targets import wanted as endpoints_of
from ragstow.live.read import read
from ragstow.live.verify.captest import run_tests
from ragstow.live.verify.gather import Limits, gather
from ragstow.live.verify.probe import EXEC_SECONDS
from ragstow.spec import normalise
from ragstow.verification import captest
from ragstow.verification.judge import Scene, judge
from ragstow.verification.model import Asked, Outcome, Subject, Verification, joined


@dataclass(frozen=True, slots=True)
class Scope:
    """What is asked.

    `exec_seconds` for one command in a pod, `request_seconds` for one request to an endpoint. `logs`: of the GPU stack, of pods
    that are not well, of kubelets. `round_trip` goes through the whole service, `store` keeps something in vector stores for a
    moment; both need `endpoints`. `key` is the API key of the service's servers, `health` component -> path. `cap_test` makes
    throw-away pods, with `cap_image` where it is named.
    """

    exec_seconds: float = EXEC_SECONDS
    request_seconds: float = 60.0
    logs: bool = True
    endpoints: bool = True
    round_trip: bool = True
    store: bool = True
    key: str | None = None
    health: Mapping[str, str] = field(default_factory=dict)
    cap_test: bool = False
    cap_image: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """The cluster as it was read: `cluster` names context and server."""

    snapshot: Snapshot
    cluster: str
    kubernetes: str
    taken_at: str


def take(client: ApiClient) -> Taken:
    """Read the cluster, as every verification starts.

    Raises:
        ClusterError: it cannot be reached, or a right is missing without which the answer would be wrong.
    """
    found = read(client)
    return Taken(found.snapshot(), f"context {found.context} ({found.server})", found.version.removeprefix("v"), found.taken_at)


def verify_service(
    client: ApiClient, asked: Asked, facts: Facts, *, taken: Taken | None = None, scope: Scope | None = None
) -> Verification:
    """Whether a service got what was planned and works.

    Args:
        client: the API server.
        asked: the service and its plan.
        facts: cards, drivers, programs, engines.
        taken: the cluster, where it was read already.
        scope: what is asked (default: everything but the cap test).

    Raises:
        ClusterError: as `take`; what goes wrong afterwards is part of the answer.
        InputError: `scope.health` names a component that is not there.
    """
    scope, taken = scope or Scope(), taken or take(client)
    wanted = _wanted(asked, taken.snapshot, facts, scope)
    subject = Subject(
        service=asked.service,
        namespace=asked.namespace,
        basis=asked.basis,
        plan_digest=asked.plan.digest if asked.plan is not None else None,
        cluster=taken.cluster,
        kubernetes=taken.kubernetes,
        started_at=taken.taken_at,
    )
    snapshot = taken.snapshot
    limits = Limits(exec_seconds=scope.exec_seconds, logs=scope.logs, kubelet=scope.logs)
    scene = gather(client, snapshot, inventory(snapshot, facts), facts, asked.service, asked.namespace, asked.plan, limits)
    outcomes = [*judge(scene)]
    if scope.endpoints:
        options = Options(scope.request_seconds, scope.key, round_trip=scope.round_trip, store=scope.store)
        outcomes.append(check_endpoints(client, wanted, options))
    if scope.cap_test:
        outcomes += _caps(client, scene, scope)
    return joined(subject, outcomes)


def _wanted(asked: Asked, snapshot: Snapshot, facts: Facts, scope: Scope) -> Wanted:
    """The endpoints to ask."""
    service = normalise(asked.plan.spec, facts) if asked.plan is not None else None
    found = endpoints_of(
        snapshot.pods, facts, name=asked.service, namespace=asked.namespace, service=service, health=scope.health
    )
    names = [target.component for target in found.targets]
    for component in scope.health:
        if component not in names:
            listed = ", ".join(names) or "none"
            raise InputError("health-component", f"--health {component}: no such component", hint=f"components: {listed}")
    return found


def _caps(client: ApiClient, scene: Scene, scope: Scope) -> list[Outcome]:
    tests, said = captest.cap_tests(scene.targets, scene.service, scene.facts, secrets.token_hex(3), scope.cap_image)
    return [said, captest.judge(run_tests(client, tests, scene.service, scene.namespace))]
