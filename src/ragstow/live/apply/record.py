"""The record of a run: a ConfigMap beside the service, written before each action, enough to finish the run or to undo it.

`ragstow.<service>.<n>` with n = 1, 2, ... holds the procedure, the plan it came from, and for each action whether it was
started and done and what the touched fields were before. Every write names the version it rests on, so that a run that lost
its lease cannot write over the one that took it. Secrets are never in it.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ragstow.errors import ClusterError, InputError
from ragstow.live.apply import codec
from ragstow.live.apply.model import ApplyStopped
from ragstow.live.apply.patience import Patience
from ragstow.live.client import ApiClient
from ragstow.live.discovery import Resource
from ragstow.live.failures import Conflict
from ragstow.render.actions import Procedure
from ragstow.render.names import SERVICE

RECORD = "ragstow.dev/record"
State = Literal["applying", "applied", "undoing"]
PENDING, STARTED, CHANGED, UNCHANGED, UNDONE = "psduz"
"""One letter for each action: not begun, begun, done with a change, already so, taken back."""

_LONGEST_BYTES = 1_000_000
"""Of the texts in a ConfigMap the API server takes 1 MiB; something is left for its metadata."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far a run is; `states` has a letter for each action."""

    state: State
    states: str
    holder: str
    started: str
    namespace_made: bool
    written: int = 0
    """Counts the writes, so that a lost answer is told from a foreign write."""


@dataclass(slots=True)
class Record:
    """One record, as read or as this run writes it."""

    namespace: str
    name: str
    number: int
    procedure: Procedure
    progress: Progressed
    before: dict[int, dict[str, Any]] = field(default_factory=dict)
    plan: bytes | None = None
    version: str = ""
    uid: str = ""
    bytes_used: int = 0

    @property
    def unfinished(self) -> bool:
        """Whether a run or an undo of it stopped on the way."""
        return self.progress.state != "applied"

    @property
    def done(self) -> int:
        """How many actions are done."""
        return sum(letter in (CHANGED, UNCHANGED) for letter in self.progress.states)

    @property
    def title(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"


class Journal:
    """Reads and writes the records of one service.

    Args:
        client: the API server.
        ask: bears an API server that is away for a moment.
        service, namespace: whose records.
        holder: who writes.
    """

    def __init__(self, client: ApiClient, ask: Patience, service: str, namespace: str, holder: str) -> None:
        self._client = client
        self._ask = ask
        self._service = service
        self._namespace = namespace
        self._holder = holder

    def latest(self) -> Record | None:
        """The newest record of the service; None where there is none.

        Raises:
            InputError: it was written by a newer ragstow, or somebody changed it so that it cannot be read.
        """
        selector = f"{SERVICE}={self._service},{RECORD}"
        found = self._ask(lambda: list(self._client.list(self._resource(), self._namespace, labels=selector)))
        numbered = [(_number(item), item) for item in found]
        if not numbered:
            return None
        number, item = max(numbered, key=lambda pair: pair[0])
        return read(item, number)

    def begin(self, number: int, procedure: Procedure, plan: bytes | None, started: str, *, namespace_made: bool) -> Record:
        """A new record, written.

        Raises:
            InputError: plan and procedure together are too large for a ConfigMap.
            ApplyStopped: another run made a record of that number.
        """
        name = f"ragstow.{self._service}.{number}"
        progress = Progressed("applying", PENDING * len(procedure.actions), self._holder, started, namespace_made)
        record = Record(self._namespace, name, number, procedure, progress, plan=plan)
        binary = {"procedure": _packed(codec.to_document(procedure)), **({"plan": _zipped(plan)} if plan is not None else {})}
        record.bytes_used = sum(len(base64.b64decode(text)) for text in binary.values()) + len(_text(progress))
        if record.bytes_used > _LONGEST_BYTES:
            raise InputError(
                "record-too-large",
                f"plan and procedure take {record.bytes_used} bytes packed; a ConfigMap holds {_LONGEST_BYTES}, so the run "
                "could not be undone",
                hint="split the service",
            )
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": {
                    "app.kubernetes.io/managed-by": "ragstow",
                    SERVICE: self._service,
                    RECORD: str(number),
                },
            },
            "data": {"progress": _text(progress)},
            "binaryData": binary,
        }
        try:
            made = self._ask(lambda: self._client.create(document))
        except Conflict:
            found = self._ask(lambda: self._client.get(self._resource(), name, self._namespace))
            if found is None or _progress(found).holder != self._holder:
                raise _taken(record) from None
            made = found  # our own, whose answer was lost
        _keep(record, made)
        return record

    def start(self, record: Record, index: int, before: Mapping[str, Any]) -> None:
        """Write that an action begins, and what was before.

        Raises:
            ApplyStopped: the record would become too large, or another run writes it.
        """
        packed = _packed(before)
        record.bytes_used += len(base64.b64decode(packed))
        if record.bytes_used > _LONGEST_BYTES:
            raise ApplyStopped(
                "record-too-large",
                f"what was before {record.procedure.actions[index].title} does not fit into the record {record.title}, so it "
                "could not be undone; nothing of it was done",
                hint="undo what was done, and split the service",
            )
        record.before[index] = dict(before)
        self._write(record, replace(record.progress, states=_with(record, index, STARTED)), {f"before-{index}": packed})

    def mark(self, record: Record, index: int, letter: str) -> None:
        """Write how an action ended."""
        self._write(record, replace(record.progress, states=_with(record, index, letter)))

    def mark_all(self, record: Record, indexes: Iterable[int], letter: str) -> None:
        """Write how several actions ended."""
        letters = list(record.progress.states)
        for index in indexes:
            letters[index] = letter
        self._write(record, replace(record.progress, states="".join(letters)))

    def turn(self, record: Record, state: State) -> None:
        """Write the state of the whole."""
        self._write(record, replace(record.progress, state=state))

    def forget(self, record: Record) -> None:
        """Delete a record that has nothing to undo any more."""
        self._ask(lambda: self._client.delete(self._resource(), record.name, record.namespace, uid=record.uid))

    def _resource(self) -> Resource:
        found = self._client.resources().plural("", "configmaps")
        if found is None:
            raise ClusterError("kind-unknown", "the API server has no ConfigMap")
        return found

    def _write(self, record: Record, progress: Progressed, binary: Mapping[str, str] | None = None) -> None:
        made = replace(progress, holder=self._holder, written=record.progress.written + 1)
        change: dict[str, Any] = {"data": {"progress": _text(made)}, **({"binaryData": dict(binary)} if binary else {})}
        for _ in range(10):
            meta = {"resourceVersion": record.version}
            try:
                written = self._ask_once(record, {"metadata": meta, **change})
            except Conflict:
                if self._is_ours(record, made):
                    return
                continue
            _keep(record, written)
            record.progress = made
            return
        raise _taken(record)

    def _ask_once(self, record: Record, change: Mapping[str, Any]) -> dict[str, Any]:
        def call() -> dict[str, Any]:
            try:
                return self._client.patch(self._resource(), record.name, record.namespace, change)
            except Conflict as error:
                # Not for patience: the version must be read again first.
                raise _Changed(error) from None

        try:
            return self._ask(call)
        except _Changed as changed:
            raise changed.conflict from None

    def _is_ours(self, record: Record, wanted: Progressed) -> bool:
        """After a conflict: whether the write arrived and only its answer was lost; else the version to try again with.

        Raises:
            ApplyStopped: somebody else wrote.
        """
        there = self._ask(lambda: self._client.get(self._resource(), record.name, record.namespace))
        if there is None:
            raise _taken(record)
        found = _progress(there)
        if (found.holder, found.written) not in ((wanted.holder, wanted.written), (record.progress.holder, wanted.written - 1)):
            raise _taken(record)
        _keep(record, there)
        if found.written == wanted.written:
            record.progress = wanted
            return True
        return False


