"""Where the plan says that replicas land is where the scheduler puts the rendered ones, Services and all."""

from __future__ import annotations

from makers import gfd, node
from ragstow import facts
from ragstow.cluster.build import build
from ragstow.plan.arrivals import HOSTNAME
from ragstow.plan.planner import plan
from ragstow.spec import load_text, to_document

FACTS = facts.load()
TWO_EMBEDDERS = """
apiVersion: ragstow.dev/v1alpha1
kind: RagService
metadata: {name: support, namespace: rag}
spec: {components: [{name: embedder, role: embedder, model: BAAI/bge-m3, replicas: 2}]}
"""


def test_replicas_spread_over_nodes_since_a_service_selects_them() -> None:
    """The system's default constraints (hostname and zone, soft) hold for pods that a Service selects; they outweigh the
    larger node's emptiness, since PodTopologySpread has twice the weight of NodeResourcesFit."""
    nodes = [
        node(name, {"nvidia.com/gpu": cards, "cpu": cpu}, {HOSTNAME: name, **gfd("NVIDIA-A10G", cards, 23028)})
        for name, cards, cpu in (("large", 4, 48), ("small", 1, 4))
    ]
    snapshot = build(nodes)
    wanted = load_text(TWO_EMBEDDERS, FACTS)
    made = plan(wanted, snapshot, FACTS, document=to_document(wanted))
    assert made.feasible
    assert {item.node for item in made.placements} == {"large", "small"}
