"""Reads a live cluster into a Snapshot: all wanted resources, redacted, through the same constructor as a saved one.

A resource that the server does not have is no error. One that the user may not list is a warning where the answer only says
less, and an error where it would be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ragstow.cluster.build import build
from ragstow.cluster.snapshot import Problem, Snapshot, Source
from ragstow.errors import ClusterError, Place
from ragstow.live.client import ApiClient
from ragstow.live.failures import Forbidden, NotFound
from ragstow.live.kinds import WANTED, Loss, Wanted
from ragstow.live.redact import redact

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Listing:
    """What one resource gave: `objects` (redacted), or why there are none."""

    wanted: Wanted
    api_version: str = ""
    objects: tuple[dict[str, Any], ...] = ()
    forbidden: Forbidden | None = None

    @property
    def present(self) -> bool:
        """Whether the server has this resource and let us list it."""
        return bool(self.api_version) and self.forbidden is None


@dataclass(frozen=True, slots=True)
class Read:
    """A cluster as read; `problems` are the rights that were missing."""

    listings: tuple[Listing, ...]
    version: str
    server: str
    context: str
    taken_at: str
    attachments: dict[str, str] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """One for each resource that may not be listed."""
        return tuple(_problem(item.forbidden, item.wanted) for item in self.listings if item.forbidden is not None)

    def snapshot(self) -> Snapshot:
        """The Snapshot, sorted as a saved one."""
        return build(
            (item for listing in self.listings for item in listing.objects),
            source=Source("live", self.context, self.taken_at),
            version=self.version,
            problems=self.problems,
            attachments=self.attachments,
        )


def read(client: ApiClient, *, losses: Sequence[Loss] = ("cards",), wanted: Sequence[Wanted] = WANTED) -> Read:
    """Read a cluster.

    Args:
        client: the API server.
        losses: a missing right with one of these losses is an error, with any other a warning.
        wanted: what to read.

    Raises:
        ClusterError: the server cannot be reached, or a right is missing without which the answer would be wrong.
    """
    taken_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    version = client.version()
    client.resources()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        listings = tuple(pool.map(lambda item: _list(client, item), wanted))
    missing = [item for item in listings if item.forbidden is not None and item.wanted.loss in losses]
    if missing:
        raise _refusal(missing)
    access = client.transport.access
    return Read(listings, version, access.server, access.name, taken_at)


def _list(client: ApiClient, wanted: Wanted) -> Listing:
    resource = client.resources().plural(wanted.group, wanted.plural)
    if resource is None:
        return Listing(wanted)
    try:
        objects = tuple(redact(item) for item in client.list(resource))
    except Forbidden as error:
        return Listing(wanted, resource.api_version, forbidden=error)
    except NotFound:
        # The API went away between discovery and now: a definition was deleted.
        return Listing(wanted)
    return Listing(wanted, resource.api_version, objects)


def _problem(error: Forbidden, wanted: Wanted) -> Problem:
    return Problem("forbidden", f"{wanted.title}: {error.message}", Place(), "`ragstow rbac read` prints the role that has it")


def _refusal(missing: Sequence[Listing]) -> ClusterError:
    errors = [item.forbidden for item in missing if item.forbidden is not None]
    if len(errors) == 1:
        return errors[0]
    rules: dict[tuple[str, str], list[str]] = {}
    for error in errors:
        rules.setdefault((error.right.group, error.right.verb), []).append(f'"{error.right.resource}"')
    lines = "\n".join(
        f'  apiGroups ["{group}"], resources [{", ".join(sorted(names))}], verbs ["{verb}"]'
        for (group, verb), names in sorted(rules.items())
    )
    return ClusterError(
        "forbidden",
        f"not allowed to list {len(errors)} resources; the RBAC rules that are missing:\n{lines}",
        hint=errors[0].hint,
    )
