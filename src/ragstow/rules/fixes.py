"""What a person can paste: the command of a fix, made from its patch where the rule gives none."""

from __future__ import annotations

import json
import shlex

from ragstow.rules.model import Fix, ObjectRef, Patch


def paste(fix: Fix) -> str:
    """The command to paste; "" where the fix is words only."""
    if fix.command or fix.patch is None:
        return fix.command
    return patch_command(fix.patch)


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
