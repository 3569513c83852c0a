"""Run the timed benchmarks named on the command line, or all of them: python -m benchmarks [NAME ...]."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

NAMES = ("startup", "scheduling", "devices", "diagnose", "live")


def main() -> int:
    """Run them in order; 1 where a bar was missed."""
    asked = sys.argv[1:] or list(NAMES)
    unknown = [name for name in asked if name not in NAMES]
    if unknown:
        sys.stderr.write(f"unknown: {', '.join(unknown)}; there are {', '.join(NAMES)}\n")
        return 2
    return max(int(importlib.import_module(f"benchmarks.{name}").run()) for name in asked)


if __name__ == "__main__":
    sys.exit(main())
