"""The lazy command group, and the one place where errors become words and exit codes.

A command is a module `ragstow.cli.<name>` with a click command called `command`; its one-line help stands in `COMMANDS`, so
that `ragstow --help` imports none of them. No work happens here.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from ragstow import __version__
from ragstow.errors import RagstowError

COMMANDS: dict[str, tuple[str, str]] = {
    "inspect": ("inspect", "which GPUs there are, how they are shared, who holds them, what is free"),
    "diagnose": ("diagnose", "what is wrong in a cluster or with a pod, and what to do"),
    "lint": ("lint", "GPU mistakes in manifests, alone or against a cluster"),
    "capture": ("capture", "save a live cluster, redacted, for --from"),
    "rbac": ("rbac", "the rights that the other commands need, as YAML"),
    "size": ("size", "GPU memory of each component, term by term"),
    "plan": ("plan", "sharing mode, card layout and placement of a service, with reasons"),
    "render": ("render", "Kubernetes manifests, node configuration and steps"),
    "apply": ("apply", "carry a plan out, step by step, after showing whom it disturbs; take it back"),
    "verify": ("verify", "prove in the cluster that a service got what was planned and works"),
    "simulate": ("simulate", "where every pod will land, on which card, and why not elsewhere"),
    "explain": ("explain", "what a rule, a sharing mode, a field of the spec or a term of a sum means"),
}
"""Command name -> (module below ragstow.cli, one line of help), in the order shown."""

EXAMPLES = """\b
Examples:
  ragstow inspect --from cluster/            which GPUs there are, who holds them, what is free
  ragstow plan service.yaml --from cluster/  sharing mode, card layout and placement, with reasons
  ragstow render service.yaml --from cluster/ --out out/
"""


class LazyGroup(click.Group):
    """A click group that imports a command's module only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"ragstow.cli.{COMMANDS[cmd_name][0]}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"ragstow.cli.{COMMANDS[cmd_name][0]}.command is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        if not COMMANDS:
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=EXAMPLES)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Puts RAG services on Kubernetes GPUs: sizes, chooses the sharing mode, lays out the cards, renders, checks."""


def program_name() -> str:
    """The name to show in usage texts: as a kubectl plugin it is `kubectl ragstow`."""
    return "kubectl ragstow" if os.path.basename(sys.argv[0]).startswith("kubectl-") else "ragstow"


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code (INTERFACE 1); never a traceback for bad input."""
    try:
        result = cli.main(arguments, prog_name=program_name(), standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except click.ClickException as error:
        error.show(sys.stderr)
        return 2
    except RagstowError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not our fault, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from ragstow.cli.crash import report

        click.echo(
            f"error: this is a bug in ragstow: {type(error).__name__}: {error}; report written to {report(error)}", err=True
        )
        return 70
