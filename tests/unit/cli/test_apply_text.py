"""What `apply` shows a person and a script, from written data; no cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from ragstow.cli.applydocument import ended, shown
from ragstow.cli.applyplan import Rendered
from ragstow.cli.applyprogress import progress
from ragstow.cli.applytext import lines
from ragstow.cli.applyview import View, problems_of, secrets_needed
from ragstow.cli.main import run
from ragstow.cli.output import document
from ragstow.errors import TimeoutReached
from ragstow.live.apply import Step
from ragstow.live.failures import Owned
from ragstow.live.preview.model import FieldChange, ObjectPreview
from ragstow.plan.difference import Difference
from ragstow.plan.evictions import BudgetEffect, Evicted
from ragstow.render.actions import ApplyObject, Cordon, Procedure, WaitReady
from ragstow.render.impact import Affected, Closed, Impact, Restarted
from support import ROOT

EXAMPLES = ROOT / "examples"
SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "apply.schema.json").read_text(encoding="utf-8"))
Capture = pytest.CaptureFixture[str]

IMPACT = Impact(
    pods=(
        Evicted("a/moves", "n1", "Deployment a/m", own=False, outcome="moves", to="n2"),
        Evicted("a/returns", "n1", "StatefulSet a/r", own=False, outcome="returns", to="n1"),
        Evicted("a/waits", "n1", "Deployment a/w", own=False, outcome="waits", message="0/2 nodes are available"),
        Evicted("a/bare", "n1", "", own=False, outcome="lost"),
        Evicted("a/held", "n1", "Deployment a/h", own=False, outcome="blocked", message="PodDisruptionBudget h allows none"),
        Evicted("a/daemon", "n1", "DaemonSet a/d", own=False, outcome="stays"),
        Evicted("rag/mine", "n1", "Deployment rag/mine", own=True, outcome="moves", to="n2"),
    ),
    budgets=(
        BudgetEffect("a/h", "n1", ("a/held",), 0, "blocks"),
        BudgetEffect("a/m", "n1", ("a/moves", "a/other"), 1, "delays"),
        BudgetEffect("a/r", "n1", ("a/returns",), 1, "allows"),
    ),
    preempted=("b/low",),
    stopped_at="n1",
    daemon_sets=(Restarted("gpu/plugin", ("adds our configurations",), ("n1", "n2")),),
    nodes=(Closed("n1", ("evict the GPU pods of n1",), stays=True, at_most_seconds=600.0),),
    workloads=(Affected("Deployment rag/mine", "replaced", ("rag/mine",)), Affected("Deployment rag/new", "new", ())),
)
NOBODY = Impact((), (), (), None, (), (), ())
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "rag"}}
CHANGED = ObjectPreview(
    "v1", "ConfigMap", "rag", "c", "change", (FieldChange(".data.a", "1", "2"),),
    {"kind": "ConfigMap", "data": {"a": "1"}}, {"kind": "ConfigMap", "data": {"a": "2"}},
    (Owned(".data.a", "kubectl"),), ("this is old",),
)  # fmt: skip
VIEW = View(
    service="s",
    namespace="rag",
    cluster="prod",
    dry_run="",
    digest="d",
    replanned=True,
    resumed="",
    differences=(Difference("placement", "llm 0", "n1", "n2"),),
    rendered=(Rendered("Deployment rag/llm", "changed", (FieldChange(".spec.replicas", 1, 2),)),),
    edited=("ConfigMap rag/c",),
    impact=IMPACT,
    changes=(
        CHANGED,
        ObjectPreview("v1", "Service", "rag", "new", "create", after={"kind": "Service"}, note="tried in namespace default"),
        ObjectPreview("v1", "Service", "rag", "same", "same"),
        ObjectPreview("v1", "Service", "rag", "bad", "unknown", problem="it is invalid"),
        ObjectPreview("v1", "Node", "", "n1", "change", (FieldChange(".metadata.labels.a", None, "1"),), {}, {}),
    ),
    steps=(ApplyObject(MANIFEST), Cordon("n1")),
    problems=("ConfigMap rag/c: .data.a belongs to kubectl",),
    notes=("namespace rag is not there yet and will be made",),
)
WRITTEN = """\
s in namespace rag, cluster prod: objects: 1 new, 1 changed, 1 the same; nodes: 1 changed
 edited by hand: ConfigMap rag/c

 the cluster changed since the plan was made; planned again, and this differs
  llm 0: n1 -> n2
  Deployment rag/llm: changed: .spec.replicas

 who is disturbed
  node n1: takes no new pods while: evict the GPU pods of n1 (gives up after 10 min); it is closed now and
        stays so
  pod a/moves on n1: moves to n2 (Deployment a/m)
  pod a/returns on n1: waits until the node is back, then runs on n1 (StatefulSet a/r)
  pod a/waits on n1: finds no place any more and stays Pending (Deployment a/w): 0/2 nodes are available
  pod a/bare on n1: LOST: nothing makes it again
  pod a/held on n1: cannot be evicted (Deployment a/h): PodDisruptionBudget h allows none
  pod a/daemon on n1: stays: its controller puts it back on the node at once (DaemonSet a/d)
  pod rag/mine on n1: evicted; it is the service's own, whose new pods come last (Deployment rag/mine)
  pod b/low: pushed out by one of these with a higher priority
  budget a/h: BLOCKS: one of its pods leaves n1, 0 may go
  budget a/m: delays: 2 of its pods leave n1, 1 at a time
  budget a/r: lets go: one of its pods leaves n1
  DaemonSet gpu/plugin: restarts on n1, n2: adds our configurations; pods keep their GPUs
  Deployment rag/mine: its pods are replaced: rag/mine
  ! pods cannot leave n1: the run would wait there until it times out

 objects
  ~ ConfigMap rag/c
      .data.a belongs to field manager kubectl
      the server warns: this is old
      --- live/ConfigMap rag/c
      +++ applied/ConfigMap rag/c
      @@ -1,3 +1,3 @@
       kind: ConfigMap
       data:
      -  a: "1"
      +  a: "2"
  + Service rag/new  (tried in namespace default)
  ? Service rag/bad
      refused: it is invalid
  ~ Node n1
      .metadata.labels.a: (none) -> 1
  = 1 more as they are
 note: namespace rag is not there yet and will be made

 what is in the way
  - ConfigMap rag/c: .data.a belongs to kubectl
