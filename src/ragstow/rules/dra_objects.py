"""DRA objects as manifests have them: their API version, and the requests inside them, in the shapes of all versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.cluster.release import Release, detect
from ragstow.rules.context import Context
from ragstow.rules.manifests import LintContext, Manifest

GROUP = "resource.k8s.io"
KINDS = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
_UNSAID = "0.0"


def dra_manifests(context: LintContext) -> Iterator[tuple[Manifest, str]]:
    """Claims, templates and classes, with the version of their API group."""
    for manifest in context.of(*KINDS):
        group, _, version = str(manifest.object.raw.get("apiVersion") or "").partition("/")
        if group == GROUP and version:
            yield manifest, version


def of_class(item: KubeObject) -> list[str]:
    """The device classes that a claim or a template asks for, alternatives included, in the shapes of all versions."""
    found: list[str] = []
    for _, request in requests(Manifest(item)):
        listed = request.get("firstAvailable")
        for part in (request, mapping(request.get("exactly")), *(listed if isinstance(listed, list) else ())):
            name = mapping(part).get("deviceClassName")
            if name:
                found.append(str(name))
    return found


def requests(manifest: Manifest) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """(path, request) of a claim or a template."""
    path: tuple[str | int, ...] = ("spec",)
    spec = mapping(manifest.object.raw.get("spec"))
    if manifest.object.kind == "ResourceClaimTemplate":
        spec, path = mapping(spec.get("spec")), ("spec", "spec")
    listed = mapping(spec.get("devices")).get("requests")
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, Mapping):
            yield (*path, "devices", "requests", index), item


def known_release(context: Context | None) -> Release | None:
    """The cluster's release; None without a cluster, or where its data do not say."""
    if context is None:
        return None
    found = detect(context.snapshot, newest_recorded=_UNSAID)
    return None if found.version == _UNSAID else found


def mapping(value: object) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}
