"""Fixes: a patch applies to an object that is there and leaves a valid one; a command can be pasted."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import kubernetes_validate
import pytest

import defects_nodes
import defects_placement
import defects_stack
from defects import DEFECTS
from ragstow.cli.diagnosis import make_context
from ragstow.cluster.read import read
from ragstow.rules.fixes import paste, patch_command
from ragstow.rules.model import Finding, Fix, ObjectRef, Patch
from ragstow.rules.registry import names, page
from ragstow.rules.run import diagnose
from rules_support import FACTS, context_of
from support import DATA
from variants import Variant

assert defects_nodes
assert defects_placement
assert defects_stack

GROUPS = {"Deployment": "apps", "StatefulSet": "apps", "DaemonSet": "apps", "ClusterPolicy": "nvidia.com"}
KNOWN = {"kubectl", "ragstow", "nvidia-ctk", "systemctl", "helm"}


def every(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    for finding in findings:
        yield finding
        yield from every(finding.follows)


@cache
def answers() -> tuple[tuple[str, Finding, Mapping[str, Any] | None], ...]:
    """(where from, finding, the object that its patch is for)."""
    contexts = {
        path.parent.name: make_context(read(str(path.parent)), FACTS) for path in (DATA / "cases").glob("*/expect.yaml")
    }
    contexts |= {name: make_context(DEFECTS[name]().variant.snapshot(), FACTS) for name in DEFECTS}
    contexts |= {
        f"{name}: {example.title}": context_of(example.yaml)
        for name in names()
        for example in page(name).examples
        if example.fires and example.command == "diagnose"
    }
    found = []
    for where, context in sorted(contexts.items()):
        for finding in every(diagnose(context, strict=True).findings):
            patch, target = finding.fix.patch, None
            if patch is not None:
                ref = patch.target
                item = context.snapshot.get(ref.kind, ref.name, ref.namespace, GROUPS.get(ref.kind, ""))
                target = item.raw if item is not None else None
            found.append((where, finding, target))
    return tuple(found)


def merged(old: Any, new: Any, *, by_name: bool) -> Any:
    """A JSON merge patch (RFC 7396), or a strategic one as far as our patches go: lists of named things merge by name."""
    if isinstance(new, Mapping):
        made = dict(old) if isinstance(old, Mapping) else {}
        for key, value in new.items():
            if value is None:
                made.pop(key, None)
            else:
                made[key] = merged(made.get(key), value, by_name=by_name)
        return made
    if by_name and isinstance(new, list) and all(isinstance(item, Mapping) and "name" in item for item in new):
        named = {item["name"]: item for item in old or ()}
        for item in new:
            named[item["name"]] = merged(named.get(item["name"]), item, by_name=by_name)
        return list(named.values())
    return copy.deepcopy(new)


def test_there_are_patches_and_commands() -> None:
    assert len({finding.rule for _, finding, _ in answers() if finding.fix.patch}) >= 8
    assert len({finding.rule for _, finding, _ in answers() if paste(finding.fix)}) >= 25


def test_patches_apply_and_leave_a_valid_object() -> None:
    checked = 0
    for where, finding, target in answers():
        patch = finding.fix.patch
        if patch is None or target is None:
            continue
        assert patch.type in ("merge", "strategic")
        changed = merged(target, json.loads(json.dumps(patch.content, default=dict)), by_name=patch.type == "strategic")
        assert changed != target, (where, finding.rule)
        if patch.target.kind in ("Deployment", "StatefulSet", "DaemonSet") and {"selector", "template"} <= set(changed["spec"]):
            bare = {key: value for key, value in changed.items() if key != "status"}
            kubernetes_validate.validate(bare, "1.37", strict=False)
            checked += 1
    assert checked > 5


def test_commands_can_be_pasted() -> None:
    for where, finding, _ in answers():
        command = paste(finding.fix)
        if command:
            words = shlex.split(command, comments=True)
            assert words[0] in KNOWN, (where, finding.rule, command)
            assert not any("<" in word or "…" in word for word in words), (where, finding.rule, command)
            assert "None" not in words, (where, finding.rule, command)


def test_what_is_disturbed_is_always_said() -> None:
    for where, finding, _ in answers():
        changes = paste(finding.fix).startswith("kubectl") and any(
            verb in paste(finding.fix) for verb in (" patch ", " delete ", " drain ", " rollout restart ")
        )
        if changes and "delete pod" not in paste(finding.fix):
            assert finding.fix.disruption != "none", (where, finding.rule)


def test_a_command_with_a_blank_is_not_for_pasting() -> None:
    assert paste(Fix("words", command="kubectl label node <node> a=b")) == ""
    target = ObjectRef("Deployment", "rag", "llm")
    patch = Patch("merge", target, {"spec": {"replicas": 0, "x": "it's"}})
    assert paste(Fix("words", patch=patch)) == patch_command(patch)
    assert shlex.split(patch_command(patch)) == [
        "kubectl", "-n", "rag", "patch", "deployment", "llm", "--type", "merge", "-p", '{"spec":{"replicas":0,"x":"it\'s"}}',
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["plain-cards-asked-for-shares", "product-with-the-suffix-of-shares"])
def test_the_patched_workload_gets_a_node(name: str) -> None:
    """The pod that the patched template makes is no longer held by the same cause."""
    made = DEFECTS[name]()
    (finding,) = diagnose(make_context(made.variant.snapshot(), FACTS)).findings
    patch = finding.fix.patch
    assert patch is not None
    mended: Variant = made.variant
    mended.drop("Event")
    inner = dict(patch.content)["spec"]["template"]["spec"]  # type: ignore[arg-type]
    for spec in mended.pod_specs(patch.target.name):
        spec.update(merged(spec, inner, by_name=True))
    for pod in mended.pods_of(patch.target.name):
        for condition in pod["status"]["conditions"]:
            condition.pop("message", None)
    report = diagnose(make_context(mended.snapshot(), FACTS))
    assert finding.cause not in [item.cause for item in report.findings]
