"""What is rendered for the bundled examples is taken by server-side apply of a real API server, without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane_support import ControlPlane
from ragstow.cli.main import run
from support import ROOT

EXAMPLES = ROOT / "examples"
ASSUMED = {"k3s-two-cards": ["--assume", "ragbox=NVIDIA-GeForce-RTX-3090:2"]}
REFUSED = {"all-cards-taken/service", "k3s-two-cards/service", "no-gpu/service"}
"""Services that do not fit their cluster; the others are all rendered."""
SERVICES = sorted(path for path in EXAMPLES.glob("*/service*.yaml") if f"{path.parent.name}/{path.stem}" not in REFUSED)


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_warning_from_server_side_apply(service: Path, plane: ControlPlane, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assumed = ASSUMED.get(service.parent.name, [])
    assert run(["render", str(service), "--from", str(service.parent / "cluster"), "--out", str(out), *assumed]) == 0
    for part in ("nodes", "workloads"):
        if not (out / part / "kustomization.yaml").exists():
            continue
        text = plane.kubectl("kustomize", str(out / part))
        for namespace in sorted({line.split(":")[1].strip() for line in text.splitlines() if line.startswith("  namespace:")}):
            plane.kubectl("apply", "-f", "-", stdin=f'{{apiVersion: v1, kind: Namespace, metadata: {{name: "{namespace}"}}}}')
        plane.kubectl("apply", "--server-side", "--field-manager=ragstow", "--warnings-as-errors", "-k", str(out / part))
