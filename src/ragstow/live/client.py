"""The verbs that ragstow needs of an API server, as a protocol, and their one implementation over `Transport`.

Objects are raw mappings as the server gives them. What they mean is no concern of this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ragstow.errors import ClusterError
from ragstow.live.discovery import Resource, Resources, discover
from ragstow.live.failures import Gone, NotFound, Right
from ragstow.live.transport import Transport

if TYPE_CHECKING:
    from ragstow.live.streams import Executed

Object = Mapping[str, Any]
Event = Literal["ADDED", "MODIFIED", "DELETED"]

_PAGE = 500
_MANAGER = "ragstow"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_WATCH_SECONDS = 300


class Client(Protocol):
    """What reading, applying and verifying ask of an API server."""

    def version(self) -> str:
        """The server's gitVersion."""
        ...

    def resources(self) -> Resources:
        """What the server has."""
        ...

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Iterator[dict[str, Any]]:
        """All objects, page by page, each with apiVersion and kind."""
        ...

    def watch(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", seconds: float
    ) -> Iterator[tuple[Event, Object]]:
        """All objects, then what changes, for at most `seconds`."""
        ...

    def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        """One object; None where it does not exist."""
        ...

    def apply(self, item: Object, *, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply as field manager `ragstow`."""
        ...

    def patch(self, resource: Resource, name: str, namespace: str, change: Object, *, dry_run: bool = False) -> dict[str, Any]:
        """A JSON merge patch."""
        ...

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: str = "",
        dependents_first: bool = False,
    ) -> None:
        """Delete an object; one that is not there is no error."""
        ...

    def evict(self, name: str, namespace: str) -> bool:
        """Evict a pod; False where a disruption budget says not now."""
        ...

    def logs(
        self,
        name: str,
        namespace: str,
        container: str,
        *,
        previous: bool = False,
        tail_lines: int = 2000,
        timeout_seconds: float | None = None,
    ) -> str:
        """The end of a container's log."""
        ...

    def execute(
        self,
        name: str,
        namespace: str,
        container: str,
        command: Sequence[str],
        *,
        timeout_seconds: float = 30.0,
        stdin: bytes = b"",
    ) -> Executed:
        """Run a command in a container and wait for its end."""
        ...

    def forward(self, name: str, namespace: str, port: int) -> AbstractContextManager[tuple[str, int]]:
        """A port of a pod as a port of this machine."""
        ...

    def node_proxy(self, node: str, path: str) -> bytes:
        """A GET on the kubelet behind a node."""
        ...

    def may(self, right: Right) -> bool:
        """Whether the user has a right (SelfSubjectAccessReview)."""
        ...


class ApiClient:
    """`Client` over HTTP; may be used by several threads."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._resources: Resources | None = None

    def close(self) -> None:
        """Close all connections."""
        self.transport.close()

    def version(self) -> str:
        """The server's gitVersion, such as v1.37.2."""
        answer = self.transport.json("GET", "/version", Right("get", "/version"))
        return str(answer.get("gitVersion") or "")

    def resources(self) -> Resources:
        """What the server has; asked once."""
        if self._resources is None:
            self._resources = discover(self.transport)
        return self._resources

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Iterator[dict[str, Any]]:
        """All objects of a resource in the server's order.

        A page token that has become too old (a slow reader, a compacted store) starts again with one unpaged list, as client-go
        does; what was already given is not given twice.

        Raises:
            ApiError, ClusterError, TimeoutReached: as `Transport.send`.
        """
        given: set[str] = set()
        right = Right("list", resource.plural, resource.group, namespace)
        query = {"limit": str(_PAGE), **_selectors(labels, fields)}
        while True:
            try:
                answer = self.transport.json("GET", resource.path(namespace), right, query=query)
            except Gone:
                if "continue" not in query:
                    raise
                query = _selectors(labels, fields)
                continue
            meta = answer.get("metadata") or {}
            for item in answer.get("items") or ():
                uid = str(item["metadata"].get("uid") or id(item))
                if uid not in given:
                    given.add(uid)
                    yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}
            if not meta.get("continue"):
                return
            query = {**query, "limit": str(_PAGE), "continue": str(meta["continue"])}

    def watch(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", seconds: float = _WATCH_SECONDS
    ) -> Iterator[tuple[Event, Object]]:
        """What is there as ADDED, then what changes, for at most `seconds`; a broken connection goes on where it ended.

        Raises:
            ApiError, ClusterError: as `Transport.send`.
        """
        from ragstow.live.watching import watch

        yield from watch(self.transport, resource, namespace, labels, fields, seconds)

    def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        """One object; None where it does not exist."""
        right = Right("get", resource.plural, resource.group, namespace)
        try:
            found: dict[str, Any] = self.transport.json("GET", resource.path(namespace, name), right)
        except NotFound:
            return None
        return found

    def apply(self, item: Object, *, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply as field manager `ragstow`.

        Args:
            item: apiVersion, kind, metadata and the fields that are ours.
            force: take over fields of others.
            dry_run: let the server do all but keep it.

        Raises:
            Conflict: a field belongs to another manager and `force` is not given.
            ApiError, ClusterError, TimeoutReached: as `Transport.send`.
        """
        resource, name, namespace = self._locate(item)
        query = {"fieldManager": _MANAGER, "force": "true" if force else "false", "fieldValidation": "Strict"}
        found: dict[str, Any] = self.transport.json(
            "PATCH",
            resource.path(namespace, name),
            Right("patch", resource.plural, resource.group, namespace),
            query={**query, **_dry(dry_run)},
            body=item,
            content_type=_APPLY,
            role="apply",
        )
        return found

    def create(self, item: Object, *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object, whose name may be generated; with `dry_run` the server does all but keep it.

        Raises:
            Conflict: an object of that name is there.
            ApiError, ClusterError, TimeoutReached: as `Transport.send`.
        """
        resource, _, namespace = self._locate(item)
        right = Right("create", resource.plural, resource.group, namespace)
        query = {"fieldManager": _MANAGER, "fieldValidation": "Strict", **_dry(dry_run)}
        found: dict[str, Any] = self.transport.json(
            "POST", resource.path(namespace), right, query=query, body=item, role="apply"
        )
        return found

    def patch(self, resource: Resource, name: str, namespace: str, change: Object, *, dry_run: bool = False) -> dict[str, Any]:
        """A JSON merge patch (RFC 7396), for labels and cordons; with `dry_run` the server does all but keep it."""
        found: dict[str, Any] = self.transport.json(
            "PATCH",
            resource.path(namespace, name),
            Right("patch", resource.plural, resource.group, namespace),
            query={"fieldManager": _MANAGER, **_dry(dry_run)},
            body=change,
            content_type=_MERGE,
            role="apply",
        )
        return found

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: str = "",
        dependents_first: bool = False,
    ) -> None:
        """Delete an object; one that is not there is no error.

        Args:
            resource, name, namespace: which.
            uid: only that very object, not one of the same name that was made since.
            version: only while its resourceVersion is this one.
            dependents_first: the object stays until what it owns is gone.

        Raises:
            Conflict: the object has another uid or version.
        """
        policy = "Foreground" if dependents_first else "Background"
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        wanted = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        if wanted:
            options["preconditions"] = wanted
        right = Right("delete", resource.plural, resource.group, namespace)
        try:
            self.transport.send("DELETE", resource.path(namespace, name), right, body=options, role="apply")
        except NotFound:
            return

    def evict(self, name: str, namespace: str) -> bool:
        """Evict a pod (policy/v1 Eviction); False where a disruption budget says not now. A pod that is gone is evicted."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        right = Right("create", "pods/eviction", "", namespace)
        try:
            # A budget that says no is a 429 as a busy server is; whoever evicts decides when to ask again.
            self.transport.send("POST", path, right, body=eviction, role="apply", tries=1)
        except NotFound:
            return True
        except ClusterError as error:
            if getattr(error, "status", None) == 429:
                return False
            raise
        return True

    def logs(
        self,
        name: str,
        namespace: str,
        container: str,
        *,
        previous: bool = False,
        tail_lines: int = 2000,
        timeout_seconds: float | None = None,
    ) -> str:
        """The end of a container's log; of the instance before the last restart with `previous`.

        With a time limit of one's own it is asked once.
        """
        query = {"container": container, "tailLines": str(tail_lines), **({"previous": "true"} if previous else {})}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
        right = Right("get", "pods/log", "", namespace)
        how: dict[str, Any] = {} if timeout_seconds is None else {"timeout_seconds": timeout_seconds, "tries": 1}
        data = self.transport.send("GET", path, right, query=query, accept="*/*", **how)
        return data.decode("utf-8", "replace")

    def execute(
        self,
        name: str,
        namespace: str,
        container: str,
        command: Sequence[str],
        *,
        timeout_seconds: float = 30.0,
        stdin: bytes = b"",
    ) -> Executed:
        """Run a command in a container and wait for its end; errors as `streams.execute`."""
        from ragstow.live import streams

        return streams.execute(self.transport, name, namespace, container, command, timeout_seconds, stdin)

    def forward(self, name: str, namespace: str, port: int) -> AbstractContextManager[tuple[str, int]]:
        """A port of a pod as (address, port) of this machine, inside a `with` block; errors as `streams.forward`."""
        from ragstow.live import streams

        return streams.forward(self.transport, name, namespace, port)

    def node_proxy(self, node: str, path: str) -> bytes:
        """A GET on the kubelet behind a node, such as `configz` or `logs/?query=kubelet`."""
        right = Right("get", "nodes/proxy")
        return self.transport.send("GET", f"/api/v1/nodes/{node}/proxy/{path}", right, accept="*/*", role="verify")

    def may(self, right: Right) -> bool:
        """Whether the user has a right, as the server's authorizer says."""
        plural, _, sub = right.resource.partition("/")
        wanted = {
            "verb": right.verb,
            "group": right.group,
            "resource": plural,
            "subresource": sub,
            "namespace": right.namespace,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in wanted.items() if value}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        asked = Right("create", "selfsubjectaccessreviews", "authorization.k8s.io")
        answer = self.transport.json("POST", path, asked, body=review)
        return (answer.get("status") or {}).get("allowed") is True

    def _locate(self, item: Object) -> tuple[Resource, str, str]:
        api_version, kind = str(item.get("apiVersion")), str(item.get("kind"))
        resource = self.resources().of(api_version, kind)
        meta = item.get("metadata") or {}
        if resource is None:
            raise ClusterError("kind-unknown", f"the API server has no {kind} of {api_version}")
        return resource, str(meta.get("name") or ""), str(meta.get("namespace") or "default") if resource.namespaced else ""


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
