"""Vector stores and the whole way of a question, against servers that tell the truth and a real PostgreSQL."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from endpoint_servers import Behaviour, OpenAi, Tei
from endpoint_support import World, failures, named, only
from postgres_server import Database, postgres
from qdrant_server import Store, qdrant
from ragstow.live.endpoints import stores
from ragstow.live.endpoints.qdrant import PREFIX
from ragstow.verification.vectors import cosine

LLM = {"name": "llm", "role": "llm", "model": "Qwen/Qwen2.5-7B-Instruct"}
EMBEDDER = {"name": "embedder", "role": "embedder", "model": "BAAI/bge-m3"}
RERANKER = {"name": "reranker", "role": "reranker", "model": "BAAI/bge-reranker-v2-m3"}
VECTORS = {"name": "vectors", "role": "vector-store", "engine": "qdrant"}
TABLES = {"name": "tables", "role": "vector-store", "engine": "pgvector", "image": "registry.example/pgvector:1"}
STAGES = ["rag-embed", "rag-store", "rag-rerank", "rag-answer"]


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with postgres() as running:
        yield running


@pytest.mark.parametrize("size", [2, 8, 1024])
def test_made_up_vectors_have_the_nearest_that_they_promise(size: int) -> None:
    vectors, query = stores.made_up(size)
    best = max(range(len(vectors)), key=lambda at: cosine(vectors[at], query))
    assert best == stores.NEAREST
    assert len(query) == size


def rag(world: World, *, llm: Any = None, embedder: Any = None, reranker: Any = None) -> None:
    """The engines of a whole service."""
    world.components = [LLM, EMBEDDER, RERANKER]
    world.serve("llm", OpenAi, Behaviour(**{"model": LLM["model"], **(llm or {})}))
    world.serve("embedder", Tei, Behaviour(**{"model": EMBEDDER["model"], "dimension": 1024, **(embedder or {})}), port=8080)
    world.serve("reranker", Tei, Behaviour(**{"model": RERANKER["model"], **(reranker or {})}), port=8080)


def keep(world: World, store: Store, *, replicas: int = 1) -> None:
    """Qdrant nodes of one store."""
    world.components.append({**VECTORS, "replicas": replicas})
    for replica in range(replicas):
        world.handle("vectors", qdrant(store), port=6333, replica=replica)


def keep_in(world: World, database: Database, **environment: str) -> None:
    """The real database as a pod."""
    world.components.append(TABLES)
    world.put("tables", 5432, database.port, container={"ports": [{"name": "http", "containerPort": 5432}]})
    path = f"{database.programs}:/usr/bin:/bin"
    world.client.environment["tables-0"] = {**database.environment, "PATH": path, **environment}


def test_the_round_trip_over_qdrant(world: World) -> None:
    store = Store()
    rag(world)
    keep(world, store)
    outcome = world.check()
    assert failures(outcome) == []
    assert not outcome.unknown
    assert [check.name for check in outcome.checks if check.name.startswith("rag-")] == STAGES
    assert "Qdrant 1.19.0: found 2 (" in only(outcome, "rag-store").found
    assert "AMBERFOX" in only(outcome, "rag-answer").found
    assert all(check.evidence for check in outcome.checks if check.name.startswith("rag-"))
    assert store.collections == {}
    assert "Qdrant 1.19.0" in only(outcome, "store").found


def test_the_round_trip_over_postgres(world: World, database: Database) -> None:
    rag(world)
    keep_in(world, database)
    outcome = world.check()
    assert failures(outcome) == []
    assert not outcome.unknown
    assert [check.name for check in outcome.checks if check.name.startswith("rag-")] == STAGES
    assert "PostgreSQL 18" in only(outcome, "store").found
    assert "pgvector 0." in only(outcome, "rag-store").found
    assert "not created in this database yet" in only(outcome, "rag-store").found
    assert database.query("SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == "0", "it was rolled back"
    assert database.query("SELECT count(*) FROM pg_class WHERE relname LIKE 'ragstow%'") == "0"
    assert "not-a-secret" not in repr(outcome)


def test_postgres_speaks_and_others_do_not(world: World, database: Database) -> None:
    keep_in(world, database)
    assert only(world.check(), "endpoint-health").passed
    world.client.ports["tables-0", 5432] = 1
    assert "does not answer" in only(world.check(), "endpoint-health").found


def test_a_web_server_is_no_postgres(world: World) -> None:
    world.components = [TABLES]
    world.serve("tables", OpenAi, port=5432)
    outcome = world.check(timeout_seconds=1.0)
    assert failures(outcome) == ["endpoint-health"]
    assert "PostgreSQL" in only(outcome, "endpoint-health").found


def test_a_wrong_password(world: World, database: Database) -> None:
    keep_in(world, database, POSTGRES_PASSWORD="wrong")
    check = only(world.check(), "store")
    assert not check.passed
    assert "password authentication failed" in check.found
    assert "POSTGRES_PASSWORD" in check.hint


def test_bitnami_names_and_password_files(world: World, database: Database, tmp_path: Any) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{database.environment['POSTGRES_PASSWORD']}\n")
    keep_in(world, database, POSTGRES_PASSWORD="", POSTGRES_USER="", POSTGRES_DB="")
    world.client.environment["tables-0"] |= {
        "POSTGRESQL_USERNAME": "rag",
        "POSTGRESQL_DATABASE": "postgres",
        "POSTGRESQL_PASSWORD_FILE": str(secret),
    }
    assert only(world.check(), "store").passed


def test_a_database_without_pgvector(world: World, database: Database) -> None:
    database.query("CREATE ROLE plain LOGIN PASSWORD 'plain'")
    try:
        keep_in(world, database, POSTGRES_USER="plain", POSTGRES_PASSWORD="plain")
        check = only(world.check(), "store")
        assert not check.passed
        assert "permission denied to create extension" in check.found
        assert check.hint == "let a superuser run once: CREATE EXTENSION vector"
    finally:
        database.query("DROP ROLE plain")


def test_no_psql_in_the_container_leaves_it_open(world: World, database: Database, tmp_path: Any) -> None:
    keep_in(world, database)
    (tmp_path / "sh").symlink_to("/bin/sh")
    world.client.environment["tables-0"]["PATH"] = str(tmp_path)
    outcome = world.check()
    assert failures(outcome) == []
    assert [(item.check, item.needed) for item in outcome.unknown] == [("store", False)]
    assert "no psql" in outcome.unknown[0].missing


def test_exec_that_is_not_allowed(world: World, database: Database) -> None:
    keep_in(world, database)
    world.client.forbidden = frozenset({"pods/exec"})
    (unknown,) = world.check().unknown
    assert unknown.forbidden
    assert unknown.needed
    assert "pods/exec" in unknown.missing


@pytest.mark.parametrize(
    ("how", "failed", "found"),
    [
        ({"fail": ("PUT", "/points")}, "store", "HTTP 500: Service internal error: No space left on device"),
        ({"fail": ("POST", "/query")}, "store", "No space left on device"),
        ({"forgets": True}, "store", "nothing found"),
    ],
)
def test_a_store_that_fails_leaves_nothing_behind(world: World, how: dict[str, Any], failed: str, found: str) -> None:
    store = Store(**how)
    rag(world)
    keep(world, store)
    outcome = world.check()
    assert failed in failures(outcome)
    assert found in only(outcome, failed).found
    assert store.collections == {}
    assert only(outcome, "rag-nearest").passed, "the vectors are compared here instead"
    assert only(outcome, "rag-answer").passed


def test_what_cannot_be_deleted_is_said(world: World) -> None:
    store = Store(fail=("DELETE", ""))
    world.components = []
    keep(world, store)
    outcome = world.check()
    assert failures(outcome) == ["store-clean"]
    (name,) = store.collections
    assert name in only(outcome, "store-clean").found
    assert name in only(outcome, "store-clean").hint


def test_what_a_killed_run_left_is_swept(world: World) -> None:
    now = int(time.time())
    mine, recent, theirs = f"{PREFIX}{now - 7200}-aa", f"{PREFIX}{now - 60}-bb", "documents"
    store = Store({name: {"size": 4, "points": {}} for name in (mine, recent, theirs)})
    world.components = []
    keep(world, store)
    assert failures(world.check()) == []
    assert sorted(store.collections) == sorted([recent, theirs])


def test_a_store_with_a_key(world: World) -> None:
    store = Store(key="k3y")
    world.components = []
    keep(world, store)
    outcome = world.check()
    assert [(item.check, item.needed) for item in outcome.unknown] == [("store", True)]
    assert failures(world.check(key="k3y")) == []


def test_replicas_that_are_one_store(world: World) -> None:
    store = Store()
    world.components = []
    keep(world, store, replicas=2)
    outcome = world.check()
    assert failures(outcome) == []
    assert only(outcome, "store-replicas-agree").passed
    assert store.collections == {}


def test_replicas_that_are_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstow.live.endpoints.qdrant._SPREAD_SECONDS", 0)
    world.components = [{**VECTORS, "replicas": 2}]
    for replica in range(2):
        world.handle("vectors", qdrant(Store()), port=6333, replica=replica)
    outcome = world.check()
    assert failures(outcome) == ["store-replicas-agree"]
    assert "doesn't exist" in only(outcome, "store-replicas-agree").found
    assert "no cluster" in only(outcome, "store-replicas-agree").hint


def test_an_interrupt_leaves_nothing_behind(world: World) -> None:
    """Ctrl-C while the store is being filled."""
    store = Store()
    handler = qdrant(store)

    class Slow(handler):  # type: ignore[misc, valid-type]
        def _upsert(self, collection: dict[str, Any], points: list[dict[str, Any]]) -> None:
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.2)
            super()._upsert(collection, points)

    main = threading.main_thread().ident or 0
    world.components = [VECTORS]
    world.handle("vectors", Slow, port=6333)
    with pytest.raises(KeyboardInterrupt):
        world.check()
    assert store.collections == {}
    assert any(method == "DELETE" for method, _ in store.seen)


@pytest.mark.parametrize("missing", ["llm", "embedder", "reranker"])
def test_what_the_service_lacks_is_left_out_and_said(world: World, missing: str) -> None:
    store = Store()
    rag(world)
    keep(world, store)
    world.components = [item for item in world.components if item["name"] != missing]
    world.pods = [item for item in world.pods if not item["metadata"]["name"].startswith(missing)]
    outcome = world.check()
    assert failures(outcome) == []
    gone = {"llm": {"rag-answer"}, "embedder": {"rag-embed", "rag-store"}, "reranker": {"rag-rerank"}}[missing]
    assert [check.name for check in outcome.checks if check.name.startswith("rag-")] == [
        stage for stage in STAGES if stage not in gone
    ]
    assert any(remark.startswith("round trip without") and f"(there is no {missing})" in remark for remark in outcome.remarks)


def test_without_a_store_vectors_are_compared_here(world: World) -> None:
    rag(world)
    outcome = world.check()
    assert failures(outcome) == []
    assert only(outcome, "rag-nearest").passed
    assert any("store (there is no vector-store)" in remark for remark in outcome.remarks)


@pytest.mark.parametrize(
    ("who", "how", "failed"),
    [
        ("llm", {"lies": "SILVERPIKE"}, ["rag-answer"]),
        ("llm", {"lies": "I do not know."}, ["rag-answer"]),
        ("reranker", {"swapped": True}, ["endpoint-rerank"]),
        ("embedder", {"constant": True}, ["embedding-distinct"]),
        ("llm", {"error": 500}, ["endpoint-chat", "endpoint-completion"]),
    ],
)
def test_a_stage_that_fails_is_named(world: World, who: str, how: dict[str, Any], failed: list[str]) -> None:
    store = Store()
    rag(world, **{who: how})
    keep(world, store)
    outcome = world.check()
    assert failures(outcome) == failed
    assert store.collections == {}
    if not named(outcome, "rag-answer"):
        assert any("no replica of llm can be asked" in remark for remark in outcome.remarks)


def test_a_model_that_thinks_first(world: World) -> None:
    rag(world, llm={"thinks": True})
    check = only(world.check(), "rag-answer")
    assert check.passed
    assert "<think>" not in check.found


def test_a_model_that_only_completes(world: World) -> None:
    rag(world, llm={"chat": False})
    assert only(world.check(), "rag-answer").passed


def test_every_language_model_must_answer(world: World) -> None:
    rag(world)
    world.components.append({**LLM, "name": "rewriter"})
    world.serve("rewriter", OpenAi, Behaviour(model=str(LLM["model"]), lies="SILVERPIKE"))
    assert [(check.component, check.passed) for check in named(world.check(), "rag-answer")] == [
        ("llm", True),
        ("rewriter", False),
    ]


def test_milvus_is_asked_for_its_health(world: World) -> None:
    store = {**VECTORS, "engine": "milvus", "image": "registry.example/milvus:1"}
    world.components = [store]
    world.serve("vectors", OpenAi, port=19530)
    world.client.ports["vectors-0", 9091] = world.client.ports["vectors-0", 19530]
    outcome = world.check()
    (unknown,) = outcome.unknown
    assert (unknown.check, unknown.needed) == ("store", False)
    assert only(outcome, "endpoint-health").expected == "HTTP 200 on /healthz"


def test_nothing_is_kept_where_that_is_not_wanted(world: World) -> None:
    store = Store()
    rag(world)
    keep(world, store)
    outcome = world.check(store=False)
    assert failures(outcome) == []
    assert {method for method, _ in store.seen} == {"GET"}
    assert only(outcome, "rag-nearest").passed
    assert not named(outcome, "store")
    assert any("--no-store" in remark for remark in outcome.remarks)
