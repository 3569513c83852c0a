"""A scripted nvidia-smi for the containers of simulated kubelets: it prints what the real one would for the pod that asks.

It runs as a program of its own and imports nothing of the project. RAG_RIG_WORLD names the file in which the cards of all
nodes and the devices of all pods are written (`machines`), RAG_RIG_POD the pod as namespace/name; without a pod, or for one
that sees every card (the plugin, the driver), RAG_RIG_NODE names the node. The layout of the table follows the driver's
branch: up to R525, R535, R550 and later, R610 and later (which say KMD and UMD).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Json = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Print what was asked for; the exit code is the real program's."""
    with open(os.environ["RAG_RIG_WORLD"], encoding="utf-8") as file:
        world = json.load(file)
    pod = world["pods"].get(os.environ.get("RAG_RIG_POD", ""))
    node = world["nodes"].get((pod or {}).get("node") or os.environ.get("RAG_RIG_NODE", ""))
    if node is None or (pod is not None and not pod["devices"] and not pod["all"]):
        print("sh: nvidia-smi: not found", file=sys.stderr)
        return 127
    if node["libraries"] != node["driver"]:
        print("Failed to initialize NVML: Driver/library version mismatch")
        print(f"NVML library version: {'.'.join(node['libraries'].split('.')[:2])}")
        return 18
    cards = visible(world, node, pod)
    lost = [card for card in cards if not card["healthy"]]
    if lost:
        print(f"Unable to determine the device handle for GPU{lost[0]['shown']}: {bus(lost[0])}: Unknown Error")
        return 15
    if not arguments:
        table(node, cards)
        return 0
    if arguments == ["-L"]:
        listing(node, cards)
        return 0
    options = dict(word.partition("=")[::2] for word in arguments)
    if "--query-gpu" in options:
        return query(node, cards, options["--query-gpu"].split(","), options.get("--format", ""))
    print(f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n{' '.join(arguments)}")
    return 2


def visible(world: Json, node: Json, pod: Json | None) -> list[Json]:
    """The cards that the pod sees, numbered from 0 as in a container, each with what is used of it and of its slices."""
    everything = pod is None or pod["all"]
    mine = set() if pod is None else set(pod["devices"])
    used: dict[str, int] = {}
    for other in world["pods"].values():
        for device in other["devices"]:
            used[device] = used.get(device, 0) + other["used_mib"]
    found: list[Json] = []
    for card in node["cards"]:
        slices = [
            {**item, "used_mib": used.get(item["uuid"], 0) + item["stolen_mib"]}
            for item in card["mig"] or ()
            if everything or item["uuid"] in mine
        ]
        if everything or card["uuid"] in mine or slices:
            spent = used.get(card["uuid"], 0) + card["stolen_mib"] + card["idle_mib"] + sum(item["used_mib"] for item in slices)
            # The whole card is not to be looked into by who has a slice of it.
            closed = bool(slices) and not everything
            found.append({**card, "used_mib": spent, "slices": slices, "closed": closed, "shown": len(found)})
    return found


def bus(card: Json) -> str:
    """The PCI address."""
    return f"00000000:{16 + card['index'] * 8:02X}:00.0"


def listing(node: Json, cards: list[Json]) -> None:
    """nvidia-smi -L."""
    old = branch(node) < 470
    for card in cards:
        print(f"GPU {card['shown']}: {card['name']} (UUID: {card['uuid']})")
        for number, item in enumerate(card["slices"]):
            uuid = f"MIG-{card['uuid']}/{item['gi']}/0" if old else item["uuid"]
            name = f"MIG {item['profile']}"
            print(f"  {name} Device {number}: (UUID: {uuid})" if old else f"  {name:<15} Device {number:>2}: (UUID: {uuid})")


def query(node: Json, cards: list[Json], fields: list[str], form: str) -> int:
    """nvidia-smi --query-gpu=... --format=csv[,noheader][,nounits]."""
    parts = form.split(",")
    if parts[0] != "csv":
        print('"--format=" option is missing. Please specify output format.')
        return 2
    unit = "" if "nounits" in parts else " MiB"
    rows = []
    for card in cards:
        hidden = "[Insufficient Permissions]" if card["closed"] else None
        values = {
            "index": str(card["shown"]),
            "gpu_name": card["name"],
            "name": card["name"],
            "uuid": card["uuid"],
            "gpu_uuid": card["uuid"],
            "driver_version": node["driver"],
            "pci.bus_id": bus(card),
            "count": str(len(cards)),
            "memory.total": hidden or f"{card['total_mib']}{unit}",
            "memory.used": hidden or f"{card['used_mib']}{unit}",
            "memory.free": hidden or f"{card['total_mib'] - card['used_mib']}{unit}",
            "mig.mode.current": "[N/A]" if not card["mig_capable"] else "Disabled" if card["mig"] is None else "Enabled",
            "compute_cap": card["compute_capability"],
            "compute_mode": "Default",
            "persistence_mode": "Enabled",
        }
        wrong = [field.strip() for field in fields if field.strip() not in values]
        if wrong:
            print(f'Field "{wrong[0]}" is not a valid field to query.\n')
            return 2
        rows.append(", ".join(values[field.strip()] for field in fields))
    if "noheader" not in parts:
        marked = {"memory.total", "memory.used", "memory.free"}
        print(", ".join(f"{field.strip()} [MiB]" if field.strip() in marked and unit else field.strip() for field in fields))
    print("\n".join(rows))
    return 0


def branch(node: Json) -> int:
    """The branch of the driver: 595 of 595.91.07."""
    return int(node["driver"].split(".")[0])


def table(node: Json, cards: list[Json]) -> None:
    """The table without arguments."""
    number = branch(node)
    wide = number >= 535
    last = 22
    middle = 24 if number >= 550 else 22
    first = 41 if wide else 31
    total = first + middle + last + 2
    print("Tue Dec  1 00:00:00 2026       ")
    print("+" + "-" * total + "+")
    print("|" + head(node, number, total) + "|")
    if number >= 610:
        print(f"+{'-' * first}+{'-' * middle}+{'-' * last}+")
    else:
        print(f"|{'-' * first}+{'-' * middle}+{'-' * last}+")
    gap = "   " if middle == 24 else " "
    title = " GPU  Name                 Persistence-M " if wide else " GPU  Name        Persistence-M"
    power = " Fan  Temp   Perf          Pwr:Usage/Cap " if wide else " Fan  Temp  Perf  Pwr:Usage/Cap"
    print(f"|{title}| Bus-Id{' ' * (10 if middle == 24 else 8)}Disp.A | Volatile Uncorr. ECC |")
    print(f"|{power}|{'Memory-Usage ':>{middle}}| GPU-Util  Compute M. |")
    print(f"|{' ' * first}|{' ' * middle}|{'MIG M. ':>{last}}|")
    print(f"|{'=' * first}+{'=' * middle}+{'=' * last}|")
    for card in cards:
        name = card["name"] if wide else (card["name"] if len(card["name"]) <= 18 else card["name"][:15] + "...")
        line = f" {card['shown']:>3}  {name:<27}{'On':>7}  " if wide else f" {card['shown']:>3}  {name:<18}{'On':>4}  "
        memory = "N/A " if card["closed"] else memory_text(card, gap)
        mode = "N/A" if not card["mig_capable"] else "Disabled" if card["mig"] is None else "Enabled"
        print(f"|{line:<{first}}|{gap}{bus(card)} Off |{0 if card['mig'] is None else 'On':>21} |")
        sensors = " N/A   31C    P0              70W / 700W " if wide else " N/A   31C    P0    42W / 400W "
        print(f"|{sensors:<{first}}|{memory:>{middle}}|{'N/A' if card['closed'] else '0%':>9}{'Default':>12} |")
        print(f"|{' ' * first}|{' ' * middle}|{mode + ' ':>{last}}|")
        print(f"+{'-' * first}+{'-' * middle}+{'-' * last}+")
    slices = [(card, number, item) for card in cards for number, item in enumerate(card["slices"])]
    if slices:
        slice_table(slices, total)
    print(" " * (total + 2))
    print("+" + "-" * total + "+")
    for text, side in (
        (" Processes:", ""),
        ("  GPU   GI   CI        PID   Type   Process name", "GPU Memory "),
        ("        ID   ID", "Usage      "),
    ):
        print(f"|{text:<{total - len(side)}}{side}|")
    print("|" + "=" * total + "|")
    # A pod without hostPID sees no process, not even its own.
    print(f"|{'  No running processes found':<{total}}|")
    print("+" + "-" * total + "+")


def head(node: Json, number: int, total: int) -> str:
    """The line with the versions."""
    driver, cuda = node["driver"], node["cuda"]
    if number >= 610:
        text = f" NVIDIA-SMI {driver:<23}KMD Version: {driver:<14}CUDA UMD Version: {cuda}"
    elif number >= 550:
        text = f" NVIDIA-SMI {driver:<23}Driver Version: {driver:<15}CUDA Version: {cuda}"
    elif number >= 535:
        text = f" NVIDIA-SMI {driver:<23}Driver Version: {driver:<13}CUDA Version: {cuda}"
    else:
        text = f" NVIDIA-SMI {driver:<13}Driver Version: {driver:<13}CUDA Version: {cuda}"
    return f"{text:<{total}}"


def memory_text(item: Json, gap: str = " ") -> str:
    """Used and total."""
    if gap == "   ":
        return f"{item['used_mib']:>7}MiB / {item['total_mib']:>6}MiB "
    return f"{item['used_mib']:>6}MiB / {item['total_mib']}MiB "


def slice_table(slices: list[tuple[Json, int, Json]], total: int) -> None:
    """The table of MIG devices."""
    columns = (18, total - 18 - 11 - 23 - 3, 11, 23)
    print("\n+" + "-" * total + "+")
    print(f"|{' MIG devices:':<{total}}|")
    print("+" + "+".join("-" * width for width in columns) + "+")
    for texts in (
        (" GPU  GI  CI  MIG ", "Memory-Usage ", "        Vol", "      Shared"),
        ("      ID  ID  Dev ", "BAR1-Usage ", " SM     Unc", " CE  ENC DEC OFA JPG"),
        ("", "", "        ECC", ""),
    ):
        print(
            "|"
            + "|".join(
                f"{text:>{w}}" if i == 1 else f"{text:<{w}}" for i, (text, w) in enumerate(zip(texts, columns, strict=True))
            )
            + "|"
        )
    print("|" + "+".join("=" * width for width in columns) + "|")
    for card, number, item in slices:
        cells = (
            f" {card['shown']:>2}  {item['gi']:>3}   0  {number:>2}  ",
            memory_text(item) + "   ",
            f"{item['multiprocessors']:>3}      0",
            "  1   0    0    0    0",
        )
        print(
            "|"
            + "|".join(
                f"{text:>{w}}" if i == 1 else f"{text:<{w}}" for i, (text, w) in enumerate(zip(cells, columns, strict=True))
            )
            + "|"
        )
        print("+" + "+".join("-" * width for width in columns) + "+")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
