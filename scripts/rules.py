"""Write docs/rules.md from the rules' own pages: python scripts/rules.py (a test fails while it is not up to date)."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "rules.md"
sys.path.insert(0, str(ROOT / "src"))

HEAD = """# Rules

What `ragstow diagnose` and `ragstow lint` look for. Made by `scripts/rules.py` from the rules themselves;
`ragstow explain <rule>` shows the same page with examples that fire and examples that are quiet.

| rule | severity | diagnose | lint | finds |
|---|---|---|---|---|
"""


def text() -> str:
    """The whole page."""
    from ragstow.rules.markdown import markdown
    from ragstow.rules.registry import all_rules, names, page
    from ragstow.rules.rule import Rule

    rows = []
    for rule in all_rules():
        asked = ["x" if getattr(type(rule), verb) is not getattr(Rule, verb) else "" for verb in ("diagnose", "lint")]
        rows.append(f"| [{rule.id}](#{rule.id}) | {rule.severity} | {asked[0]} | {asked[1]} | {page(rule.id).summary} |")
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(markdown(name) for name in names())


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
