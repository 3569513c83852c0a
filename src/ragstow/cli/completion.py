"""Shell completion: click's own for `ragstow`, and the protocol of kubectl plugins.

kubectl runs `kubectl_complete-ragstow` with the words typed so far (the last may be empty) and reads one choice a line; a
last line `:4` tells it not to fall back to file names (cobra's ShellCompDirectiveNoFileComp).
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete

from ragstow.cli.main import cli


def choices(words: list[str]) -> list[str]:
    """The completions for the last of `words`."""
    complete = ShellComplete(cli, {}, "ragstow", "_RAGSTOW_COMPLETE")
    *before, last = words or [""]
    return [item.value for item in complete.get_completions(before, last) if item.type == "plain"]


def complete_for_kubectl(words: list[str]) -> int:
    """Print the choices as kubectl wants them."""
    for choice in choices(words):
        click.echo(choice, file=sys.stdout)
    click.echo(":4" if choices(words) else ":0", file=sys.stdout)
    return 0
