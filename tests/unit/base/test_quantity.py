"""Quantities against the grammar in the documentation of resource.Quantity, and against properties that hold for all."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstow.errors import InputError
from ragstow.quantity import NANO, Quantity, canonical, parse

ACCEPTED = [
    # text, amount, canonical text
    ("0", 0, "0"),
    ("1", 1, "1"),
    ("+1", 1, "1"),
    ("-1", -1, "-1"),
    ("007", 7, "7"),
    ("1.", 1, "1"),
    (".5", Fraction(1, 2), "500m"),
    ("1.5", Fraction(3, 2), "1500m"),
    ("100m", Fraction(1, 10), "100m"),
    ("1500m", Fraction(3, 2), "1500m"),
    ("250u", Fraction(250, 10**6), "250u"),
    ("1n", Fraction(1, 10**9), "1n"),
    ("0.5m", Fraction(1, 2000), "500u"),
    ("1k", 1000, "1k"),
    ("1M", 10**6, "1M"),
    ("1G", 10**9, "1G"),
    ("1T", 10**12, "1T"),
    ("1P", 10**15, "1P"),
    ("1E", 10**18, "1E"),
    ("1Ki", 1024, "1Ki"),
    ("1Mi", 2**20, "1Mi"),
    ("1Gi", 2**30, "1Gi"),
    ("1Ti", 2**40, "1Ti"),
    ("1Pi", 2**50, "1Pi"),
    ("1Ei", 2**60, "1Ei"),
    ("1.5Gi", 3 * 2**29, "1536Mi"),
    ("0.5Ki", 512, "512"),
    ("1024Ki", 2**20, "1Mi"),
    ("1000Ki", 1024000, "1000Ki"),
    ("1e3", 1000, "1e3"),
    ("1E3", 1000, "1e3"),
    ("1e-3", Fraction(1, 1000), "1e-3"),
    ("12e6", 12 * 10**6, "12e6"),
    ("1e+3", 1000, "1e3"),
    ("1500", 1500, "1500"),
    ("14000", 14000, "14k"),
    ("167334540Ki", 167334540 * 1024, "167334540Ki"),
]
REFUSED = [
    "", " ", " 1", "1 ", "1K", "1ki", "1KI", "1 Ki", "1mi", "1g", "1e", "1e+", "1e3Ki", "1Kim", "1.2.3", ".", "+", "-", "--1",
    "1_000", "\uff11", "\u0661", "nan", "inf", "-inf", "0x10", "1,5", "1Gi\n", "\n1", "one", "1e3.5", "1Zi", "1h",
]  # fmt: skip


@pytest.mark.parametrize(("text", "amount", "printed"), ACCEPTED)
def test_grammar(text: str, amount: Fraction | int, printed: str) -> None:
    quantity = parse(text)
    assert quantity.nano == amount * NANO
    assert str(quantity) == printed
    assert parse(printed).nano == quantity.nano


@pytest.mark.parametrize("text", REFUSED)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a Kubernetes quantity") as caught:
        parse(text)
    assert caught.value.exit_code == 2
    assert "Ki Mi Gi" in caught.value.hint


@pytest.mark.parametrize("value", [True, None, [], {}, float("nan"), float("inf")])
def test_values_that_are_no_quantity(value: object) -> None:
    with pytest.raises(InputError):
        parse(value)  # type: ignore[arg-type]


def test_json_numbers() -> None:
    assert parse(4).value == 4
    assert parse(0.5).milli == 500
    assert parse(1e21).value == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1n", 1, 1),
        ("1m", 1, 1),
        ("1001m", 2, 1001),
        ("1000500u", 2, 1001),
        ("-1m", -1, -1),
        ("-1500m", -2, -1500),
        ("0.1n", 1, 1),
    ],
)
def test_rounds_away_from_zero(text: str, value: int, milli: int) -> None:
    assert (parse(text).value, parse(text).milli) == (value, milli)


def test_a_fraction_of_a_byte_is_rounded_up_when_printed() -> None:
    assert str(parse("1.0001Ki")) == "1025"


def test_amounts_are_capped_as_the_api_server_does() -> None:
    assert parse("100E").value == 2**63 - 1
    assert parse("-100Ei").value == -(2**63 - 1)


_amounts = st.integers(min_value=-(2**62), max_value=2**62)
_formats = st.sampled_from(["decimal", "binary", "exponent"])


@given(nano=_amounts, form=_formats)
def test_printing_and_reading_give_the_same_amount(nano: int, form: str) -> None:
    quantity = Quantity(nano, form)  # type: ignore[arg-type]
    read = parse(canonical(quantity))
    if form == "binary" and abs(nano) >= 1024 * NANO:
        assert read.value == quantity.value
    else:
        assert read.nano == nano
    if form != "binary":  # 3125000 bytes print without a suffix, and are read as a decimal amount
        assert canonical(read) == canonical(quantity)


@given(
    whole=st.integers(0, 10**6),
    fraction=st.text("0123456789", max_size=12),
    suffix=st.sampled_from(["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi", "e0", "e3", "E-2"]),
)
def test_exact_up_to_a_nano(whole: int, fraction: str, suffix: str) -> None:
    units = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "e0": 0, "e3": 3, "E-2": -2}
    factor = Fraction(10) ** units[suffix] if suffix in units else Fraction(2) ** {"Ki": 10, "Mi": 20, "Gi": 30}[suffix]
    exact = Fraction(f"{whole}.{fraction or 0}") * factor
    read = Fraction(parse(f"{whole}.{fraction}{suffix}").nano, NANO)
    assert exact <= read < exact + Fraction(1, NANO)


@given(a=_amounts, b=_amounts)
def test_order_is_that_of_the_amounts(a: int, b: int) -> None:
    assert (Quantity(a) < Quantity(b)) == (a < b)
