"""Kubernetes resource quantities, exactly.

Grammar, rounding and canonical form follow the documentation of `resource.Quantity` in k8s.io/apimachinery
(pkg/api/resource/quantity.go): a signed decimal number and either a binary suffix (Ki..Ei), a decimal suffix
(n, u, m, k, M, G, T, P, E) or a decimal exponent (e3, E3). Amounts are integers in nano units; anything finer than a nano
is rounded away from zero, as the API server does. No floating point is used and nothing here knows which resource it counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ragstow.errors import InputError

NANO = 1_000_000_000
_MAX_NANO = (2**63 - 1) * NANO

Format = Literal["decimal", "binary", "exponent"]

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NUMBER = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]+)?", re.ASCII)
_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL.items()}


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount in nano units, with the format it was written in (which decides how it prints)."""

    nano: int
    format: Format = "decimal"

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero (Quantity.Value)."""
        return _divide_away_from_zero(self.nano, NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero (Quantity.MilliValue)."""
        return _divide_away_from_zero(self.nano, NANO // 1000)

    def __str__(self) -> str:
        return canonical(self)


def parse(text: str | int | float) -> Quantity:
    """The quantity that `text` means; numbers are read as JSON numbers are.

    Raises:
        InputError: `text` is not a quantity.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise _refuse(text)
    if isinstance(text, int):
        return Quantity(_clamp(text * NANO))
    match = _NUMBER.fullmatch(text if isinstance(text, str) else _json_number(text))
    if match is None:
        raise _refuse(text)
    sign, number, suffix = match.group(1), match.group(2), match.group(3) or ""
    whole, _, fraction = number.partition(".")
    digits, scale = int(whole + fraction or "0"), -len(fraction)
    form: Format = "decimal"
    factor = 1
    if suffix in _BINARY:
        form, factor = "binary", _BINARY[suffix]
    elif suffix in _DECIMAL:
        scale += _DECIMAL[suffix]
    else:
        form = "exponent"
        exponent = int(suffix[1:])
        if abs(exponent) > 10_000:
            raise _refuse(text)
        scale += exponent
    power = scale + 9
    nano = digits * factor * 10**power if power >= 0 else _divide_away_from_zero(digits * factor, 10**-power)
    return Quantity(_clamp(-nano if sign == "-" else nano), form)


def canonical(quantity: Quantity) -> str:
    """The one text for this amount and format: no fraction, the largest suffix that keeps it exact (CanonicalizeBytes).

    A binary quantity below 1024 prints as a decimal one; a larger one with a fraction is rounded away from zero.
    """
    nano = quantity.nano
    if quantity.format == "binary" and abs(nano) >= 1024 * NANO:
        amount, suffix = quantity.value, ""
        for name in _BINARY:
            if amount % 1024:
                break
            amount, suffix = amount // 1024, name
        return f"{amount}{suffix}"
    if nano == 0:
        return "0"
    amount, exponent = nano, -9
    while amount % 1000 == 0 and exponent < 18:
        amount, exponent = amount // 1000, exponent + 3
    if quantity.format == "exponent":
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_BY_EXPONENT[exponent]}"


def _json_number(number: float) -> str:
    text = repr(number)
    return text.replace("e+", "e")


def _divide_away_from_zero(amount: int, by: int) -> int:
    return -(-amount // by) if amount >= 0 else amount // by


def _clamp(nano: int) -> int:
    return max(-_MAX_NANO, min(_MAX_NANO, nano))


def _refuse(text: object) -> InputError:
    return InputError(
        "quantity-invalid",
        f"{str(text)[:60]!r} is not a Kubernetes quantity",
        hint="a number with an optional suffix: Ki Mi Gi Ti Pi Ei, n u m k M G T P E, or an exponent such as 1e3",
    )
