"""The one thing that needs a program beside us: `helm upgrade` and `helm rollback` of the device plugin's release."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from ragstow.live.apply.context import Run
from ragstow.live.apply.model import ApplyStopped
from ragstow.render.actions import HelmUpgrade

_SECONDS = 600


def available() -> bool:
    """Whether `helm` is on PATH."""
    return shutil.which("helm") is not None


def already(run: Run, action: HelmUpgrade) -> bool:
    """Whether the release has these configurations, whoever gave them to it."""
    found = run.get("v1", "ConfigMap", action.config_map, action.namespace)
    data = (found or {}).get("data") or {}
    return found is not None and all(data.get(key) == text for key, text in action.data.items())


def revision(run: Run, action: HelmUpgrade) -> int | None:
    """The release's revision, to roll back to; None where a person has upgraded it already or it cannot be seen."""
    if already(run, action) or not available():
        return None
    text = _helm(run, ("history", action.release, "--namespace", action.namespace, "--max", "1", "--output", "json"))
    rows = json.loads(text or "[]")
    return int(rows[-1]["revision"]) if rows else None


def upgrade(run: Run, action: HelmUpgrade) -> bool:
    """Upgrade the release; whether that was needed.

    Raises:
        ApplyStopped: there is no `helm`, or it failed.
    """
    if already(run, action):
        return False
    if not available():
        raise missing(action, run.hint())
    with tempfile.TemporaryDirectory(prefix="ragstow-") as folder:
        values = Path(folder) / "values.yaml"
        values.write_text(yaml.safe_dump(dict(action.values), sort_keys=False))
        _helm(
            run,
            (
                *("upgrade", action.release, action.chart, "--repo", action.repository, "--namespace", action.namespace),
                *("--version", action.version, "--reuse-values", "--values", str(values)),
            ),
        )
    return True


def rollback(run: Run, action: HelmUpgrade, number: int | None) -> None:
    """Take the upgrade back.

    Raises:
        ApplyStopped: there is no `helm`, or it failed.
    """
    if number is None:
        run.note(
            f"release {action.namespace}/{action.release} was upgraded by hand: `helm rollback {action.release} --namespace "
            f"{action.namespace}` takes it back"
        )
        return
    if not available():
        raise ApplyStopped(
            "helm-missing",
            f"`helm` is not on PATH, and release {action.namespace}/{action.release} must go back to revision {number}",
            hint=f"install helm, or run elsewhere: helm rollback {action.release} {number} --namespace {action.namespace}",
        )
    _helm(run, ("rollback", action.release, str(number), "--namespace", action.namespace))


def missing(action: HelmUpgrade, further: str) -> ApplyStopped:
    """The refusal where `helm` is not there."""
    return ApplyStopped(
        "helm-missing",
        f"the device plugin's chart needs new values and `helm` is not on PATH. Run: {action.command}",
        hint=f"`ragstow render` writes {action.file}; afterwards the same `ragstow apply` goes on. {further}".strip(),
    )


def _helm(run: Run, arguments: Sequence[str]) -> str:
    flags, secret = _without_token(run.options.helm)
    command = ["helm", *arguments, *flags]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **secret},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ApplyStopped("helm-failed", f"`{' '.join(command)}`: {error}", hint=run.hint()) from None
    if done.returncode != 0:
        raise ApplyStopped("helm-failed", f"`{' '.join(command)}`: {done.stderr.strip()[-800:]}", hint=run.hint())
    return done.stdout


def _without_token(flags: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The flags without a token, which goes through the environment: command lines are seen by everybody on the machine."""
    if "--kube-token" not in flags:
        return list(flags), {}
    index = list(flags).index("--kube-token")
    return [*flags[:index], *flags[index + 2 :]], {"HELM_KUBETOKEN": flags[index + 1]}
