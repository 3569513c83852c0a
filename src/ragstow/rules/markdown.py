"""A rule's page as Markdown, for the documentation and for SARIF."""

from __future__ import annotations

from ragstow.rules.page import Example
from ragstow.rules.registry import get, page


def markdown(name: str, *, level: int = 2, examples: bool = False) -> str:
    """The page of a rule.

    Args:
        name: the rule's id.
        level: of its headings.
        examples: with the YAML of its examples.
    """
    found, rule = page(name), get(name)
    mark = "#" * level
    parts = [f"{mark} {name}", found.summary]
    parts.append(f"Cause `{rule.cause}`, severity {rule.severity}, since {rule.since}, reads {', '.join(sorted(rule.needs))}.")
    parts += [f"**What.** {found.what}", f"**Why.** {found.why}", f"**Fix.** {found.fix}"]
    parts.append("**References.** " + "; ".join(found.references) + ".")
    if examples:
        parts += [_example(item) for item in found.examples]
    return "\n\n".join(parts) + "\n"


def _example(item: Example) -> str:
    word = "Fires" if item.fires else "Quiet"
    command = f" ({item.command})" if item.command == "lint" else ""
    return f"{word}{command}: {item.title}\n\n```yaml\n{item.yaml}```"
