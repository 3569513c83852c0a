"""`ragstow apply --dry-run` of every bundled example on a real API server that holds its cluster, as each kind of user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from apply_support import client_of
from cluster_loader import load_cluster
from controlplane_support import ControlPlane, control_plane, need_controlplane
from ragstow.cli.main import run
from ragstow.cluster.read import read
from ragstow.live import rbac
from support import ROOT

EXAMPLES = ROOT / "examples"
SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "apply.schema.json").read_text(encoding="utf-8"))
RAGBOX = ["--assume", "ragbox=NVIDIA-GeForce-RTX-3090:2"]
SERVICES = {
    "h100-operator/service": [],
    "mixed-t4-a100/service": [],
    "cloud-l4-pool/service": [],
    "k3s-two-cards-dra/service": [],
    "k3s-two-cards/service-no-isolation": RAGBOX,
}
Capture = pytest.CaptureFixture[str]


class Example:
    """A plan made from the saved cluster, and an API server that holds that cluster."""

    def __init__(self, plane: ControlPlane, plan: Path, more: list[str]) -> None:
        self.plane, self.plan, self.more = plane, plan, more

    def apply(self, *flags: str, user: str = "applier", source: str = "") -> int:
        live = ["--kubeconfig", str(self.plane.kubeconfig), "--context", user]
        return run(["apply", source or str(self.plan), *live, *self.more, *flags])

    def everything(self) -> str:
        """What is in the cluster, but for what the server itself goes on writing."""
        kinds = "nodes,configmaps,deployments,statefulsets,services,poddisruptionbudgets,resourceclaims,namespaces"
        listed = json.loads(self.plane.kubectl("get", kinds, "-A", "-o", "json"))["items"]
        return "\n".join(
            sorted(f"{item['kind']} {item['metadata']['uid']} {item['metadata']['resourceVersion']}" for item in listed)
        )


@pytest.fixture(scope="module", params=SERVICES)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    """One after the other."""
    need_controlplane(own=True)
    folder, _, name = request.param.partition("/")
    source = EXAMPLES / folder
    out = tmp_path_factory.mktemp("out") / "out"
    more = SERVICES[request.param]
    assert run(["render", str(source / f"{name}.yaml"), "--from", str(source / "cluster"), "--out", str(out), *more]) == 0
    with control_plane() as plane:
        for level, user in (("read", "reader"), ("apply", "applier")):
            roles = rbac.documents(level, subjects=[rbac.subject(f"user:{user}") or {}])  # type: ignore[arg-type]
            plane.kubectl("apply", "-f", "-", stdin="---\n".join(yaml.safe_dump(item) for item in roles))
        client = client_of(plane.kubeconfig, "admin")
        load_cluster(client, read(str(source / "cluster")))
        client.close()
        yield Example(plane, out / "plan.json", more)


def answer(capsys: Capture) -> dict[str, Any]:
    told = capsys.readouterr()
    document: dict[str, Any] = json.loads(told.out)
    jsonschema.validate(document, SCHEMA)
    assert document.pop("source")["kind"] == "live"
    return document


def test_the_server_takes_everything_without_a_warning_and_keeps_nothing(example: Example, capsys: Capture) -> None:
    before = example.everything()
    code = example.apply("--dry-run=server", "-o", "json")
    document = answer(capsys)
    by_hand = [text for text in document["problems"] if "helm" in text or "needs a person" in text]
    assert document["problems"] == by_hand
    assert "(redacted)" not in json.dumps([document["problems"], document["steps"]])
    assert (code, document["state"]) == ((1, "refused") if by_hand else (0, "previewed"))
    assert not document["replanned"], "the digest of the live cluster is that of the saved one"
    assert document["dryRun"] == "server"
    assert [item for item in document["changes"] if item["warnings"] or item["problem"] or item["conflicts"]] == []
    assert {item["change"] for item in document["changes"]} <= {"create", "change"}
    assert document["impact"]["disturbed"] == []
    assert example.everything() == before


def test_the_client_side_look_agrees_with_the_server_and_with_the_saved_cluster(example: Example, capsys: Capture) -> None:
    example.apply("--dry-run=server", "-o", "json")
    server = answer(capsys)
    assert example.apply("--dry-run=client", "-o", "json", user="reader") == (1 if server["problems"] else 0)
    client = answer(capsys)
    assert [(item["kind"], item["name"], item["change"]) for item in client["changes"]] == [
        (item["kind"], item["name"], item["change"]) for item in server["changes"]
    ]
    for part in ("steps", "digest", "differences"):
        assert client[part] == server[part], part
    assert client["impact"]["nodes"] == server["impact"]["nodes"]


def test_the_folder_gives_the_same_as_its_plan(example: Example, capsys: Capture) -> None:
    example.apply("--dry-run=client", "-o", "json")
    plan = answer(capsys)
    example.apply("--dry-run=client", "-o", "json", source=str(example.plan.parent))
    assert answer(capsys) == plan


def test_a_reader_is_told_every_missing_rule_and_nobody_the_first_ones(example: Example, capsys: Capture) -> None:
    assert example.apply("--dry-run=server", user="reader") == 3
    told = capsys.readouterr().err
    for word in ("configmaps", "leases", "deployments"):
        assert f'"{word}"' in told
    assert 'verbs ["create", "get", "patch"' in told
    assert "ragstow rbac apply" in told
    assert example.apply("--yes", user="nobody") == 3
    told = capsys.readouterr().err
    assert '"nodes"' in told
    assert "ragstow rbac read" in told


def test_without_a_terminal_yes_is_needed(example: Example, capsys: Capture) -> None:
    before = example.everything()
    code = example.apply()
    told = capsys.readouterr()
    if "what is in the way" in told.out:
        assert code == 1
    else:
        assert code == 2
        assert "--yes" in told.err
    assert "who is disturbed" in told.out
    assert example.everything() == before


def test_objects_that_are_there_are_the_same_for_server_and_client(example: Example, capsys: Capture) -> None:
    """The last test of this file for each example: it applies the workloads."""
    folder = example.plan.parent
    namespace = json.loads(example.plan.read_text())["namespace"]
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    example.plane.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    example.plane.kubectl("apply", "--server-side", "--field-manager=ragstow", "-k", str(folder / "workloads"))
    for mode in ("server", "client"):
        example.apply(f"--dry-run={mode}", "-o", "json", source=str(folder))
        document = answer(capsys)
        own = [item for item in document["changes"] if item["namespace"] == namespace]
        assert own
        assert [item for item in own if item["change"] != "same"] == []
        if not document["impact"]["nodes"]:
            assert document["state"] == "nothing-to-do"
