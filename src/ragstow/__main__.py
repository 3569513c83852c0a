"""Entry points: `ragstow`, `kubectl ragstow` and its completion. Imports nothing heavy before a command is known."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from ragstow.cli.main import run

    sys.exit(run(sys.argv[1:]))


def complete() -> None:
    """Complete for `kubectl ragstow`: kubectl calls kubectl_complete-ragstow with the words typed so far."""
    from ragstow.cli.completion import complete_for_kubectl

    sys.exit(complete_for_kubectl(sys.argv[1:]))


if __name__ == "__main__":
    main()
