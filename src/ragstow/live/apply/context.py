"""What every action needs while it is carried out: the API server, patience, the lease, and whom to tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.apply.lease import Lease
from ragstow.live.apply.model import Options, Progress, Step
from ragstow.live.apply.patience import Patience
from ragstow.live.client import ApiClient
from ragstow.live.discovery import Resource
from ragstow.live.failures import Conflict

Object = Mapping[str, Any]
_WATCH_SECONDS = 10.0


@dataclass(slots=True)
class Run:
    """One run. `number` and `total` are those of the action that is carried out now."""

    client: ApiClient
    ask: Patience
    options: Options
    lease: Lease
    progress: Progress
    service: str
    namespace: str
    total: int = 0
    number: int = 0
    title: str = ""
    undoing: bool = False
    notes: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _said: str = ""

    def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind.

        Raises:
            ClusterError: the server has no such kind.
        """
        found = self.ask(self.client.resources).of(api_version, kind)
        if found is None:
            raise ClusterError("kind-unknown", f"the API server has no {kind} of {api_version}")
        return found

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """One object; None where it does not exist."""
        resource = self.resource(api_version, kind)
        return self.ask(lambda: self.client.get(resource, name, namespace))

    def list(self, api_version: str, kind: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Any]:
        """All objects that match."""
        resource = self.resource(api_version, kind)
        return self.ask(lambda: list(self.client.list(resource, namespace, labels=labels, fields=fields)))

    def patch(self, api_version: str, kind: str, name: str, namespace: str, change: Object) -> dict[str, Any]:
        """A merge patch that may be sent twice."""
        resource = self.resource(api_version, kind)
        return self.ask(lambda: self.client.patch(resource, name, namespace, change))

    def delete(self, resource: Resource, name: str, namespace: str, uid: str, *, dependents_first: bool = False) -> None:
        """Delete one very object; one that is gone, or has been made anew since, is no error."""

        def away() -> None:
            try:
                self.client.delete(resource, name, namespace, uid=uid, dependents_first=dependents_first)
            except Conflict as error:
                if "uid in precondition" not in error.message.lower():
                    raise

        self.ask(away)

    def node(self, name: str) -> dict[str, Any] | None:
        """A node."""
        return self.get("v1", "Node", name)

    def tell(self, phase: str, text: str = "") -> None:
        """Report how the present action stands; a wait that says the same as before is not repeated."""
        if phase == "wait":
            if text == self._said:
                return
            self._said = text
        else:
            self._said = ""
        self.progress(Step(phase, self.number, self.total, self.title, text))  # type: ignore[arg-type]  # one of Phase

    def note(self, text: str) -> None:
        """Something a person should know at the end too."""
        self.notes.append(text)
        self.progress(Step("note", self.number, self.total, self.title, text))

    def seconds(self, default: float) -> float:
        """How long a wait may take: the user's word, else its own."""
        return self.options.timeout_seconds if self.options.timeout_seconds is not None else default

    def until(
        self, resource: Resource, name: str, namespace: str, seconds: float, judge: Callable[[Object | None], str]
    ) -> None:
        """Watch one object until `judge` says "" of it; what it says else is where things stand.

        Raises:
            TimeoutReached: it did not in time.
            ApplyStopped: as `judge`, or the lease is lost.
        """
        end = self.clock() + seconds
        standing = self._judged(judge, self.ask(lambda: self.client.get(resource, name, namespace)))
        quiet = 1.0
        while standing:
            left = end - self.clock()
            if left <= 0:
                raise self.late(standing, seconds)
            for item in self.changes(resource, name, namespace, min(left, quiet)):
                standing = self._judged(judge, item)
                if not standing:
                    return
                if self.clock() >= end:
                    break
            else:
                # Seen anew after a quiet time too: a watch says nothing of an object that was gone before it began.
                quiet = min(quiet * 2, _WATCH_SECONDS)
                standing = self._judged(judge, self.ask(lambda: self.client.get(resource, name, namespace)))

    def poll(self, seconds: float, look: Callable[[], str], pause_seconds: float = 1.0) -> None:
        """Look again and again until it says "".

        Raises:
            TimeoutReached: it did not in time.
        """
        end = self.clock() + seconds
        while standing := look():
            self.lease.check()
            self.tell("wait", standing)
            if self.clock() >= end:
                raise self.late(standing, seconds)
            self.sleep(min(pause_seconds, max(0.0, end - self.clock())))

    def late(self, standing: str, seconds: float) -> TimeoutReached:
        """The error of a wait that took too long."""
        return TimeoutReached("apply-timeout", f"{self.title}: not after {seconds:g} s: {standing}", hint=self.hint(late=True))

    def hint(self, *, late: bool = False) -> str:
        """How to go on from here; `late`: after a wait that took too long."""
        why = f"`ragstow diagnose{self.typed}` says why; then " if late else ""
        undo = f"`ragstow apply --undo -n {self.namespace} {self.service}{self.typed}`"
        if self.undoing:
            return f"{why}{undo} goes on from here"
        return f"{why}the same `ragstow apply` goes on from here, or {undo} takes everything back"

    @property
    def typed(self) -> str:
        """The user's flags that choose the cluster, as the end of a command."""
        return f" {self.options.typed}" if self.options.typed else ""

    def _judged(self, judge: Callable[[Object | None], str], item: Object | None) -> str:
        self.lease.check()
        standing = judge(item)
        if standing:
            self.tell("wait", standing)
        return standing

    def changes(self, resource: Resource, name: str, namespace: str, seconds: float) -> Iterator[Object | None]:
        try:
            for event, item in self.client.watch(
                resource, namespace, fields=f"metadata.name={name}", seconds=max(seconds, 0.1)
            ):
                yield None if event == "DELETED" else item
        except (ClusterError, TimeoutReached) as error:
            if not self.ask.bears(error):
                raise
            self.sleep(1.0)
