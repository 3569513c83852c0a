"""What a person pastes, parsed by kubectl itself: every flag is known, every patch applies to its object."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from controlplane_build import built, folder
from fixes_support import answers
from ragstow.rules.fixes import paste, patch_command
from support import need


@pytest.fixture(autouse=True)
def _needs_kubectl() -> None:
    need("controlplane", built(), f"no programs in {folder()}; `make controlplane` builds them (minutes, once)")


def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(folder() / "kubectl"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"KUBECONFIG": "/dev/null"},
    )


def test_every_flag_is_known() -> None:
    seen: set[tuple[str, ...]] = set()
    for where, finding, _ in answers():
        for text in (paste(finding.fix), finding.fix.check):
            for part in text.split(" && "):
                words = shlex.split(part.split("|")[0], comments=True) if part.startswith("kubectl ") else []
                shape = tuple(
                    word for word in words if word.startswith("-") or word in ("get", "label", "logs", "delete", "drain")
                )
                if not words or "…" in words or shape in seen:
                    continue
                seen.add(shape)
                # With --help nothing is asked of a server; an unknown flag fails all the same.
                done = kubectl(*words[1:], "--help") if "--" not in words else kubectl(*words[1 : words.index("--")], "--help")
                assert done.returncode == 0, (where, finding.rule, part, done.stderr[:300])
    assert len(seen) > 12


def test_every_patch_applies(tmp_path: Path) -> None:
    seen: set[str] = set()
    for where, finding, target in answers():
        patch = finding.fix.patch
        if patch is None or target is None or patch.target.kind not in ("Deployment", "StatefulSet", "DaemonSet"):
            continue
        command = patch_command(patch)
        if command in seen:
            continue
        seen.add(command)
        path = tmp_path / "object.json"
        path.write_text(json.dumps(target), encoding="utf-8")
        words = shlex.split(command)
        kind = words.index("patch") + 1
        done = kubectl("patch", "--local", "-f", str(path), "-o", "json", *words[kind + 2 :])
        assert done.returncode == 0, (where, finding.rule, command, done.stderr[:300])
        assert json.loads(done.stdout)["spec"] != target["spec"]
    assert len(seen) > 10
