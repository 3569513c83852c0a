"""The start-up contract: help, version and completion load nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import ENVIRONMENT, ROOT

HEAVY = ("numpy", "pydantic", "highspy", "rich", "httpx2", "asyncio", "importlib.metadata", "yaml", "msgspec", "jinja2")
CHECK = """
import sys
before = set(sys.modules)
from ragstow.cli.main import run
code = run({arguments!r})
sys.stderr.write(" ".join(name for name in {heavy!r} if name in set(sys.modules) - before))
sys.exit(code)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    code = CHECK.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert not set(done.stderr.split()) & set(HEAVY)
    assert "ragstow" in done.stdout + done.stderr


def test_help_shows_examples_and_every_command() -> None:
    from ragstow.cli.main import COMMANDS

    done = subprocess.run(
        [sys.executable, "-m", "ragstow", "--help"], capture_output=True, text=True, timeout=60, env=ENVIRONMENT
    )
    assert done.returncode == 0
    assert "ragstow inspect --from" in done.stdout
    for name, (_, words) in COMMANDS.items():
        assert f"  {name} " in done.stdout, name
        assert words.split()[0] in done.stdout


def test_the_version_is_that_of_the_project() -> None:
    import tomllib

    from ragstow import __version__

    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == __version__
