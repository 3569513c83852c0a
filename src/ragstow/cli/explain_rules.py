"""Pages of the rules of `diagnose` and `lint`, by rule id, or by cause where a rule has another name."""

from __future__ import annotations

import textwrap

from ragstow.cli.explain import Page
from ragstow.rules import registry


def names() -> tuple[str, ...]:
    """All rules."""
    return registry.names()


def summary(name: str) -> str:
    """What the rule finds, in one line."""
    return registry.page(name).summary


def page(name: str) -> Page | None:
    """The page of a rule, or of the first rule of a cause; None where there is none."""
    chosen = name if name in registry.names() else next((rule.id for rule in registry.all_rules() if rule.cause == name), None)
    if chosen is None:
        return None
    found, rule = registry.page(chosen), registry.get(chosen)
    others = [other.id for other in registry.all_rules() if other.cause == rule.cause and other.id != chosen]
    says = {
        "finds": found.summary,
        "cause": rule.cause,
        "severity": rule.severity,
        "reads": sorted(rule.needs),
        "what": _flowing(found.what),
        "why": _flowing(found.why),
        "fix": _flowing(found.fix),
        "references": list(found.references),
        "other rules of this cause": others,
    }
    for item in found.examples:
        head = f"{'fires' if item.fires else 'quiet'} ({item.command})"
        says[f"{head}: {item.title}"] = textwrap.dedent(item.yaml)
    return Page("rules", chosen, says)


def _flowing(text: str) -> str:
    """Prose in one line for each paragraph; lists stay as they are."""
    parts = text.split("\n\n")
    return "\n\n".join(part if part.lstrip().startswith(("-", "*")) else " ".join(part.split()) for part in parts)
