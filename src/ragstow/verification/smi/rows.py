"""`nvidia-smi --query-gpu=... --format=csv`: one row for each card, under a head that names the columns and their units."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragstow.verification.smi import values
from ragstow.verification.smi.model import Card, Reading

COLUMNS = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "mig.mode.current",
    "compute_mode",
)
"""What ragstow asks for; all of them exist since R450. (Older drivers refuse the whole query over one unknown column.)"""

_UNIT = re.compile(r"\s*\[[^\]]*\]$")


def read(text: str, columns: Sequence[str] = ()) -> Reading:
    """The reading of such rows.

    Args:
        text: the output.
        columns: the columns asked for, where the output has no head (`noheader`).
    """
    names = list(columns)
    cards: list[Card] = []
    driver: str | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if not names:
            head = [_UNIT.sub("", cell) for cell in cells]
            if len(head) > 1 and all(re.match(r"^[a-z_]+(\.[a-z_]+)*$", cell) for cell in head):
                names = head
            continue
        if len(cells) != len(names):
            continue
        row = dict(zip(names, cells, strict=True))
        cards.append(_card(row, len(cards)))
        driver = driver or values.version(row.get("driver_version", ""))
    return Reading(driver=driver, cards=tuple(cards), faults=values.lost(text), failure=None if cards else values.failure(text))


def _card(row: Mapping[str, str], position: int) -> Card:
    index = values.number(row.get("index", ""))
    broken = tuple(f"{word} as {name}" for name, cell in row.items() if (word := values.fault(cell)))
    mode = row.get("mig.mode.current", "")
    bus = values.known(row.get("pci.bus_id", row.get("gpu_bus_id", "")))
    return Card(
        position if index is None else index,
        name=values.known(row.get("name", row.get("gpu_name", ""))),
        uuid=values.known(row.get("uuid", row.get("gpu_uuid", ""))),
        bus_id=bus.upper() if bus else None,
        used_mib=values.mib(row.get("memory.used", "")),
        total_mib=values.mib(row.get("memory.total", "")),
        mig=mode == "Enabled" if mode in ("Enabled", "Disabled") else None,
        compute_mode=values.known(row.get("compute_mode", "")),
        faults=broken,
    )
