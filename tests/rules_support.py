"""What the tests of rules share: a context from the YAML of an example, and from a saved folder."""

from __future__ import annotations

from typing import Any

from ragstow import kubeyaml
from ragstow.cli.diagnosis import make_context
from ragstow.cluster.build import RawObject, build
from ragstow.cluster.objects import KubeObject
from ragstow.facts import load
from ragstow.rules.context import Context
from ragstow.rules.manifests import LintContext, Manifest

FACTS = load()


def documents(yaml: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The objects and the attachments (`kind: Log`, `kind: File`) of an example."""
    objects: list[dict[str, Any]] = []
    attachments: dict[str, str] = {}
    for document in kubeyaml.load_all(yaml):
        value = document.value
        if value.get("kind") in ("Log", "File"):
            folder = "logs" if value["kind"] == "Log" else "files"
            attachments[f"{folder}/{value['name']}"] = value["text"]
        elif value.get("kind") == "List":
            objects.extend(value["items"])
        else:
            objects.append(value)
    return objects, attachments


def context_of(yaml: str) -> Context:
    """A diagnosis context of an example."""
    objects, attachments = documents(yaml)
    snapshot = build(objects, attachments=attachments)
    assert not snapshot.problems, snapshot.problems
    return make_context(snapshot, FACTS)


def lint_context_of(yaml: str) -> LintContext:
    """A lint context of an example: objects without uid and status are the manifests, the others the cluster (if any)."""
    objects, attachments = documents(yaml)
    manifests = [value for value in objects if not value["metadata"].get("uid") and "status" not in value]
    cluster = [value for value in objects if value not in manifests]
    made: list[KubeObject] = [item for value in manifests for item in build([RawObject(value, "example.yaml")]).everything]
    context = make_context(build(cluster, attachments=attachments), FACTS) if cluster else None
    return LintContext(tuple(Manifest(item, "example.yaml") for item in made), FACTS, context)
