"""GPUs, models and clouds are facts: their names are in data files, never literals in Python code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragstow import facts
from ragstow.facts.gpus import Gpus
from support import ROOT

SOURCE = ROOT / "src" / "ragstow"
KNOWN = facts.load()
DISTRIBUTIONS = ("k3s", "rke2", "openshift", "bare-metal")
"""Rows of the clouds table whose names are words of commands and sentences too: wrong only as a whole literal."""


def chips(gpus: Gpus) -> set[str]:
    """The words of product labels that name a chip: A100, L40S, GB200 ..."""
    words = {word for row in gpus.rows for name in (row.product, *row.aliases) for word in name.split("-")}
    return {word for word in words if re.fullmatch(r"[A-Z]{1,2}[0-9]{1,4}[A-Z]?", word)}


def forbidden() -> re.Pattern[str]:
    """Names of cards, models and clouds as whole words."""
    names = chips(KNOWN.gpus)
    names |= {row.product for row in KNOWN.gpus.rows} | {row.name for row in KNOWN.gpus.rows}
    names |= {row.cloud for row in KNOWN.clouds.rows if row.cloud not in DISTRIBUTIONS}
    names |= {
        label for row in KNOWN.clouds.rows for label in (row.accelerator_label, row.count_label, row.memory_label) if label
    }
    names |= set(KNOWN.mig.geometries)
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    # A name that goes on as a domain (an API group, a label's prefix) is Kubernetes' word, unless the whole label is a fact.
    return re.compile(rf"(?<![\w.-])(?:{words})(?![\w-]|\.\w)", re.IGNORECASE)


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string in a module that is not a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    # A string that stands alone documents the name above it.
    documentation |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def test_no_literal_names_a_card_or_a_cloud() -> None:
    names = forbidden()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in {text[:60]!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in literals(path)
        if (match := names.search(text) or (text in DISTRIBUTIONS and re.match(".*", text)))
    ]
    assert not found, "names belong into src/ragstow/facts/data:\n" + "\n".join(found)


@pytest.mark.parametrize("text", ["NVIDIA-L4", "use an A100 here", "karpenter", "nvidia gb200"])
def test_the_pattern_finds_names(text: str) -> None:
    assert forbidden().search(text)


@pytest.mark.parametrize("text", ["nvidia.com/gpu", "v1", "all-1g.5gb", "T", "cc 8.0", "shared-4"])
def test_the_pattern_leaves_other_words_alone(text: str) -> None:
    assert not forbidden().search(text)
