"""The page about facts lists every file, and its example works."""

from __future__ import annotations

import re
from pathlib import Path

from ragstow import facts
from ragstow.facts.store import Facts
from support import ROOT

PAGE = (ROOT / "docs" / "facts.md").read_text(encoding="utf-8")


def test_every_file_is_on_the_page() -> None:
    listed = {
        name for line in PAGE.splitlines() if line.startswith("| `") for name in re.findall(r"`([a-z_]+\.(?:csv|yaml))`", line)
    }
    assert listed == {table.file for table in Facts.TABLES}


def test_the_card_of_the_page_can_be_laid_over(tmp_path: Path) -> None:
    block = re.search(r"```csv\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    (tmp_path / "gpus.csv").write_text(block[1], encoding="utf-8")
    known = facts.load(tmp_path)
    known.check()
    found = known.gpus.find("NVIDIA-X100-SHARED")
    assert found is not None
    assert found.memory_mib == 15360
