"""Which resources a server has, in which version: aggregated discovery, or the older way group by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.live.failures import ApiError, Right
from ragstow.live.transport import JSON, Transport

_AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON};g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,{JSON}"  # noqa: E501 - one media type list
_RIGHT = Right("get", "/apis")


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource as this server has it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """ "v1", "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of the collection, of one object, or of a subresource; without a namespace: of all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return root + place + f"/{self.plural}" + (f"/{name}" if name else "") + (f"/{subresource}" if subresource else "")


class Resources:
    """All resources of a server; of several versions the one that the server prefers."""

    def __init__(self, found: Iterable[Resource]) -> None:
        self._plural: dict[tuple[str, str], Resource] = {}
        self._kind: dict[tuple[str, str], Resource] = {}
        self._exact: dict[tuple[str, str], Resource] = {}
        for item in found:
            self._plural.setdefault((item.group, item.plural), item)
            self._kind.setdefault((item.group, item.kind), item)
            self._exact.setdefault((item.api_version, item.kind), item)

    def plural(self, group: str, plural: str) -> Resource | None:
        """By API group and plural; None where the server has no such resource."""
        return self._plural.get((group, plural))

    def namespaced(self) -> tuple[Resource, ...]:
        """Those that live in namespaces, each in one version, by group and plural."""
        return tuple(item for _, item in sorted(self._plural.items()) if item.namespaced)

    def of(self, api_version: str, kind: str) -> Resource | None:
        """By apiVersion and kind, as an object says them."""
        return self._exact.get((api_version, kind)) or self._kind.get((api_version.rpartition("/")[0], kind))


def discover(transport: Transport) -> Resources:
    """Ask a server what it has.

    Raises:
        ClusterError: the server cannot be reached or refuses to say.
    """
    found: list[Resource] = []
    for root in ("/api", "/apis"):
        answer = transport.json("GET", root, _RIGHT, accept=_AGGREGATED)
        if answer.get("kind") == "APIGroupDiscoveryList":
            found.extend(_aggregated(answer))
        elif root == "/api":
            found.extend(_listed(transport, "", "v1", "/api/v1"))
        else:
            for group in answer.get("groups") or ():
                for version in _preferred_first(group):
                    name = str(group["name"])
                    found.extend(_listed(transport, name, version, f"/apis/{name}/{version}"))
    return Resources(found)


def _aggregated(answer: Mapping[str, Any]) -> Iterable[Resource]:
    for group in answer.get("items") or ():
        name = str((group.get("metadata") or {}).get("name") or "")
        for version in group.get("versions") or ():
            for item in version.get("resources") or ():
                kind = (item.get("responseKind") or {}).get("kind")
                if kind and "list" in (item.get("verbs") or ()):
                    yield Resource(name, version["version"], item["resource"], kind, item.get("scope") == "Namespaced")


def _preferred_first(group: Mapping[str, Any]) -> list[str]:
    preferred = str((group.get("preferredVersion") or {}).get("version") or "")
    versions = [str(item["version"]) for item in group.get("versions") or ()]
    return sorted(versions, key=lambda version: version != preferred)


def _listed(transport: Transport, group: str, version: str, path: str) -> Iterable[Resource]:
    try:
        answer = transport.json("GET", path, _RIGHT)
    except ApiError:
        # An aggregated API whose own server is down: all others are still there.
        return []
    return [
        Resource(group, version, item["name"], item["kind"], item.get("namespaced") is True)
        for item in answer.get("resources") or ()
        if "/" not in item["name"] and "list" in (item.get("verbs") or ())
    ]
