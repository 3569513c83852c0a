"""Reads the recordings of the device plugin, GPU feature discovery and mig-parted."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from typing import Any

from ragstow import facts
from ragstow.sharing import migname
from ragstow.sharing.machine import Card, Engines, Instance, InstanceProfile, Machine, Platform
from support import DATA

GPUS = facts.load().gpus
FOLDER = DATA / "golden" / "device-plugin-v0.20.0"


@cache
def _read(name: str) -> tuple[dict[str, Any], ...]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return tuple(json.loads(line) for line in file)


def records(name: str) -> list[dict[str, Any]]:
    """The lines of one recorded file."""
    return list(_read(name))


def machine(name: str) -> Machine:
    """The recorded machine of that name, with the MIG tables of the mock it names."""
    return _machines()[name]


@cache
def _machines() -> dict[str, Machine]:
    return {node["node"]: _machine(node) for node in _read("nodes")}


@cache
def _mocks() -> dict[str, dict[str, Any]]:
    return {line["card"]: line for line in _read("mig_geometry")}


def _machine(node: dict[str, Any]) -> Machine:
    cards: list[Card] = []
    for group in node["gpus"]:
        for _ in range(group.get("count", 1)):
            cards.append(_card(group, len(cards)))
    platform: Platform = {"wsl": "wsl", "tegra-igpu": "tegra"}.get(node.get("platform", ""), "nvml")  # type: ignore[assignment]
    return Machine(
        cards=tuple(cards),
        driver=node["driver"],
        cuda=node["cuda"],
        product=node.get("machine"),
        platform=platform,
        nvml=node.get("nvml") != "missing",
    )


def _card(group: dict[str, Any], index: int) -> Card:
    mock = _mocks().get(group.get("mock", ""), {})
    name = group.get("name", mock.get("name", ""))
    memory = group.get("memory_mib", mock.get("memory_mib"))
    major, _, minor = group.get("cc", mock.get("cc", "0.0")).partition(".")
    parts, profiles = _profiles(mock, group.get("profiles", {}))
    known = GPUS.find(name)
    card = Card(
        name=name,
        uuid=f"GPU-00000000-0000-4000-8000-{index:012d}",
        memory_mib=None if group.get("memory_query_fails") else memory,
        compute_capability=(int(major), int(minor)),
        profiles=tuple(profiles.values()),
        pci_class=group.get("pci_class", "3d"),
        fabric=(group["fabric_cluster"], group["fabric_clique"]) if "fabric_cluster" in group else None,
        skipped=known is not None and known.kind == "display",
    )
    if "mig" not in group:
        return card
    made = []
    for number, written in enumerate(group["mig"]):
        wanted = migname.parse(written)
        for role, profile in profiles.items():
            named = card.name_of(profile, wanted.compute)
            if not isinstance(named, str) and named.same(wanted):
                multiprocessors = parts.get((role, wanted.compute), profile.multiprocessors)
                uuid = f"MIG-00000000-0000-4000-8{index:03d}-{number:012d}"
                made.append(Instance(profile, wanted.compute, multiprocessors, uuid))
                break
        else:
            raise ValueError(f"{written} is no profile of {name}")
    return replace(card, instances=tuple(made))


def _profiles(mock: dict[str, Any], given: dict[str, Any]) -> tuple[dict[tuple[str, int], int], dict[str, InstanceProfile]]:
    """SMs by (role, compute slices), and the profiles by role in the driver's order."""
    multiprocessors: dict[tuple[str, int], int] = {}
    found: dict[str, InstanceProfile] = {}
    for line in mock.get("profiles", ()):
        found[line["role"]] = InstanceProfile(line["role"], line["memory_mib"], line["sm"], Engines(**line["engines"]))
        for part in line["compute_instances"]:
            multiprocessors.setdefault((line["role"], part["slices"]), part["sm"])
    for role, line in given.items():
        held = found.get(role, InstanceProfile(role, 0))
        engines = Engines(
            line.get("copy", held.engines.copy),
            line.get("dec", held.engines.decoder),
            line.get("enc", held.engines.encoder),
            line.get("jpeg", held.engines.jpeg),
            line.get("ofa", held.engines.ofa),
        )
        found[role] = InstanceProfile(role, line["mem"], line.get("sm", held.multiprocessors), engines)
    return multiprocessors, dict(sorted(found.items(), key=lambda item: migname.enumerator(item[0]) or 0))
