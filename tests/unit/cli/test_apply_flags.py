"""Flags of `apply` that reach other programs, and plans that do not fit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest

from ragstow.cli.applyready import refuse_helm
from ragstow.cli.live import helm_flags, live_options
from ragstow.cli.main import run
from ragstow.errors import UsageError
from ragstow.live.apply import ApplyStopped, Options, helm
from ragstow.live.apply.context import Run
from ragstow.render.actions import HelmUpgrade, Procedure
from support import ROOT

EXAMPLES = ROOT / "examples"
UPGRADE = HelmUpgrade("ns", "nvdp", "chart", "https://charts.example", "1", {"a": 1}, "values.yaml", "nvdp-configs", {})


def under(*flags: str) -> Any:
    """What helm would be told under these flags of ours, and whether an upgrade is refused."""

    @click.command()
    @live_options
    def command() -> Any:
        found = helm_flags()
        try:
            refuse_helm(Procedure("s", "ns", "d", (UPGRADE,)))
        except UsageError as error:
            return found, error.message
        return found, ""

    return command.main(list(flags), standalone_mode=False)


def test_helm_is_pointed_at_the_same_cluster_as_the_same_user() -> None:
    assert under() == ((), "")
    flags = ("--kubeconfig", "k", "--context", "c", "--as", "u", "--as-group", "g", "--as-group", "h", "--request-timeout", "3")
    told, refused = under(*flags)
    assert refused == ""
    assert sorted(zip(told[::2], told[1::2], strict=True)) == [
        ("--kube-as-group", "g"),
        ("--kube-as-group", "h"),
        ("--kube-as-user", "u"),
        ("--kube-context", "c"),
        ("--kubeconfig", "k"),
    ]


def test_flags_that_helm_does_not_have_are_refused_where_it_is_needed() -> None:
    assert under("--cluster", "c")[0] is None
    assert "--cluster or --user" in under("--user", "u")[1]


def fake_helm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "helm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


class NoMap(Run):
    """A run in a cluster without the ConfigMap."""

    def __init__(self, options: Options) -> None:
        self.options, self.title, self.namespace, self.service = options, "helm upgrade", "ns", "s"
        self.undoing = False

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> None:  # noqa: ARG002 - as the real one
        return None


def test_a_token_goes_to_helm_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_helm(tmp_path, f'echo "$@ token=$HELM_KUBETOKEN" > {tmp_path}/said', monkeypatch)
    options = Options(helm=("--kube-context", "c", "--kube-token", "hidden", "--kubeconfig", "k"))
    assert helm.upgrade(NoMap(options), UPGRADE)
    said = (tmp_path / "said").read_text()
    assert said.startswith(
        "upgrade nvdp chart --repo https://charts.example --namespace ns --version 1 --reuse-values --values "
    )
    assert said.endswith("--kube-context c --kubeconfig k token=hidden\n")
    fake_helm(tmp_path, "echo no >&2; exit 1", monkeypatch)
    with pytest.raises(ApplyStopped) as caught:
        helm.upgrade(NoMap(options), UPGRADE)
    assert "no" in caught.value.message
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("changed", [False, True])
def test_a_plan_that_does_not_fit_is_a_no_with_ways_out(
    changed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = EXAMPLES / "all-cards-taken"
    assert run(["plan", str(folder / "service.yaml"), "--from", str(folder / "cluster"), "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**document, "digest": "another" if changed else document["digest"], "feasible": changed}))
    assert run(["apply", str(file), "--dry-run=client", "--from", str(folder / "cluster")]) == 1
    told = capsys.readouterr().out
    assert ("the cluster changed since the plan, and now it does not fit" in told) == changed
    assert "does not fit" in told
    assert "batch/embed-archive-fzqnk" in told
    assert "1. when Job batch/embed-archive ends" in told
    assert run(["apply", str(file), "--dry-run=client", "--from", str(folder / "cluster"), "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kind"], answer["state"]) == ("Apply", "infeasible")
    assert answer["reasons"]
    assert answer["alternatives"]
