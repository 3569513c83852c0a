"""Configurations of plugin and MIG manager among the manifests, with the manifest that holds each."""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.configs import ConfigText, config_texts
from ragstow.rules.manifests import LintContext, Manifest


def plugin_texts(context: LintContext) -> Iterator[tuple[Manifest, ConfigText]]:
    """The device plugin's configurations."""
    return _texts(context, "plugin")


def mig_texts(context: LintContext) -> Iterator[tuple[Manifest, ConfigText]]:
    """mig-parted's configurations."""
    return _texts(context, "mig")


def _texts(context: LintContext, kind: str) -> Iterator[tuple[Manifest, ConfigText]]:
    for manifest in context.of("ConfigMap"):
        for config in config_texts((manifest.object,)):
            if config.kind == kind:
                yield manifest, config
