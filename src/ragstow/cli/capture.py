"""`ragstow capture`: saves of a live cluster what the other commands need, redacted."""

from __future__ import annotations

from pathlib import Path

import click

from ragstow.cli.live import live_options

EXAMPLES = """\b
Examples:
  ragstow capture --out cluster/                    then: ragstow diagnose --from cluster/
  ragstow capture --out cluster/ --logs             with logs of GPU pods and of the GPU stack
  ragstow capture --context prod --as alice --out c/
"""


@click.command(epilog=EXAMPLES)
@live_options
@click.option("--out", required=True, type=click.Path(file_okay=False), metavar="DIR", help="Folder to write.")
@click.option("--force", is_flag=True, help="Write to a folder that is not empty and was not made by ragstow.")
@click.option("--logs", "with_logs", is_flag=True, help="Also logs of pods that use GPUs and of the GPU stack.")
def command(out: str, force: bool, with_logs: bool) -> int:
    """Saves a live cluster as plain kubectl JSON, so that every command answers from it as it would live.

    Secrets are never read. Values of environment variables, annotations, arguments and ConfigMaps stay in the cluster unless a
    rule reads them; what was left out shows as (redacted). capture.json says what was read and what was forbidden. Exit code 1:
    something could not be read.
    """
    from ragstow.cli import live
    from ragstow.cli.cluster import warn
    from ragstow.cli.folder import refuse, write_folder
    from ragstow.cli.output import note

    refuse(Path(out), force=force)
    with live.connected() as client:
        from ragstow.live import capture
        from ragstow.live.read import read

        found = read(client)
        texts: dict[str, str] = {}
        missing: list[str] = []
        if with_logs:
            from ragstow.facts import load

            texts, missing = capture.logs(client, found.snapshot(), load(None).stack)
    files = capture.files(found, texts)
    write_folder(Path(out), files, command="capture", force=force)
    warn(found.problems)
    for line in missing:
        note(f"warning: {line}")
    counted = {item.wanted.plural: len(item.objects) for item in found.listings if item.objects}
    total = sum(counted.values())
    said = f"{total} objects, {counted.get('nodes', 0)} nodes, {counted.get('pods', 0)} pods"
    click.echo(f"wrote {len(files)} files to {out}: {said}" + (f", {len(texts)} logs" if with_logs else ""))
    return 1 if found.problems or missing else 0
