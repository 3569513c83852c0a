"""The schemas made from the document's shapes: up to date, valid, and what they accept; the pages of fields."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from ragstow import kubeyaml
from ragstow.errors import InputError
from ragstow.facts import load as load_facts
from ragstow.spec import load, to_document
from ragstow.spec.fields import all_paths, page
from ragstow.spec.schema import crd, json_schema
from support import ROOT

SCHEMAS = ROOT / "src" / "ragstow" / "schemas"
EXAMPLES = sorted((ROOT / "examples").glob("*/service*.yaml"))


def test_the_files_are_up_to_date() -> None:
    place = importlib.util.spec_from_file_location("schemas_script", ROOT / "scripts" / "schemas.py")
    assert place is not None
    assert place.loader is not None
    script: Any = importlib.util.module_from_spec(place)
    place.loader.exec_module(script)
    for name, text in script.texts().items():
        assert (SCHEMAS / name).read_text(encoding="utf-8") == text, f"{name} is stale: run python scripts/schemas.py"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_and_normalised_services_are_valid_under_the_schema(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    written = kubeyaml.load_all(path.read_text(encoding="utf-8"))[0].value
    validator.validate(written)
    validator.validate(to_document(load(path, load_facts())))


@pytest.mark.parametrize(
    "change",
    [
        {"components": []},
        {"components": [{"name": "llm", "role": "lm"}]},
        {"components": [{"name": "llm", "role": "llm", "replica": 1}]},
        {"components": [{"name": "llm", "role": "llm", "replicas": 0}]},
        {"components": [{"name": "llm", "role": "llm", "replicas": None}]},
        {"components": [{"name": "llm", "role": "llm"}], "placement": {"sharing": ["auto"]}},
    ],
)
def test_the_schema_refuses_what_ragstow_refuses(change: dict[str, Any]) -> None:
    document = {"apiVersion": "ragstow.dev/v1alpha1", "kind": "RagService", "metadata": {"name": "a"}, "spec": change}
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid(document)


@pytest.mark.parametrize("release", ["1.34", "1.37"])
def test_the_crd_is_valid_kubernetes(release: str) -> None:
    kubernetes_validate.validate(crd(), release, strict=True)


def test_the_crd_is_structural() -> None:
    """What the API server asks of a schema: a type everywhere, and no properties beside additionalProperties."""

    def walk(schema: dict[str, Any], where: str) -> None:
        free = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string")
        assert "type" in schema or free, where
        assert not ({"$ref", "const", "default", "examples", "title"} & schema.keys()), where
        assert not ("properties" in schema and "additionalProperties" in schema), where
        for name, inner in schema.get("properties", {}).items():
            walk(inner, f"{where}.{name}")
        if "items" in schema:
            walk(schema["items"], f"{where}[]")

    root = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    walk(root, "")
    assert set(root["properties"]["spec"]["properties"]) == set(json_schema()["properties"]["spec"]["properties"])


def test_every_field_of_the_interface_has_a_page() -> None:
    for path in all_paths():
        found = page(path)
        assert found.meaning.endswith("."), path
        assert found.required or found.default or found.example is not None, path
    for name in ("isolation", "components.footprint.memoryMiB", "components.cache.accessMode", "placement.survive"):
        assert page(f"spec.{name}").meaning


def test_pages_say_type_default_and_example() -> None:
    found = page("spec.components[0].concurrency")
    assert (found.path, found.type) == ("spec.components.concurrency", "whole number")
    assert "16" in found.default
    assert page("spec.components.memory").type == "quantity"
    assert page("spec.placement.sharing").type == "list of one of auto, exclusive, time-slicing, mps, mig, dra"
    assert "name" in page("spec.components").fields


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("spec.components.concurency", "did you mean spec.components.concurrency?"),
        ("spec.concurrency", "did you mean spec.components.concurrency?"),
        ("spec.placement.sharing.mode", ""),
        ("sepc", "did you mean spec?"),
    ],
)
def test_unknown_fields_are_hinted_at(path: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        page(path)
    assert hint in caught.value.hint


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(json_schema())) == json_schema()
