"""What a text must hold so that a regular expression can match in it: a cheap test before the expression itself.

Hundreds of signatures are looked for in every line of a log and every event; most lines hold none of their words.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any


def required(pattern: str) -> frozenset[str]:
    """Lower-case literals of which every match holds at least one; empty where none can be told.

    Reads the standard library's own parse tree (`re._parser`); an interpreter without it is answered with "none can be told".
    """
    try:
        parser: Any = importlib.import_module("re._parser")
    except ImportError:
        return frozenset()
    return _of(parser.parse(pattern)) or frozenset()


def _of(tree: Iterable[tuple[Any, Any]]) -> frozenset[str] | None:
    best: frozenset[str] | None = None
    run = ""
    for operation, argument in tree:
        kind = str(operation)
        if kind == "LITERAL":
            run += chr(argument)
            continue
        best, run = _better(best, frozenset({run.lower()}) if run else None), ""
        if kind == "SUBPATTERN":
            best = _better(best, _of(argument[3]))
        elif kind == "BRANCH":
            branches = [_of(branch) for branch in argument[1]]
            known = [branch for branch in branches if branch is not None]
            best = _better(best, frozenset().union(*known) if len(known) == len(branches) else None)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT") and argument[0] > 0:
            best = _better(best, _of(argument[2]))
    return _better(best, frozenset({run.lower()}) if run else None)


def _better(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The set whose shortest literal is longer."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda found: (min(map(len, found)), -len(found)))
