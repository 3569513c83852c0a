"""What to ask: for each component its pods, port, paths, the name of its model and the length of its vectors.

Made from pods and, where there is one, the service as it was described; without it the pods' labels say who they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ragstow.cluster.objects import Container, Pod
from ragstow.facts import Facts
from ragstow.facts.endpoints import Endpoints
from ragstow.render import names
from ragstow.spec.model import Component, Service
from ragstow.verification.model import ObjectRef

_ENGINE = "app.kubernetes.io/name"
_ROLE = "app.kubernetes.io/component"
_TLS_FLAGS = ("--ssl-keyfile", "--ssl-key-file", "--ssl-certfile", "--ssl-cert-file")
_MODEL_FLAGS = ("--model", "--model-id", "--model-path")


@dataclass(frozen=True, slots=True)
class Target:
    """One component as it is asked.

    `model` is the name under which its model should be served, `dimensions` the length that its vectors must have and
    `dimensions_from` where that number comes from. `health` is the path that must give 200 (None: none is known; then the port
    must be open), `paths` None for an engine that the facts do not know. `tls`: it speaks HTTPS inside the pod.
    """

    component: str
    role: str
    engine: str | None
    namespace: str
    pods: tuple[Pod, ...]
    port: int | None
    paths: Endpoints | None = None
    health: str | None = None
    model: str | None = None
    dimensions: int | None = None
    dimensions_from: str = ""
    replicas: int | None = None
    tls: bool = False

    def ref(self, pod: Pod) -> ObjectRef:
        """A pod of it."""
        return ObjectRef("Pod", pod.namespace, pod.name)

    def container(self, pod: Pod) -> Container | None:
        """The container that serves: named like the component, else the first."""
        return next((item for item in pod.containers if item.name == self.component), next(iter(pod.containers), None))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Everything of one service that is asked: its components in the order of the description."""

    service: str
    namespace: str
    targets: tuple[Target, ...] = field(default=())

    def of(self, role: str) -> tuple[Target, ...]:
        """The components of a role."""
        return tuple(target for target in self.targets if target.role == role)


def wanted(
    pods: Iterable[Pod],
    facts: Facts,
    *,
    name: str,
    namespace: str,
    service: Service | None = None,
    health: Mapping[str, str] | None = None,
) -> Wanted:
    """What to ask of one service.

    Args:
        pods: of the cluster; those of the service are picked by label.
        facts: what engines answer.
        name, namespace: of the service.
        service: its description, where there is one.
        health: component -> path for its health, before any other.
    """
    mine: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.namespace == namespace and pod.labels.get(names.SERVICE) == name and pod.deleted is None and not pod.finished:
            mine.setdefault(pod.labels.get(names.COMPONENT, ""), []).append(pod)
    for found in mine.values():
        found.sort(key=lambda pod: pod.name)
    paths = health or {}
    if service is not None:
        made = [
            _described(service, component, tuple(mine.get(component.name, ())), facts, paths)
            for component in service.components
        ]
    else:
        made = [_labelled(component, tuple(found), facts, paths) for component, found in sorted(mine.items()) if component]
    return Wanted(name, namespace, tuple(made))


def _described(
    service: Service, component: Component, pods: tuple[Pod, ...], facts: Facts, health: Mapping[str, str]
) -> Target:
    row = facts.endpoints.get(component.engine)
    dimensions, origin = _dimensions(service, component, facts)
    return Target(
        component=component.name,
        role=component.role,
        engine=component.engine,
        namespace=service.namespace,
        pods=pods,
        port=_port(component.name, pods) or component.port,
        paths=row,
        health=_health(component.name, pods, row, health),
        model=_served(pods, component.name, row) or component.model,
        dimensions=dimensions,
        dimensions_from=origin,
        replicas=component.replicas,
        tls=_tls(component.name, pods),
    )


