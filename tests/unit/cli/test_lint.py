"""`lint` as people and pipelines use it: lines, formats, suppression, baseline, configuration file, stdin, folders."""

from __future__ import annotations

import io
import json
import sys
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ragstow.cli.main import run
from support import DATA, ROOT

SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "findings.schema.json").read_text(encoding="utf-8"))
SARIF = json.loads((DATA / "schemas" / "sarif-2.1.0-subset.schema.json").read_text(encoding="utf-8"))
Capture = pytest.CaptureFixture[str]
POD = """\
# a comment
apiVersion: v1
kind: Pod
metadata:
  name: llm-0
  namespace: rag
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.19.0
    args: [--tensor-parallel-size, "2"]
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
    resources:
      limits:
        nvidia.com/gpu: 1
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
"""
LINE = 14
"""Of `limits` in POD."""


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def written(name: str, text: str) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return name


def found(capsys: Capture, *arguments: str, code: int = 1) -> dict[str, Any]:
    assert run(["lint", *arguments, "-o", "json"]) == code
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(made, SCHEMA)
    return made


def places(made: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(item["file"], item["line"], item["rule"]) for item in made["findings"]]


def suppressed(rule: str, reason: str) -> str:
    return POD.replace("  namespace: rag\n", f"  namespace: rag\n  annotations: {{ignore.ragstow.dev/{rule}: {reason!r}}}\n")


