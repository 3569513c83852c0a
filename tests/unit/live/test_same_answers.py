"""Every recorded cluster, loaded into a real API server: live, capture and recording give the same answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster_loader import load_cluster
from controlplane_support import control_plane, need_controlplane
from ragstow.cli.main import run
from ragstow.cluster.read import read
from ragstow.live.client import ApiClient
from ragstow.live.kubeconfig import Choice, access
from ragstow.live.transport import Transport
from support import DATA

RECORDED = sorted([*(DATA / "clusters").glob("*.tar.gz"), *(DATA / "clusters-broken").glob("*.tar.gz")])
NOW = "2027-01-01T00:00:00Z"
ASKED = (["inspect"], ["diagnose", "--now", NOW, "--exit-zero", "--no-probes"], ["simulate"])


@pytest.mark.parametrize("archive", RECORDED, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_live_capture_and_recording_agree(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_controlplane(own=True)
    with control_plane() as plane:
        client = ApiClient(Transport(access(Choice(kubeconfig=str(plane.kubeconfig)), {})))
        load_cluster(client, read(str(archive)))
        client.close()
        live = ["--kubeconfig", str(plane.kubeconfig)]
        assert run(["capture", "--out", str(tmp_path / "c"), *live]) == 0
        answers = {tuple(words): _answer(words, live, capsys) for words in ASKED}
    for words in ASKED:
        code, answer = answers[tuple(words)]
        assert (code, answer) == _answer(words, ["--from", str(tmp_path / "c")], capsys), "the capture"
        recorded_code, recorded = _answer(words, ["--from", str(archive)], capsys)
        assert (code, _timeless(answer)) == (recorded_code, _timeless(recorded)), "the recording"


def _answer(words: list[str], cluster: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    capsys.readouterr()
    code = run([*words, *cluster, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    del answer["source"]
    return code, answer


def _timeless(value: Any) -> Any:
    """Without what follows from the time of creation, which an API server decides itself."""
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key != "changed"}
    return [_timeless(item) for item in value] if isinstance(value, list) else value
