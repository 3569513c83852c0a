"""From a document to the service that every other room reads, and back.

`normalise` reports every fault at once or gives the service with all defaults; `to_document` writes a service as a document
that normalises to the same service, its defaults marked in an annotation so that they stay known as defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragstow.errors import InputError, InputErrors, Place
from ragstow.facts import Facts
from ragstow.spec.check_components import check_component
from ragstow.spec.check_placement import allowed_modes, check_placement
from ragstow.spec.defaults import Filler, embedder_dimensions
from ragstow.spec.document import API_VERSION, KIND, DocumentShape, PlacementShape
from ragstow.spec.lookup import Known, look_up
from ragstow.spec.model import GIVEN, Placement, SecretKey, Service, Toleration
from ragstow.spec.parse import Parsed, parse_document, parse_text
from ragstow.spec.write import component_document, placement_document

DEFAULTS_ANNOTATION = "ragstow.dev/defaults"
"""Component -> field -> where its value came from, as JSON; written by `to_document`."""


def load(path: Path, facts: Facts) -> Service:
    """The service in a file.

    Raises:
        InputError: the file cannot be read or holds no RagService.
        InputErrors: everything that is wrong with the service.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("spec-binary", "this is no text file", place=Place(str(path))) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError("spec-unreadable", f"cannot read it: {reason}", place=Place(str(path))) from None
    return load_text(text, facts, file=str(path), folder=path.parent)


def load_text(text: str, facts: Facts, *, file: str | None = None, folder: Path | None = None) -> Service:
    """The service in a text; `folder` is where local models are looked for."""
    return _service(parse_text(text, file), facts, folder)


def normalise(document: Mapping[str, Any], facts: Facts, *, folder: Path | None = None) -> Service:
    """The service in a document that is data already (a plan's `spec`, an object of the cluster)."""
    return _service(parse_document(document), facts, folder)


def _service(parsed: Parsed, facts: Facts, folder: Path | None) -> Service:
    where, errors, shape = parsed.where, list(parsed.errors), parsed.shape
    if shape is None:
        raise InputErrors(_in_order(errors))
    name = shape.metadata.name
    where.title = f"{KIND} {name}"
    components: list[Known] = []
    indexes = _indexes(parsed, shape)
    for index, item in zip(indexes, shape.spec.components, strict=True):
        known, found = look_up(index, item, facts, where, folder)
        components.append(known)
        errors += found
        errors += check_component(known, name, facts, where)
    errors += check_placement(shape.spec, components, _names(parsed), facts, where)
    if errors:
        raise InputErrors(_in_order(errors))
    recorded = _recorded(shape)
    dimensions = embedder_dimensions(components)
    filled = tuple(
        Filler(known, shape.spec, facts, dimensions, recorded.get(known.shape.name, {})).component() for known in components
    )
    secret = shape.spec.model_token_secret
    return Service(
        name=name,
        namespace=shape.metadata.namespace or "default",
        components=filled,
        placement=_placement(shape.spec.placement, allowed_modes(shape.spec)),
        isolation=shape.spec.isolation or "memory",
        image_pull_secrets=tuple(shape.spec.image_pull_secrets or ()),
        model_token_secret=None if secret is None else SecretKey(secret.name, secret.key),
        notes=(*parsed.warnings, *_notes(components)),
    )


def _indexes(parsed: Parsed, shape: DocumentShape) -> list[int]:
    """Where the components that were kept stand in the document; those taken out leave gaps."""
    if not parsed.dropped:
        return list(range(len(shape.spec.components)))
    raw = parsed.raw.get("spec", {}).get("components", [])
    found: list[int] = []
    for item in shape.spec.components:
        start = found[-1] + 1 if found else 0
        later = (at for at in range(start, len(raw)) if isinstance(raw[at], dict) and raw[at].get("name") == item.name)
        found.append(next(later, start))
    return found


def _names(parsed: Parsed) -> list[str]:
    spec = parsed.raw.get("spec")
    raw = spec.get("components") if isinstance(spec, dict) else None
    listed = raw if isinstance(raw, list) else []
    return [item["name"] for item in listed if isinstance(item, dict) and isinstance(item.get("name"), str)]


def _in_order(errors: list[InputError]) -> list[InputError]:
    """By line where lines are known, else as found."""
    return sorted(errors, key=lambda error: error.place.line or 0)


def _placement(shape: PlacementShape | None, modes: tuple[Any, ...]) -> Placement:
    if shape is None:
        return Placement()
    return Placement(
        products=tuple(shape.products or ()),
        sharing=modes,
        together=tuple(tuple(group) for group in shape.together or ()),
        apart=tuple(tuple(group) for group in shape.apart or ()),
        survive=shape.survive or "none",
        max_cards=shape.max_cards,
        node_selector=dict(sorted((shape.node_selector or {}).items())),
        tolerations=tuple(
            Toleration(item.key, item.operator or "Equal", item.value, item.effect, item.toleration_seconds)
            for item in shape.tolerations or ()
        ),
        sharing_given=shape.sharing is not None and "auto" not in shape.sharing,
    )


def _notes(components: list[Known]) -> list[str]:
    notes = []
    for known in components:
        model = known.model
        if model is not None and model.unverified and known.model_config is None:
            notes.append(f"{known.shape.name}: facts of {model.id} seen in no source: {', '.join(model.unverified)}")
    return notes


def _recorded(shape: DocumentShape) -> Mapping[str, Mapping[str, str]]:
    text = (shape.metadata.annotations or {}).get(DEFAULTS_ANNOTATION)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def to_document(service: Service) -> dict[str, Any]:
    """The service as a document with every value written out; `normalise` of it gives the service again."""
    defaults = {
        component.name: {field: why for field, why in sorted(component.origins.items()) if why != GIVEN}
        for component in service.components
    }
    spec: dict[str, Any] = {
        "isolation": service.isolation,
        "components": [component_document(component) for component in service.components],
        "placement": placement_document(service.placement),
    }
    if service.image_pull_secrets:
        spec["imagePullSecrets"] = list(service.image_pull_secrets)
    if service.model_token_secret is not None:
        spec["modelTokenSecret"] = {"name": service.model_token_secret.name, "key": service.model_token_secret.key}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": service.name,
            "namespace": service.namespace,
            "annotations": {DEFAULTS_ANNOTATION: json.dumps(defaults, sort_keys=True, ensure_ascii=False)},
        },
        "spec": spec,
    }
