"""Names of MIG profiles: how the driver's roles and sizes become "1g.5gb+me", and how such a text is read back.

The name carries a rounded share of the card's memory, not what the slice has (go-nvlib pkg/nvlib/device/mig_profile.go).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ragstow.errors import Reason

MIB = 1024 * 1024
GIB = 1024 * MIB

_ENUMERATORS = {
    "1g": 0,
    "2g": 1,
    "3g": 2,
    "4g": 3,
    "7g": 4,
    "8g": 5,
    "6g": 6,
    "1g+me": 7,
    "2g+me": 8,
    "1g.double": 9,
    "1g+gfx": 10,
    "2g+gfx": 11,
    "4g+gfx": 12,
    "1g-me": 13,
    "2g-me": 14,
    "1g+me.all": 15,
    "2g+me.all": 16,
    "3g+gfx": 17,
}
"""NVML's enumerators of GPU instance profiles by role."""

_UNNAMED = frozenset({"3g+gfx"})
"""Roles that NVML lists and go-nvlib has no name for: asking for the list of profiles then fails altogether."""


@dataclass(frozen=True, slots=True)
class ProfileName:
    """A profile taken apart: compute and GPU slices, the GB of its name, attributes (`+`) and negated ones (`-`)."""

    compute: int
    slices: int
    gb: int
    attributes: tuple[str, ...] = ()
    negated: tuple[str, ...] = ()

    def __str__(self) -> str:
        suffix = "+" + ",".join(self.attributes) if self.attributes else ""
        if self.negated:
            suffix = "-" + ",".join(self.negated)
        head = "" if self.compute == self.slices else f"{self.compute}c."
        return f"{head}{self.slices}g.{self.gb}gb{suffix}"

    @property
    def label(self) -> str:
        """As labels, resources and layouts spell it: every `+` becomes `.`."""
        return str(self).replace("+", ".")

    def same(self, other: ProfileName) -> bool:
        """Whether both mean one profile; the order of attributes does not count."""
        return (self.compute, self.slices, self.gb, sorted(self.attributes), sorted(self.negated)) == (
            other.compute,
            other.slices,
            other.gb,
            sorted(other.attributes),
            sorted(other.negated),
        )


def enumerator(role: str) -> int | None:
    """NVML's number of a role; None for a role it does not know."""
    return _ENUMERATORS.get(role)


def gigabytes(total_mib: int, slice_mib: int) -> int:
    """The GB in the name of a slice: its memory as eighths of the card's, rounded up, times the card's GiB, rounded.

    Args:
        total_mib: memory of the card as the driver says, MiB.
        slice_mib: memory of the instance, MiB.
    """
    if total_mib <= 0:
        return 0
    eighths = math.ceil(slice_mib / total_mib * 8)
    gib = -(-total_mib * MIB // GIB)
    # Halves round away from zero, as Go's math.Round does.
    return math.floor(eighths / 8 * gib + 0.5)


def name_of(role: str, total_mib: int, slice_mib: int, compute: int | None = None) -> ProfileName | Reason:
    """The name of a role on a card, or why go-nvlib has none.

    Args:
        role: "1g", "1g.double", "2g+me" ...
        total_mib: memory of the card, MiB.
        slice_mib: memory of the instance, MiB.
        compute: slices of its compute instance, where that is smaller than the whole.
    """
    if role in _UNNAMED or role not in _ENUMERATORS:
        number = _ENUMERATORS.get(role, -1)
        return Reason("mig-profile-unnamed", f"invalid GPU Instance Profile ID: {number}")
    slices = int(role[0])
    suffix = role[2:].removeprefix(".double")
    positive = (suffix[1:],) if suffix.startswith("+") else ()
    negative = (suffix[1:],) if suffix.startswith("-") else ()
    return ProfileName(compute or slices, slices, gigabytes(total_mib, slice_mib), positive, negative)


class Malformed(Exception):
    """A text that is no profile name, in go-nvlib's words."""


def parse(text: str) -> ProfileName:
    """A profile name read as mig-parted and the plugin read it.

    Raises:
        Malformed: the text is no profile name.
    """
    if text == "":
        raise Malformed("profile is the empty string")
    plus, minus = text.split("+", 1), text.split("-", 1)
    if len(plus) == 2 and len(minus) == 2:
        raise Malformed(f"profile '{text}' contains both '+/-' attributes")
    parts = plus if len(plus) == 2 else minus
    try:
        compute, slices, gb = _fields(parts[0])
    except Malformed as error:
        raise Malformed(f"cannot parse fields of '{text}': {error}") from None
    if len(parts) == 1:
        return ProfileName(compute, slices, gb)
    try:
        attributes = _attributes(parts[1])
    except Malformed as error:
        raise Malformed(f"cannot parse attributes of '{text}': {error}") from None
    if len(minus) == 2:
        return ProfileName(compute, slices, gb, (), attributes)
    return ProfileName(compute, slices, gb, attributes)


def _fields(text: str) -> tuple[int, int, int]:
    parts = text.split(".", 2)
    if len(parts) == 3:
        return _field(parts[0], "c"), _field(parts[1], "g"), _field(parts[2], "gb")
    if len(parts) == 2:
        slices = _field(parts[0], "g")
        return slices, slices, _field(parts[1], "gb")
    raise Malformed("parsed wrong number of fields, expected 2 or 3")


def _field(text: str, unit: str) -> int:
    if text.strip() != text:
        raise Malformed(f"leading or trailing spaces on '%d{unit}'")
    if not text.endswith(unit):
        raise Malformed(f"missing '{unit}' from '%d{unit}'")
    digits = text.removesuffix(unit)
    if re.fullmatch(r"[-+]?[0-9]+", digits, re.ASCII) is None or not -(2**63) <= int(digits) < 2**63:
        raise Malformed(f"malformed number in '%d{unit}'")
    return int(digits)


def _attributes(text: str) -> tuple[str, ...]:
    seen: list[str] = []
    for item in text.split(","):
        if item in seen:
            raise Malformed("non unique attribute in list")
        if item == "":
            raise Malformed("empty attribute in list")
        if item.strip() != item:
            raise Malformed("leading or trailing spaces in attribute")
        if item[0] in "0123456789":
            raise Malformed("attribute begins with a number")
        if item[0] == "." or item[-1] == ".":
            raise Malformed("attribute begins/ends with a dot")
        if re.fullmatch(r"[A-Za-z0-9.]+", item) is None:
            raise Malformed("non alpha-numeric character or digit in attribute")
        seen.append(item)
    return tuple(seen)
