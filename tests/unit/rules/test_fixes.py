"""Fixes: a patch applies to an object that is there, leaves a valid one and silences the rule; a command can be pasted."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Mapping
from typing import Any

import kubernetes_validate
import pytest

from broken.cluster import Cluster
from broken.everything import DEFECTS
from fixes_support import GROUPS, answers, every
from ragstow.cli.diagnosis import make_context
from ragstow.cluster.build import build
from ragstow.rules.fixes import paste, patch_command
from ragstow.rules.model import Fix, ObjectRef, Patch
from ragstow.rules.run import diagnose
from rules_support import FACTS

Raw = dict[str, Any]
KNOWN = {"kubectl", "ragstow", "nvidia-ctk", "systemctl", "helm"}


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


def patched(target: Mapping[str, Any], patch: Patch) -> Raw:
    content = json.loads(json.dumps(patch.content, default=dict))
    made: Raw = merged(target, content, by_name=patch.type == "strategic")
    return made


def test_there_are_patches_and_commands() -> None:
    assert len({finding.rule for _, finding, _ in answers() if finding.fix.patch}) >= 12
    assert len({finding.rule for _, finding, _ in answers() if paste(finding.fix)}) >= 35


def test_patches_apply_and_leave_a_valid_object() -> None:
    checked = 0
    for where, finding, target in answers():
        patch = finding.fix.patch
        if patch is None or target is None:
            continue
        assert patch.type in ("merge", "strategic")
        changed = patched(target, patch)
        assert changed != target, (where, finding.rule)
        if patch.target.kind in GROUPS and {"selector", "template"} <= set(changed["spec"]):
            bare = {key: value for key, value in changed.items() if key != "status"}
            kubernetes_validate.validate(bare, "1.37", strict=False)
            checked += 1
    assert checked > 15


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


def mend(cluster: Cluster, patch: Patch) -> None:
    """The patch in force: the object is changed, and the pods of a changed template are made again and have just started."""
    index = next(
        index
        for index, item in enumerate(cluster.objects)
        if ObjectRef(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]) == patch.target
    )
    item = cluster.objects[index] = patched(cluster.objects[index], patch)
    cluster.objects = [other for other in cluster.objects if other["kind"] != "Event"]
    if "template" not in item.get("spec", {}):
        return
    for pod in list(cluster.all("Pod")):
        owners = {ref["name"] for ref in pod["metadata"].get("ownerReferences", ())}
        if patch.target.name in owners or patch.target.name in {name.rpartition("-")[0] for name in owners}:
            pod["spec"] = merged(pod["spec"], item["spec"]["template"]["spec"], by_name=False)
            cluster.attachments = {
                path: text for path, text in cluster.attachments.items() if pod["metadata"]["name"] not in path
            }
            waits = not pod["spec"].get("nodeName") or pod["status"].get("phase") == "Failed"
            unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            pod["status"] = {"phase": "Pending", "conditions": [unscheduled] if waits else []}
            if waits:
                pod["spec"].pop("nodeName", None)


# The node of a sharing configuration offers what it did until the plugin has started again: no patch shows that.
WITH_PATCH = sorted({where for where, finding, target in answers() if where in DEFECTS and finding.fix.patch and target})


@pytest.mark.parametrize("name", WITH_PATCH)
def test_the_rule_is_quiet_once_its_patch_is_in_force(name: str) -> None:
    findings = [
        f
        for where, f, target in answers()
        if where == name and f.fix.patch is not None and target is not None and f.rule != "sharing-config-not-applied"
    ]
    for finding in findings:
        cluster, _ = DEFECTS[name]()
        cluster.finish()
        assert finding.fix.patch is not None
        mend(cluster, finding.fix.patch)
        mended = build(cluster.objects, version=cluster.version, attachments=cluster.attachments)
        report = diagnose(make_context(mended, FACTS))
        left = [
            other for other in every(report.findings) if other.rule == finding.rule and other.objects[0] == finding.objects[0]
        ]
        assert left == [], [other.headline for other in left]