def test_file_and_line(capsys: Capture) -> None:
    made = found(capsys, "-f", written("pod.yaml", POD))
    assert places(made) == [("pod.yaml", LINE, "tensor-parallel-mismatch")]
    assert made["source"] is None
    assert run(["lint", "-f", "pod.yaml"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 finding: 1 high in 1 object of 1 file"
    assert lines[1].startswith(f"pod.yaml:{LINE}: high: container vllm of Pod rag/llm-0 wants 2 GPUs")
    assert lines[1].endswith("[tensor-parallel-mismatch]")


def test_lists_and_many_documents_keep_their_lines(capsys: Capture) -> None:
    item = textwrap.indent(POD.replace("# a comment\n", ""), "  ")
    listed = "apiVersion: v1\nkind: List\nitems:\n" + "- " + item[2:]
    written("deploy/a.yaml", POD + "---\n" + POD.replace("llm-0", "llm-1"))
    written("deploy/sub/b.yml", listed)
    made = found(capsys, "-f", "deploy")
    count = len(POD.splitlines())
    assert [place[:2] for place in places(made)] == [
        ("deploy/a.yaml", LINE),
        ("deploy/a.yaml", count + 1 + LINE),
        ("deploy/sub/b.yml", LINE - 1 + 3),
    ]


def test_json_has_lines_too(capsys: Capture) -> None:
    import yaml

    made = found(capsys, "-f", written("pod.json", json.dumps(yaml.safe_load(POD), indent=2)))
    (file, line, _), text = places(made)[0], Path("pod.json").read_text(encoding="utf-8").splitlines()
    assert file == "pod.json"
    assert '"limits"' in text[line - 1]


def test_stdin(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert places(found(capsys, "-f", "-")) == [("-", LINE, "tensor-parallel-mismatch")]


def test_a_folder_goes_on_where_a_named_file_is_refused(capsys: Capture) -> None:
    written("chart/templates/x.yaml", "kind: Pod\n{{- if .Values.x }}\nmetadata: {}\n{{- end }}\n")
    written("chart/values.yaml", "replicas: 2\n")
    written("chart/pod.yaml", POD)
    assert len(found(capsys, "-f", "chart")["findings"]) == 1
    assert run(["lint", "-f", "chart"]) == 1
    assert "helm template" in capsys.readouterr().err
    assert run(["lint", "-f", "chart/templates/x.yaml"]) == 2
    assert "helm template" in capsys.readouterr().err
    assert run(["lint", "-f", "chart/values.yaml"]) == 2
    assert run(["lint", "-f", "nowhere"]) == 2
    assert run(["lint"]) == 2


def test_a_suppression_with_a_reason_counts(capsys: Capture) -> None:
    file = written("pod.yaml", suppressed("tensor-parallel-mismatch", "the second card comes from a wrapper"))
    assert found(capsys, "-f", file, code=0)["findings"] == []
    assert run(["lint", "-f", file]) == 0
    assert capsys.readouterr().out == "nothing found in 1 object of 1 file (1 suppressed)\n"
    assert run(["lint", "-f", file, "-o", "sarif"]) == 0
    made = json.loads(capsys.readouterr().out)
    jsonschema.validate(made, SARIF)
    (result,) = made["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "inSource", "justification": "the second card comes from a wrapper"}]


def test_a_suppression_on_the_pod_template_counts(capsys: Capture) -> None:
    template = textwrap.indent(POD[POD.index("spec:") :], "    ")
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llm, namespace: rag}\n"
    head += "spec:\n  strategy: {type: Recreate}\n  template:\n"
    note = "    metadata: {annotations: {ignore.ragstow.dev/tensor-parallel-mismatch: a wrapper}}\n"
    assert found(capsys, "-f", written("a.yaml", head + template))["findings"]
    assert found(capsys, "-f", written("b.yaml", head + note + template), code=0)["findings"] == []


@pytest.mark.parametrize(
    ("rule", "reason", "words"),
    [
        ("tensor-parallel-mismatch", "", "gives no reason"),
        ("tensor-paralel-mismatch", "why", "did you mean tensor-parallel-mismatch?"),
        ("shm-too-small", "why", "suppresses nothing"),
    ],
)
def test_a_useless_suppression_is_reported(capsys: Capture, rule: str, reason: str, words: str) -> None:
    made = found(capsys, "-f", written("pod.yaml", suppressed(rule, reason)))
    first, second = made["findings"]
    assert first["rule"] == "tensor-parallel-mismatch"
    assert second["rule"] == "useless-suppression"
    assert words in second["headline"]
    assert second["line"] == 7


def test_a_baseline_hides_old_findings_only(capsys: Capture) -> None:
    file = written("pod.yaml", POD)
    assert run(["lint", "-f", file, "--write-baseline", "old.yaml"]) == 0
    written("pod.yaml", "# moved\n\n" + POD)
    assert found(capsys, "-f", file, "--baseline", "old.yaml", code=0)["findings"] == []
    assert run(["lint", "-f", file, "--baseline", "old.yaml"]) == 0
    assert "1 in the baseline" in capsys.readouterr().out
    written("pod.yaml", POD + "---\n" + POD.replace("llm-0", "llm-1"))
    assert [item["objects"][0]["name"] for item in found(capsys, "-f", file, "--baseline", "old.yaml")["findings"]] == ["llm-1"]
    assert run(["lint", "-f", file, "--baseline", "pod.yaml"]) == 2
    assert run(["lint", "-f", file, "--baseline", "nowhere.yaml"]) == 2


def test_rules_are_chosen_and_left_out(capsys: Capture) -> None:
    file = written("pod.yaml", POD)
    assert found(capsys, "-f", file, "--ignore", "tensor-parallel-mismatch", code=0)["findings"] == []
    assert found(capsys, "-f", file, "--rule", "shm-too-small", code=0)["lookedAt"] == ["shm-too-small"]
    assert run(["lint", "-f", file, "--rule", "shm-to-small"]) == 2
    assert "did you mean shm-too-small?" in capsys.readouterr().err
    assert run(["lint", "-f", file, "--fail-on", "critical"]) == 0


def test_a_configuration_file(capsys: Capture) -> None:
    file = written("sub/pod.yaml", POD)
    head = "apiVersion: ragstow.dev/v1alpha1\nkind: Config\n"
    written("ragstow.yaml", head + "lint: {ignore: [tensor-parallel-mismatch]}\n")
    assert found(capsys, "-f", file, code=0)["findings"] == []
    written("ragstow.yaml", head + "lint: {failOn: critical}\n")
    assert len(found(capsys, "-f", file, code=0)["findings"]) == 1
    written("ragstow.yaml", head + "lint: {ignore: [tensor-paralel-mismatch], failon: low}\n")
    assert run(["lint", "-f", file]) == 2
    said = capsys.readouterr().err
    assert "did you mean tensor-parallel-mismatch?" in said
    assert "did you mean failOn?" in said
    written("ragstow.yaml", "apiVersion: ragstow.dev/v1alpha1\nkind: RagService\nmetadata: {name: x}\n")
    assert found(capsys, "-f", file)["findings"]


def test_sarif_and_junit(capsys: Capture) -> None:
    bad, good = written("deploy/bad pod.yaml", POD), written("deploy/good.yaml", POD.replace('"2"', '"1"'))
    assert run(["lint", "-f", "deploy", "-o", "sarif"]) == 1
    made = json.loads(capsys.readouterr().out)
    jsonschema.validate(made, SARIF)
    (result,) = made["runs"][0]["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "deploy/bad%20pod.yaml"}, "region": {"startLine": LINE}}
    rule = made["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["id"] == "tensor-parallel-mismatch"
    assert "**Why.**" in rule["help"]["markdown"]
    assert run(["lint", "-f", "deploy", "-o", "junit"]) == 1
    suites = ET.fromstring(capsys.readouterr().out)
    assert {suite.get("name"): suite.get("failures") for suite in suites} == {bad: "1", good: "0"}
    assert suites.get("tests") == "2"


def test_against_a_cluster(capsys: Capture) -> None:
    shared = str(next((DATA / "clusters").glob("04-time*.tar.gz")))
    text = POD.replace('"2"', '"1"').replace("nvidia.com/gpu: 1", "nvidia.com/gpu.shared: 2")
    made = found(capsys, "-f", written("pod.yaml", text), "--from", shared)
    assert made["source"]["kind"] == "archive"
    assert "sharing-request-gt-one" in {rule for _, _, rule in places(made)}


@pytest.mark.parametrize("folder", sorted((DATA / "render").iterdir()), ids=lambda path: path.name)
def test_what_render_writes_is_clean(capsys: Capture, folder: Path) -> None:
    assert found(capsys, "-f", str(folder), code=0)["findings"] == []
