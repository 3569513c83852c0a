"""The openb trace: 8,152 pods onto 1,213 GPU nodes under three profiles, against the recorded decisions."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragstow.cli.main import run
from ragstow.cluster.build import build
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Engine, Options
from recordings import RELEASES, Recording, lines
from support import SHARED, need

_ROOT = SHARED / "golden"
_FOLDER = _ROOT / "kube-scheduler-1.34.1" / "openb"
_PLACED = {"default": (7121, 7120), "most": (6851, 6868), "rtcr": (6798, 6840)}
"""Pods placed up to 1.35, and since 1.36."""

# All releases decide one of two ways; the others run where RAGSTOW_FULL is set.
_ALWAYS = {("1.37.2", "default"), ("1.34.1", "most"), ("1.37.2", "rtcr")}
_CASES = [
    pytest.param(
        release,
        profile,
        marks=()
        if (release, profile) in _ALWAYS
        else pytest.mark.skipif(not os.environ.get("RAGSTOW_FULL"), reason="RAGSTOW_FULL"),
    )
    for release in RELEASES
    for profile in _PLACED
]


@cache
def _cluster() -> Snapshot:
    raw = json.loads(gzip.decompress((_FOLDER / "snap8152.json.gz").read_bytes()))
    return build([*raw["nodes"], *raw["pods"]])


class _Trace(Recording):
    @property
    def file(self) -> str:
        return f"openb/rec_{self.profile}.jsonl"


@pytest.mark.parametrize(("release", "profile"), _CASES)
def test_as_recorded(release: str, profile: str) -> None:
    need("openb", _FOLDER.is_dir(), str(_FOLDER))
    policy = None if profile == "default" else yaml.safe_load((_FOLDER / f"{profile}.yaml").read_text())
    cluster = _cluster()
    options = Options(Release.parse(release), order="list", preemption=False, policy=policy)
    engine = Engine(cluster, cluster.pods, options)
    (cycle,), (framework,) = engine.cycles.values(), engine.frameworks.values()
    recorded = lines(_Trace("openb", release, profile), _ROOT)
    placed = 0
    for pod, line in zip(engine.arrivals, recorded, strict=True):
        decision = cycle.decide(pod, detail=line["i"] % 40 == 0)
        seen: dict[str, Any] = {"pod": pod.name, "host": decision.node or "", "i": line["i"]}
        seen.update(feasible=decision.feasible, evaluated=decision.evaluated, feasible_all=decision.feasible_seen)
        if decision.node is None:
            seen.update(reasons=dict(decision.reasons), err=decision.message)
        else:
            engine.place(pod, decision, framework)
            placed += 1
            seen["ties"] = decision.tie_count
            if decision.sample:
                seen.update(reasons=dict(decision.reasons), plugins=decision.scores_of(decision.node))
            if decision.total is not None:
                seen["score"] = decision.total
        assert seen == {key: value for key, value in line.items() if key in seen}
    assert placed == _PLACED[profile][Release.parse(release) >= Release.parse("1.36.0")]


def test_as_recorded_through_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("openb", _FOLDER.is_dir(), str(_FOLDER))
    raw = json.loads(gzip.decompress((_FOLDER / "snap8152.json.gz").read_bytes()))
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*raw["nodes"], *raw["pods"]]}))
    flags = ["--release", "1.37.2", "--order", "list", "--preemption", "off", "-o", "json"]
    assert run(["simulate", "-f", str(path), *flags]) == 1
    document = json.loads(capsys.readouterr().out)
    recorded = lines(_Trace("openb", "1.37.2", "default"), _ROOT)
    for pod, line in zip(document["pods"], recorded, strict=True):
        where = line["pod"]
        assert (pod["name"], pod["node"] or "") == (where, line["host"])
        assert (pod["feasible"], pod["evaluated"]) == (line["feasible"], line["evaluated"]), where
        if pod["node"] is None:
            assert pod["message"] == line["err"], where
            assert pod["reasons"] == line["reasons"], where
        elif "ties" in line:
            assert len(pod["ties"]) == line["ties"], where
    assert len(document["final"]) == _PLACED["default"][1]
    # What could not be placed has words and, up to a number of pods, the nearest node and who holds what it lacks.
    assert any(miss["node"] for miss in document["nearMisses"].values())
