"""The JSON Schema and the CustomResourceDefinition of a RagService, made from the shapes of `document`.

Both are checked in under `schemas/`; `scripts/schemas.py` writes them and a test compares.
"""

from __future__ import annotations

from typing import Any

from ragstow.spec.document import API_VERSION, KIND, DocumentShape, SpecShape

PLURAL, SINGULAR = "ragservices", "ragservice"
GROUP, VERSION = API_VERSION.split("/")

_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NOT_IN_CRD = ("examples", "additionalProperties")


def json_schema() -> dict[str, Any]:
    """The schema of a document, JSON Schema 2020-12, without references."""
    schema = DocumentShape.model_json_schema(by_alias=True, mode="validation")
    inlined = _clean(_inline(schema, schema.get("$defs", {})))
    body = {key: value for key, value in inlined.items() if key != "$defs"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://{GROUP}/schemas/{SINGULAR}.schema.json",
        "title": KIND,
        **body,
    }


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition: the same schema in the structural form that the API server takes."""
    schema = SpecShape.model_json_schema(by_alias=True, mode="validation")
    spec = _structural(_clean(_inline(schema, schema.get("$defs", {}))))
    spec.pop("$defs", None)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": SINGULAR},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": spec,
                                "status": dict(_ANYTHING),
                            },
                        }
                    },
                }
            ],
        },
    }


def _inline(value: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inline(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        target = _inline(definitions[value["$ref"].rpartition("/")[2]], definitions)
        return {**target, **{key: _inline(item, definitions) for key, item in value.items() if key != "$ref"}}
    return {key: _inline(item, definitions) for key, item in value.items()}


def _clean(value: Any, *, names: bool = False) -> Any:
    """Without pydantic's titles and nulls; an absent field is never null. `names` says that the keys are field names."""
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        if not names and (key in ("title", "x-default") or (key == "default" and item is None)):
            continue
        found[key] = _clean(item, names=key == "properties")
    if names:
        return found
    if "x-default" in value:
        found["description"] = f"{found.get('description', '')} Default: {value['x-default']}."
    options = found.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        left = [item for item in options if item != {"type": "null"}]
        del found["anyOf"]
        found = {**left[0], **found} if len(left) == 1 else {**found, "anyOf": left}
    return found


def _structural(value: Any, *, names: bool = False) -> Any:
    """The form of apiextensions.k8s.io/v1: a type for every field, no unions but integer-or-string."""
    if isinstance(value, list):
        return [_structural(item) for item in value]
    if not isinstance(value, dict):
        return value
    if names:
        return {key: _structural(item) for key, item in value.items()}
    if "anyOf" in value and not value.get("x-kubernetes-int-or-string"):
        return {"description": value.get("description", ""), "x-kubernetes-preserve-unknown-fields": True}
    free = value.get("additionalProperties")
    found = {
        key: _structural(item, names=key == "properties")
        for key, item in value.items()
        if key not in _NOT_IN_CRD or (key == "additionalProperties" and isinstance(free, dict))
    }
    if "const" in found:
        found["enum"] = [found.pop("const")]
    return found
