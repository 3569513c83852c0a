"""`ragstow apply` through the command line on a cluster that does what it is told: done, finished, taken back, refused."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from apply_support import state
from apply_world import NODE, SERVICE, World, pods, settle, world
from ragstow.cli.main import run
from ragstow.live import apply as engine
from ragstow.live.preview.fields import changes
from stack_player import playing
from support import ENVIRONMENT, ROOT

SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "apply.schema.json").read_text(encoding="utf-8"))
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One cluster for the module, its stack played."""
    with world(tmp_path_factory.mktemp("world")) as made, playing(made.stack):
        before: object = None
        while before != (now := state(made.admin)):  # the operator that is played has its say first
            before = now
            time.sleep(1)
            settle(made.plane)
        yield made


@pytest.fixture
def here(started: World, capsys: Capture) -> Iterator[World]:
    """The cluster, which every test leaves as it found it: what was applied is taken back, and nothing else stays."""
    before = state(started.admin)
    yield started
    started.stack.never, started.stack.fails = (), ()
    if engine.last(started.admin, "small", "rag") is not None:
        assert started.apply("--undo", "--yes") == 0
    settle(started.plane)
    capsys.readouterr()
    assert "\n".join(map(str, changes(before, state(started.admin)))) == ""


def answer(capsys: Capture) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    return document


def command(here: World, *flags: str) -> list[str]:
    return [sys.executable, "-m", "ragstow", "apply", str(here.plan), *here.flags("applier"), "--timeout", "60s", *flags]


def placed(here: World) -> dict[str, str]:
    """Component -> node, of the pods that run."""
    return {
        item["metadata"]["labels"]["ragstow.dev/component"]: item["spec"]["nodeName"]
        for item in pods(here.plane, "rag")
        if item["status"]["phase"] == "Running"
    }


