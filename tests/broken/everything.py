"""Importing this registers every defect."""

from __future__ import annotations

from broken import (
    DEFECTS,
    dra,
    node,
    placement,
    reports_engines,
    reports_nodes,
    reports_placement,
    reports_stack,
    sharing,
)

assert dra and node and placement and reports_engines and reports_nodes and reports_placement and reports_stack and sharing

__all__ = ["DEFECTS"]
