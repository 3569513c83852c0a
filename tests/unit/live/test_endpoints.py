"""Engines asked over their ports: what is right, and every way in which they fail."""

from __future__ import annotations

import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from endpoint_servers import Behaviour, OpenAi, Tei, listening
from endpoint_support import World, failures, named, only

LLM = {"name": "llm", "role": "llm", "model": "Qwen/Qwen2.5-7B-Instruct"}
EMBEDDER = {"name": "embedder", "role": "embedder", "model": "BAAI/bge-m3"}
RERANKER = {"name": "reranker", "role": "reranker", "model": "BAAI/bge-reranker-v2-m3"}


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


def qwen(**how: Any) -> Behaviour:
    return Behaviour(model="Qwen/Qwen2.5-7B-Instruct", **how)


def bge(**how: Any) -> Behaviour:
    return Behaviour(**{"model": "BAAI/bge-m3", "dimension": 1024, **how})


def ranker(**how: Any) -> Behaviour:
    return Behaviour(model="BAAI/bge-reranker-v2-m3", **how)


def test_a_language_model_that_works(world: World) -> None:
    world.components = [LLM]
    seen = world.serve("llm", OpenAi, qwen())
    outcome = world.check()
    assert [check.name for check in outcome.checks] == [
        "endpoint-health",
        "endpoint-models",
        "endpoint-chat",
        "endpoint-completion",
    ]
    assert failures(outcome) == []
    assert not outcome.unknown
    assert only(outcome, "endpoint-models").found == "Qwen/Qwen2.5-7B-Instruct"
    assert "5 tokens in" in only(outcome, "endpoint-chat").found
    assert ("POST", "/v1/chat/completions") in seen.seen
    (evidence,) = only(outcome, "endpoint-chat").evidence
    assert evidence.source.startswith("kubectl -n rag port-forward pod/llm-0 8000 & sleep 1; curl -s localhost:8000/v1/chat")


def test_an_embedder_that_works(world: World) -> None:
    world.components = [EMBEDDER]
    world.serve("embedder", Tei, bge(), port=8080)
    outcome = world.check()
    assert failures(outcome) == []
    assert only(outcome, "embedding-dimension").found == "1024 numbers"
    assert only(outcome, "embedding-dimension").expected == "1024 numbers (hidden size of BAAI/bge-m3)"
    assert only(outcome, "embedding-length").found == "1.0000 and 1.0000"
    assert {"embedding-distinct", "embedding-repeatable"} <= {check.name for check in outcome.checks}


def test_a_reranker_that_works(world: World) -> None:
    world.components = [RERANKER]
    world.serve("reranker", Tei, ranker(), port=8080)
    assert failures(world.check()) == []


@pytest.mark.parametrize("engine", ["vllm", "sglang", "infinity", "llama-cpp", "nim"])
@pytest.mark.parametrize("role", ["embedder", "reranker"])
def test_other_engines_in_their_own_words(world: World, engine: str, role: str) -> None:
    component = {"name": "c", "role": role, "engine": engine, "model": "test/model", "footprint": {"memoryMiB": 1000}}
    world.components = [{**component, "image": "registry.example/engine:1"}]
    seen = world.serve("c", OpenAi, port=8000)
    outcome = world.check()
    assert failures(outcome) == []
    assert len(outcome.checks) >= 3
    row = {"nim": "/v1/ranking", "infinity": "/rerank"}.get(engine, "/v1/rerank")
    called = {"infinity": "/embeddings"}.get(engine, "/v1/embeddings")
    assert ("POST", row if role == "reranker" else called) in seen.seen


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tgi", "llama-cpp", "nim"])
def test_other_language_models(world: World, engine: str) -> None:
    component = {"name": "c", "role": "llm", "engine": engine, "model": "test/model", "footprint": {"memoryMiB": 1000}}
    world.components = [{**component, "image": "registry.example/engine:1"}]
    world.serve("c", OpenAi)
    assert failures(world.check()) == []


