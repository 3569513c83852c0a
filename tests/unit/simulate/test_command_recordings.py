"""Some recordings of every family through the command: what it prints as JSON is what the original decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragstow.cli.main import run
from ragstow.scheduling.registry import FACTORIES
from recordings import Line, Recording, lines, policy, snapshot

_CASES = (
    Recording("mix01", "1.34.1"),
    Recording("mix03", "1.37.2"),
    Recording("mix02", "1.33.13"),
    Recording("preempt03", "1.37.2"),
    Recording("preempt07", "1.34.1"),
    Recording("pdb04", "1.36.3"),
    Recording("gpu01", "1.37.2", "default"),
    Recording("gpu02", "1.35.4", "most"),
    Recording("gpu03", "1.37.2", "rtcr"),
    Recording("edge01", "1.37.2"),
    Recording("edge04", "1.34.4"),
    Recording("vol01", "1.37.2"),
    Recording("vol04", "1.33.13"),
    Recording("dra01", "1.37.2", "default"),
    Recording("dra03", "1.36.3", "most"),
    Recording("samp02", "1.37.2"),
)


def command(recording: Recording, folder: Path, how: str) -> list[str]:
    cluster = snapshot(recording.name)
    items = [dict(item.raw) for table in cluster.objects.values() for item in table.values()]
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    arguments = ["simulate", how, str(path), "--release", recording.release, "--order", "list", "--scores", "-o", "json"]
    arguments += ["--preemption", "on" if recording.family in ("preempt", "pdb") else "off"]
    arguments += ["--sampling", "adaptive" if recording.family == "samp" else "all"]
    configured = policy(recording.family, recording.profile)
    if configured is not None:
        chosen = folder / "policy.yaml"
        chosen.write_text(yaml.safe_dump(configured))
        arguments += ["--policy", str(chosen)]
    return arguments


@pytest.mark.parametrize("how", ["-f", "--from"])
@pytest.mark.parametrize("recording", _CASES, ids=str)
def test_as_recorded(recording: Recording, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = lines(recording)
    code = run(command(recording, tmp_path, how))
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "Simulation"
    first = {pod["name"]: pod for pod in document["pods"] if pod["attempt"] in (0, 1)}
    assert code == (0 if document["ok"] else 1)
    assert len(recorded) <= len(first)
    assert [pod["name"] for pod in document["pods"] if pod["attempt"] == 1][: len(recorded)] == [
        line["pod"] for line in recorded
    ]
    for line in recorded:
        compare(recording, line, first[line["pod"]], document["final"])


def compare(recording: Recording, line: Line, pod: dict[str, Any], final: dict[str, str]) -> None:
    where = f"{recording} {line['pod']}"
    sampled = recording.family == "samp"
    assert (pod["node"] or "") == line["host"], where
    if line["host"]:
        assert final[f"{pod['namespace']}/{pod['name']}"] == line["host"], where
    assert pod["preenqueue"] == line.get("preenqueue"), where
    if "feasible" not in line:
        return
    assert pod["feasible"] == line["feasible"], where
    assert pod["evaluated"] == line["evaluated"], where
    assert (pod["nominatedNode"] or "") == line.get("nominated", ""), where
    assert [key.partition("/")[2] for key in pod["victims"]] == (line.get("victims") or []), where
    assert pod["prefilter"] == line.get("prefilter"), where
    if not sampled:
        assert pod["reasons"] == line.get("reasons", {}), where
        found = {node: f"{said['plugin']}:{said['status']}" for node, said in pod["rejected"].items()}
        assert found == line.get("rejected_by", {}), where
    if "err" in line:
        word, _, added = line.get("postfilter", "").partition(" ")
        expected = f"{line['err']} {added}" if word and added else line["err"]
        errors = [node for node, said in line.get("rejected_by", {}).items() if said.endswith(":Error")]
        if errors:  # one such node's text; any is right
            assert pod["message"] in {text for node in errors for text in pod["rejected"][node]["reasons"]}, where
        else:
            assert pod["message"] == expected, where
    if "scores" in line and not sampled:
        for row in line["scores"].values():
            for plugin in ("DynamicResources", "VolumeBinding"):
                if plugin not in FACTORIES:
                    row.pop(plugin, None)
        assert pod["scores"] == line["scores"], where
        assert pod["score"] == line["score"], where
    if "ties" in line:
        assert len(pod["ties"]) == line["ties"], where
    if "devices" in line:
        assert pod["devices"] == line["devices"], where
    extended = {name: line[f"extended_{name}"] for name in ("requests", "mappings") if f"extended_{name}" in line}
    assert pod["extendedResourceClaim"] == (extended or None), where
    if "volumes" in line:
        assert pod["volumes"] == line["volumes"], where
