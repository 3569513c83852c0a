"""Write the schemas that are made from code: python scripts/schemas.py (a test fails while they are not up to date)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))


def texts() -> dict[str, str]:
    """File name -> content."""
    import yaml

    from ragstow.spec.schema import PLURAL, crd, json_schema

    def dumped(value: Any) -> str:
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)

    return {
        "ragservice.schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
        f"{PLURAL}.crd.yaml": dumped(crd()),
    }


def main() -> None:
    """Write them."""
    for name, text in texts().items():
        (ROOT / "src" / "ragstow" / "schemas" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
