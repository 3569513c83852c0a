"""ClusterPolicies of the GPU Operator, in the manifests or else in the cluster, and what they say about plugin and MIG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.rules.manifests import LintContext


def policies(context: LintContext) -> tuple[KubeObject, ...]:
    """The policies in force once the manifests are applied."""
    written = tuple(manifest.object for manifest in context.of("ClusterPolicy"))
    return written or (context.cluster.snapshot.of("ClusterPolicy", "nvidia.com") if context.cluster is not None else ())


def strategy(policy: KubeObject) -> str:
    """spec.mig.strategy."""
    return str(_at(policy, "mig").get("strategy") or "")


def plugin_config(policy: KubeObject) -> tuple[str, str]:
    """(name, default) of spec.devicePlugin.config."""
    config = _mapping(_at(policy, "devicePlugin").get("config"))
    return str(config.get("name") or ""), str(config.get("default") or "")


def mig_config(policy: KubeObject) -> str:
    """spec.migManager.config.name."""
    return str(_mapping(_at(policy, "migManager").get("config")).get("name") or "")


def _at(policy: KubeObject, key: str) -> Mapping[str, Any]:
    return _mapping(_mapping(policy.raw.get("spec")).get(key))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
