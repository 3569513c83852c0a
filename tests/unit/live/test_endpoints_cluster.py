"""The endpoints of a whole service on a real control plane: forwarded ports, exec with input, Services and their slices."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml

from controlplane_support import ControlPlane, control_plane, need_controlplane
from endpoint_servers import Behaviour, OpenAi, Tei, listening, serve
from endpoint_support import FACTS, NAMESPACE, SERVICE, failures, named, only
from live_support import client_of, give_roles
from postgres_server import Database, postgres
from qdrant_server import Store, qdrant
from ragstow.cli.main import run
from ragstow.cluster.build import build
from ragstow.live.client import ApiClient
from ragstow.live.endpoints.check import Options, check_endpoints
from ragstow.live.endpoints.targets import wanted
from ragstow.spec import normalise
from ragstow.verification.model import Outcome
from support import ENVIRONMENT

COMPONENTS: list[dict[str, Any]] = [
    {"name": "llm", "role": "llm", "model": "Qwen/Qwen2.5-7B-Instruct", "replicas": 2},
    {"name": "embedder", "role": "embedder", "model": "BAAI/bge-m3"},
    {"name": "reranker", "role": "reranker", "model": "BAAI/bge-reranker-v2-m3"},
    {
        "name": "tables",
        "role": "vector-store",
        "engine": "pgvector",
        "image": "registry.example/pgvector:1",
        "dimensions": 1024,
    },
    {"name": "vectors", "role": "vector-store", "engine": "qdrant", "dimensions": 1024},
]
PORTS = {"llm": 8000, "embedder": 8080, "reranker": 8080, "tables": 5432, "vectors": 6333}


class Cluster:
    """A service that runs on a control plane, and what its pods really are."""

    def __init__(self, plane: ControlPlane, database: Database, behaviours: dict[str, Behaviour], store: Store) -> None:
        self.plane = plane
        self.database = database
        self.behaviours = behaviours
        self.store = store

    def check(self, user: str) -> Outcome:
        """Everything, as one of the users."""
        client = client_of(self.plane.kubeconfig, user)
        try:
            pods = json.loads(self.plane.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
            document = {
                "apiVersion": "ragstow.dev/v1alpha1",
                "kind": "RagService",
                "metadata": {"name": SERVICE, "namespace": NAMESPACE},
                "spec": {"components": COMPONENTS},
            }
            found = wanted(build(pods).pods, FACTS, name=SERVICE, namespace=NAMESPACE, service=normalise(document, FACTS))
            return check_endpoints(client, found, Options(timeout_seconds=20))
        finally:
            client.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_controlplane(own=True)
    with ExitStack() as stack:
        database = stack.enter_context(postgres())
        behaviours = {
            "llm-0": Behaviour(model=COMPONENTS[0]["model"]),
            "llm-1": Behaviour(model=COMPONENTS[0]["model"]),
            "embedder-0": Behaviour(model=COMPONENTS[1]["model"], dimension=1024),
            "reranker-0": Behaviour(model=COMPONENTS[2]["model"]),
        }
        store = Store()
        ports = {
            name: stack.enter_context(serve(OpenAi if name.startswith("llm") else Tei, how)) for name, how in behaviours.items()
        }
        ports |= {"tables-0": database.port, "vectors-0": stack.enter_context(listening(qdrant(store)))}
        config = tmp_path_factory.mktemp("kwok") / "kwok.yaml"
        config.write_text(yaml.safe_dump_all(_kwok(ports, database)))
        plane = stack.enter_context(control_plane(nodes=True, kwok=[config], path=str(database.programs)))
        give_roles(plane)
        _create(plane, list(ports))
        yield Cluster(plane, database, behaviours, store)


def _kwok(ports: dict[str, int], database: Database) -> Iterator[dict[str, Any]]:
    """Ports of pods lead to servers of this machine; commands run here, in the environment that the image would have."""
    kind = {"apiVersion": "kwok.x-k8s.io/v1alpha1"}
    for name, local in ports.items():
        target = {"address": "127.0.0.1", "port": local}
        forward = {"ports": [PORTS[name.rpartition("-")[0]]], "target": target}
        spec = {"selector": {"matchNamespaces": [NAMESPACE], "matchNames": [name]}, "forwards": [forward]}
        yield {**kind, "kind": "ClusterPortForward", "metadata": {"name": name}, "spec": spec}
    variables = [{"name": name, "value": value} for name, value in database.environment.items()]
    spec = {"selector": {"matchNames": ["tables-0"]}, "execs": [{"local": {"envs": variables}}]}
    yield {**kind, "kind": "ClusterExec", "metadata": {"name": "tables"}, "spec": spec}


def _create(plane: ControlPlane, pods: list[str]) -> None:
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "50"}
    status = {"capacity": amounts, "allocatable": amounts}
    plane.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status})
    )
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("wait", "-n", NAMESPACE, "--for=create", "serviceaccount/default", "--timeout=30s")
    items = [_pod(name) for name in pods]
    items += [_service(item["name"]) for item in COMPONENTS]
    plane.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    plane.kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pod", "--all", "--timeout=60s")
    for item in COMPONENTS:
        plane.kubectl(
            "wait", "-n", NAMESPACE, "endpointslices", "-l", f"kubernetes.io/service-name=support-{item['name']}",
            "--for=jsonpath={.endpoints[0].conditions.ready}=true", "--timeout=60s",
        )  # fmt: skip


def _labels(component: str) -> dict[str, str]:
    return {"ragstow.dev/service": SERVICE, "ragstow.dev/component": component}


def _pod(name: str) -> dict[str, Any]:
    component = name.rpartition("-")[0]
    container = {"name": component, "image": "i", "ports": [{"name": "http", "containerPort": PORTS[component]}]}
    described = next(item for item in COMPONENTS if item["name"] == component)
    engine = described.get("engine") or ("vllm" if described["role"] == "llm" else "tei")
    labels = {"app.kubernetes.io/name": engine, "app.kubernetes.io/component": described["role"], **_labels(component)}
    meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def _service(component: str) -> dict[str, Any]:
    meta = {"name": f"{SERVICE}-{component}", "namespace": NAMESPACE, "labels": _labels(component)}
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    spec = {"selector": _labels(component), "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def test_everything_works_for_a_verifier(cluster: Cluster) -> None:
    outcome = cluster.check("verifier")
    assert [(check.name, check.found) for check in outcome.checks if not check.passed] == []
    assert not outcome.unknown
    assert [check.name for check in outcome.checks if check.name.startswith("rag-")] == [
        "rag-embed",
        "rag-store",
        "rag-rerank",
        "rag-answer",
    ]
    assert {check.object.name for check in named(outcome, "endpoint-chat")} == {"llm-0", "llm-1"}
    assert only(outcome, "rag-store").component == "tables"
    assert [check.found for check in named(outcome, "service-backends")] == [
        "2 ready, port 8000",
        "1 ready, port 8080",
        "1 ready, port 8080",
        "1 ready, port 5432",
        "1 ready, port 6333",
    ]
    assert cluster.store.collections == {}
    assert cluster.database.query("SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == "0"


def test_a_replica_that_fails_is_named(cluster: Cluster) -> None:
    cluster.behaviours["llm-1"].error = 500
    try:
        outcome = cluster.check("verifier")
    finally:
        cluster.behaviours["llm-1"].error = 0
    assert {check.object.name for check in outcome.checks if not check.passed} == {"llm-1"}
    assert only(outcome, "rag-answer").object.name == "llm-0", "the question is sent where it can be answered"


def test_a_reader_hears_which_right_is_missing(cluster: Cluster) -> None:
    outcome = cluster.check("reader")
    assert not [check for check in outcome.checks if check.name != "service-backends"]
    health = [item for item in outcome.unknown if item.check == "endpoint-health"]
    assert len(health) == 6
    assert all(item.forbidden and item.needed and "pods/portforward" in item.missing for item in health)
    assert failures(outcome) == []


def test_input_reaches_a_command_whole(cluster: Cluster) -> None:
    text = "".join(f"{number}\n" for number in range(40_000)).encode()
    client: ApiClient = client_of(cluster.plane.kubeconfig, "verifier")
    try:
        # KWOK does not tell a command that its input ended, so it must count itself.
        counts = ["sh", "-c", f"head -c {len(text)} | sha256sum"]
        done = client.execute("tables-0", NAMESPACE, "tables", counts, stdin=text)
        assert done.stdout.split()[0] == hashlib.sha256(text).hexdigest()
    finally:
        client.close()


def test_the_command_asks_them_too(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", f"{NAMESPACE}/{SERVICE}", "--kubeconfig", str(cluster.plane.kubeconfig), "--context", "verifier"]
    code = run([*words, "-o", "json"])
    data = json.loads(capsys.readouterr().out)
    asked = {check["name"]: check["passed"] for check in data["checks"] if check["name"].startswith(("rag-", "endpoint-"))}
    assert {"endpoint-chat", "endpoint-rerank", "rag-embed", "rag-store", "rag-rerank", "rag-answer"} <= asked.keys()
    assert all(asked.values())
    assert code == 0, [check for check in data["checks"] if not check["passed"]] + data["unknown"]
    assert run([*words, "--health", "gate=/healthz"]) == 2
    assert "no such component" in capsys.readouterr().err


def test_ctrl_c_leaves_nothing_in_the_store(cluster: Cluster) -> None:
    words = ["verify", f"{NAMESPACE}/{SERVICE}", "--kubeconfig", str(cluster.plane.kubeconfig), "--context", "verifier"]
    cluster.store.slow = 30
    cluster.store.seen.clear()
    try:
        running = subprocess.Popen(
            [sys.executable, "-m", "ragstow", *words, "--no-logs"], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
        )
        end = time.monotonic() + 60
        while not any(method == "PUT" and path.endswith("/points") for method, path in cluster.store.seen):
            assert time.monotonic() < end
            assert running.poll() is None
            time.sleep(0.05)
        assert cluster.store.collections
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    finally:
        cluster.store.slow = 0
    assert (running.returncode, said.strip().splitlines()[-1]) == (130, "interrupted")
    assert cluster.store.collections == {}
