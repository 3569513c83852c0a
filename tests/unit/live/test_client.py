"""The verbs against a real API server, and what happens when the way to it is bad."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live import client as module
from ragstow.live.client import ApiClient
from ragstow.live.discovery import Resource
from ragstow.live.failures import ApiError, Conflict, Forbidden, Invalid, Right
from ragstow.live.kubeconfig import Access
from ragstow.live.transport import Transport

RIGHT = Right("get", "things")


def resource(client: ApiClient, plural: str, group: str = "") -> Resource:
    found = client.resources().plural(group, plural)
    assert found is not None
    return found


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def test_lists_are_read_page_by_page(client: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        client.apply(config_map(f"page-{number}"))
    monkeypatch.setattr(module, "_PAGE", 2)
    maps = [item["metadata"]["name"] for item in client.list(resource(client, "configmaps"), "default")]
    assert [name for name in maps if name.startswith("page-")] == [f"page-{number}" for number in range(7)]
    first = next(iter(client.list(resource(client, "configmaps"), "default", fields="metadata.name=page-3")))
    assert (first["kind"], first["apiVersion"], first["metadata"]["name"]) == ("ConfigMap", "v1", "page-3")


def test_apply_is_ours_until_somebody_else_owns_a_field(client: ApiClient) -> None:
    made = client.apply(config_map("applied", a="1"))
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["ragstow"]
    assert client.apply(config_map("dry", a="1"), dry_run=True)["data"] == {"a": "1"}
    maps = resource(client, "configmaps")
    assert client.get(maps, "dry", "default") is None
    client.transport.json(
        "PATCH",
        maps.path("default", "applied"),
        RIGHT,
        query={"fieldManager": "other", "force": "true"},
        body=config_map("applied", a="2"),
        content_type="application/apply-patch+yaml",
    )
    with pytest.raises(Conflict, match="other"):
        client.apply(config_map("applied", a="3"))
    assert client.apply(config_map("applied", a="3"), force=True)["data"] == {"a": "3"}
    assert client.patch(maps, "applied", "default", {"metadata": {"labels": {"x": "y"}}})["metadata"]["labels"] == {"x": "y"}
    client.delete(maps, "applied", "default")
    client.delete(maps, "applied", "default")
    assert client.get(maps, "applied", "default") is None


def test_a_wrong_field_is_refused(client: ApiClient) -> None:
    with pytest.raises(ApiError, match="wrong"):
        client.apply({**config_map("strict"), "wrong": 1})


def test_a_watch_tells_what_is_there_and_what_changes(client: ApiClient) -> None:
    maps = resource(client, "configmaps")
    client.apply(
        {**config_map("watched", n="0"), "metadata": {"name": "watched", "namespace": "default", "labels": {"w": "1"}}}
    )

    def change() -> None:
        time.sleep(0.3)
        client.patch(maps, "watched", "default", {"data": {"n": "1"}})
        client.delete(maps, "watched", "default")

    worker = threading.Thread(target=change)
    worker.start()
    events = [(kind, (item.get("data") or {}).get("n")) for kind, item in client.watch(maps, labels="w=1", seconds=3)]
    worker.join()
    assert events[0] == ("ADDED", "0")
    assert ("MODIFIED", "1") in events
    assert events[-1][0] == "DELETED"


def test_an_eviction_that_a_budget_refuses_is_an_answer(client: ApiClient) -> None:
    labels = {"app": "guarded"}
    meta = {"name": "guarded", "namespace": "default", "labels": labels}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
    }
    client.apply(pod)
    budget = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    client.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget})
    running = {**(client.get(resource(client, "pods"), "guarded", "default") or {})}
    running["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.transport.json("PUT", "/api/v1/namespaces/default/pods/guarded/status", RIGHT, body=running)
    assert client.evict("guarded", "default") is False
    client.delete(resource(client, "poddisruptionbudgets", "policy"), "guarded", "default")
    deadline = time.monotonic() + 10
    while not client.evict("guarded", "default") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert client.evict("gone", "default") is True


def test_resources_and_version_are_the_servers(client: ApiClient) -> None:
    assert client.version() == "v1.37.2"
    found = client.resources().of("apps/v1", "Deployment")
    assert found is not None
    assert found.path("ns", "d", "scale") == "/apis/apps/v1/namespaces/ns/deployments/d/scale"
    assert client.resources().plural("nvidia.com", "clusterpolicies") is None
    with pytest.raises(ClusterError, match="no ClusterPolicy"):
        client.apply({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "c"}})


class Way:
    """What a bad way to a server answers, in turn; then 200."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], float]] = []
        self.message = "said so"
        self.requests: list[tuple[str, dict[str, str]]] = []


@contextmanager
def bad_way() -> Iterator[tuple[str, Way]]:
    way = Way()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            way.requests.append((self.command, dict(self.headers)))
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, wait = way.answers.pop(0) if way.answers else (200, {}, 0.0)
            time.sleep(wait)
            body = json.dumps({"kind": "Status", "reason": "R", "message": way.message}).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815 - the names of http.server

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", way
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def transport(**more: Any) -> Iterator[tuple[Transport, Way, list[float]]]:
    waits: list[float] = []
    with bad_way() as (server, way):
        made = Transport(Access(server, "test", **more), timeout_seconds=1, sleep=waits.append)
        try:
            yield made, way, waits
        finally:
            made.close()