@pytest.mark.parametrize(
    ("how", "failed", "found", "hint"),
    [
        ({"html": True}, "endpoint-models", "Welcome to nginx", ""),
        ({"error": 500}, "endpoint-chat", "HTTP 500: CUDA out of memory", ""),
        ({"busy": 99}, "endpoint-chat", "HTTP 429: Model is overloaded", "overloaded at every try"),
        ({"mute": True}, "endpoint-chat", "an empty reply", "chat template"),
        ({"loading": True}, "endpoint-health", "HTTP 503: Loading model", "still being loaded"),
    ],
)
def test_a_language_model_that_fails(world: World, how: dict[str, Any], failed: str, found: str, hint: str) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen(**how))
    outcome = world.check()
    check = only(outcome, failed)
    assert not check.passed
    assert found in check.found
    assert hint in check.hint


def test_a_busy_server_is_asked_again(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen(busy=2))
    assert failures(world.check()) == []


def test_a_slow_server_has_a_time_limit(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen(slow=3))
    outcome = world.check(timeout_seconds=0.3)
    assert only(outcome, "endpoint-health").found == "GET /health: no answer in 0.3 s"


def test_nothing_behind_the_port(world: World) -> None:
    world.components = [LLM]
    world.put("llm", 8000, 1)
    outcome = world.check()
    assert failures(outcome) == ["endpoint-health"]
    assert "port 8000 of the pod does not answer" in only(outcome, "endpoint-health").found


def test_another_model_is_served(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, Behaviour(model="other/model"))
    outcome = world.check()
    assert failures(outcome) == ["endpoint-models"], "it works all the same, under its own name"
    check = only(outcome, "endpoint-models")
    assert (check.expected, check.found) == ("Qwen/Qwen2.5-7B-Instruct", "other/model")


def test_a_served_name_of_its_own(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, Behaviour(model="chat"), args=["--served-model-name=chat"])
    assert failures(world.check()) == []


def test_a_model_without_chat_template_completes(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen(chat=False))
    outcome = world.check()
    assert failures(outcome) == []
    assert only(outcome, "endpoint-completion").passed
    assert any("chat template" in remark for remark in outcome.remarks)


def test_a_server_of_another_task(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen(paths=frozenset({"/health", "/v1/models", "/v1/embeddings"})))
    outcome = world.check()
    assert failures(outcome) == ["endpoint-chat"]
    assert "not started as a language model" in only(outcome, "endpoint-chat").hint


@pytest.mark.parametrize(
    ("how", "failed", "found"),
    [
        ({"dimension": 768}, "embedding-dimension", "768 numbers"),
        ({"broken": 3}, "endpoint-embedding", "2 of them not finite"),
        ({"scale": 2.0}, "embedding-length", "2.0000 and 2.0000"),
        ({"scale": 0.0}, "endpoint-embedding", "all zero"),
        ({"constant": True}, "embedding-distinct", "cosine 1.0000"),
        ({"drift": True}, "embedding-repeatable", "cosine"),
        ({"error": 424}, "endpoint-embedding", "HTTP 424: CUDA out of memory"),
        ({"busy": 99}, "endpoint-embedding", "HTTP 429: Model is overloaded"),
        ({"html": True}, "endpoint-embedding", "text/html instead of JSON"),
        ({"model": "intfloat/e5-small"}, "endpoint-models", "intfloat/e5-small"),
    ],
)
def test_an_embedder_that_fails(world: World, how: dict[str, Any], failed: str, found: str) -> None:
    world.components = [EMBEDDER]
    world.serve("embedder", Tei, bge(**how), port=8080)
    outcome = world.check()
    assert failed in failures(outcome)
    assert found in only(outcome, failed).found


def test_replicas_of_an_embedder_must_agree(world: World) -> None:
    world.components = [{**EMBEDDER, "replicas": 3}]
    for replica in range(2):
        world.serve("embedder", Tei, bge(), port=8080, replica=replica)
    world.serve("embedder", Tei, bge(constant=True), port=8080, replica=2)
    outcome = world.check()
    assert [(check.object.name, check.passed) for check in named(outcome, "embedding-replicas-agree")] == [
        ("embedder-1", True),
        ("embedder-2", False),
    ]