def test_applied_as_planned_then_nothing_to_do_then_taken_back(here: World, capsys: Capture) -> None:
    assert here.apply("--yes", "-o", "json") == 0
    done = answer(capsys)
    assert (done["state"], done["record"], done["error"]) == ("applied", "rag/ragstow.small.1", None)
    assert placed(here) == {"embedder": NODE, "reranker": NODE, "gateway": NODE}
    assert here.node()["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] == "7"
    assert here.apply(user="applier") == 0  # without --yes: there is nothing to ask
    assert capsys.readouterr().out == "small in namespace rag, cluster applier: nothing to do\n"
    assert here.apply("-o", "json") == 0
    assert answer(capsys)["state"] == "nothing-to-do"
    assert here.apply("--dry-run=client", user="reader") == 0
    assert capsys.readouterr().out == "small in namespace rag, cluster reader: nothing to do\n"
    assert here.apply("--undo", "--dry-run=client", "-o", "json", source="small", user="reader") == 1  # in namespace default
    capsys.readouterr()
    assert here.apply("--undo", "--dry-run=client", "-o", "json", "-n", "rag", source="small", user="reader") == 0
    undone = answer(capsys)
    assert (undone["state"], undone["undoes"]["record"]) == ("previewed", "rag/ragstow.small.1")
    assert here.apply("--undo", "--yes", user="reader") == 3
    assert 'verbs ["create", "delete", "patch"]' in capsys.readouterr().err
    assert here.apply("--undo", "--yes", "-n", "rag", source="small") == 0
    assert "undone" in capsys.readouterr().out
    assert here.apply("--undo", "--yes", "-n", "rag", source="small") == 1
    assert "no record of a run of rag/small" in capsys.readouterr().err


def others(here: World, **budget: int) -> None:
    """Six pods of a Deployment with a budget, and a bare one: they hold seven of the eight cards."""
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"containers": [{"name": "c", "image": "registry.example/x:1", "resources": gpu}]}
    labels = {"app": "answers"}
    meta = {"name": "answers", "namespace": "others"}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "others"}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": 6,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": {**budget, "selector": {"matchLabels": labels}},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "others"}, "spec": spec},
    ]
    for item in objects:
        here.plane.kubectl("create", "-f", "-", stdin=json.dumps(item))
    here.plane.kubectl("-n", "others", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")


def test_the_pods_that_go_are_those_that_were_listed(here: World, capsys: Capture) -> None:
    others(here, maxUnavailable=6)
    try:
        assert here.apply("--yes") == 1  # not without --allow-disturb
        assert "now it does not fit" in capsys.readouterr().out
        assert here.apply("--allow-disturb", "--dry-run=server", "-o", "json") == 0
        shown = answer(capsys)
        assert shown["replanned"]
        ways = sorted((item["outcome"], item["to"] or "") for item in shown["impact"]["pods"])
        assert [way[0] for way in ways] == ["lost", *["returns"] * 6]
        assert [(item["budget"], item["verdict"]) for item in shown["impact"]["budgets"]] == [("others/answers", "allows")]
        before = {item["metadata"]["uid"]: item["metadata"]["name"] for item in pods(here.plane, "others")}
        assert here.apply("--allow-disturb", "--yes") == 0
        now = {item["metadata"]["uid"] for item in pods(here.plane, "others")}
        gone = {f"others/{name}" for uid, name in before.items() if uid not in now}
        assert gone == set(shown["impact"]["disturbed"])
        # They came back, so that taking it back disturbs them again, which must be agreed to.
        assert here.apply("--undo", "--yes") == 1
        assert "--allow-disturb" in capsys.readouterr().err
        assert here.apply("--undo", "--dry-run=client", "-o", "json", user="reader") == 0
        undone = answer(capsys)
        assert set(undone["impact"]["disturbed"]) == {
            f"others/{item['metadata']['name']}" for item in pods(here.plane, "others")
        }
        assert {(item["outcome"], item["to"]) for item in undone["impact"]["pods"]} == {("returns", NODE)}
        assert here.apply("--undo", "--yes", "--allow-disturb") == 0
    finally:
        here.plane.kubectl("delete", "namespace", "others", "--wait=true")


def test_a_budget_that_lets_nothing_go_is_foretold_and_ends_the_run(here: World, capsys: Capture) -> None:
    others(here, minAvailable=6)
    try:
        assert here.apply("--allow-disturb", "--dry-run=server", "-o", "json") == 0
        shown = answer(capsys)
        assert shown["impact"]["stoppedAt"] == NODE
        assert [(item["verdict"], item["allowed"]) for item in shown["impact"]["budgets"]] == [("blocks", 0)]
        before = {item["metadata"]["uid"] for item in pods(here.plane, "others") if item["metadata"]["name"] != "bare"}
        assert here.apply("--allow-disturb", "--yes", "--timeout", "8s") == 4
        assert "a disruption budget keeps others/answers-" in capsys.readouterr().err
        assert {item["metadata"]["uid"] for item in pods(here.plane, "others")} == before
        assert here.apply("--undo", "--yes") == 0
        assert not here.node()["spec"].get("unschedulable")
    finally:
        here.plane.kubectl("delete", "namespace", "others", "--wait=true")


def test_a_namespace_that_is_not_there_is_made_and_goes_with_the_undo(here: World, capsys: Capture) -> None:
    spec = {**SERVICE, "metadata": {"name": "small", "namespace": "fresh"}}
    plan = str(here.make_plan("fresh.json", spec))
    assert here.apply("--dry-run=server", source=plan) == 0
    told = capsys.readouterr().out
    assert "note: namespace fresh is not there yet and will be made" in told
    assert "+ Deployment fresh/small-gateway  (namespace fresh is not there yet: tried in namespace default)" in told
    assert here.apply("-n", "other", source=plan) == 2
    assert "-n other: the plan is for namespace fresh" in capsys.readouterr().err
    assert here.apply("--yes", source=plan) == 0
    assert {item["metadata"]["namespace"] for item in pods(here.plane, "fresh")} == {"fresh"}
    # Who may not see all that may be in it leaves it; the administrator takes it away.
    assert here.apply("--undo", "--yes", source=plan, user="admin") == 0
    here.plane.kubectl("wait", "--for=delete", "namespace/fresh", "--timeout=60s")


def test_ctrl_c_then_the_same_command_goes_on(here: World, capsys: Capture) -> None:
    other = here.make_plan("other.json", {**SERVICE, "spec": {"components": SERVICE["spec"]["components"][1:]}})  # type: ignore[index]
    stranger = here.make_plan("stranger.json", {**SERVICE, "metadata": {"name": "stranger", "namespace": "rag"}})
    here.stack.never = ("ragstow-small",)
    process = subprocess.Popen(
        command(here, "--yes"), env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "wait for the MIG manager" in line:
            break
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted at wait for the MIG manager" in told
    assert "--undo" in told
    # A plan of another description does not go on with it.
    assert here.apply("--yes", source=str(other)) == 1
    assert "was interrupted after" in capsys.readouterr().err
    # Another service is told why its node is closed.
    here.apply("--dry-run=client", source=str(stranger))
    assert "a run of rag/small has not come to its end" in (told := capsys.readouterr().err)
    assert "ragstow apply --resume -n rag small --" in told
    assert here.apply("--dry-run=server") == 0
    assert "goes on: the run of" in capsys.readouterr().out
    here.stack.never = ()
    here.stack.managed.clear()
    assert here.apply("--yes", "-o", "json") == 0
    done = answer(capsys)
    assert (done["state"], done["record"]) == ("applied", "rag/ragstow.small.1")
    assert placed(here)["embedder"] == NODE


def test_a_killed_run_is_finished_by_its_name(here: World, capsys: Capture) -> None:
    here.stack.never = ("ragstow-small",)
    process = subprocess.Popen(
        command(here, "--yes"), env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "wait for the MIG manager" in line:
            break
    process.kill()
    process.wait()
    process.stderr.close()
    # Its lease is still fresh, so another run is refused until it ends.
    assert here.apply("--resume", "--yes", "-n", "rag", source="small") == 1
    assert "holds the lease kube-system/ragstow-apply" in capsys.readouterr().err
    here.plane.kubectl("-n", "kube-system", "delete", "lease", "ragstow-apply")
    here.stack.never = ()
    here.stack.managed.clear()
    assert here.apply("--resume", "--yes", "-n", "rag", source="small") == 0
    assert "applied" in capsys.readouterr().out
    assert here.apply("--resume", "--yes", "-n", "rag", source="small") == 1
    assert "no run of rag/small was interrupted" in capsys.readouterr().err


def test_a_wait_that_takes_too_long_says_where_it_stands(here: World, capsys: Capture) -> None:
    here.stack.never = ("ragstow-small",)
    assert here.apply("--yes", "--timeout", "3s", "-o", "json") == 4
    told = capsys.readouterr()
    document = json.loads(told.out)
    jsonschema.validate(document, SCHEMA)
    assert document["state"] == "timed-out"
    assert "mig.config.state is pending" in document["error"]["message"]
    assert "--undo" in document["error"]["hint"]
    assert "mig.config.state is pending" in told.err
    assert here.node()["spec"]["unschedulable"] is True


def test_a_failed_cut_ends_with_one(here: World, capsys: Capture) -> None:
    here.stack.fails = ("ragstow-small",)
    assert here.apply("--yes") == 1
    assert "could not cut gpu-h100-1 into ragstow-small" in capsys.readouterr().err
    here.stack.fails = ()


def test_a_cluster_where_it_does_not_fit_any_more(here: World, capsys: Capture) -> None:
    here.plane.kubectl("cordon", NODE)
    try:
        assert here.apply("--yes") == 1
        told = capsys.readouterr().out
        assert "the cluster changed since the plan, and now it does not fit" in told
        assert "cordoned" in told
        assert here.apply("--yes", "-o", "json") == 1
        assert answer(capsys)["state"] == "infeasible"
    finally:
        here.plane.kubectl("uncordon", NODE)


def test_a_change_that_changes_nothing_is_said(here: World, capsys: Capture) -> None:
    here.plane.kubectl("label", "node", NODE, "nvidia.com/gpu.family=other", "--overwrite")
    try:
        assert here.apply("--dry-run=server", "-o", "json") == 0
        document = answer(capsys)
        assert (document["replanned"], document["differences"], document["rendered"]) == (True, [], [])
        assert here.apply("--dry-run=server") == 0
        assert "planned again, with the same answer" in capsys.readouterr().out
    finally:
        here.plane.kubectl("label", "node", NODE, "nvidia.com/gpu.family=hopper", "--overwrite")


def test_others_fields_are_named_and_taken_over_only_when_asked(here: World, capsys: Capture) -> None:
    assert here.apply("--yes") == 0
    here.plane.kubectl("-n", "rag", "scale", "deployment", "small-gateway", "--replicas=3")
    capsys.readouterr()
    assert here.apply("--yes") == 1
    told = capsys.readouterr().out
    assert "Deployment rag/small-gateway: .spec.replicas belongs to kubectl (--force-conflicts takes it over)" in told
    assert "+  replicas: 1" in told.replace("      ", "")
    assert here.apply("--yes", "--force-conflicts") == 0
    assert here.get("deployment", "-n", "rag", "small-gateway")["spec"]["replicas"] == 1
    assert here.apply("--undo", "--yes") == 0
    assert here.apply("--undo", "--yes") == 0


def test_an_edited_folder_is_what_is_applied(here: World, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    assert run(["render", str(here.plan), "--out", str(out)]) == 0
    file = out / "workloads" / "gateway.yaml"
    file.write_text(file.read_text().replace("replicas: 1", "replicas: 2"))
    assert here.apply("--dry-run=client", source=str(out)) == 0
    assert "edited by hand: Deployment rag/small-gateway" in capsys.readouterr().out
    assert here.apply("--yes", source=str(out)) == 0
    assert here.get("deployment", "-n", "rag", "small-gateway")["spec"]["replicas"] == 2
    capsys.readouterr()
    assert here.apply(source=str(out)) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_folder_edited_for_another_state_is_refused(here: World, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    assert run(["render", str(here.plan), "--out", str(out)]) == 0
    file = out / "workloads" / "gateway.yaml"
    file.write_text(file.read_text().replace("replicas: 1", "replicas: 2"))
    # A pod that holds one card keeps the node from being cut, and cards are left for whole ones.
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"containers": [{"name": "c", "image": "registry.example/x:1", "resources": limits}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "namespace": "default"}, "spec": spec}
    here.plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    here.plane.kubectl("wait", "--for=condition=Ready", "pod", "held", "--timeout=30s")
    try:
        assert here.apply("--yes", source=str(out)) == 2
        told = capsys.readouterr().err
        assert "the folder holds edited ones (Deployment rag/small-gateway)" in told
        assert "render again" in told
        assert here.apply("--dry-run=server") == 0
        told = capsys.readouterr().out
        assert "embedder: 2 x mig 1g.10gb (1 x nvidia.com/mig-1g.10gb) -> 2 x exclusive (1 x nvidia.com/gpu)" in told
        assert f"{NODE}: card 0: 7 x 1g.10gb; label ragstow.dev/pool=small -> nothing to change" in told
        assert "Deployment rag/small-embedder: changed:" in told
    finally:
        here.plane.kubectl("delete", "pod", "held", "--wait=true")


@pytest.mark.parametrize(("typed", "code"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_on_a_terminal_it_asks(here: World, typed: str, code: int) -> None:
    told, status = on_terminal(command(here), typed)
    assert status == code, told
    assert "carry out 23 steps on applier? [y/N]" in told
    if code:
        assert "nothing was done" in told
        assert engine.last(here.admin, "small", "rag") is None
    else:
        assert "applied: 14 steps changed something" in told


def test_who_wants_a_document_is_asked_with_open_eyes(here: World) -> None:
    told, status = on_terminal(command(here, "-o", "json"), "n\n")
    assert status == 1
    assert told.index("who is disturbed") < told.index("[y/N]") < told.index('"state": "declined"')


def on_terminal(words: list[str], typed: str) -> tuple[str, int]:
    """Run a command on a terminal, and type when it asks."""
    process, terminal = pty.fork()
    if process == 0:
        os.execve(words[0], words, {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "150"})
    told, end, answered = b"", time.monotonic() + 60, False
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                told += os.read(terminal, 65536)
            except OSError:
                break
        if not answered and b"[y/N]" in told:
            os.write(terminal, typed.encode())
            answered = True
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    return told.decode(errors="replace"), os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--undo", "--resume"], "--undo takes a run back, --resume finishes it"),
        (["--delete-claims"], "add --undo"),
        (["--from", "x"], "a saved cluster can only be looked at"),
        (["--timeout", "soon"], "soon is no duration"),
        (["--timeout", "0"], "more than 0"),
        (["--dry-run=maybe"], "'maybe' is not one of"),
    ],
)
def test_flags_that_do_not_go_together(flags: list[str], words: str, capsys: Capture) -> None:
    assert run(["apply", "plan.json", *flags]) == 2
    assert words in capsys.readouterr().err


def test_a_service_that_is_named_needs_undo_or_resume(here: World, capsys: Capture) -> None:
    assert here.apply(source="small") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_yaml_holds_the_same_document(here: World, capsys: Capture) -> None:
    assert here.apply("--dry-run=client", "-o", "yaml") == 0
    document = yaml.safe_load(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    assert document["state"] == "previewed"
