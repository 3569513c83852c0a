"""What `apply` was given: a plan file, or a folder of `render` whose objects count as they stand there now.

A folder holds its plan. Objects may be edited, added (in workloads/) and taken out; patches, Helm values and labels are made
from the plan, so an edited one is refused rather than left aside in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragstow.cli.folder import made_by
from ragstow.cli.planfile import NAME, find_plan, read_text
from ragstow.cluster.scope import namespaced
from ragstow.errors import InputError, InputErrors, Place, RagstowError
from ragstow.facts import Facts
from ragstow.plan.load import load_plan
from ragstow.plan.model import Plan
from ragstow.render import Procedure, procedure, render
from ragstow.render.actions import ApplyObject
from ragstow.render.model import Manifest, Rendering
from ragstow.spec import normalise
from ragstow.spec.model import Service

_KUSTOMIZATION = "kustomization.yaml"
_OURS = {"apiVersion", "kind", "resources"}
_Identity = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """A plan with what belongs to it. `folder` holds the objects of a folder; None for a plan file."""

    path: str
    document: Mapping[str, Any]
    plan: Plan
    service: Service
    folder: Folder | None = None

    @property
    def edited(self) -> tuple[str, ...]:
        """Objects of the folder that are not as they were rendered, as "Kind ns/name"."""
        return self.folder.edited if self.folder is not None else ()

    def procedure(self, facts: Facts) -> Procedure:
        """What is to be done for this plan, with the objects of the folder where there is one."""
        if self.folder is None or not self.folder.edited:
            return procedure(self.service, self.plan, facts)
        made = procedure(self.service, self.plan, facts, objects=self.folder.workloads)
        nodes = {_identity(item): item for item in self.folder.nodes}
        actions = tuple(
            ApplyObject(nodes.get(_identity(action.manifest), action.manifest)) if isinstance(action, ApplyObject) else action
            for action in made.actions
        )
        return replace(made, actions=actions)


@dataclass(frozen=True, slots=True)
class Folder:
    """The objects of a folder as they stand there, and which of them were changed, added or taken out by hand."""

    nodes: tuple[Manifest, ...]
    workloads: tuple[Manifest, ...]
    edited: tuple[str, ...]


def read_source(path: str, facts: Facts) -> Source:
    """Read a plan file ("-": stdin) or a folder of `render`.

    Raises:
        InputError, InputErrors: it is neither, or something in it cannot be used.
    """
    if path != "-" and Path(path).is_dir():
        return _folder(Path(path), facts)
    file = None if path == "-" else path
    document = find_plan(read_text(path), file)
    if document is None:
        raise InputError(
            "apply-no-plan",
            "this is no plan",
            place=Place(path),
            hint="ragstow plan service.yaml -o json > plan.json, or ragstow render service.yaml --out out/",
        )
    return _with(path, document, facts)


def from_document(path: str, document: Mapping[str, Any], facts: Facts) -> Source:
    """A plan that was read already, such as that of a record."""
    return _with(path, document, facts)


def _with(path: str, document: Mapping[str, Any], facts: Facts) -> Source:
    plan = load_plan(document, file=None if path == "-" else path)
    return Source(path, document, plan, normalise(plan.spec, facts))


def _folder(path: Path, facts: Facts) -> Source:
    if made_by(path) != "render":
        raise InputError(
            "apply-not-ours",
            "this folder was not made by `ragstow render --out`",
            place=Place(str(path)),
            hint="kubectl apply -k takes any other folder",
        )
    file = str(path / NAME)
    document = find_plan(read_text(file), file)
    if document is None:
        raise InputError("apply-no-plan", "this is no plan", place=Place(file), hint="render the service again")
    source = _with(file, document, facts)
    made = render(source.service, source.plan, facts) if source.plan.feasible else None
    if made is None:
        return replace(source, path=str(path))
    _refuse_other_files(path, made)
    return replace(source, path=str(path), folder=_objects(path, made, source.plan.namespace))


def _refuse_other_files(path: Path, made: Rendering) -> None:
    """Patches, values and labels must be those of the plan."""
    errors: list[RagstowError] = []
    for file in made.files:
        if file.path == "STEPS.md" or file.path.startswith("workloads/") or file.path in made.node_objects:
            continue
        if file.path.endswith(_KUSTOMIZATION):
            continue
        there = path / file.path
        text = there.read_text(encoding="utf-8") if there.is_file() else None
        if text != file.text:
            what = "is missing" if text is None else "is not what this plan gives: it was edited, or another ragstow wrote it"
            errors.append(
                InputError(
                    "apply-file-edited",
                    what,
                    place=Place(str(there)),
                    hint="apply takes edited objects; patches, values and labels it makes from the plan: render again, or "
                    "follow STEPS.md by hand",
                )
            )
    if errors:
        raise InputErrors(errors)


def _objects(path: Path, made: Rendering, namespace: str) -> Folder:
    workloads = tuple(_named(item, namespace) for item in _resources(path / "workloads"))
    nodes = tuple(_resources(path / "nodes")) if (path / "nodes" / _KUSTOMIZATION).exists() else ()
    # As a file would give them: lists for tuples, nothing shared.
    rendered = {_identity(item): json.loads(json.dumps(item)) for item in made.objects}
    there = {_identity(item): item for item in (*nodes, *workloads)}
    of_nodes = {_identity(item) for item in made.node_objects.values()}
    for item in nodes:
        if _identity(item) not in of_nodes:
            raise InputError(
                "apply-new-node-object",
                f"{_ref(item)} is not part of this plan's node configuration",
                place=Place(str(path / "nodes")),
                hint="objects of your own go into workloads/",
            )
    missing = [_ref(item) for identity, item in rendered.items() if identity in of_nodes and identity not in there]
    if missing:
        raise InputError(
            "apply-node-object-missing",
            f"the node configuration needs {', '.join(missing)}, which the folder does not have any more",
            place=Place(str(path / "nodes")),
            hint="render again",
        )
    edited = [_ref(item) for identity, item in there.items() if rendered.get(identity) != item]
    edited += [f"{_ref(item)} (taken out)" for identity, item in rendered.items() if identity not in there]
    return Folder(nodes, workloads, tuple(edited))


def _resources(folder: Path) -> Iterator[Manifest]:
    """The objects that a kustomization of ours lists, as `kubectl apply -k` would take them."""
    from ragstow import kubeyaml

    file = folder / _KUSTOMIZATION
    text = read_text(str(file))
    documents = [item.value for item in kubeyaml.load_all(text, file=str(file))]
    listed = documents[0] if len(documents) == 1 and isinstance(documents[0], Mapping) else {}
    further = sorted(set(map(str, listed)) - _OURS)
    if further or not isinstance(listed.get("resources"), list):
        raise InputError(
            "apply-kustomization",
            f"it uses {', '.join(further)}, which apply does not build" if further else "it lists no resources",
            place=Place(str(file)),
            hint="write the result of `kubectl kustomize` into a file and list that under resources",
        )
    for name in listed["resources"]:
        part = folder / str(name)
        if not part.is_file():
            raise InputError("apply-resource", f"{name} is listed and is no file", place=Place(str(file)))
        for document in kubeyaml.load_all(read_text(str(part)), file=str(part)):
            value = document.value
            if value is None:
                continue
            items = value.get("items") if isinstance(value, Mapping) and str(value.get("kind")).endswith("List") else [value]
            for item in items if isinstance(items, list) else ():
                if not (isinstance(item, dict) and item.get("kind") and (item.get("metadata") or {}).get("name")):
                    raise InputError("apply-no-object", "a document in it is no Kubernetes object", place=Place(str(part)))
                yield item


def _named(item: Manifest, namespace: str) -> Manifest:
    """An object of the user's own without a namespace goes where the service is."""
    meta = item["metadata"]
    if meta.get("namespace") or not namespaced(_identity(item)[0], str(item["kind"])):
        return item
    return {**item, "metadata": {**meta, "namespace": namespace}}


def _identity(item: Mapping[str, Any]) -> _Identity:
    meta = item.get("metadata") or {}
    group = str(item.get("apiVersion", "")).rpartition("/")[0]
    return group, str(item.get("kind")), str(meta.get("namespace") or ""), str(meta.get("name"))


def _ref(item: Mapping[str, Any]) -> str:
    _, kind, namespace, name = _identity(item)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
