"""`explain` for rules and sharing modes."""

from __future__ import annotations

import json

import pytest

from ragstow.cli.main import run
from ragstow.rules.registry import names

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *arguments: str) -> str:
    assert run(["explain", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", names())
def test_every_rule_has_a_page(capsys: Capture, name: str) -> None:
    text = shown(capsys, name)
    assert text.startswith(f"{name}\n  finds: ")
    assert "  fires (" in text
    assert "  quiet (" in text
    assert json.loads(shown(capsys, name, "-o", "json"))["topic"] == "rules"


@pytest.mark.parametrize("mode", ["exclusive", "time-slicing", "mps", "mig", "dra"])
def test_every_mode_has_a_page(capsys: Capture, mode: str) -> None:
    page = json.loads(shown(capsys, mode, "-o", "json"))
    assert page["topic"] == "sharing"
    assert page["traps"]
    assert "isolation: " in shown(capsys, mode)


def test_without_a_term_every_rule_has_one_line(capsys: Capture) -> None:
    lines = shown(capsys).splitlines()
    for name in names():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert len(line.split()) > 4, line


def test_a_near_miss_is_named(capsys: Capture) -> None:
    assert run(["explain", "missing-tolerations"]) == 2
    assert "did you mean missing-toleration?" in capsys.readouterr().err
