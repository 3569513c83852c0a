"""One run at a time in a cluster: a Lease in kube-system, renewed by a thread while the run lasts.

Two services can touch the same nodes, so there is one Lease for all of them. A lease that is older than its duration belongs
to a run that died; it is taken over, and that is said.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ragstow.errors import ClusterError, RagstowError, TimeoutReached
from ragstow.live.apply.model import ApplyStopped
from ragstow.live.apply.patience import Patience
from ragstow.live.client import ApiClient
from ragstow.live.discovery import Resource
from ragstow.live.failures import Conflict

NAMESPACE, NAME = "kube-system", "ragstow-apply"
_API = "coordination.k8s.io"
_RELEASES = 10
"""How often a run tries to give its lease back."""


class Lease:
    """The lease of one run, as a context manager.

    Args:
        client: the API server.
        holder: who runs, unique.
        seconds: its duration; it is renewed three times as often.
        note: told when a lease of a dead run is taken over.
    """

    def __init__(self, client: ApiClient, holder: str, seconds: int, note: Callable[[str], None]) -> None:
        self._client = client
        self._holder = holder
        self._seconds = seconds
        self._note = note
        self._ask = Patience(max(10.0, 2.0 * seconds))
        self._end = threading.Event()
        self._lost: str | None = None
        self._version = ""
        self._uid = ""
        self._thread = threading.Thread(target=self._renew, name="ragstow-lease", daemon=True)

    def __enter__(self) -> Lease:
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *__: object) -> None:
        self._end.set()
        self._thread.join(self._seconds)
        for _ in range(_RELEASES):
            if self._lost is not None:
                return
            try:
                self._client.delete(self._resource(), NAME, NAMESPACE, uid=self._uid, version=self._version)
                return
            except Conflict:
                self._look()
            except (ClusterError, TimeoutReached):
                time.sleep(0.5)
        # It ends by itself.

    def check(self) -> None:
        """Raise where another run has taken the lease over.

        Raises:
            ApplyStopped: this run must not go on.
        """
        if self._lost is not None:
            raise ApplyStopped(
                "lease-lost",
                f"{self._lost} has taken over the lease {NAMESPACE}/{NAME}, so this run stops",
                hint="wait for that run, then look at its record",
            )

    def _resource(self) -> Resource:
        found = self._client.resources().plural(_API, "leases")
        if found is None:
            raise ClusterError("kind-unknown", f"the API server has no Lease of {_API}")
        return found

    def _take(self) -> None:
        for _ in range(20):
            there = self._ask(lambda: self._client.get(self._resource(), NAME, NAMESPACE))
            try:
                if there is None:
                    self._keep(self._ask(lambda: self._client.create(self._document())))
                    return
                self._refuse(there)
                version = str(there["metadata"]["resourceVersion"])
                change = {"metadata": {"resourceVersion": version}, "spec": self._spec(first=True)}
                self._keep(self._client.patch(self._resource(), NAME, NAMESPACE, change))
                return
            except Conflict:
                # Made or changed by somebody in this moment, or by our own call whose answer was lost: look again.
                continue
            except (ClusterError, TimeoutReached) as error:
                if not self._ask.bears(error):
                    raise
                self._end.wait(0.5)
        raise ApplyStopped("lease-contended", f"the lease {NAMESPACE}/{NAME} changes all the time", hint="try again")

    def _refuse(self, there: dict[str, Any]) -> None:
        """Return where the lease may be taken.

        Raises:
            ApplyStopped: another run holds it.
        """
        spec = there.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        if not holder or holder == self._holder:
            return
        since, renewed = _time(spec.get("acquireTime")), _time(spec.get("renewTime"))
        seconds = int(spec.get("leaseDurationSeconds") or self._seconds)
        age = (datetime.now(UTC) - renewed).total_seconds() if renewed else float("inf")
        if age > seconds:
            self._note(f"took over the lease of {holder}, which was last renewed {_ago(age)}: that run has died")
            return
        began = f"since {since:%Y-%m-%d %H:%M:%S} UTC" if since else "for a while"
        raise ApplyStopped(
            "lease-held",
            f"another run is going on: {holder} holds the lease {NAMESPACE}/{NAME} {began}, renewed {_ago(age)}",
            hint=f"wait for it; if it is dead, the lease ends {seconds} s after it was last renewed",
        )

    def _document(self) -> dict[str, Any]:
        return {
            "apiVersion": f"{_API}/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/managed-by": "ragstow"}},
            "spec": self._spec(first=True),
        }

    def _spec(self, *, first: bool = False) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        made = {"holderIdentity": self._holder, "leaseDurationSeconds": self._seconds, "renewTime": now}
        return {**made, "acquireTime": now} if first else made

    def _keep(self, lease: dict[str, Any]) -> None:
        self._version = str(lease["metadata"]["resourceVersion"])
        self._uid = str(lease["metadata"]["uid"])

    def _renew(self) -> None:
        while not self._end.wait(self._seconds / 3):
            try:
                change = {"metadata": {"resourceVersion": self._version}, "spec": self._spec()}
                self._keep(self._client.patch(self._resource(), NAME, NAMESPACE, change))
            except Conflict:
                self._look()
            except RagstowError:
                # Away for a moment; whoever takes the lease over meanwhile is seen at the next try.
                if self._gone():
                    self._lost = "somebody who deleted it"
                    return
            if self._lost is not None:
                return

    def _look(self) -> None:
        try:
            there = self._client.get(self._resource(), NAME, NAMESPACE)
        except RagstowError:
            return
        holder = str(((there or {}).get("spec") or {}).get("holderIdentity") or "")
        if there is not None and holder == self._holder:
            self._keep(there)
        else:
            self._lost = holder or "somebody"

    def _gone(self) -> bool:
        try:
            return self._client.get(self._resource(), NAME, NAMESPACE) is None
        except RagstowError:
            return False


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")) if value else None
    except ValueError:
        return None


def _ago(seconds: float) -> str:
    return f"{max(0, round(seconds))} s ago" if seconds < 600 else f"{round(seconds / 60)} min ago"
