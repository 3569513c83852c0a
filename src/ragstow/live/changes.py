"""Tells that something in the cluster changed: one watch for each kind that matters, all of them one signal."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.client import Client
from ragstow.live.discovery import Resource
from ragstow.live.failures import Forbidden

WATCHED = (
    ("", "nodes"), ("", "pods"), ("", "events"), ("", "configmaps"), ("", "persistentvolumeclaims"), ("apps", "daemonsets"),
    ("apps", "deployments"), ("apps", "statefulsets"), ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceslices"), ("nvidia.com", "clusterpolicies"),
)  # fmt: skip
_WATCH_SECONDS = 600.0
_PAUSE_SECONDS = 2.0
_QUIET_SECONDS = 0.5
"""Changes come in bursts: one look is enough for those that follow each other so closely."""
_LONGEST_BURST_SECONDS = 3.0


class Changes:
    """Watches in threads of their own, which end with the process.

    Args:
        client: the API server; closed by its owner when nobody watches any more.
        watched: group and plural of what is watched; what the server does not have is left out.
    """

    def __init__(self, client: Client, watched: Sequence[tuple[str, str]] = WATCHED) -> None:
        self.refused: list[str] = []
        """Rights without which changes are seen only by the look from time to time."""
        self._client = client
        self._signal = threading.Event()
        self._ended = threading.Event()
        for group, plural in watched:
            resource = client.resources().plural(group, plural)
            if resource is not None:
                threading.Thread(target=self._watch, args=(resource,), daemon=True).start()

    def close(self) -> None:
        """Start no watch any more."""
        self._ended.set()

    def wait(self, seconds: float) -> bool:
        """Wait for a change and the end of the burst it belongs to, at most so long; whether there was one."""
        if not self._signal.wait(seconds):
            return False
        end = time.monotonic() + _LONGEST_BURST_SECONDS
        while time.monotonic() < end:
            self._signal.clear()
            if not self._signal.wait(_QUIET_SECONDS):
                return True
        self._signal.clear()
        return True

    def _watch(self, resource: Resource) -> None:
        while not self._ended.is_set():
            try:
                for _ in self._client.watch(resource, seconds=_WATCH_SECONDS):
                    self._signal.set()
                    if self._ended.is_set():
                        return
            except Forbidden as error:
                self.refused.append(str(error.right))
                return
            except (ClusterError, TimeoutReached):
                # The watch itself bears a server that is away for a while; here it was away for longer.
                self._ended.wait(_PAUSE_SECONDS)
