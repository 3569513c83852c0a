"""docs/rules.md is what the rules say."""

from __future__ import annotations

import importlib.util

from support import ROOT


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("rules_page", ROOT / "scripts" / "rules.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == module.text(), "run scripts/rules.py"
