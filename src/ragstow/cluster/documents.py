"""What the bytes of one file hold: Kubernetes objects, the server's version, a capture's manifest, or something else.

Lists are taken apart here. A document that is no object at all (Helm values, notes) is passed over; one that should be an
object and is not, is a `Problem`. Objects are not looked into: that is `build`'s work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ragstow import kubeyaml
from ragstow.cluster.build import RawObject
from ragstow.cluster.snapshot import Problem
from ragstow.errors import InputError, Place

OWN_GROUP = "ragstow.dev"
CAPTURE_KIND = "Capture"
"""The manifest that `ragstow capture` leaves in its folder: apiVersion ragstow.dev/v1alpha1, kind Capture, takenAt."""

_MAX_NESTING = 20


@dataclass(slots=True)
class Contents:
    """What was found, file after file."""

    objects: list[RawObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """Files without any object in them, and why."""
    version: str | None = None
    taken_at: str | None = None

    def add(self, data: bytes, shown: str, *, named: bool = False) -> None:
        """Take in one file.

        Args:
            data: its bytes.
            shown: its name for messages.
            named: the user named this very file, so that every oddity in it matters.
        """
        if b"\0" in data[:4096] and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            self._wrong("file-binary", "is not text; left out", Place(shown), "JSON or YAML from kubectl is expected")
            return
        try:
            documents = kubeyaml.load_all(data, file=shown)
        except InputError as error:
            self.problems.append(
                Problem(error.code, f"{error.message}; the file is left out", error.place, _hint(data) or error.hint)
            )
            return
        before = len(self.objects), len(self.problems), self.version, self.taken_at
        for document in documents:
            place = Place(shown, document.line)
            self.problems.extend(Problem("yaml-key-twice", text, place) for text in document.warnings)
            self._take(document.value, shown, document.line, named)
        if (len(self.objects), len(self.problems), self.version, self.taken_at) == before:
            self.passed_over.append(f"{shown}: {'no Kubernetes object' if documents else 'empty'}")

    def _take(self, value: Any, shown: str, line: int, named: bool, depth: int = 0) -> None:
        place = Place(shown, line)
        if depth > _MAX_NESTING:
            self._wrong("list-too-deep", "lists within lists within lists; left out", place)
        elif isinstance(value, list):
            for item in value:
                self._take(item, shown, line, named, depth + 1)
        elif not isinstance(value, Mapping):
            if depth or named or isinstance(value, str):
                kind = "a text" if isinstance(value, str) else f"{value!r:.40}"
                self._wrong("not-an-object", f"is {kind}, not a Kubernetes object; left out", place, _table_hint(value))
        else:
            self._take_mapping(value, place, named, depth)

    def _take_mapping(self, value: Mapping[str, Any], place: Place, named: bool, depth: int) -> None:
        kind, api = value.get("kind"), str(value.get("apiVersion", ""))
        if "kind" not in value and (version := _server_version(value)) is not None:
            self.version = self.version or version
        elif isinstance(kind, str) and kind.endswith("List") and "items" in value:
            for item in _items(value):
                self._take(item, place.file or "", place.line or 1, named, depth + 1)
        elif kind == "Status" and api == "v1":
            text = f"the API server refused this: {value.get('message')}"
            self._wrong("not-an-object", text, place, "repeat it with the right to list these objects")
        elif kind == "Table" and api.startswith("meta.k8s.io/"):
            self._wrong("not-an-object", "is a printed table, not objects; left out", place, "save it with -o json")
        elif kind == CAPTURE_KIND and api.startswith(f"{OWN_GROUP}/"):
            taken = value.get("takenAt")
            self.taken_at = taken if isinstance(taken, str) else self.taken_at
            for item in value.get("forbidden") or ():
                if isinstance(item, Mapping):
                    text = f"{item.get('resource')} was not captured: the RBAC rule {item.get('rule')} was missing"
                    self._wrong("forbidden", text, Place(place.file))
        elif depth or "apiVersion" in value or ("kind" in value and "metadata" in value):
            self.objects.append(RawObject(value, place.file, place.line))
        elif named:
            self._wrong("not-an-object", "has no apiVersion and kind, so it is no Kubernetes object", place)

    def _wrong(self, code: str, text: str, place: Place, hint: str = "") -> None:
        self.problems.append(Problem(code, text, place, hint))


def _items(value: Mapping[str, Any]) -> Iterator[Any]:
    """The items of a `List`, or of a `PodList` and the like, whose items do not say their kind."""
    items = value.get("items")
    kind = str(value["kind"]).removesuffix("List")
    for item in items if isinstance(items, list) else []:
        if kind and isinstance(item, dict) and "kind" not in item and "metadata" in item:
            yield {"apiVersion": value.get("apiVersion", "v1"), "kind": kind, **item}
        else:
            yield item


def _server_version(value: Mapping[str, Any]) -> str | None:
    """gitVersion of the server in `kubectl version -o json`; what the client says does not matter."""
    server = value.get("serverVersion")
    version = server.get("gitVersion") if isinstance(server, Mapping) else None
    return version if isinstance(version, str) and version else None


def _hint(data: bytes) -> str:
    return _table_hint(data[:4096].decode("utf-8", "replace"))


def _table_hint(value: Any) -> str:
    """Words for what people save by mistake: kubectl's table."""
    first = value.lstrip().split("\n", 1)[0] if isinstance(value, str) else ""
    return "this looks like kubectl's table: save it with -o json" if first.startswith(("NAME ", "NAMESPACE ")) else ""
