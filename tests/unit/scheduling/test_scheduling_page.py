"""The page about releases is made from the table of behaviours."""

from __future__ import annotations

import importlib.util

from support import ROOT


def test_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("scheduling_page", ROOT / "scripts" / "scheduling.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8") == module.text(), "run scripts/scheduling.py"
