"""What `apply` accepts: a plan, or a folder of `render` with edited objects; and what it refuses, with a way on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ragstow import facts
from ragstow.cli.applysource import Source, read_source
from ragstow.cli.main import run
from ragstow.errors import InputError, InputErrors, RagstowError
from ragstow.render import procedure
from ragstow.render.actions import ApplyObject
from support import ROOT

FACTS = facts.load()
H100 = ROOT / "examples" / "h100-operator"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A rendered folder of a plan that cuts a node."""
    target = tmp_path / "out"
    assert run(["render", str(H100 / "service.yaml"), "--from", str(H100 / "cluster"), "--out", str(target)]) == 0
    return target


def objects(source: Source) -> dict[tuple[str, str], dict[str, object]]:
    return {
        (action.manifest["kind"], action.manifest["metadata"]["name"]): action.manifest
        for action in source.procedure(FACTS).actions
        if isinstance(action, ApplyObject)
    }


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_folder_as_it_was_written_is_its_plan(out: Path) -> None:
    source = read_source(str(out), FACTS)
    assert source.edited == ()
    assert source.procedure(FACTS) == procedure(source.service, source.plan, FACTS)
    again = read_source(str(out / "plan.json"), FACTS)
    assert (again.plan, again.folder) == (source.plan, None)


def test_edited_objects_count(out: Path) -> None:
    edit(out / "workloads" / "gateway.yaml", "replicas: 2", "replicas: 3")
    edit(out / "nodes" / "mig-parted-config.yaml", "app.kubernetes.io/managed-by: ragstow", "app.kubernetes.io/managed-by: me")
    source = read_source(str(out), FACTS)
    assert source.edited == ("ConfigMap gpu-operator/ragstow-research-mig", "Deployment rag/research-gateway")
    made = objects(source)
    assert made["Deployment", "research-gateway"]["spec"]["replicas"] == 3  # type: ignore[index]
    labels = made["ConfigMap", "ragstow-research-mig"]["metadata"]["labels"]  # type: ignore[index]
    assert labels["app.kubernetes.io/managed-by"] == "me"


def test_objects_may_be_added_and_taken_out(out: Path) -> None:
    file = out / "workloads" / "kustomization.yaml"
    listed = yaml.safe_load(file.read_text())
    listed["resources"] = [name for name in listed["resources"] if name != "gateway.yaml"] + ["mine.yaml"]
    file.write_text(yaml.safe_dump(listed))
    mine = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "mine"}, "spec": {}}
    (out / "workloads" / "mine.yaml").write_text(yaml.safe_dump(mine))
    source = read_source(str(out), FACTS)
    assert "NetworkPolicy rag/mine" in source.edited
    assert "Deployment rag/research-gateway (taken out)" in source.edited
    made = objects(source)
    assert made["NetworkPolicy", "mine"]["metadata"]["namespace"] == "rag"  # type: ignore[index]
    assert ("Deployment", "research-gateway") not in made


def refusal(path: Path) -> str:
    with pytest.raises(RagstowError) as caught:
        read_source(str(path), FACTS)
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, InputError | InputErrors)
    return str(caught.value)


def drop(name: str) -> Callable[[Path], None]:
    return lambda out: (out / name).unlink()


def text(name: str, content: str) -> Callable[[Path], None]:
    def write(out: Path) -> None:
        (out / name).write_text(content)

    return write


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop(".ragstow.json"), "not made by `ragstow render --out`"),
        (text(".ragstow.json", '{"command": "capture"}'), "not made by `ragstow render --out`"),
        (text(".ragstow.json", "[]"), "not made by `ragstow render --out`"),
        (drop("plan.json"), "plan.json: cannot be read"),
        (text("plan.json", '{"kind": "Plan"}'), "feasible is missing"),
        (text("plan.json", "{}"), "this is no plan"),
        (text("nodes/clusterpolicy-mig-patch.yaml", "spec: {}\n"), "clusterpolicy-mig-patch.yaml: is not what this plan gives"),
        (drop("nodes/node-labels.yaml"), "node-labels.yaml: is missing"),
        (drop("nodes/mig-parted-config.yaml"), "mig-parted-config.yaml is listed and is no file"),
        (text("nodes/kustomization.yaml", "resources: []\n"), "needs ConfigMap gpu-operator/ragstow-research-mig"),
        (text("workloads/kustomization.yaml", "resources: []\npatches: []\n"), "it uses patches, which apply does not build"),
        (text("workloads/kustomization.yaml", "namePrefix: x\n"), "it uses namePrefix"),
        (text("workloads/kustomization.yaml", "a: [\n"), "kustomization.yaml"),
        (text("workloads/llm.yaml", "just words\n"), "llm.yaml: a document in it is no Kubernetes object"),
        (text("workloads/llm.yaml", "a: [\n"), "llm.yaml"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why(change: Callable[[Path], None], words: str, out: Path) -> None:
    change(out)
    assert words in refusal(out)


def test_other_things_are_no_plan(tmp_path: Path) -> None:
    service = tmp_path / "service.yaml"
    service.write_text((H100 / "service.yaml").read_text())
    assert "ragstow plan service.yaml -o json" in refusal(service)
    assert "cannot be read" in refusal(tmp_path / "none")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "not made by" in refusal(empty)


def test_a_plan_may_be_yaml(out: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(json.loads((out / "plan.json").read_text())))
    assert read_source(str(file), FACTS).plan == read_source(str(out), FACTS).plan
