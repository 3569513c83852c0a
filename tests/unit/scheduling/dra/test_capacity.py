"""Consumable capacity: the rounding rules of KEP-5075."""

from __future__ import annotations

import pytest

from ragstow.quantity import Quantity, parse
from ragstow.scheduling.dra import capacity
from ragstow.scheduling.dra.model import Capacity, Device, DeviceId, RequestPolicy

RANGE = RequestPolicy(default=parse("1Gi"), minimum=parse("1Gi"), maximum=parse("8Gi"), step=parse("1Gi"), has_range=True)
VALUES = RequestPolicy(default=parse("10"), values=(parse("10"), parse("25"), parse("50")))


def taken(asked: str | None, policy: RequestPolicy | None, value: str = "16Gi") -> Quantity:
    requested = {} if asked is None else {"memory": parse(asked)}
    return capacity.consumed(requested, "memory", Capacity(parse(value), policy))


@pytest.mark.parametrize(
    ("asked", "policy", "expected"),
    [
        (None, None, "16Gi"),
        (None, RANGE, "1Gi"),
        ("3Gi", None, "3Gi"),
        ("100Mi", RANGE, "1Gi"),
        ("1025Mi", RANGE, "2Gi"),
        ("2Gi", RANGE, "2Gi"),
        ("11", VALUES, "25"),
        ("51", VALUES, "51"),
    ],
)
def test_consumed(asked: str | None, policy: RequestPolicy | None, expected: str) -> None:
    assert taken(asked, policy).nano == parse(expected).nano


def device(policy: RequestPolicy | None) -> Device:
    return Device(DeviceId("d", "p", "x"), {}, {"memory": Capacity(parse("16Gi"), policy)}, shareable=True)


def test_fits_until_full() -> None:
    asked = {"memory": parse("6Gi")}
    six = parse("6Gi").nano
    assert capacity.fits(device(None), asked, {}, {})
    assert capacity.fits(device(None), asked, {"memory": six}, {})
    assert not capacity.fits(device(None), asked, {"memory": six}, {"memory": six})


def test_policy_bounds() -> None:
    assert not capacity.fits(device(RANGE), {"memory": parse("9Gi")}, {}, {})
    assert not capacity.fits(device(VALUES), {"memory": parse("51")}, {}, {})


def test_unknown_capacity_never_fits() -> None:
    assert not capacity.fits(device(None), {"cores": parse("1")}, {}, {})
