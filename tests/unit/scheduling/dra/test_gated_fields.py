"""What a release does not know is dropped by its API server, so the scheduler never sees it."""

from __future__ import annotations

import pytest

from ragstow.scheduling import behaviours
from ragstow.scheduling.dra.rules import DraRules, rules_for
from ragstow.scheduling.release import Release
from support_dra import DRIVER, Json, pod, raw_claim, raw_class, raw_slice
from support_player import Player
from support_volumes import node

pytestmark = pytest.mark.usefixtures("with_cel")

REFUSED = {"n0": ("cannot allocate all claims",)}
GPU = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}


def refusals(
    release: str, slice_: Json, request: Json = GPU, *more: Json, constraints: tuple[Json, ...] = ()
) -> dict[str, tuple[str, ...]]:
    player = Player([node("n0"), raw_class("gpu"), slice_, raw_claim("c", request, constraints=constraints), *more], release)
    return player.refusals(pod("p", "c"))


@pytest.mark.parametrize(("release", "refused"), [("1.34.4", {}), ("1.35.4", {}), ("1.36.3", REFUSED), ("1.37.2", REFUSED)])
def test_device_taints(release: str, refused: dict[str, tuple[str, ...]]) -> None:
    assert refusals(release, raw_slice("n0", [{"name": "gpu-0", "taints": [TAINT]}])) == refused


@pytest.mark.parametrize(("release", "refused"), [("1.36.3", {}), ("1.37.2", REFUSED)])
def test_rules_that_taint_devices(release: str, refused: dict[str, tuple[str, ...]]) -> None:
    spec = {"deviceSelector": {"driver": DRIVER}, "taint": TAINT}
    rule = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "t"}, "spec": spec}
    assert refusals(release, raw_slice("n0", ["gpu-0"]), GPU, rule) == refused
    tolerant = {"name": "r", "exactly": {"deviceClassName": "gpu", "tolerations": [{"operator": "Exists"}]}}
    assert refusals(release, raw_slice("n0", ["gpu-0"]), tolerant, rule) == {}


def counted(name: str, amount: str) -> Json:
    return {"name": name, "consumesCounters": [{"counterSet": "card", "counters": {"slices": {"value": amount}}}]}


@pytest.mark.parametrize(("release", "refused"), [("1.34.4", {}), ("1.35.4", {}), ("1.36.3", REFUSED), ("1.37.2", REFUSED)])
def test_shared_counters(release: str, refused: dict[str, tuple[str, ...]]) -> None:
    devices = raw_slice("n0", [counted("half", "4"), counted("most", "5")])
    devices["spec"]["pool"]["resourceSliceCount"] = 2 if refused else 1
    counters = raw_slice("n0", [], sharedCounters=[{"name": "card", "counters": {"slices": {"value": "8"}}}])
    counters["metadata"]["name"] = "counters"
    counters["spec"]["pool"]["resourceSliceCount"] = 2
    pair = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
    more = (counters,) if refused else ()
    assert refusals(release, devices, pair, *more) == refused
    assert refusals(release, devices, GPU, *more) == {}


@pytest.mark.parametrize(
    ("release", "text"),
    [
        ("1.34.4", None),
        ("1.35.4", 'could not find ResourceClaim "default/c"'),
        ("1.36.3", None),
        ("1.37.2", None),
    ],
)
def test_distinct_attributes(release: str, text: str | None) -> None:
    devices = [{"name": f"gpu-{number}", "attributes": {"rack": {"int": 1}}} for number in range(2)]
    pair = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
    constraint = {"distinctAttribute": f"{DRIVER}/rack"}
    objects = [node("n0"), raw_class("gpu"), raw_slice("n0", devices), raw_claim("c", pair, constraints=[constraint])]
    player = Player(objects, release)
    status = player.queued(pod("p", "c"))
    assert (None if status is None else status.texts[0]) == text
    if text is None:
        # 1.34 asks only that the attribute exists
        assert player.refusals(pod("p", "c")) == ({} if release == "1.34.4" else REFUSED)


def test_rules_follow_the_releases() -> None:
    """1.37 is what `DraRules` has as its defaults; each release before differs."""
    assert rules_for(Release.parse("1.37.2")) == DraRules()
    known = [rules_for(Release.parse(release)) for release in ("1.34.4", "1.35.4", "1.36.3")]
    assert len({*known, DraRules()}) == 4
    assert [rules.scorer for rules in known] == ["none", "new", "all"]
    assert behaviours.DRA_POOLS_SORTED.at(Release.parse("1.36.3"))


def assumed(release: str, *objects: Json) -> tuple[str, ...]:
    """What is said about a pod with a claim; nothing before one comes."""
    player = Player([node("n0"), raw_class("gpu"), raw_claim("c", GPU), *objects], release)
    plugin = next(one for one in player.framework.plugins if one.name == "DynamicResources")
    assert tuple(plugin.assumptions()) == ()
    player.refusals(pod("p", "c"))
    return tuple(plugin.assumptions())


def test_what_is_left_out_is_said() -> None:
    slice_ = raw_slice("n0", [{**counted("gpu-0", "4"), "taints": [TAINT]}])
    said = assumed("1.35.4", slice_)
    assert [text.split(":")[0] for text in said] == [
        "shared counters and nodes of single devices",
        "device taints and tolerations",
    ]
    assert assumed("1.35.4", raw_slice("n0", ["gpu-0"])) == assumed("1.37.2", slice_) == ()


def test_what_is_chance_or_waited_for_is_said() -> None:
    two = (raw_slice("n0", ["gpu-0"]), raw_slice("n0", ["x"], driver="x.example.com"))
    assert "random order" in assumed("1.34.4", *two)[0]
    assert assumed("1.36.3", *two) == ()
    ready = raw_slice("n0", [{"name": "gpu-0", "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}])
    assert "binding conditions" in assumed("1.37.2", ready)[0]
