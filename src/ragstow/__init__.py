"""ragstow: RAG services on Kubernetes GPUs, from a description to a plan, manifests and findings.

The library gives the same verbs as the command line:

    facts = ragstow.load_facts()
    cluster = ragstow.read_cluster("cluster/")
    service = ragstow.load_service(Path("service.yaml"), facts)
    plan = ragstow.plan_service(service, cluster, facts, document=ragstow.service_document(service))
    files = ragstow.render_plan(service, plan, facts).files
    steps = ragstow.plan_procedure(service, plan, facts)
    radius = ragstow.blast_radius(steps, plan, cluster, ragstow.inspect_cluster(cluster, facts))

Names are loaded on first use, so that `import ragstow` costs nothing. What is not listed in `__all__` is private.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragstow.cli.diagnosis import diagnose_cluster
    from ragstow.cluster.build import build as build_snapshot
    from ragstow.cluster.read import read as read_cluster
    from ragstow.cluster.snapshot import Snapshot
    from ragstow.errors import RagstowError
    from ragstow.facts import Facts
    from ragstow.facts import load as load_facts
    from ragstow.inventory.build import inventory as inspect_cluster
    from ragstow.inventory.model import Inventory
    from ragstow.live.verify.run import verify_service
    from ragstow.plan.model import Plan
    from ragstow.plan.planner import plan as plan_service
    from ragstow.render import render as render_plan
    from ragstow.render.impact import impact as blast_radius
    from ragstow.render.procedure import procedure as plan_procedure
    from ragstow.rules.model import Report
    from ragstow.scheduling.kubelet.scenario import play as play_kubelet
    from ragstow.simulate.run import Request as SimulationRequest
    from ragstow.simulate.run import simulate as simulate_pods
    from ragstow.sizing import size as size_component
    from ragstow.sizing import slot_of
    from ragstow.spec import load as load_service
    from ragstow.spec import to_document as service_document
    from ragstow.spec.model import Service

__version__ = "0.1.0"

__all__ = [
    "Facts",
    "Inventory",
    "Plan",
    "RagstowError",
    "Report",
    "Service",
    "SimulationRequest",
    "Snapshot",
    "__version__",
    "blast_radius",
    "build_snapshot",
    "diagnose_cluster",
    "inspect_cluster",
    "load_facts",
    "load_service",
    "plan_procedure",
    "plan_service",
    "play_kubelet",
    "read_cluster",
    "render_plan",
    "service_document",
    "simulate_pods",
    "size_component",
    "slot_of",
    "verify_service",
]

_WHERE = {
    "Facts": ("ragstow.facts", "Facts"),
    "Inventory": ("ragstow.inventory.model", "Inventory"),
    "Plan": ("ragstow.plan.model", "Plan"),
    "RagstowError": ("ragstow.errors", "RagstowError"),
    "Report": ("ragstow.rules.model", "Report"),
    "Service": ("ragstow.spec.model", "Service"),
    "SimulationRequest": ("ragstow.simulate.run", "Request"),
    "Snapshot": ("ragstow.cluster.snapshot", "Snapshot"),
    "blast_radius": ("ragstow.render.impact", "impact"),
    "build_snapshot": ("ragstow.cluster.build", "build"),
    "diagnose_cluster": ("ragstow.cli.diagnosis", "diagnose_cluster"),
    "inspect_cluster": ("ragstow.inventory.build", "inventory"),
    "load_facts": ("ragstow.facts", "load"),
    "load_service": ("ragstow.spec", "load"),
    "plan_procedure": ("ragstow.render.procedure", "procedure"),
    "plan_service": ("ragstow.plan.planner", "plan"),
    "play_kubelet": ("ragstow.scheduling.kubelet.scenario", "play"),
    "read_cluster": ("ragstow.cluster.read", "read"),
    "render_plan": ("ragstow.render", "render"),
    "service_document": ("ragstow.spec", "to_document"),
    "simulate_pods": ("ragstow.simulate.run", "simulate"),
    "size_component": ("ragstow.sizing", "size"),
    "slot_of": ("ragstow.sizing", "slot_of"),
    "verify_service": ("ragstow.live.verify.run", "verify_service"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ragstow' has no attribute {name!r}")
    module, attribute = _WHERE[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return list(__all__)
