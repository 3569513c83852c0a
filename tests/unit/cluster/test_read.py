"""Saved clusters in every shape that people have them in, and everything that can be wrong with one."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ragstow.cluster.build import build
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import InputError
from support import DATA

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u1"},
    "status": {"capacity": {"cpu": "8"}},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p1"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}


def save(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def codes(snapshot: Snapshot) -> list[str]:
    return [problem.code for problem in snapshot.problems]


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read(str(path))
    assert caught.value.exit_code == 2
    assert "Traceback" not in str(caught.value)
    return caught.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster in a mix of JSON and YAML, lists and single objects, with logs and the server's version."""
    root = tmp_path / "cluster"
    save(root / "nodes.json", {"apiVersion": "v1", "kind": "List", "items": [NODE]})
    save(
        root / "rag" / "pods.yaml",
        "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a, namespace: rag}\n- metadata: {name: b, namespace: rag}\n",
    )
    more = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: 'on'}\n---\n---\n"
    save(root / "more.yaml", more + "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n")
    save(root / "version.json", {"clientVersion": {"gitVersion": "v1.40.0"}, "serverVersion": {"gitVersion": "v1.37.2"}})
    save(root / "logs" / "vllm.txt", "out of memory")
    save(root / "files" / "deep" / "config.toml", "x = 1")
    save(root / "capture.json", {"apiVersion": "ragstow.dev/v1alpha1", "kind": "Capture", "takenAt": "2026-11-30T20:00:00Z"})
    save(root / "README.md", "how this was saved")
    save(root / ".git" / "config.yaml", "a: [")
    return root


def test_a_folder(folder: Path) -> None:
    snapshot = read(str(folder))
    assert not snapshot.problems
    assert [node.name for node in snapshot.nodes] == ["n1"]
    assert [pod.key for pod in snapshot.pods] == ["rag/a", "rag/b"]
    assert snapshot.pods[0].api_version == "v1"
    assert snapshot.get("ConfigMap", "c", "default") is not None
    assert snapshot.get("Thing", "t", group="example.com") is not None
    assert snapshot.version == "v1.37.2"
    assert dict(snapshot.attachments) == {"logs/vllm.txt": "out of memory", "files/deep/config.toml": "x = 1"}
    assert (snapshot.source.kind, snapshot.source.location, snapshot.source.taken_at) == (
        "folder",
        str(folder),
        "2026-11-30T20:00:00Z",
    )


def packed(folder: Path, kind: str) -> bytes:
    made = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*"), reverse=True):
                archive.write(path, path.relative_to(folder.parent))
        return made.getvalue()
    with tarfile.open(fileobj=made, mode="w:gz" if kind == "tar.gz" else "w") as tar:
        tar.add(folder, arcname="." if kind == "tar" else folder.name)
    return made.getvalue()


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_an_archive_gives_the_same_snapshot(folder: Path, tmp_path: Path, kind: str) -> None:
    expected = read(str(folder))
    data = packed(folder, kind)
    saved = tmp_path / f"x.{kind}"
    saved.write_bytes(data)
    for snapshot in (read(str(saved)), read("-", stdin=io.BytesIO(data))):
        assert list(snapshot.objects) == list(expected.objects)
        assert snapshot.objects == expected.objects
        assert snapshot.pods == expected.pods
        assert (snapshot.version, snapshot.attachments, snapshot.problems) == (expected.version, expected.attachments, ())
        assert snapshot.source.taken_at == expected.source.taken_at
    assert read(str(saved)).source.kind == "archive"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster", f"x.{kind}"]


def test_one_stream_with_everything() -> None:
    text = json.dumps(
        [
            NODE,
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [POD, {"apiVersion": "v1", "kind": "List", "items": [POD | {"metadata": {"name": "p2"}}]}],
            },
        ]
    )
    snapshot = read("-", stdin=io.BytesIO(text.encode()))
    assert [pod.key for pod in snapshot.pods] == ["default/p1", "default/p2"]
    assert snapshot.source.kind == "stdin"


