"""mig-parted's verdict on files, profile names and layouts comes out as recorded."""

from __future__ import annotations

from typing import Any

import pytest

from golden_plugin import records
from ragstow import facts
from ragstow.sharing import migapply, miggenerate, miglayout, migname, migparted
from ragstow.sharing.migapply import Applied, CardProfile
from ragstow.sharing.miggenerate import Kind
from ragstow.sharing.miglayout import Placement
from ragstow.sharing.migname import Malformed, ProfileName
from ragstow.sharing.migparted import Failure

KNOWN = facts.load()
SHAPES = {
    record["shape"]: {
        role: Placement(tuple(entry["starts"]), entry["size"], entry["max"]) for role, entry in record["placements"].items()
    }
    for record in records("mig_layouts")
    if record["profiles"] == "with +me"
}


@pytest.mark.parametrize("record", records("mig_parted_specs"), ids=lambda record: record["id"])
def test_spec(record: dict[str, Any]) -> None:
    ours: dict[str, Any] = {}
    read = migparted.read(record["config"])
    if isinstance(read, Failure):
        ours = {"stage": read.stage, "error": read.text}
    else:
        ours["parsed"] = read.to_json()
        chosen = migparted.select(read, record["selected"])
        if isinstance(chosen, Failure):
            ours |= {"stage": chosen.stage, "error": chosen.text}
        elif "device_ids" in record:
            ours["matches"] = [
                {"entry": index, "gpus": list(gpus) or None}
                for index, gpus in enumerate(migparted.matches(chosen, record["device_ids"]))
            ]
    expected = {key: value for key, value in record.items() if key in ("parsed", "stage", "error", "matches")}
    assert ours == expected


def card(
    name: str, *, shape: str = "mock", memory: dict[str, int] | None = None, total: int | None = None
) -> tuple[CardProfile, ...]:
    """The profiles of a mock card, with other placements or sizes where a record says so."""
    (mock,) = (line for line in records("mig_geometry") if line["card"] == name)
    made = []
    for line in sorted(mock["profiles"], key=lambda line: line["enum"]):
        role = line["role"]
        named = migname.name_of(role, total or mock["memory_mib"], (memory or {}).get(role, line["memory_mib"]))
        assert isinstance(named, ProfileName)
        places = line["placements"]
        placement = Placement(tuple(places["starts"]), places["size"], line["max"])
        made.append(CardProfile(role, named, placement if shape == "mock" else SHAPES[shape][role]))
    return tuple(made)


@pytest.mark.parametrize("record", records("mig_parted_profiles"), ids=lambda record: record["id"])
def test_profile(record: dict[str, Any]) -> None:
    if "mig_devices" in record:
        assert migparted.check_devices(record["mig_devices"]) == record.get("error")
        return
    ours: dict[str, Any] = {}
    try:
        migname.parse(record["profile"])
    except Malformed as error:
        ours["format_error"] = str(error)
    found = migapply.resolve(card(record["card"]), record["profile"])
    if found is None:
        ours["parse_error"] = "unable to parse profile string into a valid profile"
    else:
        ours |= {"canonical": str(found[1]), "role": found[0].role}
    assert ours == {key: value for key, value in record.items() if key not in ("id", "card", "profile")}


@pytest.mark.parametrize("record", records("mig_parted_apply"), ids=lambda record: record["id"])
def test_apply(record: dict[str, Any]) -> None:
    profiles = card(record["card"], shape=record["placements"], memory=record.get("memory_mib"), total=record.get("total_mib"))
    wanted = record["mig_devices"]
    made = migapply.apply(profiles, wanted)
    ours: dict[str, Any] = {}
    if (wrong := migparted.check_devices(wanted)) is not None:
        ours["format_error"] = wrong
    if isinstance(made, Applied):
        sizes = {profile.role: profile.placement.size for profile in profiles}
        placed = [f"{start}:{sizes[role]} {role}" for start, role in made.placed]
        ours |= {"placed": placed or None, "result": dict(made.result), "asserted": made.asserted}
    else:
        ours["error"] = made
    expected = {key: value for key, value in record.items() if key in ("placed", "error", "asserted", "result", "format_error")}
    assert ours == expected


def test_every_legal_layout_of_every_card_can_be_applied() -> None:
    for name in KNOWN.mig.geometries:
        geometry = KNOWN.mig.geometry(name)
        assert geometry is not None
        profiles = tuple(
            CardProfile(profile.role, migname.parse(profile.name), Placement(profile.starts, profile.size, profile.max))
            for profile in geometry.profiles
        )
        for layout in miglayout.of_geometry(geometry, base_only=True).legal:
            made = migapply.apply(profiles, layout)
            assert isinstance(made, Applied)
            assert made.asserted


@pytest.mark.parametrize("record", records("mig_parted_generate"), ids=lambda record: record["id"])
def test_generate(record: dict[str, Any]) -> None:
    ids = {line["card"]: line["pci_device_id"] for line in records("mig_geometry")}
    kinds = [
        Kind(ids[name], tuple((profile.name, profile.placement.max) for profile in card(name))) for name in record["cards"]
    ]
    assert miggenerate.generate(kinds).to_json() == record["generated"]


def test_the_default_layouts_of_facts_are_what_would_be_generated() -> None:
    for name in KNOWN.mig.geometries:
        geometry = KNOWN.mig.geometry(name)
        assert geometry is not None
        made = miggenerate.generate([miggenerate.kind_of(geometry, "0x000010DE")]).layouts
        for layout, counts in geometry.default_layouts.items():
            assert dict(made[layout][0].mig_devices or {}) == counts, (name, layout)
