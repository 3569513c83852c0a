"""DynamicResources in upstream's words: which claims a pod has, where they can be used, and what happens to them afterwards."""

from __future__ import annotations

import pytest

from support_dra import DRIVER, Json, pod, raw_claim, raw_class, raw_slice, taken, template_claim
from support_player import Player
from support_volumes import node

pytestmark = pytest.mark.usefixtures("with_cel")

GPU = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


def cluster(*more: Json, release: str = "1.37.2", devices: int = 1) -> Player:
    """Two nodes with a slice of devices each."""
    slices = [raw_slice(name, [f"gpu-{number}" for number in range(devices)]) for name in ("n0", "n1")]
    return Player([node("n0"), node("n1"), raw_class("gpu"), *slices, *more], release)


def test_a_claim_gets_the_first_device_and_keeps_it_for_later_pods() -> None:
    player = cluster(raw_claim("c", GPU))
    booked = player.place(pod("p", "c"), "n1")
    assert booked["devices"]["c"]["results"] == [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]
    assert player.refusals(pod("q", "c")) == {"n0": ("resourceclaim not available on the node",)}


def test_claims_of_two_pods_do_not_share_a_device() -> None:
    player = cluster(raw_claim("c", GPU), raw_claim("d", GPU))
    player.place(pod("p", "c"), "n0")
    assert player.refusals(pod("q", "d")) == {"n0": ("cannot allocate all claims",)}
    player.leave("p")
    assert player.refusals(pod("q", "d")) == {}


def test_a_shared_claim_is_free_when_its_last_pod_has_gone() -> None:
    player = cluster(raw_claim("c", GPU), raw_claim("d", GPU))
    player.place(pod("p", "c"), "n0")
    player.place(pod("q", "c"), "n0")
    player.leave("p")
    assert player.refusals(pod("r", "d")) == {"n0": ("cannot allocate all claims",)}
    player.leave("q")
    assert player.refusals(pod("r", "d")) == {}


def test_a_claim_that_a_pod_names_twice_has_its_devices_once() -> None:
    player = cluster(raw_claim("c", GPU), raw_claim("d", GPU), devices=2)
    twice = pod("p", "c", "c")
    booked = player.place(twice, "n0")
    assert [item["device"] for item in booked["devices"]["c"]["results"]] == ["gpu-0"]
    assert player.refusals(pod("q", "d")) == {}


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ([], 'could not find ResourceClaim "default/c"'),
        ([raw_claim("c", GPU, deleted=True)], 'resourceclaim "c" is being deleted'),
    ],
)
def test_pods_wait_for_their_claims(claims: list[Json], text: str) -> None:
    player = cluster(*claims)
    for status in (player.queued(pod("p", "c")), player.before(pod("p", "c"))):
        assert status is not None
        assert status.texts == (text,)


@pytest.mark.parametrize(
    ("made", "owner", "text"),
    [
        (None, "uid-p", 'pod "default/p": ResourceClaim not created yet'),
        ("p-gpu", "uid-p", None),
        ("p-gpu", "uid-q", "ResourceClaim default/p-gpu was not created for Pod default/p (Pod is not owner)"),
        ("", "", None),
    ],
)
def test_claims_from_templates_are_the_pods_own(made: str | None, owner: str, text: str | None) -> None:
    player = cluster(template_claim("p-gpu", GPU, owner=owner))
    status = player.queued(pod("p", template=made))
    assert (None if status is None else status.texts[0]) == text


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"name": "r", "exactly": {"deviceClassName": "tpu"}}, "request r: device class tpu does not exist"),
        (
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "tpu"}]},
            "request r/b: device class tpu does not exist",
        ),
        ({"name": "r", "exactly": {}}, 'running PreFilter plugin "DynamicResources": request r: unsupported request type'),
        ({"name": "r"}, "resource claim default/c, request r: unknown request type"),
    ],
)
def test_requests_that_nobody_can_serve(request_: Json, text: str) -> None:
    status = cluster(raw_claim("c", request_)).before(pod("p", "c"))
    assert status is not None
    assert status.texts == (text,)


@pytest.mark.parametrize(
    ("release", "texts"),
    [("1.34.4", ("still not schedulable",)), ("1.36.3", ("still not schedulable",)), ("1.37.2", ())],
)
def test_what_is_said_when_nothing_helps(release: str, texts: tuple[str, ...]) -> None:
    player = cluster(raw_claim("c", {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}), release=release)
    assert player.after(pod("p", "c"), "DynamicResources") == texts


@pytest.mark.parametrize(("release", "texts"), [("1.36.3", ("no new claims to deallocate",)), ("1.37.2", ())])
def test_pods_without_claims_say_little(release: str, texts: tuple[str, ...]) -> None:
    assert cluster(release=release).after(pod("p"), "DynamicResources") == texts


def test_an_unused_claim_that_is_in_the_way_loses_its_devices() -> None:
    player = cluster(raw_claim("c", GPU, allocated=taken("n9", "gpu-0")))
    refused = player.refusals(pod("p", "c"))
    assert set(refused.values()) == {("resourceclaim not available on the node",)}
    assert player.after(pod("p", "c"), "DynamicResources") == ("deallocation of ResourceClaim completed",)
    assert player.refusals(pod("p", "c")) == {}


def test_a_used_claim_keeps_its_devices() -> None:
    player = cluster(raw_claim("c", GPU, allocated=taken("n9", "gpu-0"), users=["other"]))
    assert player.after(pod("p", "c"), "DynamicResources") == ()
    assert len(player.refusals(pod("p", "c"))) == 2


def prioritised(*classes: str) -> Json:
    return {"name": "r", "firstAvailable": [{"name": name, "deviceClassName": name} for name in classes]}


def scored(release: str) -> dict[str, int]:
    """n0 has a GPU, n1 only what comes second."""
    objects = [
        *(node(name) for name in ("n0", "n1")),
        raw_class("gpu"),
        raw_class("slow", driver="slow.example.com"),
        raw_slice("n0", ["gpu-0"]),
        raw_slice("n1", ["slow-0"], driver="slow.example.com"),
        raw_claim("c", prioritised("gpu", "slow")),
    ]
    return Player(objects, release).scores(pod("p", "c"), "DynamicResources")


@pytest.mark.parametrize("release", ["1.35.4", "1.36.3", "1.37.2"])
def test_better_alternatives_score_higher(release: str) -> None:
    assert scored(release) == {"n0": 200, "n1": 174}


def test_no_score_before_1_35() -> None:
    with pytest.raises(KeyError):
        scored("1.34.4")


def test_a_claim_allocated_before_fails_the_score_of_1_35() -> None:
    objects = (raw_claim("c", GPU, allocated=taken("n0", "gpu-0")), raw_claim("d", prioritised("gpu")))
    player = cluster(*objects, release="1.35.4", devices=2)
    refused = player.refusals(pod("p", "c", "d"))
    nodes = [one for one in player.world.nodes if one.name not in refused]
    failed = player.framework.score(player.state, player.info(pod("p", "c", "d")), nodes).error
    assert failed is not None
    assert "number of allocations 1 is smaller than number of claims" in failed.message
