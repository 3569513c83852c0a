"""The parts of apply that need no server: procedures as JSON, inverse patches, managed fields, patience."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apply_support import mig_procedure
from ragstow import facts
from ragstow.errors import ClusterError, InputError
from ragstow.live.apply import codec
from ragstow.live.apply.before import inverse_patch
from ragstow.live.apply.fields import extract
from ragstow.live.apply.patience import Patience
from ragstow.live.failures import ApiError, Conflict, Forbidden, Owned, Right
from ragstow.render import procedure
from render_plans import SCENARIOS

FACTS = facts.load()
KEYS = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y"]), st.lists(st.integers(0, 2), max_size=2))
OBJECTS = st.recursive(st.dictionaries(KEYS, LEAVES, max_size=3), lambda below: st.dictionaries(KEYS, below, max_size=3))


def merged(there: Any, patch: Any) -> Any:
    """RFC 7396, as its pseudo code says."""
    if not isinstance(patch, dict):
        return patch
    made = dict(there) if isinstance(there, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_procedures_survive_the_record(name: str) -> None:
    scenario = SCENARIOS[name]()
    made = procedure(scenario.service, scenario.plan, FACTS)
    again = codec.from_document(json.loads(json.dumps(codec.to_document(made))))
    assert codec.digest(again) == codec.digest(made)
    assert [type(action) for action in again.actions] == [type(action) for action in made.actions]
    assert [action.title for action in again.actions] == [action.title for action in made.actions]


def test_a_record_of_a_newer_version_is_refused() -> None:
    document = codec.to_document(mig_procedure())
    with pytest.raises(InputError, match="another version"):
        codec.from_document({**document, "version": 2})
    document["actions"][0]["action"] = "Teleport"
    with pytest.raises(InputError, match="another version"):
        codec.from_document(document)


@given(there=OBJECTS, patch=OBJECTS)
def test_an_inverse_patch_takes_the_patch_back(there: dict[str, Any], patch: dict[str, Any]) -> None:
    was = copy.deepcopy(there)
    inverse = inverse_patch(patch, there)
    assert merged(merged(there, patch), inverse) == was


def test_fields_that_a_manager_owns_are_taken_out_of_an_object() -> None:
    item = {
        "spec": {
            "replicas": 2,
            "paused": True,
            "template": {"spec": {"containers": [{"name": "a", "image": "x", "tty": True}, {"name": "b", "image": "y"}]}},
        },
        "metadata": {"labels": {"ours": "1", "theirs": "2"}, "finalizers": ["f", "g"]},
    }
    fields = {
        "f:metadata": {"f:labels": {"f:ours": {}}, "f:finalizers": {'v:"g"': {}}},
        "f:spec": {
            "f:replicas": {},
            "f:template": {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:image": {}}}}},
        },
    }
    assert extract(item, fields) == {
        "metadata": {"labels": {"ours": "1"}, "finalizers": ["g"]},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "a", "image": "x"}]}}},
    }


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def patience(self) -> Patience:
        return Patience(30, sleep=self.sleep, clock=lambda: self.now)


RIGHT = Right("patch", "nodes")


def answers(*found: Any) -> Any:
    """A call that gives these answers, one after the other; the last one again and again."""
    left = list(found)

    def call() -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


@pytest.mark.parametrize(
    "error",
    [
        ClusterError("unreachable", "gone"),
        ApiError(500, "InternalError", "x"),
        ApiError(429, "TooManyRequests", "x"),
        Conflict(409, "Conflict", "the object has been modified"),
    ],
)
def test_what_passes_is_borne(error: Exception) -> None:
    assert Clock().patience()(answers(error, error, "done")) == "done"


def test_what_lasts_is_said() -> None:
    clock = Clock()
    with pytest.raises(ClusterError):
        clock.patience()(answers(ClusterError("unreachable", "gone")))
    assert 30 <= clock.now - 1000 < 32


@pytest.mark.parametrize(
    "error", [ApiError(422, "Invalid", "x"), Conflict(409, "AlreadyExists", "x"), Forbidden(RIGHT, "x"), ApiError(403, "", "x")]
)
def test_what_is_final_is_said_at_once(error: Exception) -> None:
    clock = Clock()
    with pytest.raises(type(error)):
        clock.patience()(answers(error, "never"))
    assert clock.now == 1000


def test_fields_of_others_are_no_passing_conflict() -> None:
    error = Conflict(409, "Conflict", "Apply failed with 1 conflict")
    error.owned = (Owned(".spec.replicas", "kubectl"),)
    with pytest.raises(Conflict):
        Clock().patience()(answers(error, "never"))


def test_a_server_that_was_restarted_may_not_know_its_roles_yet() -> None:
    clock = Clock()
    ask = clock.patience()
    assert ask(answers(ClusterError("unreachable", "gone"), Forbidden(RIGHT, "x"), Forbidden(RIGHT, "x"), "done")) == "done"
    clock.now += 100
    assert ask(answers(Forbidden(RIGHT, "x"), "done")) == "done"
    with pytest.raises(Forbidden):
        ask(answers(Forbidden(RIGHT, "x")))
