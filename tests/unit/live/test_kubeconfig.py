"""Which server and user are chosen, by kubectl's rules."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragstow.errors import ClusterError, InputError, RagstowError, UsageError
from ragstow.live.credentials import Credentials
from ragstow.live.kubeconfig import Access, Choice, access


def config(path: Path, *names: str, current: str = "", user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.{path.stem}", **cluster}} for name in names],
        "users": [{"name": name, "user": user or {"token": f"t-{name}"}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "ns"}} for name in names],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_files_of_a_list_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    one, two = config(tmp_path / "one", "a", "b"), config(tmp_path / "two", "b", "c", current="c")
    listed = os.pathsep.join([str(tmp_path / "missing"), str(one), "", str(two)])
    assert access(Choice(), {"KUBECONFIG": listed}).server == "https://c.two"
    assert access(Choice(context="b"), {"KUBECONFIG": listed}).server == "https://b.one"
    assert access(Choice(context="a"), {"KUBECONFIG": listed}).token == "t-a"


def test_the_flag_wins_over_the_variable_and_the_variable_over_home(tmp_path: Path) -> None:
    home = config(tmp_path / "home" / ".kube" / "config", "h", current="h")
    variable = config(tmp_path / "variable", "v", current="v")
    flag = config(tmp_path / "flag", "f", current="f")
    environment = {"HOME": str(home.parent.parent)}
    assert access(Choice(), environment).name == "h"
    environment["KUBECONFIG"] = str(variable)
    assert access(Choice(), environment).name == "v"
    assert access(Choice(kubeconfig=str(flag)), environment).name == "f"
    with pytest.raises(InputError, match="cannot be read"):
        access(Choice(kubeconfig=str(tmp_path / "missing")), environment)


def test_in_cluster_comes_last(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("pod-token\n")
    (account / "namespace").write_text("rag")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    found = access(Choice(), pod, account=account)
    assert (found.server, found.name, found.namespace) == ("https://10.0.0.1:443", "in-cluster", "rag")
    assert Credentials(found).headers() == {"Authorization": "Bearer pod-token"}
    named = {**pod, "KUBECONFIG": str(config(tmp_path / "c", "a", current="a"))}
    assert access(Choice(), named, account=account).name == "a"
    six = access(Choice(), {**pod, "KUBERNETES_SERVICE_HOST": "fd00::1"}, account=account)
    assert six.server == "https://[fd00::1]:443"
    with pytest.raises(UsageError, match="which cluster"):
        access(Choice(), {"HOME": str(tmp_path)}, account=tmp_path / "none")


@pytest.mark.parametrize(
    ("choice", "code"),
    [
        (Choice(context="x"), "context-unknown"),
        (Choice(cluster="x"), "cluster-unknown"),
        (Choice(user="x"), "user-unknown"),
        (Choice(impersonate_groups=("g",)), "as-group-alone"),
    ],
)
def test_what_does_not_exist_is_named(choice: Choice, code: str, tmp_path: Path) -> None:
    environment = {"KUBECONFIG": str(config(tmp_path / "c", "a", current="a"))}
    with pytest.raises(UsageError) as raised:
        access(choice, environment)
    assert raised.value.code == code


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "clusters: {}\n", "\x00\x01"])
def test_a_broken_file_is_no_traceback(text: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(RagstowError) as raised:
        access(Choice(kubeconfig=str(tmp_path / "c")), {})
    assert raised.value.exit_code == 2


def test_files_lie_beside_the_kubeconfig_that_names_them(tmp_path: Path) -> None:
    user = {"client-certificate": "pki/c.pem", "client-key-data": base64.b64encode(b"KEY").decode()}
    path = config(tmp_path / "sub" / "c", "a", current="a", user=user, **{"certificate-authority": "pki/ca.pem"})
    (path.parent / "pki").mkdir()
    (path.parent / "pki" / "c.pem").write_bytes(b"CERT")
    (path.parent / "pki" / "ca.pem").write_bytes(b"CA")
    found = access(Choice(kubeconfig=str(path)), {})
    assert (found.authority, found.certificate, found.key) == (b"CA", b"CERT", b"KEY")
    assert "CERT" not in repr(found)
    assert "KEY" not in repr(found)


def test_impersonation_of_flags_replaces_that_of_the_file(tmp_path: Path) -> None:
    user = {"token": "t", "as": "x", "as-groups": ["g"], "as-user-extra": {"why": ["a", "b"]}}
    path = str(config(tmp_path / "c", "a", current="a", user=user))
    assert access(Choice(kubeconfig=path), {}).impersonate == {
        "Impersonate-User": ("x",),
        "Impersonate-Group": ("g",),
        "Impersonate-Extra-why": ("a", "b"),
    }
    assert access(Choice(kubeconfig=path, impersonate="y"), {}).impersonate == {"Impersonate-User": ("y",)}


def test_a_removed_auth_provider_is_refused(tmp_path: Path) -> None:
    path = str(config(tmp_path / "c", "a", current="a", user={"auth-provider": {"name": "gcp"}}))
    with pytest.raises(UsageError, match=r"removed in 1\.26"):
        access(Choice(kubeconfig=path), {})


def plugin(tmp_path: Path, script: str, **more: Any) -> Access:
    program = tmp_path / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["a b"], **more}
    path = config(tmp_path / "c", "a", current="a", user={"exec": run})
    return access(Choice(kubeconfig=str(path)), {})


def test_a_credential_plugin_gives_a_token_and_knows_the_cluster(tmp_path: Path) -> None:
    script = (
        'echo "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/info"; echo x >> "$(dirname "$0")/calls"\n'
        'echo "{\\"kind\\":\\"ExecCredential\\",\\"status\\":{\\"token\\":\\"$1-$WHO\\"}}"'
    )
    credentials = Credentials(plugin(tmp_path, script, env=[{"name": "WHO", "value": "me"}], provideClusterInfo=True))
    assert credentials.headers() == {"Authorization": "Bearer a b-me"}
    assert credentials.headers() == {"Authorization": "Bearer a b-me"}
    assert (tmp_path / "calls").read_text() == "x\n"
    assert '"server": "https://a.c"' in (tmp_path / "info").read_text()
    assert credentials.refresh()
    credentials.headers()
    assert (tmp_path / "calls").read_text() == "x\nx\n"


def test_an_expired_token_is_asked_for_again(tmp_path: Path) -> None:
    script = 'echo x >> "$(dirname "$0")/calls"; echo \'{"status":{"token":"t","expirationTimestamp":"2020-01-01T00:00:00Z"}}\''
    credentials = Credentials(plugin(tmp_path, script))
    credentials.headers()
    credentials.headers()
    assert (tmp_path / "calls").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo please log in >&2; exit 3", "please log in"),
        ("echo nonsense", "no usable ExecCredential"),
        ("echo '{\"status\":{}}'", "neither a token nor a certificate"),
    ],
)
def test_a_failing_plugin_says_why(script: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=words):
        Credentials(plugin(tmp_path, script)).headers()


def test_a_missing_plugin_shows_its_install_hint(tmp_path: Path) -> None:
    run = {"command": "no-such-plugin-anywhere", "installHint": "get it at the shop"}
    path = config(tmp_path / "c", "a", current="a", user={"exec": run})
    with pytest.raises(ClusterError, match="shop"):
        Credentials(access(Choice(kubeconfig=str(path)), {})).headers()
