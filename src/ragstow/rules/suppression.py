"""Findings that the author of a manifest suppresses, by an annotation with a reason:

    metadata:
      annotations:
        ignore.ragstow.dev/startup-probe-too-short: the model is baked into the image

on the object or on its pod template. It counts for findings of that rule which name the object, and only with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ragstow.rules.manifests import LintContext, Manifest, pod_spec
from ragstow.rules.model import Finding, ObjectRef

PREFIX = "ignore.ragstow.dev/"


@dataclass(frozen=True, slots=True)
class Suppression:
    """One annotation: the rule it names, the reason given, where it stands."""

    rule: str
    reason: str
    manifest: Manifest
    path: tuple[str | int, ...]

    @property
    def line(self) -> int:
        """Its line in the file."""
        return self.manifest.line(*self.path)

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of this finding."""
        same_file = finding.file is None or self.manifest.file is None or finding.file == self.manifest.file
        return finding.rule == self.rule and same_file and ObjectRef.of(self.manifest.object) in finding.objects


def suppressions(context: LintContext) -> Iterator[Suppression]:
    """Every such annotation in the manifests."""
    for manifest in context.manifests:
        yield from _read(manifest, ("metadata", "annotations"), manifest.object.annotations)
        template = pod_spec(manifest)
        if template is not None and len(template.path) > 1:
            listed = template.metadata.get("annotations")
            yield from _read(
                manifest, (*template.path[:-1], "metadata", "annotations"), listed if isinstance(listed, Mapping) else {}
            )


def split(context: LintContext, findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], tuple[tuple[Finding, str], ...]]:
    """(findings that remain, findings that are suppressed with the reason given)."""
    valid = [item for item in suppressions(context) if item.reason]
    remain: list[Finding] = []
    hidden: list[tuple[Finding, str]] = []
    for finding in findings:
        reason = next((item.reason for item in valid if item.covers(finding)), None)
        if reason is None:
            remain.append(finding)
        else:
            hidden.append((finding, reason))
    return tuple(remain), tuple(hidden)


def _read(manifest: Manifest, path: tuple[str | int, ...], annotations: Mapping[str, object]) -> Iterator[Suppression]:
    for key, value in annotations.items():
        if str(key).startswith(PREFIX):
            reason = value.strip() if isinstance(value, str) else ""
            yield Suppression(str(key).removeprefix(PREFIX), reason, manifest, (*path, str(key)))
