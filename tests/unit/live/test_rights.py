"""The printed roles against the server's own RBAC: what each user can do, cannot do, and is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster_loader import load_cluster
from controlplane_support import ControlPlane, need_controlplane
from ragstow.cli.main import run
from ragstow.cluster.read import read
from ragstow.live.client import ApiClient
from ragstow.live.failures import Right
from support import DATA


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane) -> ControlPlane:
    """The plane with a recorded cluster in it."""
    need_controlplane(own=True)
    from ragstow.live.kubeconfig import Choice, access
    from ragstow.live.transport import Transport

    client = ApiClient(Transport(access(Choice(kubeconfig=str(plane.kubeconfig)), {})))
    load_cluster(client, read(str(DATA / "clusters" / "01-device-plugin-bare-metal.tar.gz")))
    client.close()
    return plane


def live(cluster: ControlPlane, user: str) -> list[str]:
    return ["--kubeconfig", str(cluster.kubeconfig), "--context", user]


def test_reader_runs_every_reading_command(cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}\n")
    for words in (
        ["inspect"],
        ["simulate"],
        ["simulate", "-f", str(manifest)],
        ["diagnose"],
        ["lint", "-f", str(manifest)],
        ["capture", "--out", str(tmp_path / "c")],
    ):
        code = run([*words, *live(cluster, "reader")])
        told = capsys.readouterr()
        assert code in (0, 1), f"{words}: {told.err}"
        assert "warning" not in told.err, words


def test_reader_can_neither_exec_nor_write(cluster: ControlPlane) -> None:
    allowed = {
        (user, verb, resource): cluster_may(cluster, user, verb, resource)
        for user in ("reader", "verifier", "applier")
        for verb, resource in (
            ("list", "pods"), ("get", "pods/log"), ("create", "pods/exec"), ("create", "pods/portforward"), ("patch", "nodes"),
            ("create", "pods/eviction"), ("create", "deployments.apps"), ("get", "secrets"), ("create", "pods"),
            ("create", "serviceaccounts/token"), ("get", "nodes/proxy"),
        )
    }  # fmt: skip
    reads = {("list", "pods"), ("get", "pods/log")}
    verifies = reads | {("create", "pods/exec"), ("create", "pods/portforward")}
    applies = verifies | {("patch", "nodes"), ("create", "pods/eviction"), ("create", "deployments.apps")}
    for user, granted in (("reader", reads), ("verifier", verifies), ("applier", applies)):
        assert {(verb, resource) for (who, verb, resource), yes in allowed.items() if who == user and yes} == granted


def cluster_may(cluster: ControlPlane, user: str, verb: str, resource: str) -> bool:
    from ragstow.live.kubeconfig import Choice, access
    from ragstow.live.transport import Transport

    plural, _, group = resource.partition(".")
    client = ApiClient(Transport(access(Choice(kubeconfig=str(cluster.kubeconfig), context=user), {})))
    try:
        return client.may(Right(verb, plural, group))
    finally:
        client.close()


@pytest.mark.parametrize("words", [["inspect"], ["simulate"], ["diagnose"], ["capture"]], ids=lambda words: words[0])
def test_nobody_is_told_the_missing_rules(
    words: list[str], cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c"
    more = ["--out", str(out)] if words == ["capture"] else []
    assert run([*words, *more, *live(cluster, "nobody")]) == 3
    told = capsys.readouterr().err
    assert 'apiGroups [""], resources [' in told
    assert '"nodes"' in told
    assert 'verbs ["list"]' in told
    assert "ragstow rbac read" in told
    assert not out.exists()


def test_a_right_that_only_narrows_is_a_warning(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["list"]},
    ]
    kind = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{kind}/v1", "kind": "ClusterRole", "metadata": {"name": "few"}, "rules": rules}
    binding = {
        "apiVersion": f"{kind}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "few"},
        "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": "few"},
        "subjects": [{"apiGroup": kind, "kind": "Group", "name": "few"}],
    }
    for item in (role, binding):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(item))
    few = [*live(cluster, "admin"), "--as", "somebody", "--as-group", "few"]
    assert run(["inspect", *few]) == 0
    assert "warning: configmaps: not allowed to list configmaps" in capsys.readouterr().err
    assert run(["simulate", *few]) == 3
    assert '"persistentvolumeclaims"' in capsys.readouterr().err
    out = tmp_path / "c"
    assert run(["capture", "--out", str(out), *few]) == 1
    manifest = json.loads((out / "capture.json").read_text())
    assert "configmaps" in [item["resource"] for item in manifest["forbidden"]]
    capsys.readouterr()
    assert run(["inspect", "--from", str(out)]) == 0
    assert "configmaps was not captured" in capsys.readouterr().err


def test_what_is_wrong_with_a_connection_is_one_line(cluster: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    for more, code, words in (
        (["--server", "https://127.0.0.1:1"], 3, "https://127.0.0.1:1 cannot be reached"),
        (["--token", "wrong"], 3, "does not accept the credentials"),
        (["--context", "none"], 2, "there is no context 'none'"),
        (["--kubeconfig", "/no/such/file"], 2, "the kubeconfig cannot be read"),
        (["--from", "x"], 2, "--from names a saved cluster"),
        (["--as-group", "g"], 2, "together with a user"),
    ):
        assert run(["inspect", *live(cluster, "admin"), *more]) == code
        told = capsys.readouterr()
        assert words in told.err
        assert "Traceback" not in told.err
        assert told.out == ""
