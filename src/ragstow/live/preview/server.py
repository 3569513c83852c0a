"""Asks the API server to try every object and patch of a procedure, and compares its answer with what is there.

An object whose namespace does not exist yet is tried in `default`, which checks everything but what that namespace would add
(quotas, policies, names that are taken). A refusal is an answer and is kept with its object, so that all are seen at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ragstow.live.client import ApiClient
from ragstow.live.discovery import Resource
from ragstow.live.failures import ApiError, Conflict, Forbidden, NotFound
from ragstow.live.preview.fields import changes, hidden, shown
from ragstow.live.preview.model import ObjectPreview
from ragstow.render.actions import Action, ApplyObject, DeleteObject, HelmUpgrade, MergePatch, Procedure, SetLabels

_STAND_IN = "default"
"""A namespace that every cluster has."""
_AWAY = (429, 502, 503, 504)
"""A server that has no answer now; a 500 is one about the object (two list items of one key, a webhook that fails)."""
_MADE_ANEW = ("Deployment", "StatefulSet", "ResourceClaimTemplate")
"""Kinds of which an object is deleted and made again for a change that the server refuses (live.apply does so)."""
_FIXED = ("immutable", "are forbidden")
Object = Mapping[str, Any]


def preview(client: ApiClient, procedure: Procedure) -> tuple[ObjectPreview, ...]:
    """Try everything that a procedure writes, in its order; labels of one node together.

    Raises:
        Forbidden: a right is missing.
        ClusterError, TimeoutReached: the server cannot be reached.
    """
    tried = _Tried(client)
    found: list[ObjectPreview] = []
    labelled: dict[str, int] = {}
    for action in procedure.actions:
        if isinstance(action, SetLabels) and action.node in labelled:
            index = labelled[action.node]
            found[index] = tried.labels(action.node, found[index].after, action)
            continue
        for item in tried.action(action):
            if isinstance(action, SetLabels):
                labelled[action.node] = len(found)
            found.append(item)
    return tuple(found)


class _Tried:
    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._namespaces: dict[str, bool] = {}

    def action(self, action: Action) -> Iterator[ObjectPreview]:
        """What one action would change; nothing for those that only wait or restart."""
        if isinstance(action, ApplyObject):
            yield self._apply(action.manifest)
        elif isinstance(action, DeleteObject):
            yield self._delete(action)
        elif isinstance(action, MergePatch):
            yield self._patch(action)
        elif isinstance(action, SetLabels):
            yield self.labels(action.node, None, action)
        elif isinstance(action, HelmUpgrade):
            yield self._helm(action)

    def labels(self, node: str, so_far: Object | None, action: SetLabels) -> ObjectPreview:
        """The labels of a node after one more action; no dry run is needed for them, labels have no defaults."""
        blank = ObjectPreview("v1", "Node", "", node, "unknown")
        there = self._get(blank)
        if there is None:
            return replace(blank, problem=f"there is no node {node}")
        meta = dict(((so_far or there).get("metadata")) or {})
        kept = {key: value for key, value in (meta.get("labels") or {}).items() if key not in action.gone}
        return _compared(blank, there, {**there, "metadata": {**meta, "labels": {**kept, **action.labels}}})

    def _apply(self, manifest: Object) -> ObjectPreview:
        meta = manifest.get("metadata") or {}
        blank = ObjectPreview(
            str(manifest.get("apiVersion")),
            str(manifest.get("kind")),
            str(meta.get("namespace") or ""),
            str(meta.get("name") or ""),
            "unknown",
        )
        resource = self._client.resources().of(blank.api_version, blank.kind)
        if resource is None:
            return replace(blank, problem=f"the cluster has no {blank.kind} of {blank.api_version}")
        if resource.namespaced and not self._exists(blank.namespace or _STAND_IN):
            return self._elsewhere(blank, manifest)
        before = self._get(blank)
        owned: tuple[Any, ...] = ()
        with self._heard() as warnings, _refusals() as refused:
            try:
                after = self._client.apply(manifest, dry_run=True)
            except Conflict as conflict:
                if not conflict.owned:
                    raise
                owned = conflict.owned
                warnings.clear()
                after = self._client.apply(manifest, dry_run=True, force=True)
        if refused and before is not None and blank.kind in _MADE_ANEW and any(word in refused[0] for word in _FIXED):
            return self._anew(blank, before, manifest)
        if refused:
            return replace(blank, before=hidden(shown(before), None)[0], problem=refused[0], conflicts=owned)
        return replace(_compared(blank, before, after), conflicts=owned, warnings=tuple(warnings))

    def _anew(self, blank: ObjectPreview, before: Object, manifest: Object) -> ObjectPreview:
        """An object with a change that its kind does not take: tried as a new one of another name."""
        meta = {key: value for key, value in manifest["metadata"].items() if key != "name"}
        with self._heard() as warnings, _refusals() as refused:
            made = self._client.create({**manifest, "metadata": {**meta, "generateName": f"{blank.name}-"}}, dry_run=True)
        if refused:
            return replace(blank, problem=refused[0])
        named = {key: value for key, value in made["metadata"].items() if key != "generateName"}
        found = _compared(blank, before, {**made, "metadata": {**named, "name": blank.name}})
        note = "a field of it cannot be changed: it is deleted and made again"
        return replace(found, warnings=tuple(warnings), note=note, anew=True)

    def _elsewhere(self, blank: ObjectPreview, manifest: Object) -> ObjectPreview:
        """An object whose namespace is not there yet."""
        meta = {**manifest["metadata"], "namespace": _STAND_IN}
        note = f"namespace {blank.namespace} is not there yet: tried in namespace {_STAND_IN}"
        with self._heard() as warnings, _refusals() as refused:
            try:
                self._client.create({**manifest, "metadata": meta}, dry_run=True)
            except Conflict:
                # It was valid, and an object of that name is there.
                pass
            except Forbidden:
                note = f"namespace {blank.namespace} is not there yet, so the object could not be tried"
        return replace(
            blank,
            what="create",
            after=hidden(None, shown(manifest))[1],
            warnings=tuple(warnings),
            problem=refused[0] if refused else "",
            note=note,
        )

    def _delete(self, action: DeleteObject) -> ObjectPreview:
        blank = ObjectPreview(action.api_version, action.kind, action.namespace, action.name, "same")
        before = self._get(blank)
        return blank if before is None else replace(blank, what="delete", before=hidden(shown(before), None)[0])

    def _patch(self, action: MergePatch) -> ObjectPreview:
        blank = ObjectPreview(action.api_version, action.kind, action.namespace, action.name, "unknown", note=action.what)
        before = self._get(blank)
        if before is None:
            return replace(blank, problem=f"there is no {blank.ref}")
        with self._heard() as warnings, _refusals() as refused:
            after = self._client.patch(self._resource(blank), action.name, action.namespace, action.patch, dry_run=True)
        if refused:
            return replace(blank, problem=refused[0])
        return replace(_compared(blank, before, after), warnings=tuple(warnings))

    def _helm(self, action: HelmUpgrade) -> ObjectPreview:
        """Helm cannot be asked without itself; what it is for is the ConfigMap, whose texts are known."""
        note = f"by helm upgrade of {action.namespace}/{action.release}"
        blank = ObjectPreview("v1", "ConfigMap", action.namespace, action.config_map, "unknown", note=note)
        before = self._get(blank)
        meta = {"name": action.config_map, "namespace": action.namespace}
        after = {**(before or {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}), "data": dict(action.data)}
        return _compared(blank, before, after)

    def _resource(self, item: ObjectPreview) -> Resource:
        found = self._client.resources().of(item.api_version, item.kind)
        if found is None:
            raise NotFound(404, "NotFound", f"the cluster has no {item.kind} of {item.api_version}")
        return found

    def _get(self, item: ObjectPreview) -> dict[str, Any] | None:
        try:
            return self._client.get(self._resource(item), item.name, item.namespace)
        except NotFound:
            return None

    def _exists(self, namespace: str) -> bool:
        if namespace not in self._namespaces:
            self._namespaces[namespace] = self._get(ObjectPreview("v1", "Namespace", "", namespace, "same")) is not None
        return self._namespaces[namespace]

    @contextmanager
    def _heard(self) -> Iterator[list[str]]:
        """The warnings of the server inside the block."""
        found: list[str] = []
        before = self._client.transport.on_warning
        self._client.transport.on_warning = found.append
        try:
            yield found
        finally:
            self._client.transport.on_warning = before


@contextmanager
def _refusals() -> Iterator[list[str]]:
    """What the server says against an object inside the block; a missing right is an error all the same."""
    found: list[str] = []
    try:
        yield found
    except Forbidden:
        raise
    except ApiError as error:
        if error.status in _AWAY:
            raise
        found.append(error.message)


def _compared(blank: ObjectPreview, before: Object | None, after: Object) -> ObjectPreview:
    old, new = hidden(shown(before), shown(after))
    assert new is not None
    if old is None:
        return replace(blank, what="create", after=new)
    found = tuple(changes(old, new))
    return replace(blank, what="change" if found else "same", fields=found, before=old, after=new)