def test_each_replica_is_asked(world: World) -> None:
    world.components = [{**LLM, "replicas": 2}]
    world.serve("llm", OpenAi, qwen(), replica=0)
    world.serve("llm", OpenAi, qwen(error=500), replica=1)
    outcome = world.check()
    assert {check.object.name for check in outcome.checks if not check.passed} == {"llm-1"}


def test_a_reranker_that_is_none(world: World) -> None:
    world.components = [RERANKER]
    world.serve("reranker", Tei, ranker(swapped=True), port=8080)
    outcome = world.check()
    assert failures(outcome) == ["endpoint-rerank"]
    assert "passage 1 first" in only(outcome, "endpoint-rerank").found


def test_a_key_that_is_missing_leaves_it_open(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen(key="k3y"))
    outcome = world.check()
    assert failures(outcome) == []
    assert [(item.check, item.needed) for item in outcome.unknown][:2] == [("endpoint-models", True), ("endpoint-chat", True)]
    assert "--api-key-env" in outcome.unknown[0].command
    given = world.check(key="k3y")
    assert failures(given) == []
    assert not given.unknown
    assert "k3y" not in repr(given)


def test_pods_that_do_not_run_or_are_not_there(world: World) -> None:
    world.components = [LLM, EMBEDDER]
    world.put("llm", 8000, 1, phase="Pending")
    outcome = world.check()
    assert not outcome.checks
    assert [(item.check, item.component, item.needed) for item in outcome.unknown] == [
        ("endpoint-health", "llm", True),
        ("endpoint-health", "embedder", True),
    ]


def test_a_right_that_is_missing_is_named(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen())
    world.client.forbidden = frozenset({"pods/portforward"})
    outcome = world.check()
    assert not outcome.checks
    (unknown,) = outcome.unknown
    assert unknown.forbidden
    assert "pods/portforward" in unknown.missing
    assert unknown.command == "ragstow rbac verify"


def test_without_a_description_labels_say_what_it_is(world: World) -> None:
    labels = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/component": "llm"}
    world.serve("llm", OpenAi, qwen(), labels=labels)
    outcome = world.check(described=False)
    assert failures(outcome) == []
    assert len(outcome.checks) == 4


GATEWAY = {"name": "gateway", "role": "gateway", "image": "registry.example/gateway:1"}


def test_a_gateway_is_asked_where_it_says(world: World) -> None:
    world.components = [GATEWAY]
    seen = world.serve("gateway", OpenAi, port=8080)
    assert only(world.check(), "endpoint-health").expected == "port 8080 is open"
    assert only(world.check(health={"gateway": "/v1/models"}), "endpoint-health").expected == "HTTP 200 on /v1/models"
    assert ("GET", "/v1/models") in seen.seen
    assert failures(world.check(health={"gateway": "/nowhere"})) == ["endpoint-health"]


def test_a_gateway_with_a_probe_is_asked_there(world: World) -> None:
    world.components = [GATEWAY]
    probe = {"readinessProbe": {"httpGet": {"path": "/health", "port": "http"}}}
    world.serve("gateway", OpenAi, port=8080, container=probe)
    assert only(world.check(), "endpoint-health").expected == "HTTP 200 on /health"
    world.serve("gateway", OpenAi, Behaviour(loading=True), port=8080, replica=1, container=probe)
    assert failures(world.check()) == ["endpoint-health"]


def test_a_gateway_that_is_away(world: World) -> None:
    world.components = [GATEWAY]
    world.put("gateway", 8080, 1)
    assert failures(world.check()) == ["endpoint-health"]


def _service(world: World, pods: list[str], *, ready: bool = True, port: int = 8000) -> None:
    meta = {"name": "support-llm", "namespace": "rag"}
    labels = {"ragstow.dev/service": "support", "ragstow.dev/component": "llm"}
    world.client.objects = {
        "services": [{"metadata": {**meta, "labels": labels}, "spec": {"clusterIP": "10.0.0.1"}}],
        "endpointslices": [
            {
                "metadata": {**meta, "labels": {"kubernetes.io/service-name": "support-llm"}},
                "ports": [{"name": "http", "port": port}],
                "endpoints": [{"targetRef": {"name": name}, "conditions": {"ready": ready}} for name in pods],
            }
        ],
    }


