"""The table that nvidia-smi prints without arguments.

It is 79 columns wide until R530, then 89, then 91; the MIG column and instance ids of processes came with R450; the head says
"KMD Version" and "CUDA UMD Version" since R610; the MIG table says "Shared Memory-Usage" since R580. Cells are therefore found
by their bars and words, never by columns.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ragstow.verification.smi import values
from ragstow.verification.smi.model import Card, Failure, Process, Reading, Slice

_HEAD = re.compile(
    r"NVIDIA-SMI\s+(?P<program>\S+)\s+(?:Driver|KMD)\s+Version:\s*(?P<driver>\S+)(?:\s+CUDA(?:\s+UMD)?\s+Version:\s*(?P<cuda>\S+))?"
)
_CARD = re.compile(r"^\s*(?P<index>\d+)\s+(?P<name>\S.*?)\s+(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s*$")
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_MEMORY = re.compile(r"(\d+)\s*MiB\s*/\s*(\d+)\s*MiB")
_SLICE = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$")
_PROCESS = re.compile(
    r"^\s*(?P<card>\d+)(?:\s+(?P<gi>N/A|\d+)\s+(?P<ci>N/A|\d+))?\s+(?P<pid>\d+|N/A)\s+(?P<kind>[CGM](?:\+[CGM])*)\s*"
    r"(?P<name>.*?)\s*(?P<used>\d+\s*MiB|N/A|\[?N/A\]?)?\s*$"
)
_COMPUTE = re.compile(r"(Default|E\. ?Process|E\. ?Thread|Prohibited|N/A)\s*$")


def read(text: str) -> Reading:
    """The reading of a table; without cards where the text holds none, with the reason as its failure."""
    head = _HEAD.search(text)
    if head is None:
        return Reading(faults=values.lost(text), failure=values.failure(text))
    cards: list[Card] = []
    slices: dict[int, list[Slice]] = {}
    processes: list[Process] | None = None
    section = "cards"
    for line in text.splitlines():
        if "MIG devices:" in line:
            section = "slices"
        elif "Processes:" in line:
            section, processes = "processes", []
        cells = line.strip().strip("|").split("|")
        if section == "cards":
            _card(cells, cards)
        elif section == "slices":
            _slice(cells, slices)
        elif processes is not None:
            _process(cells, processes)
    return Reading(
        driver=values.version(head["driver"]),
        program=values.version(head["program"]),
        cuda=values.version(head["cuda"] or ""),
        cards=tuple(replace(card, slices=tuple(slices.get(card.index, ()))) for card in cards),
        processes=None if processes is None else tuple(processes),
        faults=values.lost(text),
        failure=None if cards else values.failure(text) or Failure("no-devices", "nvidia-smi lists no card"),
    )


def _card(cells: list[str], cards: list[Card]) -> None:
    """The first of a card's rows opens it, the two below tell its memory and its mode."""
    if len(cells) < 3:
        return
    first = _CARD.match(cells[0])
    bus = _BUS.search(cells[1])
    if first is not None and (bus is not None or "N/A" in cells[1]):
        name = first["name"]
        broken = ("ERR! in the table",) if "ERR!" in "".join(cells) else ()
        cut = name.endswith("...")
        cards.append(
            Card(
                int(first["index"]),
                name=values.known(name.removesuffix("...").strip() if cut else name),
                cut=cut,
                bus_id=bus[0].upper() if bus else None,
                faults=broken,
            )
        )
        return
    if not cards:
        return
    card = cards[-1]
    if "/" in cells[0] or _MEMORY.search(cells[1]):
        memory = _MEMORY.search(cells[1])
        compute = _COMPUTE.search(cells[2])
        card = replace(
            card,
            used_mib=int(memory[1]) if memory else None,
            total_mib=int(memory[2]) if memory else None,
            compute_mode=values.known(compute[1]) if compute else None,
        )
        if "ERR!" in cells[0] + cells[2] and not card.faults:
            card = replace(card, faults=("ERR! in the table",))
    elif not cells[0].strip() and not cells[1].strip() and cells[2].strip():
        word = cells[2].strip()
        if word.rstrip("*") in ("Enabled", "Disabled"):
            card = replace(card, mig=word.startswith("Enabled"), mig_pending=word.endswith("*"))
    cards[-1] = card


def _slice(cells: list[str], slices: dict[int, list[Slice]]) -> None:
    ids = _SLICE.match(cells[0])
    if ids is None or len(cells) < 2:
        return
    memory = _MEMORY.search(cells[1])
    made = Slice(
        number=int(ids[4]),
        gpu_instance=int(ids[2]),
        compute_instance=int(ids[3]),
        used_mib=int(memory[1]) if memory else None,
        total_mib=int(memory[2]) if memory else None,
    )
    slices.setdefault(int(ids[1]), []).append(made)


def _process(cells: list[str], processes: list[Process]) -> None:
    match = _PROCESS.match(cells[0]) if len(cells) == 1 else None
    if match is not None:
        processes.append(
            Process(
                card=int(match["card"]),
                pid=values.number(match["pid"]),
                kind=match["kind"],
                name=match["name"],
                used_mib=values.mib(match["used"] or ""),
                gpu_instance=values.number(match["gi"] or ""),
                compute_instance=values.number(match["ci"] or ""),
            )
        )