class _Changed(Exception):
    def __init__(self, conflict: Conflict) -> None:
        super().__init__()
        self.conflict = conflict


def read(item: Mapping[str, Any], number: int | None = None) -> Record:
    """The record in a ConfigMap.

    Raises:
        InputError: it was written by a newer ragstow, or somebody changed it so that it cannot be read.
    """
    meta, binary = item["metadata"], item.get("binaryData") or {}
    title = f"ConfigMap {meta['namespace']}/{meta['name']}"
    try:
        procedure = codec.from_document(_unpacked(binary["procedure"]))
        before = {int(key.partition("-")[2]): _unpacked(text) for key, text in binary.items() if key.startswith("before-")}
        plan = gzip.decompress(base64.b64decode(binary["plan"])) if "plan" in binary else None
        progress = _progress(item)
    except (KeyError, ValueError, TypeError, OSError, EOFError) as error:
        raise InputError("record-broken", f"the record of the last run, {title}, cannot be read: {error!r}") from None
    record = Record(
        meta["namespace"], meta["name"], _number(item) if number is None else number, procedure, progress, before, plan
    )
    _keep(record, item)
    record.bytes_used = sum(len(base64.b64decode(text)) for text in binary.values()) + len(_text(progress))
    return record


def _number(item: Mapping[str, Any]) -> int:
    text = str((item["metadata"].get("labels") or {}).get(RECORD) or "")
    return int(text) if text.isdecimal() else 0


def _progress(item: Mapping[str, Any]) -> Progressed:
    return Progressed(**json.loads(item["data"]["progress"]))


def _text(progress: Progressed) -> str:
    return json.dumps(
        {name: getattr(progress, name) for name in ("state", "states", "holder", "started", "namespace_made", "written")}
    )


def _with(record: Record, index: int, letter: str) -> str:
    states = record.progress.states
    return states[:index] + letter + states[index + 1 :]


def _keep(record: Record, item: Mapping[str, Any]) -> None:
    record.version = str(item["metadata"]["resourceVersion"])
    record.uid = str(item["metadata"]["uid"])


def _taken(record: Record) -> ApplyStopped:
    return ApplyStopped(
        "record-changed",
        f"somebody else writes the record {record.title}, so this run stops",
        hint="wait for that run, then try again",
    )


def _packed(value: Any) -> str:
    return _zipped(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def _zipped(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


def _unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))
