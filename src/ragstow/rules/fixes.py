"""What a person can paste: the command of a fix, made from its patch where the rule gives none."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from ragstow.cluster.objects import Container
from ragstow.rules.model import Fix, ObjectRef, Patch

_BLANK = re.compile(r"<[a-z][a-z -]*>")


def paste(fix: Fix) -> str:
    """The command to paste; "" where the fix is words only, or its command has a blank that a person must fill in."""
    if _BLANK.search(fix.command):
        return ""
    if fix.command or fix.patch is None:
        return fix.command
    return patch_command(fix.patch)


def pattern(fix: Fix) -> str:
    """The command of a fix that has a blank (`<node>`); "" where there is none."""
    return fix.command if _BLANK.search(fix.command) else ""


def template_patch(workload: ObjectRef | None, pod_spec: Mapping[str, Any]) -> Patch | None:
    """A strategic merge patch of a workload's pod template; None for pods and workloads of others' kinds."""
    if workload is None or workload.kind not in ("Deployment", "StatefulSet", "DaemonSet"):
        return None
    return Patch("strategic", workload, {"spec": {"template": {"spec": dict(pod_spec)}}})


def resources_patch(workload: ObjectRef, container: Container, change: Mapping[str, int | None]) -> Patch | None:
    """Other limits (and requests, where the container has them) for a container of a workload; None takes a resource out."""
    parts: dict[str, Any] = {"limits": dict(change)}
    asked = container.raw.get("resources")
    if isinstance(asked, Mapping) and asked.get("requests"):
        parts["requests"] = dict(change)
    return template_patch(workload, {"containers": [{"name": container.name, "resources": parts}]})


def patch_command(patch: Patch) -> str:
    """`kubectl patch` with this patch, quoted for a shell."""
    content = list(patch.content) if isinstance(patch.content, tuple) else patch.content
    text = json.dumps(content, separators=(",", ":"), sort_keys=True, default=dict)
    return f"kubectl {flags(patch.target)}patch {named(patch.target)} --type {patch.type} -p {shlex.quote(text)}"


def named(ref: ObjectRef) -> str:
    """An object as kubectl's arguments: `deployment llm`."""
    return f"{ref.kind.lower()} {ref.name}"


def flags(ref: ObjectRef) -> str:
    """`-n <namespace> ` where the object has one."""
    return f"-n {ref.namespace} " if ref.namespace else ""
