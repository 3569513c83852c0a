"""A real API server takes every rendered folder, by the very commands that STEPS.md tells a person."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane_support import ControlPlane, control_plane, need_controlplane
from ragstow import kubeyaml
from render_plans import SCENARIOS
from support import DATA

GOLDEN = DATA / "render"
NAMESPACES = ("rag", "nvidia-device-plugin", "gpu-operator")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    need_controlplane()
    with control_plane() as made:
        for name in NAMESPACES:
            made.kubectl("create", "namespace", name)
        for node in ("ragbox", "gpu-h100-1"):
            made.kubectl("apply", "-f", "-", stdin=f"apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\n")
        for name, namespace in (
            ("our-layouts", "gpu-operator"),
            ("sharing", "gpu-operator"),
            ("sharing", "nvidia-device-plugin"),
        ):
            made.kubectl("-n", namespace, "create", "configmap", name, "--from-literal=default=version: v1")
        yield made


@pytest.mark.parametrize("name", SCENARIOS)
def test_workloads_and_node_objects_are_stored_and_deleted(name: str, plane: ControlPlane) -> None:
    folder = GOLDEN / name
    applied = [folder / part for part in ("nodes", "workloads") if (folder / part / "kustomization.yaml").exists()]
    for part in applied:
        plane.kubectl("apply", "-k", str(part), "--dry-run=server")
        said = plane.kubectl("apply", "-k", str(part))
        assert "unchanged" not in said
        # What is stored is what was meant: nothing is left to change, and no field was dropped on the way.
        plane.kubectl("diff", "-k", str(part))
    for part in reversed(applied):
        plane.kubectl("delete", "-k", str(part), "--wait=false")
    # No controller runs that would let go of protected claims.
    for claim in plane.kubectl("-n", "rag", "get", "persistentvolumeclaims", "-o", "name").split():
        plane.kubectl("-n", "rag", "patch", claim, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')


@pytest.mark.parametrize("name", [name for name in SCENARIOS if (GOLDEN / name / "nodes" / "node-labels.yaml").exists()])
def test_labels_as_partial_nodes_touch_nothing_else(name: str, plane: ControlPlane) -> None:
    file = GOLDEN / name / "nodes" / "node-labels.yaml"
    for document in kubeyaml.load_all(file.read_text()):
        node = document.value["metadata"]["name"]
        plane.kubectl("label", "node", node, "--overwrite", "other=kept")
        plane.kubectl("apply", "--server-side", "--field-manager=ragstow", "--force-conflicts", "-f", str(file))
        shown = kubeyaml.load_all(plane.kubectl("get", "node", node, "-o", "json"))[0].value["metadata"]["labels"]
        assert {"other": "kept", **document.value["metadata"]["labels"]}.items() <= shown.items()


COMMANDS = re.compile(r"^kubectl (?:label node|-n \S+ patch configmap) .*$", re.MULTILINE)


@pytest.mark.parametrize("name", SCENARIOS)
def test_commands_that_label_and_patch_work_as_they_are_written(
    name: str, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GOLDEN / name)
    for command in COMMANDS.findall((GOLDEN / name / "STEPS.md").read_text()):
        plane.kubectl(*shlex.split(command)[1:])


def test_every_folder_was_looked_at() -> None:
    assert {path.name for path in Path(GOLDEN).iterdir()} == set(SCENARIOS)
