"""MIG names, layouts and geometries come out as recorded, from the records' own sizes and placements."""

from __future__ import annotations

from typing import Any

import pytest

from golden_plugin import records
from ragstow import facts
from ragstow.errors import Reason
from ragstow.sharing import miglayout, migname
from ragstow.sharing.miglayout import Layouts, Placement
from ragstow.sharing.migname import ProfileName

KNOWN = facts.load()


@pytest.mark.parametrize("record", records("mig_names"), ids=lambda record: record["id"])
def test_name(record: dict[str, Any]) -> None:
    found = migname.name_of(record["role"], record["total_mib"], record["slice_mib"])
    if isinstance(found, Reason):
        assert found.text == record["error"]
    else:
        assert str(found) == record["name"]


def same(ours: tuple[dict[str, int], ...], recorded: list[dict[str, int]]) -> bool:
    def key(layout: dict[str, int]) -> list[tuple[str, int]]:
        return sorted(layout.items())

    return sorted(map(key, ours)) == sorted(map(key, recorded))


@pytest.mark.parametrize("record", records("mig_layouts"), ids=lambda record: f"{record['shape']} {record['profiles']}")
def test_layouts(record: dict[str, Any]) -> None:
    kinds = {
        role: Placement(tuple(entry["starts"]), entry["size"], entry["max"]) for role, entry in record["placements"].items()
    }
    made = miglayout.layouts(kinds)
    for which in ("legal", "maximal", "stuck"):
        assert same(getattr(made, which), record[which]), which


@pytest.mark.parametrize("record", records("mig_geometry"), ids=lambda record: record["card"])
def test_geometry(record: dict[str, Any]) -> None:
    kinds: dict[str, Placement] = {}
    for profile in record["profiles"]:
        name = migname.name_of(profile["role"], record["memory_mib"], profile["memory_mib"])
        assert isinstance(name, ProfileName)
        assert str(name) == profile["name"]
        assert migname.enumerator(profile["role"]) == profile["enum"]
        smaller = [
            str(migname.name_of(profile["role"], record["memory_mib"], profile["memory_mib"], compute))
            for compute in range(1, profile["slices"])
            # go-nvlib's guess at which compute instances exist (VisitMigProfiles).
            if compute * 2 <= profile["slices"] + 1
        ]
        assert smaller == profile["names_of_smaller_compute_instances"]
        places = profile["placements"]
        kinds[profile["role"]] = Placement(tuple(places["starts"]), places["size"], profile["max"])
    base = {role: kind for role, kind in kinds.items() if role in ("1g", "2g", "3g", "4g", "7g")}
    double = {role: kind for role, kind in kinds.items() if role in base or role == "1g.double"}
    for key, chosen in (("layouts_base", base), ("layouts_base_and_double", double)):
        if key in record:
            made: Layouts = miglayout.layouts(chosen)
            assert len(made.legal) == record[key]["legal"]
            assert same(made.maximal, record[key]["maximal"])
            assert same(made.stuck, record[key]["stuck"])


@pytest.mark.parametrize(
    ("product", "base_only", "legal", "maximal", "stuck"),
    [
        ("NVIDIA-A100-SXM4-40GB", True, 37, 12, 14),
        ("NVIDIA-H100-80GB-HBM3", True, 37, 12, 14),
        ("NVIDIA-B200", True, 37, 12, 14),
        ("NVIDIA-A30", True, 9, 4, 4),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", True, 9, 4, 4),
        ("NVIDIA-A100-SXM4-40GB", False, 127, 44, 64),
    ],
)
def test_the_tables_of_real_cards_give_the_published_counts(
    product: str, base_only: bool, legal: int, maximal: int, stuck: int
) -> None:
    gpu = KNOWN.gpus.find(product)
    assert gpu is not None
    geometry = KNOWN.mig.of(gpu)
    assert geometry is not None
    made = miglayout.of_geometry(geometry, base_only=base_only)
    assert (len(made.legal), len(made.maximal), len(made.stuck)) == (legal, maximal, stuck)


def test_the_double_memory_profile_adds_layouts_and_an_old_driver_takes_them_away() -> None:
    gpu = KNOWN.gpus.find("NVIDIA-A100-SXM4-40GB")
    assert gpu is not None
    geometry = KNOWN.mig.of(gpu)
    assert geometry is not None
    kinds = {name: kind for name, kind in miglayout.kinds_of(geometry).items() if "+" not in name}
    made = miglayout.layouts(kinds)
    assert (len(made.legal), len(made.maximal), len(made.stuck)) == (77, 28, 38)
    assert "1g.10gb" not in miglayout.kinds_of(geometry, driver="510.47.03")
    assert "1g.5gb+me" not in miglayout.kinds_of(geometry, driver="460.32.03")


def test_every_legal_layout_is_placed_and_nothing_else() -> None:
    for name in KNOWN.mig.geometries:
        geometry = KNOWN.mig.geometry(name)
        assert geometry is not None
        kinds = miglayout.kinds_of(geometry)
        made = miglayout.of_geometry(geometry)
        for layout in made.legal:
            placed = miglayout.place(kinds, layout, miglayout.exclusive_of(kinds))
            assert placed is not None
            taken: set[int] = set()
            for profile, start in placed:
                assert start in kinds[profile].starts
                cells = set(range(start, start + kinds[profile].size))
                assert not cells & taken
                taken |= cells
        for layout in made.maximal:
            for profile in kinds:
                assert not miglayout.fits(geometry, {**layout, profile: layout.get(profile, 0) + 1})


def test_only_one_instance_owns_the_media_engines() -> None:
    gpu = KNOWN.gpus.find("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition")
    assert gpu is not None
    geometry = KNOWN.mig.of(gpu)
    assert geometry is not None
    assert miglayout.fits(geometry, {"1g.24gb+me.all": 1, "1g.24gb-me": 3})
    assert not miglayout.fits(geometry, {"1g.24gb+me.all": 1, "1g.24gb+me": 1})
    assert not miglayout.fits(geometry, {"1g.24gb+me": 2})
    assert not miglayout.fits(geometry, {"1g.5gb": 1})
