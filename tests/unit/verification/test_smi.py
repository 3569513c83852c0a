"""nvidia-smi over its generations: what is written in the files is what is read."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstow.verification.smi import details, listing, rows, table
from ragstow.verification.smi.merge import merge
from ragstow.verification.smi.model import Card, Reading
from ragstow.verification.smi.values import failure
from support import DATA

FILES = DATA / "nvidia-smi"


def _text(name: str) -> str:
    return (FILES / f"{name}.txt").read_text()


def _table(name: str) -> Reading:
    return table.read(_text(name))


@pytest.mark.parametrize(
    ("name", "driver", "cuda", "cards"),
    [
        ("418-table-v100", "418.87.01", "10.1", [("Tesla V100-SXM2", True, 9321, 16130, None)]),
        (
            "450-table-mig",
            "450.80.02",
            "11.0",
            [("A100-SXM4-40GB", False, 11, 40537, True), ("A100-SXM4-40GB", False, 0, 40537, False)],
        ),
        ("470-table-none", "470.82.01", "11.4", [("Tesla T4", False, 242, 15109, None)]),
        ("510-table-err", "510.73.08", "11.6", [("NVIDIA A40", False, 3, 46068, None), (None, False, 0, 46068, None)]),
        ("535-table-mps", "535.183.06", "12.2", [("NVIDIA A10G", False, 7180, 23028, None)]),
        ("535-table-mig", "535.161.08", "12.2", [("NVIDIA A100-SXM4-40GB", False, 75, 40960, True)]),
        ("540-table-jetson", "540.4.0", "12.6", [("Orin (nvgpu)", False, None, None, None)]),
        (
            "550-table-h100",
            "550.90.07",
            "12.4",
            [("NVIDIA H100 80GB HBM3", False, 70412, 81559, False), ("NVIDIA H100 80GB HBM3", False, 70398, 81559, False)],
        ),
        ("560-table-gh200", "560.35.03", "12.6", [("NVIDIA GH200 480GB", False, 40210, 97871, False)]),
        ("570-table-mig", "570.148.08", "12.8", [("NVIDIA A100 80GB PCIe", False, 249, 81920, True)]),
        ("580-table-mig", "580.95.05", "13.0", [("NVIDIA RTX PRO 6000 Blac", True, None, None, True)]),
        ("580-table-no-slices", "580.95.05", "13.0", [("NVIDIA H200", False, 46, 143771, True)]),
        ("590-table-wsl", "591.44", "13.1", [("NVIDIA GeForce RTX 4060", True, 1204, 8188, None)]),
        ("590-table-lost", "590.48.01", "13.1", [("NVIDIA H200", False, 130210, 143771, False)]),
        ("610-table-gb10", "610.43.02", "13.3", [("NVIDIA GB10", False, None, None, None)]),
    ],
)
def test_table(
    name: str, driver: str, cuda: str, cards: list[tuple[str | None, bool, int | None, int | None, bool | None]]
) -> None:
    reading = _table(name)
    assert (reading.driver, reading.cuda) == (driver, cuda)
    assert [(card.name, card.cut, card.used_mib, card.total_mib, card.mig) for card in reading.cards] == cards
    assert reading.failure is None


def test_every_table_survives_squeezed_blanks_indentation_and_empty_lines() -> None:
    """As tables arrive from wikis, terminals and logs."""
    for file in sorted(FILES.glob("*-table-*.txt")):
        text = file.read_text()
        squeezed = "\n".join(re.sub(r"(?<=\S) {2,}", " ", line) if line.startswith("|") else line for line in text.splitlines())
        indented = "\r\n\r\n".join(f"    {line}" for line in text.splitlines())
        assert table.read(indented) == table.read(text), file.name
        assert table.read(squeezed) == table.read(text), file.name


def test_program_and_driver_differ_under_wsl() -> None:
    assert _table("590-table-wsl").program == "590.44.01"


def test_mig_mode_that_waits_for_a_reset() -> None:
    first, second = _table("450-table-mig").cards
    assert (first.mig_pending, second.mig, second.mig_pending) == (False, False, True)


@pytest.mark.parametrize(
    ("name", "slices"),
    [
        ("450-table-mig", [(0, 7, 0, 2048, 4864), (1, 8, 0, 3, 4864)]),
        ("535-table-mig", [(0, 5, 0, 3117, 9856)]),
        ("570-table-mig", [(0, 1, 0, 33107, 40192), (1, 5, 0, 71, 19968)]),
        ("580-table-mig", [(0, 6, 0, 1786, 24192)]),
        ("580-table-no-slices", []),
    ],
)
def test_mig_table(name: str, slices: list[tuple[int, int, int, int, int]]) -> None:
    found = _table(name).cards[0].slices
    assert [(s.number, s.gpu_instance, s.compute_instance, s.used_mib, s.total_mib) for s in found] == slices


@pytest.mark.parametrize(
    ("name", "processes"),
    [
        ("418-table-v100", [(0, 20117, "C", "python3", 9309, None)]),
        ("450-table-mig", [(0, 51234, "C", "text-embeddings-router", 2033, 7)]),
        ("470-table-none", []),
        (
            "535-table-mps",
            [
                (0, 10925, "C", "nvidia-cuda-mps-server", 30, None),
                (0, 67657, "M+C", "text-embeddings-router", 4106, None),
                (0, 67661, "M+C", "/opt/rerank/bin/python3 -m server", 3032, None),
            ],
        ),
        ("550-table-h100", []),
        ("590-table-wsl", [(0, 33, "C+G", "/Xwayland", None, None), (0, 812, "C", "/python3.12", None, None)]),
        ("610-table-gb10", [(0, 4021, "C", "VLLM::EngineCore", 61240, None)]),
    ],
)
def test_processes_of_the_table(name: str, processes: list[tuple[int, int, str, str, int | None, int | None]]) -> None:
    found = _table(name).processes
    assert found is not None
    assert [(p.card, p.pid, p.kind, p.name, p.used_mib, p.gpu_instance) for p in found] == processes


def test_exclusive_process_mode() -> None:
    assert _table("535-table-mps").cards[0].compute_mode == "E. Process"


def test_broken_cards_are_marked() -> None:
    assert [card.faults for card in _table("510-table-err").cards] == [(), ("ERR! in the table",)]
    assert _table("590-table-lost").faults == ("Unable to determine the device handle for GPU1: 0000:3B:00.0: Unknown Error",)
    healthy = [file for file in sorted(FILES.glob("*-table-*.txt")) if "err" not in file.name and "lost" not in file.name]
    assert all(not card.faults for file in healthy for card in table.read(file.read_text()).cards)


def test_listing_with_both_kinds_of_mig_uuid() -> None:
    old = listing.read(_text("450-list-mig")).cards
    assert [(s.profile, s.number, s.gpu_instance, s.compute_instance) for s in old[0].slices] == [
        ("1g.5gb", 0, 7, 0),
        ("1g.5gb", 1, 8, 0),
    ]
    assert old[0].slices[0].uuid == "MIG-GPU-3f0b6a51-9a3c-77d1-0d1e-b6f1a2c3d4e5/7/0"
    assert (old[1].uuid, old[1].slices) == ("GPU-8d2e7c90-1b4f-4a6e-9c8d-0f1e2d3c4b5a", ())
    new = listing.read(_text("570-list-mig")).cards[0]
    assert [(s.profile, s.uuid) for s in new.slices] == [
        ("3g.40gb", "MIG-c1d3d074-7dc1-5e89-8a5f-6d0b08327092"),
        ("2g.20gb", "MIG-84e0b369-ad9b-5b6f-a11f-74e7d7de0637"),
    ]
    compute = listing.read("GPU 0: N (UUID: GPU-1)\n  MIG 1c.3g.20gb     Device  0: (UUID: MIG-2)\n").cards[0]
    assert compute.slices[0].profile == "1c.3g.20gb"


def test_listing_of_integrated_and_lost_cards() -> None:
    assert listing.read(_text("540-list-jetson")).cards == (
        Card(0, name="Orin (nvgpu)", uuid="54d0709b-558d-5a59-9c65-0c5fc14a21a4"),
    )
    lost = "Unable to determine the device handle for gpu 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU"
    text = f"GPU 0: NVIDIA A (UUID: GPU-1)\n{lost}\n"
    reading = listing.read(text)
    assert ([card.index for card in reading.cards], len(reading.faults)) == ([0], 1)


def test_rows() -> None:
    reading = rows.read(_text("550-rows-h100"))
    assert reading.driver == "550.90.07"
    assert reading.cards[1] == Card(
        1,
        name="NVIDIA H100 80GB HBM3",
        uuid="GPU-1a2b3c4d-5e6f-7081-92a3-b4c5d6e7f809",
        bus_id="00000000:3B:00.0",
        used_mib=70398,
        total_mib=81559,
        mig=False,
        compute_mode="Default",
    )


def test_rows_that_may_or_can_not_say_a_value() -> None:
    mig = rows.read(_text("570-rows-mig")).cards[0]
    assert (mig.used_mib, mig.total_mib, mig.mig, mig.faults) == (None, None, True, ())
    unified = rows.read(_text("610-rows-gb10")).cards[0]
    assert (unified.used_mib, unified.total_mib, unified.mig, unified.faults) == (None, None, None, ())
    broken = rows.read("0, GPU-1, [GPU is lost], [Unknown Error]\n", ("index", "uuid", "name", "memory.used")).cards[0]
    assert broken.faults == ("GPU is lost as name", "Unknown Error as memory.used")
    assert [card.index for card in rows.read(_text("590-rows-lost")).cards] == [0]


def test_rows_without_head_and_units() -> None:
    reading = rows.read("0, NVIDIA L4, 23034, 512\n1, NVIDIA L4, 23034, 3\n", ("index", "name", "memory.total", "memory.used"))
    assert [(card.index, card.total_mib, card.used_mib) for card in reading.cards] == [(0, 23034, 512), (1, 23034, 3)]


def test_details_of_slices() -> None:
    reading = details.read(_text("535-details-mig"))
    (card,) = reading.cards
    assert (reading.driver, reading.cuda, reading.processes) == ("535.161.08", "12.2", ())
    assert (card.name, card.uuid, card.mig, card.total_mib) == (
        "NVIDIA A100-SXM4-40GB",
        "GPU-5c2f0d11-6c4e-9a1b-2d3e-4f5061728394",
        True,
        None,
    )
    assert [(s.number, s.gpu_instance, s.used_mib, s.total_mib) for s in card.slices] == [(0, 5, 3117, 9856), (1, 6, 12, 4864)]
    assert card.faults == ()


def test_details_of_broken_cards_and_processes() -> None:
    reading = details.read(_text("580-details-broken"))
    first, second = reading.cards
    assert set(first.faults) == {"the GPU requires a reset", "remapping of a memory row failed"}
    assert (first.mig, first.mig_pending, first.used_mib) == (False, True, 70412)
    assert second.faults == ("Unknown Error as Temperature / GPU Current Temp",)
    assert second.compute_mode == "Exclusive_Process"
    assert reading.processes is not None
    assert [(p.card, p.pid, p.kind, p.name, p.used_mib) for p in reading.processes] == [
        (0, 3141, "C", "VLLM::EngineCore", 70380),
        (0, 3152, "C", "", None),
    ]


def test_a_failing_sensor_is_no_broken_card() -> None:
    text = _text("535-details-mig").replace(
        "Graphics                          : N/A", "Graphics                          : Unknown Error"
    )
    assert "Unknown Error" in text
    assert details.read(text).cards[0].faults == ()
    lost = text.replace("Unknown Error", "GPU is lost")
    assert details.read(lost).cards[0].faults == ("GPU is lost as Voltage / Graphics",)


def test_details_of_the_newest_head() -> None:
    text = (
        _text("580-details-broken")
        .replace("Driver Version  ", "KMD Version     ")
        .replace("CUDA Version    ", "CUDA UMD Version")
    )
    assert (details.read(text).driver, details.read(text).cuda) == ("580.95.05", "13.0")


def test_outputs_complete_each_other() -> None:
    reading = merge([_table("570-table-mig"), listing.read(_text("570-list-mig")), rows.read(_text("570-rows-mig"))])
    (card,) = reading.cards
    assert (reading.driver, reading.cuda) == ("570.148.08", "12.8")
    assert card.uuid == "GPU-295b72d2-e23d-baa4-1b87-88bc3b68fd08"
    assert [(s.profile, s.uuid, s.used_mib, s.total_mib) for s in card.slices] == [
        ("3g.40gb", "MIG-c1d3d074-7dc1-5e89-8a5f-6d0b08327092", 33107, 40192),
        ("2g.20gb", "MIG-84e0b369-ad9b-5b6f-a11f-74e7d7de0637", 71, 19968),
    ]


def test_whole_names_win_over_cut_ones() -> None:
    cut = _table("580-table-mig")
    whole = listing.read(
        "GPU 0: NVIDIA RTX PRO 6000 Blackwell Server Edition (UUID: GPU-1)\n  MIG 1g.24gb     Device  0: (UUID: MIG-2)\n"
    )
    card = merge([cut, whole]).cards[0]
    assert (card.name, card.cut) == ("NVIDIA RTX PRO 6000 Blackwell Server Edition", False)
    assert (card.slices[0].uuid, card.slices[0].total_mib) == ("MIG-2", 24192)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("No devices were found\n", "no-devices"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that\n",
            "driver-unreachable",
        ),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n", "version-mismatch"),
        ("Failed to initialize NVML: Unknown Error\n", "nvml-unknown"),
        ("Failed to initialize NVML: Insufficient Permissions\n", "permissions"),
        ("Failed to initialize NVML: Driver Not Loaded\n", "driver-not-loaded"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure\n", "library-missing"),
        ("Unable to determine the device handle for GPU 0000:01:00.0: Not Found\n", "device-lost"),
        (
            'exec failed: unable to start container process: exec: "nvidia-smi": executable file not found in $PATH',
            "program-missing",
        ),
        ("sh: 1: nvidia-smi: not found\n", "program-missing"),
    ],
)
def test_why_there_is_no_list(text: str, kind: str) -> None:
    for read in (table.read, listing.read, rows.read, details.read):
        reading = read(text)
        assert reading.cards == ()
        assert reading.failure is not None
        assert reading.failure.kind == kind


def test_no_known_words_are_no_failure() -> None:
    assert failure("hello\n") is None
    assert merge([table.read("hello"), listing.read("")]) == Reading()


def test_a_table_without_cards_says_that_there_is_none() -> None:
    text = "\n".join(line for line in _text("470-table-none").splitlines() if "T4" not in line and "MiB" not in line)
    reading = table.read(text)
    assert (reading.driver, reading.cards) == ("470.82.01", ())
    assert reading.failure is not None
    assert reading.failure.kind == "no-devices"


def test_a_failure_of_one_output_gives_way_to_cards_of_another() -> None:
    assert merge([table.read("Failed to initialize NVML: Unknown Error"), listing.read(_text("570-list-mig"))]).failure is None


@pytest.mark.parametrize("read", [table.read, listing.read, rows.read, details.read])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_text_breaks_a_reader(read: Callable[[str], Reading], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([file.read_text() for file in sorted(FILES.glob("*.txt"))]))
    lines = text.splitlines()
    kept = data.draw(st.lists(st.sampled_from(lines), max_size=40))
    cut = data.draw(st.integers(0, 90))
    noise = data.draw(st.text(max_size=30))
    merge([read("\n".join(kept)), read("\n".join(line[:cut] for line in lines)), read(text[: cut * 40] + noise)])
