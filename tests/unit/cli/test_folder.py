"""--out DIR: whole or not at all, never over what is not ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragstow.cli import folder
from ragstow.cli.folder import MARKER, write_folder
from ragstow.errors import InputError

FILES = {"STEPS.md": "one\n", "workloads/llm.yaml": "a: 1\n"}


def tree(target: Path) -> dict[str, str]:
    return {
        path.relative_to(target).as_posix(): path.read_text()
        for path in target.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def test_a_new_folder_with_parents(tmp_path: Path) -> None:
    write_folder(tmp_path / "a" / "b", FILES, command="render")
    assert tree(tmp_path / "a" / "b") == FILES
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    write_folder(tmp_path, FILES, command="render")
    assert tree(tmp_path) == FILES


def test_a_folder_of_ours_is_made_anew_and_other_files_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, {**FILES, "nodes/labels.yaml": "x\n"}, command="render")
    (out / "notes.txt").write_text("mine\n")
    (out / "workloads" / "mine.yaml").write_text("b: 2\n")
    write_folder(out, {"STEPS.md": "two\n"}, command="render")
    assert tree(out) == {"STEPS.md": "two\n", "notes.txt": "mine\n", "workloads/mine.yaml": "b: 2\n"}
    assert not (out / "nodes").exists()


def test_a_folder_of_somebody_else_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work\n")
    with pytest.raises(InputError, match="not empty and was not made by ragstow"):
        write_folder(tmp_path, FILES, command="render")
    assert tree(tmp_path) == {"thesis.txt": "years of work\n"}


def test_force_writes_and_keeps_what_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work\n")
    (tmp_path / "STEPS.md").write_text("old\n")
    write_folder(tmp_path, FILES, command="render", force=True)
    assert tree(tmp_path) == {**FILES, "thesis.txt": "years of work\n"}


def test_a_broken_marker_is_no_marker(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text("{")
    with pytest.raises(InputError, match="not made by ragstow"):
        write_folder(tmp_path, FILES, command="render")


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        write_folder(tmp_path / "out", FILES, command="render")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        write_folder(tmp_path / "out", FILES, command="render")


def test_when_something_breaks_the_old_state_is_still_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write_folder(out, FILES, command="render")

    def no(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folder, "_swap", no)
    with pytest.raises(KeyboardInterrupt):
        write_folder(out, {"STEPS.md": "two\n"}, command="render")
    assert tree(out) == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_interruption_in_the_middle_of_the_swap_brings_the_old_state_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write_folder(out, FILES, command="render")
    rename, calls = os.rename, []

    def interrupted(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(out, {"STEPS.md": "two\n"}, command="render")
    assert tree(out) == FILES


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_folder(tmp_path / "link", FILES, command="render")
    assert (tmp_path / "link").is_symlink()
    assert tree(tmp_path / "real") == FILES