"""


def test_the_text_is_as_written() -> None:
    assert "\n".join(lines(VIEW, wide=False)) + "\n" == WRITTEN


def test_wide_adds_steps_new_objects_in_full_and_those_that_stay() -> None:
    told = "\n".join(lines(VIEW, wide=True))
    for text in ("  = Service rag/same", "      +kind: Service", " steps\n    1. apply ConfigMap rag/c\n    2. cordon n1"):
        assert text in told


def test_nothing_to_do_is_one_line() -> None:
    view = replace(
        VIEW,
        changes=(ObjectPreview("v1", "Service", "rag", "same", "same"),),
        steps=(ApplyObject(MANIFEST), WaitReady("apps/v1", "Deployment", "rag", "x", 1, 60)),
        edited=(),
        notes=(),
        problems=(),
    )
    assert list(lines(view, wide=False)) == ["s in namespace rag, cluster prod: nothing to do"]
    assert not replace(view, steps=(Cordon("n1"),)).nothing_to_do


def test_nobody_disturbed_is_said() -> None:
    assert "  no pod of anybody else loses a GPU" in list(lines(replace(VIEW, impact=NOBODY), wide=False))


def test_conflicts_and_refusals_are_in_the_way_unless_forced() -> None:
    assert problems_of(VIEW.changes, force_conflicts=True) == ["Service rag/bad: it is invalid"]
    assert problems_of((CHANGED,), force_conflicts=False) == [
        "ConfigMap rag/c: .data.a belongs to kubectl (--force-conflicts takes it over)"
    ]


def test_secrets_that_pods_wait_for_are_named_once_and_optional_ones_not() -> None:
    def variable(name: str, **more: Any) -> dict[str, Any]:
        return {"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": "k", **more}}}

    pod = {
        "containers": [
            {"name": "a", "env": [variable("token"), variable("maybe", optional=True), variable("token")]},
            {"name": "b", "envFrom": [{"secretRef": {"name": "all"}}, {"configMapRef": {"name": "no-secret"}}]},
        ],
        "volumes": [{"name": "v", "secret": {"secretName": "files"}}],
        "imagePullSecrets": [{"name": "registry"}],
    }
    manifest = {"kind": "Deployment", "metadata": {"name": "llm", "namespace": "rag"}, "spec": {"template": {"spec": pod}}}
    found = secrets_needed(Procedure("notes", "rag", "d", (ApplyObject(manifest), Cordon("gpu-1"))))
    assert [text.split()[1] for text in found] == ["rag/token", "rag/all", "rag/files", "rag/registry"]
    assert found[0].endswith("kubectl -n rag get secret token")


def test_the_document_keeps_its_schema() -> None:
    error = TimeoutReached("apply-timeout", "not after 3 s", hint="again")
    body = {**shown(VIEW), **ended("timed-out", error=error, notes=("a",))}
    made = json.loads(json.dumps(document("Apply", body)))
    jsonschema.validate(made, SCHEMA)
    assert made["impact"]["disturbed"] == [
        "a/moves", "a/returns", "a/waits", "a/bare", "a/held", "a/daemon", "b/low"
    ]  # fmt: skip
    assert made["changes"][0]["conflicts"] == [{"field": ".data.a", "manager": "kubectl"}]
    assert made["error"] == {"code": "apply-timeout", "message": "not after 3 s", "hint": "again"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**made, "state": "maybe"}, SCHEMA)


def test_progress_is_a_line_for_each_step_and_each_new_word_of_a_wait(capsys: Capture) -> None:
    with progress() as tell:
        tell(Step("start", 3, 12, "cordon n1"))
        tell(Step("done", 3, 12, "cordon n1"))
        tell(Step("start", 4, 12, "wait for n1"))
        tell(Step("wait", 4, 12, "wait for n1", "state is pending"))
        tell(Step("done", 4, 12, "wait for n1", "already so"))
        tell(Step("note", 4, 12, "wait for n1", "something"))
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "[ 3/12] cordon n1",
        "[ 4/12] wait for n1",
        "[ 4/12]   state is pending",
        "[ 4/12] wait for n1: already so",
        "note: something",
    ]


@pytest.mark.parametrize(
    ("service", "more", "words"),
    [
        ("h100-operator/service", [], "node gpu-h100-1: takes no new pods"),
        ("mixed-t4-a100/service", [], "no node changes"),
        ("cloud-l4-pool/service", [], "no node changes"),
        ("k3s-two-cards-dra/service", [], "+ ResourceClaim rag/"),
        ("k3s-two-cards/service-no-isolation", ["--assume", "ragbox=NVIDIA-GeForce-RTX-3090:2"], "~ Node ragbox"),
    ],
)
def test_every_example_on_its_saved_cluster(service: str, more: list[str], words: str, tmp_path: Any, capsys: Capture) -> None:
    cluster = str((EXAMPLES / service).parent / "cluster")
    out = str(tmp_path / "out")
    assert run(["render", str(EXAMPLES / f"{service}.yaml"), "--from", cluster, "--out", out, *more]) == 0
    capsys.readouterr()
    assert run(["apply", out, "--dry-run=client", "--from", cluster, *more]) == 0
    told = capsys.readouterr().out
    assert words in told
    assert "the cluster changed" not in told
    assert run(["apply", out, "--dry-run=client", "--from", cluster, "-o", "json", *more]) == 0
    made = json.loads(capsys.readouterr().out)
    jsonschema.validate(made, SCHEMA)
    assert (made["state"], made["problems"], made["impact"]["disturbed"]) == ("previewed", [], [])
