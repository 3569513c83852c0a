"""Collects what endpoint checks find: outcomes of checks, what could not be seen, remarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragstow.errors import ClusterError
from ragstow.live.endpoints.http import Failed
from ragstow.live.failures import Forbidden
from ragstow.verification.answers import Malformed
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome, Unknown


@dataclass(frozen=True, slots=True)
class Found:
    """How one check went: what was found, whether that is right, what was seen."""

    text: str
    passed: bool
    evidence: tuple[Evidence, ...] = ()
    hint: str = ""


def took(seconds: float) -> str:
    """How long something took, in a unit that shows it."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


class Notes:
    """What was found so far; `component` and `object` are those of the checks that follow."""

    def __init__(self) -> None:
        self._checks: list[Check] = []
        self._unknown: list[Unknown] = []
        self._remarks: list[str] = []

    def outcome(self) -> Outcome:
        """Everything, in the order noted."""
        return Outcome(tuple(self._checks), tuple(self._unknown), remarks=tuple(dict.fromkeys(self._remarks)))

    def remark(self, text: str) -> None:
        """A sentence that is no check."""
        self._remarks.append(text)

    def check(self, name: str, component: str, item: ObjectRef, expected: str, found: Found) -> bool:
        """Note one check; gives whether it passed."""
        hint = "" if found.passed else found.hint
        self._checks.append(
            Check(name, item, expected, found.text, found.passed, found.evidence, hint=hint, component=component)
        )
        return found.passed

    def unseen(
        self,
        name: str,
        component: str,
        item: ObjectRef,
        missing: str,
        command: str,
        *,
        needed: bool = True,
        forbidden: bool = False,
    ) -> None:
        """Note what could not be checked."""
        self._unknown.append(Unknown(name, item, missing, command, needed, forbidden, component))

    def refused(self, name: str, component: str, item: ObjectRef, error: ClusterError) -> None:
        """The API server, not the service, is why a check could not be made."""
        if isinstance(error, Forbidden):
            self.unseen(name, component, item, str(error.message), "ragstow rbac verify", forbidden=True)
        else:
            where = f"kubectl -n {item.namespace} describe {item.kind.lower()} {item.name}"
            self.unseen(name, component, item, str(error.message), where)

    def attempt(self, name: str, component: str, item: ObjectRef, expected: str, look: Callable[[], Found]) -> bool:
        """Make a check; an answer that never came or makes no sense fails it, a key that is missing leaves it open."""
        try:
            return self.check(name, component, item, expected, look())
        except Malformed as error:
            return self.check(name, component, item, expected, Found(f"an answer of another shape: {error}", False))
        except Failed as failure:
            if failure.kind == "key":
                self.unseen(name, component, item, f"an API key: {failure.text}", "ragstow verify --api-key-env NAME")
                return False
            return self.check(name, component, item, expected, Found(failure.text, False, hint=failure.hint))