def _labelled(name: str, pods: tuple[Pod, ...], facts: Facts, health: Mapping[str, str]) -> Target:
    labels = pods[0].labels
    engine = labels.get(_ENGINE)
    row = facts.endpoints.get(engine)
    return Target(
        component=name,
        role=labels.get(_ROLE, ""),
        engine=engine,
        namespace=pods[0].namespace,
        pods=pods,
        port=_port(name, pods),
        paths=row,
        health=_health(name, pods, row, health),
        model=_served(pods, name, row) or _flag(_arguments(pods, name), _MODEL_FLAGS),
        tls=_tls(name, pods),
    )


def _dimensions(service: Service, component: Component, facts: Facts) -> tuple[int | None, str]:
    if component.role == "vector-store":
        return component.dimensions, f"dimensions of {component.name}"
    if component.role != "embedder":
        return None, ""
    stores = [item for item in service.components if item.role == "vector-store" and item.dimensions]
    embedders = [item for item in service.components if item.role == "embedder"]
    if len(stores) == 1 and len(embedders) == 1:
        return stores[0].dimensions, f"dimensions of {stores[0].name}"
    if component.dimensions:
        return component.dimensions, f"dimensions of {component.name}"
    own = (component.model_config or {}).get("hidden_size")
    if isinstance(own, int):
        return own, f"hidden_size in the config of {component.model}"
    model = facts.models.find(component.model) if component.model else None
    return (model.hidden_size, f"hidden size of {component.model}") if model is not None else (None, "")


def _port(component: str, pods: Sequence[Pod]) -> int | None:
    """The port named http of the serving container, else its first."""
    for container in _serving(component, pods):
        ports = container.raw.get("ports")
        listed = [port for port in ports if isinstance(port, Mapping)] if isinstance(ports, list) else []
        chosen = next((port for port in listed if port.get("name") == "http"), next(iter(listed), None))
        number = chosen.get("containerPort") if chosen is not None else None
        if isinstance(number, int):
            return number
    return None


def _tls(component: str, pods: Sequence[Pod]) -> bool:
    """Whether the kubelet asks over HTTPS, or the engine was given a key for it."""
    words = _arguments(pods, component)
    return any(scheme == "HTTPS" for _, scheme in _probes(component, pods)) or any(
        word.partition("=")[0] in _TLS_FLAGS for word in words
    )


def _probes(component: str, pods: Sequence[Pod]) -> Iterable[tuple[str, str]]:
    """(path, scheme) of the HTTP probes of the serving container, readiness first."""
    for container in _serving(component, pods):
        for key in ("readinessProbe", "startupProbe", "livenessProbe"):
            probe = container.raw.get(key)
            get = probe.get("httpGet") if isinstance(probe, Mapping) else None
            if isinstance(get, Mapping):
                yield str(get.get("path") or "/"), str(get.get("scheme") or "HTTP")


def _health(component: str, pods: Sequence[Pod], row: Endpoints | None, health: Mapping[str, str]) -> str | None:
    """The path asked for, the engine's, or the one that the kubelet asks."""
    if component in health:
        return health[component]
    if row is not None:
        return row.health
    for path, _ in _probes(component, pods):
        return path if path.startswith("/") else f"/{path}"
    return None


def _served(pods: Sequence[Pod], component: str, row: Endpoints | None) -> str | None:
    """The name given with the engine's flag for it; None where the model's own name is used."""
    return _flag(_arguments(pods, component), row.name_flags) if row is not None else None


def _arguments(pods: Sequence[Pod], component: str) -> list[str]:
    for container in _serving(component, pods):
        parts = [container.raw.get(key) for key in ("command", "args")]
        return [str(word) for part in parts if isinstance(part, list) for word in part]
    return []


def _flag(words: Sequence[str], flags: Sequence[str]) -> str | None:
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in flags:
            return value if equals else next(iter(words[at + 1 : at + 2]), None)
    return None


def _serving(component: str, pods: Sequence[Pod]) -> Iterable[Container]:
    for pod in pods:
        named = [item for item in pod.containers if item.name == component]
        yield from (named or pod.containers)[:1]