def test_a_packed_file_and_what_a_windows_shell_writes(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps(NODE).encode()))
    (tmp_path / "b.json").write_bytes(json.dumps(POD).encode("utf-16"))
    snapshot = read(str(tmp_path))
    assert (len(snapshot.nodes), len(snapshot.pods), snapshot.problems) == (1, 1, ())
    assert len(read(str(tmp_path / "a.json.gz")).nodes) == 1


def test_order_in_the_files_does_not_matter(tmp_path: Path) -> None:
    pods = [POD | {"metadata": {"name": name, "uid": name}} for name in "cab"]
    one, two = save(tmp_path / "one.json", [NODE, *pods]), save(tmp_path / "two.json", [*pods[::-1], NODE])
    assert list(read(str(one)).objects.items()) == list(read(str(two)).objects.items())
    assert [pod.name for pod in read(str(one)).pods] == ["a", "b", "c"]


def test_cluster_info_dump(tmp_path: Path) -> None:
    save(tmp_path / "nodes.json", {"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n1"}}]})
    save(
        tmp_path / "rag" / "pods.json",
        {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "p", "namespace": "rag"}}]},
    )
    save(tmp_path / "rag" / "p" / "logs.txt", "==== START logs\n")
    snapshot = read(str(tmp_path))
    assert [node.name for node in snapshot.nodes] == ["n1"]
    assert list(snapshot.attachments) == ["rag/p/logs.txt"]


def test_a_live_object_wins_over_the_manifest_it_came_from(tmp_path: Path) -> None:
    live = POD | {"metadata": {"name": "p1", "namespace": "default", "uid": "u"}}
    save(tmp_path / "a.json", live)
    save(tmp_path / "z-manifest.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p1}\nspec: {containers: []}\n")
    snapshot = read(str(tmp_path))
    assert [pod.uid for pod in snapshot.pods] == ["u"]
    assert [item.ref for item in snapshot.applied] == ["Pod default/p1"]
    assert not snapshot.problems


def test_secrets_lose_their_content(tmp_path: Path) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"token": "aGVsbG8="},
        "stringData": {"x": "hello"},
    }
    found = read(str(save(tmp_path / "s.json", secret))).get("Secret", "s", "default")
    assert found is not None
    assert "hello" not in str(found.raw)
    assert "aGVsbG8=" not in str(found.raw)


def test_configuration_files_are_found_under_their_file_name(tmp_path: Path) -> None:
    save(
        tmp_path / "n1-kubelet.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ntopologyManagerPolicy: restricted\n",
    )
    save(tmp_path / "node.json", NODE)
    snapshot = read(str(tmp_path))
    assert snapshot.get("KubeletConfiguration", "n1-kubelet", group="kubelet.config.k8s.io") is not None
    assert not snapshot.problems


# What is wrong with the whole.


def test_nothing_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "no-such").code == "path-absent"
    error = refused(tmp_path)
    assert (error.code, "it is empty" in error.message, "kubectl get" in error.hint) == ("nothing-usable", True, True)
    (tmp_path / "empty.json").write_text("")
    assert "empty" in refused(tmp_path / "empty.json").message
    with pytest.raises(InputError, match="standard input"):
        read("-")
    with pytest.raises(InputError, match="no Kubernetes object"):
        read("-", stdin=io.BytesIO(b""))


