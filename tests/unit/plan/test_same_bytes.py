"""The same input gives the same bytes, whatever the hash seed and the order of files."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support import ROOT

EXAMPLES = (
    ("h100-operator/service.yaml", ()),
    ("mixed-t4-a100/service.yaml", ()),
    ("k3s-two-cards/service.yaml", ("--assume", "ragbox=NVIDIA-GeForce-RTX-3090:2")),
)


def printed(service: str, more: tuple[str, ...], form: str, seed: str) -> bytes:
    path = ROOT / "examples" / service
    arguments = [sys.executable, "-m", "ragstow", "plan", str(path), "--from", str(path.parent / "cluster"), "-o", form, *more]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(arguments, env=environment, capture_output=True, check=False).stdout


@pytest.mark.parametrize(("service", "more"), EXAMPLES)
@pytest.mark.parametrize("form", ["json", "wide"])
def test_hash_seeds_do_not_matter(service: str, more: tuple[str, ...], form: str) -> None:
    first, second = (printed(service, more, form, seed) for seed in ("1", "4711"))
    assert first
    assert first == second
