"""A service whose pods are servers of this machine, for tests of endpoint checks without a cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

from endpoint_servers import Behaviour, OpenAi, Tei, listening, serve
from ragstow.cluster.build import build
from ragstow.cluster.objects import Pod
from ragstow.errors import ClusterError
from ragstow.facts import load
from ragstow.live.client import Client
from ragstow.live.discovery import Resource, Resources
from ragstow.live.endpoints.check import Options, check_endpoints
from ragstow.live.endpoints.targets import Wanted, wanted
from ragstow.live.failures import Forbidden, Right
from ragstow.live.streams import Executed
from ragstow.spec import normalise
from ragstow.verification.model import Check, Outcome

FACTS = load()
NAMESPACE, SERVICE = "rag", "support"
_RESOURCES = Resources(
    [
        Resource("", "v1", "services", "Service", True),
        Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True),
    ]
)


@dataclass
class Near:
    """A client whose pods are ports of this machine: (pod, port) -> local port."""

    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    environment: dict[str, dict[str, str]] = field(default_factory=dict)
    """Pod -> what a command in it finds in its environment."""
    forbidden: frozenset[str] = frozenset()
    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Plural -> what is listed."""

    def resources(self) -> Resources:
        return _RESOURCES

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Iterator[dict[str, Any]]:
        asked = dict(part.split("=") for part in labels.split(",") if part)
        for item in self.objects.get(resource.plural, []):
            meta = item["metadata"]
            if meta["namespace"] == namespace and asked.items() <= meta.get("labels", {}).items() and not fields:
                yield item

    @contextmanager
    def forward(self, name: str, namespace: str, port: int) -> Iterator[tuple[str, int]]:
        if "pods/portforward" in self.forbidden:
            raise Forbidden(Right("create", "pods/portforward", "", namespace), "no")
        if (name, port) not in self.ports:
            raise ClusterError("forward-failed", f"pod {namespace}/{name} has nothing on port {port}")
        yield "127.0.0.1", self.ports[name, port]

    def execute(
        self,
        name: str,
        namespace: str,
        container: str,  # noqa: ARG002 - all run on this machine
        command: Sequence[str],
        *,
        timeout_seconds: float = 30.0,
        stdin: bytes = b"",
    ) -> Executed:
        if "pods/exec" in self.forbidden:
            raise Forbidden(Right("create", "pods/exec", "", namespace), "no")
        environment = {"PATH": os.environ["PATH"], **self.environment.get(name, {})}
        done = subprocess.run(
            list(command), input=stdin, capture_output=True, check=False, env=environment, timeout=timeout_seconds
        )
        return Executed(done.returncode, done.stdout.decode(), done.stderr.decode())


def pod(component: str, name: str, port: int, **more: Any) -> dict[str, Any]:
    """A running pod as `render` would make it."""
    labels = {"ragstow.dev/service": SERVICE, "ragstow.dev/component": component, **more.get("labels", {})}
    container = {
        "name": component,
        "image": "i",
        "ports": [{"name": "http", "containerPort": port}],
        "args": more.get("args", []),
        **more.get("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "labels": labels},
        "spec": {"containers": [container]},
        "status": {"phase": more.get("phase", "Running")},
    }


@dataclass
class World:
    """The service of a test: what it is described as, its pods, and the servers behind them."""

    stack: ExitStack
    client: Near = field(default_factory=Near)
    pods: list[dict[str, Any]] = field(default_factory=list)
    components: list[dict[str, Any]] = field(default_factory=list)

    def serve(
        self,
        component: str,
        kind: type[OpenAi | Tei],
        behaviour: Behaviour | None = None,
        *,
        port: int = 8000,
        replica: int = 0,
        **more: Any,
    ) -> Behaviour:
        """Put an engine behind a new pod of a component."""
        made = behaviour or Behaviour()
        self.put(component, port, self.stack.enter_context(serve(kind, made)), replica, **more)
        return made

    def handle(self, component: str, handler: type[BaseHTTPRequestHandler], *, port: int, replica: int = 0) -> None:
        """Put any HTTP server behind a new pod."""
        self.put(component, port, self.stack.enter_context(listening(handler)), replica)

    def put(self, component: str, port: int, local: int, replica: int = 0, **more: Any) -> None:
        """Put a port of this machine behind a new pod."""
        name = f"{component}-{replica}"
        self.pods.append(pod(component, name, port, **more))
        self.client.ports[name, port] = local

    def wanted(self, *, described: bool = True, health: Mapping[str, str] | None = None) -> Wanted:
        """What is asked."""
        service = None
        if described:
            document = {
                "apiVersion": "ragstow.dev/v1alpha1",
                "kind": "RagService",
                "metadata": {"name": SERVICE, "namespace": NAMESPACE},
                "spec": {"components": self.components},
            }
            service = normalise(document, FACTS)
        found = [item for item in build(self.pods).pods if isinstance(item, Pod)]
        return wanted(found, FACTS, name=SERVICE, namespace=NAMESPACE, service=service, health=health)

    def check(self, *, described: bool = True, health: Mapping[str, str] | None = None, **options: Any) -> Outcome:
        """Check everything but the Services, unless they are asked for."""
        chosen = Options(**{"services": False, "pause": lambda _: None, "timeout_seconds": 5.0, **options})
        return check_endpoints(cast(Client, self.client), self.wanted(described=described, health=health), chosen)


def named(outcome: Outcome, name: str) -> list[Check]:
    """The checks of a name."""
    return [check for check in outcome.checks if check.name == name]


def only(outcome: Outcome, name: str) -> Check:
    """The one check of a name."""
    (found,) = named(outcome, name)
    return found


def failures(outcome: Outcome) -> list[str]:
    """The names of the checks that failed."""
    return [check.name for check in outcome.checks if not check.passed]