@pytest.mark.parametrize(
    ("content", "says", "hint"),
    [
        ('{"kind": "List", "items": [{"kind": "Pod", "metada', "not valid", "cut off"),
        ("a:\n\tb: 1\n", "not valid YAML", "tabs"),
        ("Dear all,\nthe cluster is down.\n", "is a text", ""),
        ("NAME   STATUS   ROLES\nn1     Ready    <none>\n", "is a text", "kubectl's table"),
        ("NAMESPACE   NAME   READY\nrag: x   a   b\n\t-", "not valid YAML", "kubectl's table"),
        ("- 1\n- 2\n", "not a Kubernetes object", ""),
        ("title: shopping\nitems: [milk]\n", "no apiVersion", ""),
        ("kind: List\nitems: [milk, 3]\n", "not a Kubernetes object", ""),
        (
            '{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "nodes is forbidden"}',
            "nodes is forbidden",
            "right",
        ),
        ('{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}', "printed table", "-o json"),
        ("x" * 50_000_000, "is a text", ""),
        ("key: value with: colons\n" * 1_000_000, "not valid", ""),
        ('{"a": "' + "x" * 50_000_000, "not valid JSON", "cut off"),
        ("[" * 10_000_000, "nested too deeply", ""),
    ],
    ids=lambda value: str(value)[:20],
)
def test_one_file_of_something_else(tmp_path: Path, content: str, says: str, hint: str) -> None:
    error = refused(save(tmp_path / "cluster.yaml", content))
    assert error.code == "nothing-usable"
    assert says in error.message
    assert "cluster.yaml" in str(error)
    assert hint in error.hint
    assert len(str(error)) < 1000


def test_binary_and_special_files(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(os.urandom(100) + b"\0" * 100)
    assert "not text" in refused(tmp_path / "x.json").message
    (tmp_path / "y.yaml").write_bytes(b"kind: \xff\xfe\xfa\n")
    assert "not UTF-8" in refused(tmp_path / "y.yaml").message
    os.mkfifo(tmp_path / "pipe.json")
    assert "not text" in refused(tmp_path).message  # and does not wait for the pipe


def test_two_clusters_in_one_folder(tmp_path: Path) -> None:
    for name in "ab":
        system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": name}}
        save(tmp_path / name / "namespaces.json", system)
        save(tmp_path / name / "nodes.json", NODE)
    error = refused(tmp_path)
    assert error.code == "several-clusters"
    assert "one of them" in error.hint


# What is wrong with a part: reported, left out, the rest goes on.


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"kind": "Pod", "apiVersion": "v1", "metadata": {}}, "no name"),
        ({"apiVersion": "v1", "metadata": {"name": "x"}}, "no kind"),
        ({"kind": "Pod", "apiVersion": "v1", "metadata": "x"}, "metadata is a text, not a mapping"),
        (
            {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {"containers": {}}},
            "spec.containers is dict, not a list",
        ),
        (
            {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "x"}, "status": {"capacity": {"cpu": "many"}}},
            "'many' is not a Kubernetes quantity",
        ),
        (
            {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "x", "labels": ["a"]}},
            "metadata.labels is a list, not a mapping",
        ),
        ({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": False}}, "true or false, not a text: put it in quotes"),
        ("milk", "is a text"),
        (None, "None"),
    ],
)
def test_a_broken_object_is_left_out(tmp_path: Path, broken: object, says: str) -> None:
    save(tmp_path / "a.json", {"apiVersion": "v1", "kind": "List", "items": [broken, NODE]})
    snapshot = read(str(tmp_path))
    assert [node.name for node in snapshot.nodes] == ["n1"]
    assert len(snapshot.problems) == 1
    assert says in snapshot.problems[0].message
    assert snapshot.problems[0].place.file == str(tmp_path / "a.json")


def test_broken_files_among_good_ones(tmp_path: Path) -> None:
    save(tmp_path / "nodes.json", NODE)
    save(tmp_path / "bad.json", '{"kind": ')
    save(tmp_path / "tabs.yaml", "a:\n\t- b\n")
    save(tmp_path / "values.yaml", "replicas: 2\n")
    (tmp_path / "core.json").write_bytes(b"\0\1\2")
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path)
    unreadable = save(tmp_path / "secret.json", POD)
    unreadable.chmod(0)
    snapshot = read(str(tmp_path))
    found = {Path(problem.place.file or "").name: problem.code for problem in snapshot.problems}
    expected = {
        "bad.json": "yaml-invalid",
        "tabs.yaml": "yaml-invalid",
        "core.json": "file-binary",
        "dangling.yaml": "link-broken",
    }
    if os.geteuid() != 0:
        expected["secret.json"] = "file-unreadable"
    assert found == expected
    assert [node.name for node in snapshot.nodes] == ["n1"]


