"""Every command as every user of `ragstow rbac`: what works, what does not, and which rule is named then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from apply_support import differences, state
from ragstow.cli.main import run
from rig.cluster import Rig, gpu_cluster
from support import ROOT

SPEC = ROOT / "examples" / "k3s-two-cards-dra" / "service.yaml"
LIST, EXEC = 'verbs ["list"]', 'resources ["pods/exec"]'


@dataclass
class Applied:
    """A cluster with a service, and its plan."""

    rig: Rig
    plan: Path
    pod: Path
    other: Path
    """A plan that changes something."""


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applied]:
    folder = tmp_path_factory.mktemp("users")
    pod = folder / "pod.yaml"
    pod.write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}\n")
    with gpu_cluster(SPEC.parent / "cluster") as rig:
        capture = folder / "plan.json"
        capture.write_text(_planned(SPEC, rig))
        rig.uses_as_planned(json.loads(capture.read_text()))
        assert run(["apply", str(capture), "--yes", *rig.arguments("applier")]) == 0
        rig.settle()
        spec, other = folder / "other.yaml", folder / "other.json"
        spec.write_text(SPEC.read_text().replace("context: 4096", "context: 3072"))
        other.write_text(_planned(spec, rig))
        yield Applied(rig, capture, pod, other)


def _planned(spec: Path, rig: Rig) -> str:
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert run(["plan", str(spec), "-o", "json", *rig.arguments("reader")]) == 0
    return said.getvalue()


def words(command: str, applied: Applied, folder: Path) -> list[str]:
    """What is typed for a command."""
    return {
        "inspect": ["inspect"],
        "plan": ["plan", str(SPEC)],
        "render": ["render", str(SPEC), "--out", str(folder / "out")],
        "simulate": ["simulate", "-f", str(applied.pod)],
        "lint": ["lint", "-f", str(applied.pod), "--fail-on", "critical"],
        "diagnose": ["diagnose", "--exit-zero"],
        "capture": ["capture", "--out", str(folder / "saved")],
        "capture --logs": ["capture", "--out", str(folder / "saved"), "--logs"],
        "verify": ["verify", str(applied.plan), "--no-endpoints", "--no-logs"],
        "apply": ["apply", str(applied.plan), "--yes"],
        "apply --dry-run": ["apply", str(applied.plan), "--dry-run=server"],
        "apply other": ["apply", str(applied.other), "--yes"],
        "apply --undo": ["apply", "--undo", "-n", "rag", "notes", "--yes"],
    }[command]


READS = ("inspect", "plan", "render", "simulate", "lint", "diagnose", "capture", "capture --logs")
WRITES = {"apply other": 'verbs ["', "apply --undo": 'verbs ["'}
WORKS = {"reader": READS, "verifier": (*READS, "verify"), "applier": (*READS, "verify", "apply", "apply --dry-run")}
REFUSED = {
    "reader": {"verify": EXEC, **WRITES},
    "verifier": WRITES,
    "nobody": {**dict.fromkeys((*READS, "verify", "apply", "apply --dry-run"), LIST), **WRITES},
}


@pytest.mark.parametrize(("user", "command"), [(user, command) for user, commands in WORKS.items() for command in commands])
def test_what_a_user_may_do_works(
    user: str, command: str, applied: Applied, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(applied.rig.client)
    capsys.readouterr()
    code = run([*words(command, applied, tmp_path), *applied.rig.arguments(user)])
    told = capsys.readouterr()
    assert code == 0, told
    assert "warning" not in told.err
    assert differences(before, state(applied.rig.client)) == [], "nothing is written; applied again it is as it was"
    if command == "capture --logs":
        manifest = json.loads((tmp_path / "saved" / "capture.json").read_text())
        assert manifest["forbidden"] == []


@pytest.mark.parametrize(("user", "command"), [(user, command) for user, commands in REFUSED.items() for command in commands])
def test_what_a_user_may_not_do_names_the_rule(
    user: str, command: str, applied: Applied, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(applied.rig.client)
    capsys.readouterr()
    code = run([*words(command, applied, tmp_path), *applied.rig.arguments(user)])
    told = capsys.readouterr()
    text = told.err + told.out
    assert code == 3, text
    assert REFUSED[user][command] in text
    assert "ragstow rbac" in text
    assert "Traceback" not in text
    assert differences(before, state(applied.rig.client)) == []
    assert not (tmp_path / "saved").exists()


def test_logs_are_captured_redacted_and_their_missing_right_is_named(
    applied: Applied, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = applied.rig
    rig.says({"ragstow.dev/component": "llm"}, "ready\nlogin with hf_abcdefghijklmnop failed")
    assert run(["capture", "--out", str(tmp_path / "c"), "--logs", *rig.arguments("reader")]) == 0
    manifest = json.loads((tmp_path / "c" / "capture.json").read_text())
    logs = [path for path in manifest["logs"] if "/notes-llm" in path]
    assert len(logs) == 1
    text = (tmp_path / "c" / logs[0]).read_text()
    assert text.startswith("ready\n")
    assert "hf_" not in text

    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}]
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "lists"}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "lists"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "lists"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "lister"}],
    }
    for item in (role, binding):
        rig.plane.kubectl("apply", "-f", "-", stdin=json.dumps(item))
    capsys.readouterr()
    words = ["capture", "--out", str(tmp_path / "d"), "--logs", *rig.arguments("admin"), "--as", "lister"]
    assert run(words) == 1
    told = capsys.readouterr().err
    assert 'resources ["pods/log"], verbs ["get"]' in told
    assert told.count("warning: logs:") == 2, "once for each namespace with such pods, not for every pod"
