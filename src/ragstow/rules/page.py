"""The page of a rule: its module docstring, taken apart.

A docstring begins with one sentence (what is flagged), then has these headings, each on a line of its own and in this order:
`What`, `Why`, `Fix`, `References`, then examples: `Fires: <title>` and `Quiet: <title>`, each followed by an indented YAML text
(several documents, in the shape of kubectl output or a manifest; a document `kind: Log` with `name` and `text` stands for a log
file, `kind: File` for a host file). The same text is `ragstow explain`, the documentation page, the SARIF help and the test.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

HEADINGS = ("What", "Why", "Fix", "References")
_EXAMPLE = re.compile(r"^(Fires|Quiet)(?: \((diagnose|lint)\))?: (.+)$")


@dataclass(frozen=True, slots=True)
class Example:
    """One example: whether the rule must fire on it, for which command, its title and its YAML."""

    fires: bool
    command: str
    title: str
    yaml: str


@dataclass(frozen=True, slots=True)
class Page:
    """A rule's page."""

    summary: str
    what: str
    why: str
    fix: str
    references: tuple[str, ...]
    examples: tuple[Example, ...]


def parse(docstring: str) -> Page:
    """The page in a module docstring.

    Raises:
        ValueError: a heading is missing, empty or out of order, or there is not at least one example of each sort.
    """
    sections: dict[str, list[str]] = {"": []}
    examples: list[tuple[bool, str, str, list[str]]] = []
    current = sections[""]
    for line in docstring.splitlines():
        match = _EXAMPLE.match(line)
        if line in HEADINGS:
            current = sections.setdefault(line, [])
        elif match:
            current = []
            examples.append((match[1] == "Fires", match[2] or "diagnose", match[3], current))
        else:
            current.append(line)
    text = {name: textwrap.dedent("\n".join(lines)).strip() for name, lines in sections.items()}
    for name in ("", *HEADINGS):
        if not text.get(name):
            raise ValueError(f"the page has no {name or 'summary'}")
    if list(sections)[1:] != list(HEADINGS):
        raise ValueError(f"headings must be {', '.join(HEADINGS)}, in this order")
    made = tuple(
        Example(fires, command, title, textwrap.dedent("\n".join(body)).strip() + "\n")
        for fires, command, title, body in examples
    )
    for fires in (True, False):
        if not any(example.fires is fires for example in made):
            raise ValueError(f"the page has no example that {'fires' if fires else 'is quiet'}")
    references = tuple(line.lstrip("-* ").strip() for line in text["References"].splitlines() if line.strip())
    return Page(" ".join(text[""].split()), text["What"], text["Why"], text["Fix"], references, made)
