"""Whatever is asked for and freed: no device is given away twice, no counter and no capacity overdrawn, no constraint broken;
and what the allocator refuses cannot be served at all.

The bookkeeping here is this file's own: sums over the allocations that are in force.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstow.scheduling.dra.model import Allocation, Claim, DeviceId
from ragstow.scheduling.dra.requests import AllocationError, NodeFailure
from ragstow.scheduling.dra.rules import rules_for
from ragstow.scheduling.dra.state import AllocatedDevices
from ragstow.scheduling.release import Release
from support_dra import DRIVER, allocate, claim, nano, slice_of

pytestmark = pytest.mark.usefixtures("with_cel")

Json = dict[str, Any]
CARD = 8
"""Counter units of each card."""


@st.composite
def devices(draw: st.DrawFn, most: int = 6) -> list[Json]:
    """Devices in racks: whole ones, slices of two cards with counters, and ones that are shared by capacity."""
    listed: list[Json] = []
    for number in range(draw(st.integers(1, most))):
        made: Json = {"name": f"d{number}", "attributes": {"rack": {"int": draw(st.integers(0, 2))}, "n": {"int": number}}}
        kind = draw(st.sampled_from(["whole", "slice", "shared"]))
        made["attributes"]["kind"] = {"string": kind}
        if kind == "slice":
            units = {"units": {"value": str(draw(st.integers(1, CARD)))}}
            made["consumesCounters"] = [{"counterSet": f"card-{draw(st.integers(0, 1))}", "counters": units}]
        if kind == "shared":
            made["allowMultipleAllocations"] = True
            policy: Json = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}} if draw(st.booleans()) else {}
            made["capacity"] = {"memory": {"value": "4Gi", **({"requestPolicy": policy} if policy else {})}}
        listed.append(made)
    return listed


@st.composite
def exact(draw: st.DrawFn, most: int = 3) -> Json:
    """What one request asks for."""
    asked: Json = {"deviceClassName": "gpu"}
    if draw(st.integers(0, 3)) == 0:
        asked["allocationMode"] = "All"
    else:
        asked["count"] = draw(st.integers(1, most))
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["whole", "slice", "shared"]))
        asked["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].kind == "{kind}"'}}]
    if draw(st.integers(0, 2)) == 0:
        asked["capacity"] = {"requests": {"memory": draw(st.sampled_from(["512Mi", "1Gi", "3Gi"]))}}
    if draw(st.integers(0, 5)) == 0:
        asked["adminAccess"] = True
    return asked


@st.composite
def asked_claims(draw: st.DrawFn, name: str = "c") -> Claim:
    """A claim of one to three requests, some of them a list of alternatives, with or without a constraint."""
    requests: list[Json] = []
    for number in range(draw(st.integers(1, 3))):
        alternatives = draw(st.integers(0, 2))
        if alternatives:
            listed = [{"name": f"a{place}", **draw(exact())} for place in range(alternatives)]
            for one in listed:
                one.pop("adminAccess", None)
            requests.append({"name": f"r{number}", "firstAvailable": listed})
        else:
            requests.append({"name": f"r{number}", "exactly": draw(exact())})
    match: Json = {"matchAttribute": f"{DRIVER}/rack"}
    distinct: Json = {"distinctAttribute": f"{DRIVER}/n", "requests": ["r0"]}
    choices: list[list[Json]] = [[], [match], [distinct]]
    constraints = draw(st.sampled_from(choices))
    return claim(name, *requests, constraints=constraints)


def sums(listed: Sequence[Json], in_force: Sequence[Allocation]) -> tuple[Counter[DeviceId], Counter[str], Counter[str]]:
    """Whole uses of each device, counter units of each card, capacity of each device: from the allocations alone."""
    whole: Counter[DeviceId] = Counter()
    memory: Counter[str] = Counter()
    used: set[str] = set()
    for item in (result for allocation in in_force for result in allocation.results if not result.admin):
        used.add(item.device.device)
        if item.shared:
            memory[item.device.device] += (item.consumed or {})["memory"].nano
        else:
            whole[item.device] += 1
    units: Counter[str] = Counter()
    for device in listed:
        if device["name"] in used:
            for entry in device.get("consumesCounters", ()):
                units[entry["counterSet"]] += int(entry["counters"]["units"]["value"])
    return whole, units, memory


def slices(listed: Sequence[Json]) -> list[Any]:
    sets = [{"name": f"card-{card}", "counters": {"units": {"value": str(CARD)}}} for card in range(2)]
    return [slice_of("s", listed, count=2), slice_of("t", [], count=2, sharedCounters=sets)]


@pytest.mark.parametrize("release", ["1.36.3", "1.37.2"])
@given(data=st.data())
def test_nothing_is_given_away_twice(release: str, data: st.DataObject) -> None:
    rules = rules_for(Release.parse(release))
    listed = data.draw(devices())
    kinds: Mapping[str, Json] = {device["name"]: device["attributes"] for device in listed}
    state = AllocatedDevices(rules.consumable)
    in_force: list[Allocation] = []
    pools = slices(listed)
    for step in range(data.draw(st.integers(1, 6))):
        if in_force and data.draw(st.integers(0, 3)) == 0:
            state.remove(in_force.pop(data.draw(st.integers(0, len(in_force) - 1))))
            continue
        wanted = data.draw(asked_claims(f"c{step}"))
        made = None
        with contextlib.suppress(AllocationError, NodeFailure):
            made = allocate(pools, [wanted], allocated=state, rules=rules)
        if made is None:
            continue
        state.add(made[0])
        in_force.append(made[0])
        _kept(wanted, made[0], kinds)
        whole, units, memory = sums(listed, in_force)
        assert max(whole.values(), default=0) <= 1
        assert max(units.values(), default=0) <= CARD
        assert max(memory.values(), default=0) <= nano("4Gi")
        assert not {device.device for device in whole} & set(memory)


def _kept(wanted: Claim, made: Allocation, kinds: Mapping[str, Json]) -> None:
    """Every request got its number, and the constraint holds."""
    got = Counter(item.request for item in made.results)
    for request in wanted.requests:
        options = {f"{request.name}/{sub.name}": sub for sub in request.alternatives}
        if request.exactly is not None:
            options[request.name] = request.exactly
        chosen = [(name, sub) for name, sub in options.items() if got[name]]
        assert len(chosen) == 1
        assert all(sub.mode == "All" or got[name] == sub.count for name, sub in chosen)
    for constraint in wanted.constraints:
        bound = [
            item.device.device
            for item in made.results
            if not constraint.requests or item.request.split("/")[0] in constraint.requests
        ]
        if constraint.match_attribute:
            assert len({kinds[device]["rack"]["int"] for device in bound}) <= 1
        else:
            assert len({kinds[device]["n"]["int"] for device in bound}) == len(bound)


@given(listed=devices(most=5), counts=st.lists(st.integers(1, 2), min_size=1, max_size=2), match=st.booleans())
def test_what_is_refused_cannot_be_served(listed: list[Json], counts: list[int], match: bool) -> None:
    alone = [{**device, "allowMultipleAllocations": False} for device in listed]
    requests = [{"name": f"r{n}", "exactly": {"deviceClassName": "gpu", "count": count}} for n, count in enumerate(counts)]
    constraints = [{"matchAttribute": f"{DRIVER}/rack"}] if match else []
    made = allocate(slices(alone), [claim("c", *requests, constraints=constraints)])
    possible = any(_fits(chosen, match) for chosen in itertools.combinations(alone, sum(counts)))
    assert (made is not None) == possible


def _fits(chosen: Sequence[Json], match: bool) -> bool:
    units: Counter[str] = Counter()
    for device in chosen:
        for entry in device.get("consumesCounters", ()):
            units[entry["counterSet"]] += int(entry["counters"]["units"]["value"])
    racks = {device["attributes"]["rack"]["int"] for device in chosen}
    return max(units.values(), default=0) <= CARD and (not match or len(racks) == 1)
