"""What can go wrong with an API server, as errors of ours: exit code 3, one sentence, and the RBAC rule that is missing."""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.errors import ClusterError, Place


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource, as a rule of a Role says it."""

    verb: str
    resource: str
    """Plural; a subresource after a slash ("pods/exec"). What begins with one is a path and no resource ("/version")."""
    group: str = ""
    namespace: str = ""
    """Where it is needed; "" is the whole cluster."""

    def __str__(self) -> str:
        if self.resource.startswith("/"):
            return f'nonResourceURLs ["{self.resource}"], verbs ["{self.verb}"]'
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f'apiGroups ["{self.group}"], resources ["{self.resource}"], verbs ["{self.verb}"]{where}'


class ApiError(ClusterError):
    """An answer of the API server that is no success.

    Args:
        status: the HTTP status.
        reason: Kubernetes' reason ("Conflict", "Expired", ...); "" where the answer has none.
    """

    def __init__(
        self, status: int, reason: str, message: str, *, code: str = "api-error", hint: str = "", place: str = ""
    ) -> None:
        super().__init__(code, message, place=Place(object=place or None), hint=hint)
        self.status = status
        self.reason = reason


class Forbidden(ApiError):
    """403: `right` is what is missing."""

    def __init__(self, right: Right, message: str, *, role: str = "read") -> None:
        super().__init__(
            403,
            "Forbidden",
            f"not allowed to {right.verb} {right.resource}: the RBAC rule {right} is missing",
            code="forbidden",
            hint=f"`ragstow rbac {role}` prints the role that has it; the server said: {message}",
        )
        self.right = right


class NotFound(ApiError):
    """404: the object, or the whole API, is not there."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A field that another field manager owns: its path as the server writes it (".spec.replicas")."""

    field: str
    manager: str


class Conflict(ApiError):
    """409: somebody else changed it, or owns fields of it (`owned`)."""

    owned: tuple[Owned, ...] = ()


class Invalid(ApiError):
    """422, or 400 with field validation: what was sent breaks a rule of its kind."""


class Gone(ApiError):
    """410: a continue token or resource version is too old; list again."""


def unreachable(server: str, why: str) -> ClusterError:
    """The server does not answer."""
    return ClusterError(
        "unreachable",
        f"the API server {server} cannot be reached: {why}",
        hint="try: kubectl version; check --context and proxies",
    )
