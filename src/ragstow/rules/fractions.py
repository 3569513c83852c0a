"""What engines reserve of a shared card by their memory fraction, and which resources of manifests and cluster are shares."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ragstow.rules.configs import effective, given
from ragstow.rules.demand import Demand, shared_only
from ragstow.rules.engines import KV_BYTES, MEMORY_FRACTION, flag
from ragstow.rules.manifests import LintContext
from ragstow.rules.plugin_texts import plugin_texts

_DEFAULT = Fraction(9, 10)
"""vLLM's own gpu_memory_utilization (vllm/config/cache.py)."""
_SHARED = ".shared"


@dataclass(frozen=True, slots=True)
class Sharing:
    """Resources whose memory MPS caps, resource -> the most shares of one card, and those that every configuration of the
    manifests shares."""

    capped: frozenset[str]
    most: dict[str, int]
    written: frozenset[str]

    def shared(self, context: LintContext, demand: Demand) -> bool:
        """Whether what the workload asks for is a share of a card."""
        return demand.resource.endswith(_SHARED) or demand.resource in self.written | shared_only(context, demand.spec)


def capped_shares(context: LintContext) -> Sharing:
    """How cards are shared, by the manifests' own configurations and the cluster's nodes."""
    return context.remember("sharing", lambda: _sharing(context))


def reserved(demand: Demand) -> Fraction | None:
    """The part of the card that the pod reserves by a fraction; None for engines without one, or with pinned bytes."""
    for _, container in demand.spec.containers():
        if flag(container, KV_BYTES):
            return None
        value = flag(container, MEMORY_FRACTION)
        if value is not None:
            try:
                return Fraction(value)
            except (ValueError, ZeroDivisionError):
                return None
        if "vllm" in str(container.get("image") or "").rpartition("/")[2]:
            return _DEFAULT
    return None


def pinned(demand: Demand) -> bool:
    """Whether the pod's cache is given in bytes."""
    return any(flag(container, KV_BYTES) for _, container in demand.spec.containers())


def _sharing(context: LintContext) -> Sharing:
    capped: set[str] = set()
    most: dict[str, int] = {}
    written: list[frozenset[str]] = []
    for _, config in plugin_texts(context):
        said = effective(config.text)
        if said is None:
            continue
        written.append(given(config.text) if said.sharing.active.replicated else frozenset())
        for item in said.sharing.active.resources:
            name = f"{item.name}{_SHARED}" if said.sharing.active.rename_by_default else item.name
            most[name] = max(most.get(name, 1), item.replicas)
            if said.sharing.strategy == "mps":
                capped.add(name)
    for node in context.cluster.inventory.nodes if context.cluster is not None else ():
        for name, use in node.resources.items():
            if node.sharing in ("time-slicing", "mps") and use.capacity:
                most[name] = max(most.get(name, 1), node.replicas or 1)
                if node.sharing == "mps":
                    capped.add(name)
    return Sharing(frozenset(capped), most, frozenset.intersection(*written) if written else frozenset())
