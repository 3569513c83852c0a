"""What leaves a cluster: nothing secret, and everything that the rules read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstow.cli.diagnosis import make_context
from ragstow.cli.output import plain
from ragstow.cluster.build import RawObject, build
from ragstow.cluster.read import read
from ragstow.facts import load
from ragstow.inventory.build import inventory
from ragstow.inventory.document import body
from ragstow.live.redact import redact, text, words
from ragstow.plan.install import plugin_install
from ragstow.rules.run import diagnose
from support import DATA

KINDS = sorted(
    [*(DATA / "clusters").glob("*.tar.gz"), *(DATA / "clusters-broken").glob("*.tar.gz"), *(DATA / "cases").glob("P*")]
)
FACTS = load(None)
SECRET = "hunter2-Zx81"


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_answers_stay_the_same(path: Path) -> None:
    whole = read(str(path))
    objects = [(item.raw, item.file) for item in (*whole.everything, *whole.applied)]

    def answers(made: list[tuple[Any, str | None]]) -> tuple[str, str]:
        snapshot = build(
            [RawObject(raw, file) for raw, file in made],
            source=whole.source,
            version=whole.version,
            problems=whole.problems,
            attachments=whole.attachments,
        )
        found = inventory(snapshot, FACTS)
        report = diagnose(make_context(snapshot, FACTS, found=found))
        return json.dumps(plain(body(found))), json.dumps(plain(report), default=str)

    assert answers([(redact(raw), file) for raw, file in objects]) == answers(objects)


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_a_plan_rests_on_the_same_installation(path: Path) -> None:
    whole = read(str(path))
    hidden = build([RawObject(redact(item.raw), item.file) for item in whole.everything], source=whole.source)
    whole = build([RawObject(item.raw, item.file) for item in whole.everything], source=whole.source)
    found, again = (plugin_install(snapshot, inventory(snapshot, FACTS), FACTS) for snapshot in (whole, hidden))
    assert again == found


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_twice_is_once(path: Path) -> None:
    for item in read(str(path)).everything:
        once = redact(item.raw)
        assert redact(once) == once


def pod(**container: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", **container}]}}


@pytest.mark.parametrize(
    "item",
    [
        pod(env=[{"name": "DB_PASSWORD", "value": SECRET}]),
        pod(env=[{"name": "VLLM_API_KEY", "value": SECRET}]),
        pod(env=[{"name": "ANYTHING", "value": SECRET}]),
        pod(args=["--api-key", SECRET]),
        pod(args=[f"--api-key={SECRET}"]),
        pod(args=["--api_key", SECRET]),
        pod(args=["--db", SECRET, "--port", "1"]),
        pod(args=["serve", "org/model", SECRET]),
        pod(command=["sh", "-c", f"export TOKEN={SECRET}; vllm serve m --api-key {SECRET} --port 1"]),
        pod(command=["sh", "-c", f"curl -H 'Authorization: Bearer {SECRET}' http://x | tee /tmp/{SECRET}"]),
        pod(command=["sh", "-c", f"cat <<EOF\n{SECRET}\nEOF"]),
        pod(livenessProbe={"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}}),
        pod(livenessProbe={"exec": {"command": ["mysqladmin", f"-p{SECRET}", "ping"]}}),
        pod(lifecycle={"postStart": {"exec": {"command": ["sh", "-c", f"login {SECRET}"]}}}),
        {"kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"settings.yaml": f"url: postgres://u:{SECRET}@db/x"}},
        {"kind": "ConfigMap", "metadata": {"name": "mixed"}, "data": {"a": f"sharing: {{}}\nversion: v1\npassword: {SECRET}"}},
        {"kind": "ConfigMap", "metadata": {"name": "b"}, "binaryData": {"x": SECRET}},
        {"kind": "Secret", "metadata": {"name": "s"}, "data": {"x": SECRET}, "stringData": {"y": SECRET}},
        {"kind": "Pod", "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET}}},
        {"kind": "Pod", "metadata": {"annotations": {"vault.hashicorp.com/token": SECRET, "nvidia.com/token": SECRET}}},
        {"kind": "Pod", "metadata": {"managedFields": [{"manager": "m", "fieldsV1": {f"f:{SECRET}": {}}}]}},
        {"kind": "PersistentVolume", "spec": {"csi": {"volumeAttributes": {"password": SECRET}}}},
        {"kind": "Event", "message": f"Error: login with password={SECRET} failed"},
        {"kind": "ClusterPolicy", "spec": {"driver": {"env": [{"name": "HTTP_PROXY", "value": f"http://u:{SECRET}@p"}]}}},
    ],
)  # fmt: skip
def test_nothing_secret_is_left(item: dict[str, Any]) -> None:
    assert SECRET not in json.dumps(redact(item))


@pytest.mark.parametrize(
    "token",
    [
        "hf_abcdefghijklmnop", "sk-abcdefghijklmnop", "nvapi-abcdefghijk", "ghp_abcdefghijkl", "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    ],
)  # fmt: skip
def test_tokens_go_wherever_they_stand(token: str) -> None:
    for said in (f"ERROR token {token} refused", f"--model {token}", f"Authorization: Bearer {token}"):
        assert token not in text(said)
    assert token not in json.dumps(words(["--model", token, f"--served-model-name={token}"]))


def test_what_the_rules_read_stays() -> None:
    flags = ["serve", "org/model-7b", "--max-model-len", "8192", "--gpu-memory-utilization=0.45", "--enforce-eager", "-tp", "2"]
    assert words(flags) == flags
    script = "exec vllm serve org/m --tensor-parallel-size $(TP) --port 8000 2>&1"
    assert words(["sh", "-c", script])[:2] == ["sh", "-c"]
    assert "vllm serve org/m --tensor-parallel-size $(TP) --port 8000" in words(["sh", "-c", script])[2]
    env = [
        {"name": "MIG_STRATEGY", "value": "mixed"},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert redact(pod(env=env)) == pod(env=env)
    config = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
    kept = {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"any": config}}
    assert redact(kept) == kept
    dropped = redact({"kind": "Pod", "metadata": {"annotations": {"a": "b", "nvidia.com/x": "y"}}})
    assert dropped["metadata"]["annotations"] == {"a": "(redacted)", "nvidia.com/x": "y"}


def test_ordinary_words_of_logs_stay() -> None:
    said = "INFO Avg prompt throughput: 12.3 tokens/s, KV cache: 1024 tokens; tokenizer_mode=auto; max_num_batched_tokens=2048"
    assert text(said) == said
