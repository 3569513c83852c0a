"""A watch that survives: list, follow, go on after a broken connection, list again when the server forgot the version."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.failures import ApiError, Gone, Right
from ragstow.live.transport import Transport

if TYPE_CHECKING:
    from ragstow.live.client import Event
    from ragstow.live.discovery import Resource

_PAUSE_SECONDS = 0.5
_PATIENCE = 20
"""Failures in a row that are borne, with pauses: an API server that is restarted comes back within ten seconds."""


def watch(
    transport: Transport, resource: Resource, namespace: str, labels: str, fields: str, seconds: float
) -> Iterator[tuple[Event, Mapping[str, Any]]]:
    """What is there as ADDED, then ADDED, MODIFIED and DELETED, for at most `seconds`.

    After a forgotten version all is listed again: objects then come as MODIFIED when they were known, and those that went
    meanwhile as DELETED.
    """
    end = time.monotonic() + seconds
    chosen = {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
    known: dict[str, Mapping[str, Any]] = {}
    failures = 0
    version = ""
    while (left := end - time.monotonic()) > 0:
        try:
            if not version:
                listed, version = _list(transport, resource, namespace, chosen)
                yield from _differences(known, listed)
                known = listed
                failures = 0
            for kind, item in _follow(transport, resource, namespace, chosen, version, left):
                failures = 0
                version = str(item["metadata"].get("resourceVersion") or version)
                if kind == "BOOKMARK":
                    continue
                _remember(known, kind, item)
                yield kind, item  # type: ignore[misc]
        except Gone:
            version = ""
        except (ClusterError, TimeoutReached) as error:
            failures += 1
            refused = isinstance(error, ApiError) and error.status < 500 and error.status != 429
            if refused or failures > _PATIENCE:
                raise
            time.sleep(min(_PAUSE_SECONDS, max(0.0, end - time.monotonic())))


def _list(
    transport: Transport, resource: Resource, namespace: str, chosen: Mapping[str, str]
) -> tuple[dict[str, Mapping[str, Any]], str]:
    right = Right("list", resource.plural, resource.group, namespace)
    answer = transport.json("GET", resource.path(namespace), right, query=chosen)
    shape = {"apiVersion": resource.api_version, "kind": resource.kind}
    items: dict[str, Mapping[str, Any]] = {
        str(item["metadata"]["uid"]): {**shape, **item} for item in answer.get("items") or ()
    }
    return items, str(answer["metadata"]["resourceVersion"])


def _follow(
    transport: Transport, resource: Resource, namespace: str, chosen: Mapping[str, str], version: str, seconds: float
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    right = Right("watch", resource.plural, resource.group, namespace)
    query = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(max(1, int(seconds))),
        **chosen,
    }
    with transport.stream(resource.path(namespace), right, query=query, timeout_seconds=seconds + 1) as lines:
        for line in lines:
            if not line.strip():
                continue
            event = json.loads(line)
            item = event.get("object") or {}
            if event.get("type") == "ERROR":
                status, reason = int(item.get("code") or 500), str(item.get("reason") or "")
                kind = Gone if status == 410 else ApiError
                raise kind(status, reason, str(item.get("message") or "the watch ended"))
            yield str(event.get("type")), item


def _differences(
    known: Mapping[str, Mapping[str, Any]], listed: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[Event, Mapping[str, Any]]]:
    for uid, item in listed.items():
        if uid not in known:
            yield "ADDED", item
        elif known[uid]["metadata"].get("resourceVersion") != item["metadata"].get("resourceVersion"):
            yield "MODIFIED", item
    for uid, item in known.items():
        if uid not in listed:
            yield "DELETED", item


def _remember(known: dict[str, Mapping[str, Any]], kind: str, item: Mapping[str, Any]) -> None:
    uid = str(item["metadata"]["uid"])
    if kind == "DELETED":
        known.pop(uid, None)
    else:
        known[uid] = item
