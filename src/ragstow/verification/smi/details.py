"""`nvidia-smi -q`: the long form, nested by indentation, one block for each card."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ragstow.verification.smi import values
from ragstow.verification.smi.model import Card, Process, Reading, Slice

_CARD = re.compile(r"^GPU\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_PAIR = re.compile(r"^(?P<key>\S.*?)\s+:(?:\s+(?P<value>.*?))?\s*$")

_FAULTS = {
    ("Remapped Rows", "Remapping Failure Occurred"): "remapping of a memory row failed",
    ("GPU Reset Status", "Reset Required"): "the GPU requires a reset",
    ("GPU Reset Status", "Drain and Reset Recommended"): "a reset of the GPU is recommended",
    ("Retired Pages", "Pending Page Blacklist"): "a memory page waits to be retired",
}
"""Entries that mark a card to look after where they say Yes."""
_DOUBTFUL = ("Unknown Error", "Not Found")
_VITAL = ("Product Name", "GPU UUID", "Temperature", "FB Memory Usage", "ECC Errors", "MIG Mode")


@dataclass(slots=True)
class _Entry:
    path: tuple[str, ...]
    value: str | None


@dataclass(slots=True)
class _Block:
    """A card's entries in order; `path` holds the sections above and the key, `value` None opens a section."""

    bus_id: str
    entries: list[_Entry] = field(default_factory=list)

    def get(self, *path: str) -> str:
        return next((entry.value or "" for entry in self.entries if entry.path == path), "")


def read(text: str) -> Reading:
    """The reading of `-q`; without cards where the text holds none, with the reason as its failure."""
    head, blocks = _blocks(text)
    processes = [item for index, block in enumerate(blocks) for item in _processes(block, index)]
    listed = any(entry.path[0] == "Processes" for block in blocks for entry in block.entries)
    return Reading(
        driver=values.version(head.get("Driver Version", head.get("KMD Version", ""))),
        cuda=values.version(head.get("CUDA Version", head.get("CUDA UMD Version", ""))),
        cards=tuple(_card(block, index) for index, block in enumerate(blocks)),
        processes=tuple(processes) if listed else None,
        faults=values.lost(text),
        failure=None if blocks else values.failure(text),
    )


def _blocks(text: str) -> tuple[dict[str, str], list[_Block]]:
    head: dict[str, str] = {}
    blocks: list[_Block] = []
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        card = _CARD.match(line)
        if card is not None:
            blocks.append(_Block(card[1].upper()))
            above = []
            continue
        depth = len(line) - len(line.lstrip())
        pair = _PAIR.match(line.strip())
        key, value = (pair["key"], pair["value"] or "") if pair else (line.strip(), None)
        if not blocks:
            if value is not None:
                head.setdefault(key, value)
            continue
        while above and above[-1][0] >= depth:
            above.pop()
        blocks[-1].entries.append(_Entry((*(name for _, name in above), key), value))
        above.append((depth, key))
    return head, blocks


def _card(block: _Block, index: int) -> Card:
    mode = block.get("MIG Mode", "Current")
    pending = block.get("MIG Mode", "Pending")
    broken = [text for path, text in _FAULTS.items() if block.get(*path) == "Yes"]
    for entry in block.entries:
        word = values.fault(entry.value or "")
        # A sensor that fails alone says little of the card.
        if word is not None and (word not in _DOUBTFUL or entry.path[0] in _VITAL):
            broken.append(f"{word} as {' / '.join(entry.path)}")
    return Card(
        index,
        name=values.known(block.get("Product Name")),
        uuid=values.known(block.get("GPU UUID")),
        bus_id=block.bus_id,
        used_mib=values.mib(block.get("FB Memory Usage", "Used")),
        total_mib=values.mib(block.get("FB Memory Usage", "Total")),
        mig=mode == "Enabled" if mode in ("Enabled", "Disabled") else None,
        mig_pending=pending in ("Enabled", "Disabled") and pending != mode,
        compute_mode=values.known(block.get("Compute Mode")),
        slices=tuple(_slices(block)),
        faults=tuple(dict.fromkeys(broken)),
    )


def _slices(block: _Block) -> Iterator[Slice]:
    """Every `MIG Device` section of a card."""
    open_: dict[tuple[str, ...], str] | None = None
    for entry in block.entries:
        if entry.path == ("MIG Device",):
            if open_ is not None:
                yield _slice(open_)
            open_ = {}
        elif open_ is not None and entry.path[0] == "MIG Device":
            open_.setdefault(entry.path[1:], entry.value or "")
    if open_ is not None:
        yield _slice(open_)


def _slice(found: dict[tuple[str, ...], str]) -> Slice:
    def get(*path: str) -> str:
        return found.get(path, "")

    return Slice(
        number=values.number(get("Index")),
        uuid=values.known(get("MIG UUID")) or values.known(get("UUID")),
        gpu_instance=values.number(get("GPU Instance ID")),
        compute_instance=values.number(get("Compute Instance ID")),
        used_mib=values.mib(get("FB Memory Usage", "Used")),
        total_mib=values.mib(get("FB Memory Usage", "Total")),
    )


def _processes(block: _Block, index: int) -> Iterator[Process]:
    found: dict[str, str] = {}
    for entry in (*block.entries, _Entry(("Processes", "GPU instance ID"), "")):
        if entry.path[0] != "Processes":
            continue
        key = entry.path[-1]
        # The first of a process's lines is the instance id, or the process id before R450.
        if "Process ID" in found and key.lower() in ("gpu instance id", "process id"):
            yield Process(
                card=index,
                pid=values.number(found["Process ID"]),
                kind=found.get("Type", ""),
                name=found.get("Name", ""),
                used_mib=values.mib(found.get("Used GPU Memory", "")),
                gpu_instance=values.number(found.get("GPU instance ID", "")),
                compute_instance=values.number(found.get("Compute instance ID", "")),
            )
            found = {}
        found[key] = entry.value or ""