def test_a_service_that_leads_to_its_pods(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen())
    _service(world, ["llm-0"])
    outcome = world.check(services=True)
    assert failures(outcome) == []
    assert only(outcome, "service-backends").found == "1 ready, port 8000"


@pytest.mark.parametrize(
    ("pods", "ready", "found"),
    [
        ([], True, "0 ready, port 8000"),
        (["llm-0"], False, "0 ready, 1 not ready (llm-0), port 8000"),
        (["llm-0", "other-7"], True, "1 ready, and pods of others: other-7, port 8000"),
    ],
)
def test_a_service_that_does_not(world: World, pods: list[str], ready: bool, found: str) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen())
    _service(world, pods, ready=ready)
    assert only(world.check(services=True), "service-backends").found == found


def test_the_port_behind_the_service_is_asked(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen())
    _service(world, ["llm-0"], port=9999)
    outcome = world.check(services=True)
    assert [item.missing for item in outcome.unknown] == ["pod rag/llm-0 has nothing on port 9999"]


def test_no_service(world: World) -> None:
    world.components = [LLM]
    world.serve("llm", OpenAi, qwen())
    assert failures(world.check(services=True)) == ["service-backends"]


class Endless(BaseHTTPRequestHandler):
    """Never comes to an end."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b"tick\n")
                time.sleep(0.05)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_an_answer_without_end_has_a_time_limit(world: World) -> None:
    world.components = [GATEWAY]
    world.handle("gateway", Endless, port=8080)
    started = time.monotonic()
    outcome = world.check(health={"gateway": "/healthz"}, timeout_seconds=0.5)
    assert only(outcome, "endpoint-health").found == "GET /healthz: no answer in 0.5 s"
    assert time.monotonic() - started < 3


def test_an_engine_that_speaks_tls(world: World, tmp_path: Path) -> None:
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate")]
    subject = ["-subj", "/CN=support-llm.rag.svc", "-days", "1"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    world.components = [LLM]
    handler = type("Handler", (OpenAi,), {"behaviour": qwen()})
    port = world.stack.enter_context(listening(handler, context))
    world.put("llm", 8000, port, args=["--ssl-keyfile", "/tls/key", "--ssl-certfile=/tls/crt"])
    outcome = world.check()
    assert failures(outcome) == []
    assert "curl -sk https://localhost:8000/health" in only(outcome, "endpoint-health").evidence[0].source
    world.pods.clear()
    world.put("llm", 8000, port, container={"readinessProbe": {"httpGet": {"path": "/health", "scheme": "HTTPS"}}})
    assert failures(world.check()) == []
    world.pods.clear()
    world.put("llm", 8000, port)
    assert failures(world.check()) == ["endpoint-health"]


def test_an_embedder_that_was_started_for_another_task(world: World) -> None:
    world.components = [{**EMBEDDER, "engine": "vllm"}]
    world.serve("embedder", OpenAi, bge(paths=frozenset({"/health", "/v1/models", "/v1/chat/completions"})))
    check = only(world.check(), "endpoint-embedding")
    assert "HTTP 404" in check.found
    assert "started for this task" in check.hint


def test_the_length_of_vectors_is_that_of_the_store_else_of_the_model(world: World) -> None:
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
    }
    own = {"name": "embedder", "role": "embedder", "model": "my/own", "modelConfig": config}
    store = {"name": "vectors", "role": "vector-store", "dimensions": 768}
    found: list[tuple[int | None, str]] = []
    services: list[list[dict[str, Any]]] = [
        [own],
        [EMBEDDER],
        [EMBEDDER, {**store, "dimensions": 1024}],
        [EMBEDDER, {**own, "name": "other"}, store],
    ]
    for components in services:
        world.components = components
        target = world.wanted().of("embedder")[0]
        found.append((target.dimensions, target.dimensions_from))
    assert found == [
        (384, "hidden_size in the config of my/own"),
        (1024, "hidden size of BAAI/bge-m3"),
        (1024, "dimensions of vectors"),
        (1024, "hidden size of BAAI/bge-m3"),
    ]
