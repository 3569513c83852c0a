"""Importing this registers every defect."""

from __future__ import annotations

from broken import (
    DEFECTS,
    dra,
    kinds_defects,
    more_manifest,
    more_node_clusters,
    more_node_devices,
    more_node_driver,
    more_node_reports,
    more_plugin_reports,
    node,
    placement,
    reports_engines,
    reports_field,
    reports_nodes,
    reports_placement,
    reports_stack,
    sharing,
)

MODULES = (
    dra,
    kinds_defects,
    more_manifest,
    more_node_clusters,
    more_node_devices,
    more_node_driver,
    more_node_reports,
    more_plugin_reports,
    node,
    placement,
    reports_engines,
    reports_field,
    reports_nodes,
    reports_placement,
    reports_stack,
    sharing,
)

__all__ = ["DEFECTS", "MODULES"]
