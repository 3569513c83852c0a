"""Sparse bug reports: a few objects each, never a traceback, always an answer that fits its own schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from ragstow.cli.main import run
from support import DATA, ROOT

CASES = sorted(path for path in (DATA / "cases").iterdir() if path.is_dir())
SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "inventory.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_every_report_gives_an_answer(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "wide"):
        assert run(["inspect", "--from", str(path), "-o", form]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        if form == "json":
            document = json.loads(captured.out)
            jsonschema.validate(document, SCHEMA)
            assert document["nodes"]
