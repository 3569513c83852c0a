"""A verification as one HTML page that stands alone: no script, no request, everything escaped. Needs jinja2."""

from __future__ import annotations

from importlib import resources
from typing import Any

from ragstow.report.words import gib, grouped, title, verdict
from ragstow.verification.model import Check, Memory, Verification

_TEMPLATE = "verification.html.j2"


def html(found: Verification, *, version: str) -> str:
    """The page.

    Args:
        found: the verification.
        version: of ragstow, for the foot.

    Raises:
        ModuleNotFoundError: jinja2 is not installed.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    source = resources.files("ragstow.report").joinpath(_TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(source).render(
        found=found,
        subject=found.subject,
        verdict=verdict(found),
        failed=found.failed,
        groups=_groups(found),
        unknown=grouped(found.unknown),
        memory=[_bar(item) for item in found.memory],
        title=title,
        version=version,
    )


def _groups(found: Verification) -> list[tuple[str, list[Check]]]:
    """All checks by name, those with a failure first."""
    table: dict[str, list[Check]] = {}
    for check in found.checks:
        table.setdefault(check.name, []).append(check)
    return sorted(table.items(), key=lambda pair: all(check.passed for check in pair[1]))


def _bar(item: Memory) -> dict[str, Any]:
    """A row of the memory table with lengths in percent of the device (of the larger amount where its size is unknown)."""
    whole = item.total_bytes or max(item.measured_bytes, item.predicted_bytes or 0, 1)

    def percent(value: int | None) -> float | None:
        return None if value is None else round(min(100.0, 100 * value / whole), 1)

    return {
        "component": item.component,
        "pod": item.pod.name,
        "predicted": gib(item.predicted_bytes),
        "band": "-" if item.band is None else f"{gib(item.band[0])} to {gib(item.band[1])}",
        "measured": gib(item.measured_bytes),
        "total": gib(item.total_bytes),
        "others": item.others,
        "measured_percent": percent(item.measured_bytes),
        "predicted_percent": percent(item.predicted_bytes),
    }
