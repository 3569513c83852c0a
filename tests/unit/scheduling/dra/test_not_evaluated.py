"""Selectors that cannot be evaluated here are said to be so; nothing is guessed."""

from __future__ import annotations

import pytest

from ragstow.errors import Reason
from ragstow.scheduling.dra import cel
from ragstow.scheduling.framework import FilterPlugin
from support_dra import DRIVER, pod, raw_claim, raw_class, raw_slice
from support_player import Player
from support_volumes import node

GPU = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


def play(expression: str) -> tuple[tuple[str, ...], tuple[Reason, ...]]:
    """Texts of the refusal and its explanation."""
    chosen = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}}
    player = Player([node("n0"), raw_class("gpu"), raw_slice("n0", ["gpu-0"]), raw_claim("c", chosen)])
    raw = pod("p", "c")
    texts = player.refusals(raw)["n0"]
    info, one = player.info(raw), player.world.nodes[0]
    status = player.framework.filter(player.state, info, one)
    assert status is not None
    plugin = next(item for item in player.framework.plugins if item.name == "DynamicResources")
    assert isinstance(plugin, FilterPlugin)
    return texts, plugin.explain(player.state, info, one, status)


@pytest.mark.usefixtures("with_cel")
def test_functions_that_are_not_carried() -> None:
    texts, reasons = play('isURL("https://example.com")')
    assert "not evaluated" in texts[0]
    assert [reason.code for reason in reasons] == ["cel-not-evaluated"]
    assert "supported: " in str(reasons[0].hint)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = Reason("cel-missing", "the library is not installed", "pip install it")

    def missing() -> None:
        raise cel.NotEvaluated(reason)

    monkeypatch.setattr(cel, "_module", missing)
    texts, reasons = play(f"device.driver == '{DRIVER}'")
    assert not cel.available()
    assert texts[0].endswith("not evaluated: the library is not installed")
    assert reasons == (Reason("cel-missing", "n0: the library is not installed", "pip install it"),)
