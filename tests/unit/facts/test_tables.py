"""Every facts file: it loads, each row has source and date, and what a user may get wrong is named with file and line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragstow import facts
from ragstow.errors import FactsError, InputError
from ragstow.facts.store import Facts
from ragstow.facts.table import DATA, Table, read
from support import ROOT


@pytest.mark.parametrize("table", Facts.TABLES, ids=lambda table: table.file)
def test_our_file_holds_its_schema_and_every_row_says_where_it_comes_from(table: Table[Any]) -> None:
    rows = read(table)
    assert rows
    for row in rows:
        assert row.source
        assert row.checked


def test_every_data_file_is_a_table() -> None:
    assert sorted(path.name for path in DATA.iterdir()) == sorted(table.file for table in Facts.TABLES)


def test_tables_are_read_when_first_used_and_once() -> None:
    known = facts.load()
    assert known.gpus is known.gpus


GPU_HEADER = (
    "product,kind,name,architecture,family,compute_capability,nominal_mib,label_confidence,mps,source,checked,memory_mib\n"
)
GPU_ROW = "Acme-X1,card,Acme X1,Ampere,ampere,8.6,16384,seen,yes,our lab,2026-11-30,15360\n"


def test_a_users_row_is_added_and_one_with_the_same_key_replaces_ours(tmp_path: Path) -> None:
    (tmp_path / "gpus.csv").write_text(GPU_HEADER + GPU_ROW + GPU_ROW.replace("Acme-X1", "NVIDIA-L4"))
    known = facts.load(tmp_path)
    ours = facts.load()
    added, replaced = known.gpus.find("Acme-X1"), known.gpus.find("NVIDIA-L4")
    assert added is not None
    assert added.memory_mib == 15360
    assert replaced is not None
    assert replaced.memory_mib == 15360
    assert [row.product for row in known.gpus.rows] == [*(row.product for row in ours.gpus.rows), "Acme-X1"]


def test_a_yaml_row_may_say_its_own_source(tmp_path: Path) -> None:
    (tmp_path / "clouds.yaml").write_text(
        "source: us\nchecked: 2026-11-30\nrows:\n- {cloud: ours, name: Ours, node_labels: [a/b]}\n"
        "- {cloud: x, name: X, source: other}\n"
    )
    clouds = facts.load(tmp_path).clouds
    ours = clouds.of_node({"a/b": ""})
    assert ours is not None
    assert (ours.name, ours.source) == ("Ours", "us")
    assert [row.source for row in clouds.rows][-1] == "other"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("gpus.csv", GPU_HEADER + GPU_ROW.replace("16384", "lots"), ["gpus.csv:2", "nominal_mib", "lots"]),
        ("gpus.csv", GPU_HEADER + GPU_ROW.replace("8.6", "eight"), ["gpus.csv:2", "compute_capability"]),
        ("gpus.csv", GPU_HEADER + GPU_ROW.replace("our lab", ""), ["gpus.csv:2", "source is missing"]),
        ("gpus.csv", GPU_HEADER.replace("memory_mib", "memory_mb") + GPU_ROW, ["'memory_mb'", "did you mean 'memory_mib'"]),
        ("gpus.csv", GPU_HEADER + GPU_ROW + GPU_ROW, ["gpus.csv:3", "twice"]),
        ("gpus.csv", GPU_HEADER + "Acme-X1,card\n", ["gpus.csv:2", "2 cells"]),
        ("gpus.csv", GPU_HEADER + GPU_ROW.replace("15360", "99999"), ["gpus.csv:2", "more than the nominal"]),
        ("clouds.yaml", "rows:\n- {cloud: a, name: A}\n", ["clouds.yaml:2", "source is missing", "checked is missing"]),
        (
            "clouds.yaml",
            (
                "source: s\nchecked: 2026-11-30\nrows:\n- cloud: a\n  name: A\n  taints:\n"
                "  - key: k\n    value: v\n    effect: 3\n"
            ),
            ["clouds.yaml:9", "taints[0].effect"],
        ),
        (
            "clouds.yaml",
            "source: s\nchecked: 2026-11-30\nrows:\n- cloud: a\n  name: A\n  taints:\n  - {key: k, value: v, efect: e}\n",
            ["clouds.yaml:7", "'efect'", "did you mean 'effect'"],
        ),
        ("clouds.yaml", "source: s\nchecked: today\nrows:\n- {cloud: a, name: A}\n", ["checked", "today"]),
        ("clouds.yaml", "rows: 3\n", ["rows must be a list"]),
        ("clouds.yaml", "- a\n", ["expected one mapping"]),
        ("clouds.yaml", "a: [\n", ["clouds.yaml", "not valid YAML"]),
        ("clouds.yaml", "source: s\nchecked: 2026-11-30\nsurce: x\nrows: [3]\n", ["clouds.yaml:3", "clouds.yaml:4", "mapping"]),
    ],
)
def test_a_broken_user_file_is_named_with_line_and_every_fault(tmp_path: Path, file: str, text: str, said: list[str]) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(FactsError) as caught:
        facts.load(tmp_path).check()
    for words in said:
        assert words in str(caught.value)


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    rows = GPU_ROW.replace("16384", "lots").replace("8.6", "x") + GPU_ROW.replace("Acme-X1", "Acme-X2").replace("seen", "maybe")
    (tmp_path / "gpus.csv").write_text(GPU_HEADER.replace("memory_mib", "memory_mb") + rows)
    with pytest.raises(FactsError, match="5 faults") as caught:
        facts.load(tmp_path).check()
    assert str(caught.value).count("gpus.csv:2") == 3
    assert str(caught.value).count("gpus.csv:3") == 2


def test_a_folder_that_is_not_there_or_a_file_of_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        facts.load(tmp_path / "absent")
    (tmp_path / "gpu.csv").write_text("")
    with pytest.raises(FactsError, match="no facts file has this name"):
        facts.load(tmp_path)


def test_loading_the_cards_and_their_mig_geometry_is_quick() -> None:
    code = (
        "import time; from ragstow import facts; start = time.process_time(); known = facts.load(); known.gpus; known.mig; "
        "print((time.process_time() - start) * 1000)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout)
        for _ in range(3)
    ]
    assert min(runs) < 30
