"""Whatever a file says, it is answered in words: no exception, no endless work, the same answer twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstow.errors import Reason
from ragstow.sharing import goduration, labels, migapply, migname, migparted, modes, verdict
from ragstow.sharing.gojson import Refused, number
from ragstow.sharing.host import machine_of
from ragstow.sharing.migapply import FAILED, CardProfile
from ragstow.sharing.miglayout import Placement
from ragstow.sharing.modes import Given
from sharing_hosts import KNOWN, host

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["all", "none", "mixed", "nvidia.com/gpu", "4", "60s", "v1", "GPU-x", "0:1", ""]),
    st.text(max_size=8),
)
KEYS = st.sampled_from(
    """
    version flags sharing resources imex timeSlicing mps gpus mig renameByDefault failRequestsGreaterThanOne name replicas
    rename devices pattern migStrategy failOnInitError mpsRoot plugin gfd sleepInterval deviceListStrategy channelIDs
    required Version SHARING mig-configs mig-enabled mig-devices device-filter
    """.split()  # noqa: SIM905
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)), max_leaves=12
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_configuration_gets_a_verdict(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    first = verdict.plugin(text)
    assert first == verdict.plugin(text)
    assert first.accepted or first.failure is not None
    verdict.gfd(text)
    migparted.read(text)
    if first.config is not None:
        json.dumps(first.config.to_json())


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_gets_a_verdict(text: str) -> None:
    assert verdict.plugin(text).accepted or verdict.plugin(text).failure is not None
    migparted.read(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789gcb.+-,me all", max_size=14))
def test_a_profile_name_is_read_or_refused_and_prints_as_itself(text: str) -> None:
    try:
        found = migname.parse(text)
    except migname.Malformed:
        return
    assert migname.parse(str(found)).same(found)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**62), 2**62))
def test_a_duration_prints_as_what_it_is_read_from(nanoseconds: int) -> None:
    assert goduration.parse(goduration.show(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (4.0, "4"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-7"),
        (0.00001, "0.00001"),
        (2**64, "18446744073709552000"),
        (-0.5, "-0.5"),
    ],
)
def test_numbers_print_as_go_prints_them(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize("text", ["1", "", "-", "1x", "infinite", "9223372036854775808ns", ".s", "1h-2m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        goduration.parse(text)


def test_a_million_shares_take_no_room() -> None:
    made = modes.time_slicing(host("NVIDIA-L4", 8), 1_000_000, KNOWN)
    assert isinstance(made, Given)
    assert made.after.resources["nvidia.com/gpu.shared"] == 8_000_000
    served = made.after.devices["nvidia.com/gpu.shared"]
    assert "GPU-7::999999" in served
    assert "GPU-7::1000000" not in served
    assert "GPU-7" not in served
    assert "GPU-7::007" not in served


def test_a_count_beyond_all_reason_is_refused_at_once() -> None:
    profiles = (CardProfile("1g", migname.parse("1g.5gb"), Placement((0, 1, 2, 3, 4, 5, 6), 1, 7)),)
    assert migapply.apply(profiles, {"1g.5gb": 10**12}) == FAILED


def test_labels_of_many_products_stay_few() -> None:
    products = [gpu for gpu in KNOWN.gpus.cards if gpu.memory_mib is not None][:8]
    there = host("NVIDIA-L4", 8, gpus=tuple(products))
    made = labels.labels(verdict.gfd(None), machine_of(there, (None,) * 8, KNOWN.gpus, KNOWN.mig))
    assert len(made.one_of) == 8


def test_a_card_unknown_to_mig_is_refused_in_words() -> None:
    answer = modes.mps(host("Tesla-K80"), 2, KNOWN)
    assert isinstance(answer, Reason)
    assert str(answer)


LOADING = (
    "error starting plugins: unable to load config: unable to finalize config: unable to parse config file: "
    "error parsing config file: "
)
DECODING = LOADING + "unmarshal error: error unmarshaling JSON: while decoding JSON: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # What the plugin's own configuration package, built from its sources, said to these.
        ("version: -.inf\n", LOADING + "unknown version: -Inf"),
        ("version: 0X10\n", LOADING + "unknown version: 16"),
        ("version: 18446744073709551616\n", LOADING + "unknown version: 1.8446744e+19"),
        ("flags: {gfd: {sleepInterval: é}}\n", DECODING + 'time: invalid duration "\\xc3\\xa9"'),
        (
            "sharing: !foo x\n",
            DECODING + "json: cannot unmarshal string into Go struct field Config.sharing of type v1.Sharing",
        ),
        (
            "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4.5}]}}\n",
            DECODING + "json: cannot unmarshal number 4.5 into Go struct field Sharing.sharing.timeSlicing of type int",
        ),
    ],
)
def test_rare_values_are_refused_in_the_programs_words(text: str, said: str) -> None:
    failure = verdict.plugin(text).failure
    assert failure is not None
    assert failure.text == said


def test_a_sleep_interval_beyond_all_bounds_is_the_least_duration() -> None:
    read = verdict.gfd("flags: {gfd: {sleepInterval: 18446744073709551616}}\n")
    assert read.config is not None
    assert goduration.show(read.config.gfd["sleepInterval"]) == "-2562047h47m16.854775808s"