def test_names_that_appear_twice(tmp_path: Path) -> None:
    save(tmp_path / "a.json", [NODE, NODE | {"status": {"capacity": {"cpu": "16"}}}])
    snapshot = read(str(tmp_path))
    assert codes(snapshot) == ["object-twice"]
    assert snapshot.nodes[0].capacity == {"cpu": 16000}


def test_the_same_object_in_two_files_is_no_problem(tmp_path: Path) -> None:
    save(tmp_path / "all.json", [NODE, POD])
    save(tmp_path / "nodes.json", {"apiVersion": "v1", "kind": "NodeList", "items": [NODE]})
    assert codes(read(str(tmp_path))) == []


@pytest.mark.parametrize("known_by", [{"uid": "u"}, {}], ids=["uid", "status only"])
def test_limits_of_a_saved_pod_are_its_requests(known_by: dict[str, str]) -> None:
    """As the API server stores it; what a person is about to apply stays as written."""
    asked = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": asked}],
        "initContainers": [{"name": "i", "image": "i", "resources": {"limits": {"memory": "1Gi"}}}],
    }
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **known_by},
        "spec": spec,
        "status": {} if known_by else {"phase": "Running"},
    }
    pod = build([raw]).pods[0]
    assert pod.containers[0].requests == {"cpu": 1000, "nvidia.com/gpu": 1}
    assert pod.spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert pod.init_containers[0].requests == {"memory": 1 << 30}
    assert asked["requests"] == {"cpu": "1"}
    written = build([{**raw, "metadata": {"name": "p"}, "status": {}}]).pods[0]
    assert written.containers[0].requests == {"cpu": 1000}


def test_a_node_without_labels_or_status(tmp_path: Path) -> None:
    node = read(str(save(tmp_path / "n.json", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}))).nodes[0]
    assert (dict(node.labels), dict(node.capacity), node.ready) == ({}, {}, None)


def test_label_values_that_yaml_takes_for_something_else(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata:\n  name: node\n  labels: {a: true, b: 4, c: null, d: off}\n"
    assert dict(read(str(save(tmp_path / "n.yaml", text))).nodes[0].labels) == {"a": "true", "b": "4", "c": "", "d": "false"}


# Archives that mean harm.


def test_paths_that_climb_out_and_links(tmp_path: Path) -> None:
    outside = save(tmp_path / "outside.json", POD)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("../../../../tmp/evil.json", "/etc/evil2.json"):
            info = tarfile.TarInfo(name)
            data = json.dumps(NODE | {"metadata": {"name": name.rpartition("/")[2]}}).encode()
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        tar.addfile(link)
    (tmp_path / "x.tar").write_bytes(made.getvalue())
    snapshot = read(str(tmp_path / "x.tar"))
    assert [node.name for node in snapshot.nodes] == ["evil.json", "evil2.json"]
    assert not snapshot.pods
    assert not Path("/tmp/evil.json").exists()
    assert not Path("/etc/evil2.json").exists()


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "gz"])
def test_bombs_are_not_unpacked(tmp_path: Path, kind: str) -> None:
    zeros = b" " * (80 << 20)
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.json", zeros)
    elif kind == "gz":
        path.write_bytes(gzip.compress(zeros))
    else:
        with tarfile.open(path, "w:gz") as tar:
            info = tarfile.TarInfo("a.json")
            info.size = len(zeros)
            tar.addfile(info, io.BytesIO(zeros))
    assert "250 times its size" in str(refused(path))


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_archives_that_were_cut_off(folder: Path, tmp_path: Path, kind: str) -> None:
    data = packed(folder, kind)
    path = tmp_path / f"x.{kind}"
    for length in (len(data) // 2, len(data) - 10, 600):
        path.write_bytes(data[:length])
        with contextlib.suppress(InputError):  # what can still be had is had
            assert read(str(path)).nodes


def test_a_recorded_cluster_reads_clean() -> None:
    paths = sorted((DATA / "clusters").glob("[0-9]*.tar.gz"))
    assert len(paths) >= 7
    for path in paths:
        snapshot = read(str(path))
        assert (snapshot.version, snapshot.problems) == ("v1.37.2", ())