def test_reads_are_tried_again_when_a_server_is_busy_or_broken() -> None:
    with transport() as (made, way, waits):
        way.answers = [(429, {"Retry-After": "7"}, 0), (503, {}, 0), (500, {}, 0)]
        assert made.json("GET", "/x", RIGHT)["message"] == "said so"
        assert len(way.requests) == 4
        assert waits[0] == 7
        assert waits[1] < waits[2]


def test_writes_are_tried_again_only_where_nothing_was_done() -> None:
    with transport() as (made, way, _):
        way.answers = [(429, {"Retry-After": "1"}, 0)]
        made.send("PATCH", "/x", RIGHT, body={})
        way.answers = [(500, {}, 0)]
        with pytest.raises(ApiError, match="said so"):
            made.send("PATCH", "/x", RIGHT, body={})
        assert len(way.requests) == 3


def test_a_server_that_has_not_read_its_roles_yet_is_asked_again() -> None:
    with transport() as (made, way, _):
        way.message = (
            'forbidden: User "jo" cannot get path "/api": RBAC: '
            '[clusterrole.rbac.authorization.k8s.io "ragstow-read" not found, '
            'clusterrole.rbac.authorization.k8s.io "system:discovery" not found]'
        )
        way.answers = [(403, {}, 0), (403, {}, 0)]
        made.send("PATCH", "/x", RIGHT, body={})
        assert len(way.requests) == 3


def test_a_right_to_a_path_is_told_as_such() -> None:
    with transport() as (made, way, _):
        way.message = 'forbidden: User "jo" cannot get path "/apis"'
        way.answers = [(403, {}, 0)]
        with pytest.raises(Forbidden) as raised:
            made.send("GET", "/apis", Right("get", "/apis"))
        assert 'nonResourceURLs ["/apis"], verbs ["get"]' in raised.value.message
        assert len(way.requests) == 1


def test_a_server_that_stays_broken_is_given_up() -> None:
    with transport() as (made, way, waits):
        way.answers = [(503, {}, 0)] * 20
        with pytest.raises(ApiError) as raised:
            made.send("GET", "/x", RIGHT)
        assert raised.value.status == 503
        assert len(way.requests) == 5
        assert sum(waits) < 6


def test_every_call_has_a_time_limit() -> None:
    with transport() as (made, way, _):
        way.answers = [(200, {}, 1.0)]
        with pytest.raises(TimeoutReached) as raised:
            made.send("GET", "/x", RIGHT, timeout_seconds=0.2)
        assert raised.value.exit_code == 4


def test_a_missing_right_is_named_as_a_rule() -> None:
    with transport() as (made, way, _):
        way.message = 'pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "rag"'
        way.answers = [(403, {}, 0)]
        with pytest.raises(Forbidden) as raised:
            made.send("GET", "/x", Right("list", "pods", "", "rag"))
        assert 'apiGroups [""], resources ["pods"], verbs ["list"] in namespace rag' in str(raised.value)
        assert raised.value.exit_code == 3


def test_a_refusal_of_admission_is_no_missing_right() -> None:
    with transport() as (made, way, _):
        way.message = 'pods "llm" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1'
        way.answers = [(403, {}, 0)]
        with pytest.raises(ApiError, match="exceeded quota") as raised:
            made.send("POST", "/x", Right("create", "pods", "", "rag"))
        assert not isinstance(raised.value, Forbidden)


def test_impersonation_and_credentials_go_along() -> None:
    who = {"Impersonate-User": ("alice",), "Impersonate-Group": ("a", "b")}
    with transport(token="secret", impersonate=who) as (made, way, _):
        made.send("GET", "/x", RIGHT)
        headers = way.requests[0][1]
        assert headers["Authorization"] == "Bearer secret"
        assert headers["Impersonate-User"] == "alice"


def test_conflicts_name_field_and_manager_and_warnings_are_heard(client: ApiClient) -> None:
    name = config_map("owned", a="1")
    client.apply(name)
    client.transport.json(
        "PATCH",
        resource(client, "configmaps").path("default", "owned"),
        RIGHT,
        query={"fieldManager": "other", "force": "true"},
        body=config_map("owned", a="2", b="2"),
        content_type="application/apply-patch+yaml",
    )
    with pytest.raises(Conflict) as caught:
        client.apply(config_map("owned", a="3", b="3"), dry_run=True)
    assert sorted((item.field, item.manager) for item in caught.value.owned) == [(".data.a", "other"), (".data.b", "other")]
    heard: list[str] = []
    client.transport.on_warning = heard.append
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "warned", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}, {"containerPort": 1}]}]},
    }
    client.create(pod, dry_run=True)
    assert heard == ["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"]
    with pytest.raises(Invalid, match="unknown field"):
        client.create({**pod, "spec": {"container": []}}, dry_run=True)
    assert client.get(resource(client, "pods"), "warned", "default") is None
