"""The dry run of procedures on a real API server: what is new, what changes, what is in the way; and nothing is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane_support import ControlPlane
from ragstow.live.client import ApiClient
from ragstow.live.failures import Forbidden
from ragstow.live.kubeconfig import Choice, access
from ragstow.live.preview import ObjectPreview, preview
from ragstow.live.transport import Transport
from ragstow.render.actions import Action, ApplyObject, DeleteObject, HelmUpgrade, MergePatch, Procedure, SetLabels


def tried(client: ApiClient, *actions: Action) -> tuple[ObjectPreview, ...]:
    return preview(client, Procedure("s", "rag", "digest", actions))


def config(name: str, data: dict[str, str], namespace: str = "rag") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def deployment(name: str, image: str = "i", namespace: str = "rag", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


@pytest.fixture(scope="module")
def rag(plane: ControlPlane) -> ControlPlane:
    """The plane with namespace rag and a node."""
    plane.kubectl("create", "namespace", "rag")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"a": "1", "b": "2"}}}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(node))
    return plane


@pytest.fixture
def other(rag: ControlPlane) -> Iterator[ApiClient]:
    """A client of the applier."""
    made = ApiClient(Transport(access(Choice(kubeconfig=str(rag.kubeconfig), context="applier"), os.environ)))
    yield made
    made.close()


def test_new_changed_and_same_objects_are_told_apart_and_nothing_is_kept(rag: ControlPlane, client: ApiClient) -> None:
    client.apply(config("there", {"a": "1"}))
    client.apply(deployment("llm", replicas=1))
    found = tried(
        client,
        ApplyObject(config("new", {"a": "1"})),
        ApplyObject(config("there", {"a": "1"})),
        ApplyObject(config("there", {"a": "2", "b": "3"})),
        ApplyObject(deployment("llm", "other", replicas=2)),
    )
    assert [item.what for item in found] == ["create", "same", "change", "change"]
    assert [(item.path, item.before, item.after) for item in found[2].fields] == [(".data.a", "1", "2"), (".data.b", None, "3")]
    assert [(item.path, item.before, item.after) for item in found[3].fields] == [
        (".spec.replicas", 1, 2),
        (".spec.template.spec.containers[name=c].image", "i", "other"),
    ]
    assert all(not item.problem and not item.conflicts and not item.warnings for item in found)
    assert rag.kubectl("-n", "rag", "get", "configmap", "--ignore-not-found", "new") == ""
    assert rag.kubectl("-n", "rag", "get", "configmap", "there", "-o", "jsonpath={.data.a}") == "1"


def test_a_field_of_another_manager_is_named_and_the_difference_is_still_shown(rag: ControlPlane, client: ApiClient) -> None:
    client.apply(deployment("scaled", replicas=1))
    rag.kubectl("-n", "rag", "scale", "deployment", "scaled", "--replicas=3")
    (found,) = tried(client, ApplyObject(deployment("scaled", replicas=1)))
    assert [(item.field, item.manager) for item in found.conflicts] == [(".spec.replicas", "kubectl")]
    assert [(item.path, item.before, item.after) for item in found.fields] == [(".spec.replicas", 3, 1)]


def test_without_its_namespace_an_object_is_checked_in_another(rag: ControlPlane, client: ApiClient) -> None:
    client.apply(config("taken", {}, "default"))
    wrong = deployment("wrong", namespace="soon")
    wrong["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
    good, taken, bad, unknown = tried(
        client,
        ApplyObject(deployment("llm", namespace="soon")),
        ApplyObject(config("taken", {}, "soon")),
        ApplyObject(wrong),
        ApplyObject(deployment("typo", namespace="soon", replica=1)),
    )
    assert (good.what, good.problem, good.ref) == ("create", "", "Deployment soon/llm")
    assert good.note == "namespace soon is not there yet: tried in namespace default"
    assert good.after is not None
    assert good.after["metadata"]["namespace"] == "soon"
    assert (taken.what, taken.problem) == ("create", "")
    assert "imagePullPolicy" in bad.problem
    assert 'unknown field "spec.replica"' in unknown.problem
    assert (
        rag.kubectl("get", "deployments", "-A", "--field-selector=metadata.name=llm,metadata.namespace!=rag", "-o", "name")
        == ""
    )


def test_what_the_server_refuses_stands_with_its_object(rag: ControlPlane, client: ApiClient) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "small"},
        "spec": {"hard": {"count/configmaps": "0"}},
    }
    counted = {"status": {"hard": {"count/configmaps": "0"}, "used": {"count/configmaps": "0"}}}
    rag.kubectl("create", "namespace", "small")
    rag.kubectl("apply", "-f", "-", stdin=json.dumps(quota))
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(counted))
    rag.kubectl("-n", "small", "patch", "resourcequota", "none", *patch)
    changed = deployment("fixed")
    client.apply(changed)
    changed["spec"]["selector"]["matchLabels"] = {"app": "else"}
    changed["spec"]["template"]["metadata"]["labels"] = {"app": "else"}
    unknown = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "x"}}
    full, immutable, nothing = tried(client, ApplyObject(config("c", {}, "small")), ApplyObject(changed), ApplyObject(unknown))
    assert "quota" in full.problem
    assert (immutable.what, immutable.anew, immutable.problem) == ("change", True, "")
    assert [item.path for item in immutable.fields] == [
        ".spec.selector.matchLabels.app",
        ".spec.template.metadata.labels.app",
    ]
    assert nothing.problem == "the cluster has no Thing of example.org/v1"
    assert {item.what for item in (full, nothing)} == {"unknown"}


@pytest.mark.usefixtures("rag")
def test_warnings_of_the_server_are_kept(client: ApiClient) -> None:
    old = deployment("old")
    old["spec"]["template"]["spec"]["nodeSelector"] = {"beta.kubernetes.io/os": "linux"}
    doubled = deployment("doubled")
    doubled["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 1}, {"containerPort": 1}]
    warned, twice = tried(client, ApplyObject(old), ApplyObject(doubled))
    assert len(warned.warnings) == 1
    assert "deprecated since v1.14" in warned.warnings[0]
    assert "duplicate entries for key" in twice.problem


def test_patches_labels_and_deletions(rag: ControlPlane, client: ApiClient) -> None:
    client.apply(config("others", {"a": "1", "default": "x"}))
    found = tried(
        client,
        MergePatch("v1", "ConfigMap", "rag", "others", {"data": {"a": None, "b": "2"}}, "adds b"),
        MergePatch("v1", "ConfigMap", "rag", "missing", {"data": {}}, "nothing"),
        SetLabels("n1", {"a": "2"}, ("b",)),
        SetLabels("n1", {"ragstow.dev/pool": "s"}),
        SetLabels("n9", {"a": "2"}),
        DeleteObject("v1", "ConfigMap", "rag", "others"),
        DeleteObject("v1", "ConfigMap", "rag", "missing"),
        HelmUpgrade("rag", "nvdp", "chart", "repo", "1", {}, "values.yaml", "others", {"default": "y"}),
    )
    changed, missing, node, nowhere, deleted, gone, helm = found
    assert [(item.path, item.before, item.after) for item in changed.fields] == [(".data.a", "1", None), (".data.b", None, "2")]
    assert missing.problem == "there is no ConfigMap rag/missing"
    assert [(item.path, item.before, item.after) for item in node.fields] == [
        (".metadata.labels.a", "1", "2"),
        (".metadata.labels.b", "2", None),
        (".metadata.labels['ragstow.dev/pool']", None, "s"),
    ]
    assert nowhere.problem == "there is no node n9"
    assert (deleted.what, gone.what) == ("delete", "same")
    assert [(item.path, item.after) for item in helm.fields] == [(".data.a", None), (".data.default", "y")]
    assert helm.note == "by helm upgrade of rag/nvdp"
    assert rag.kubectl("get", "node", "n1", "-o", "jsonpath={.metadata.labels.a}") == "1"


def test_a_missing_right_is_an_error_with_its_rule(rag: ControlPlane) -> None:
    reader = ApiClient(Transport(access(Choice(kubeconfig=str(rag.kubeconfig), context="reader"), os.environ)))
    with pytest.raises(Forbidden, match=r'resources \["configmaps"\], verbs \["patch"\]') as caught:
        tried(reader, ApplyObject(config("c", {})))
    assert "ragstow rbac apply" in caught.value.hint
    reader.close()


def test_the_printed_role_is_enough(other: ApiClient) -> None:
    found = tried(
        other,
        ApplyObject(deployment("by-applier")),
        ApplyObject(deployment("by-applier", namespace="soon")),
        SetLabels("n1", {"a": "2"}),
    )
    assert [item.what for item in found] == ["create", "create", "change"]
    assert "tried in namespace default" in found[1].note
