"""Every way out, when taken, plans: its changes are applied to the document or the cluster and the service planned again."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from plan_clusters import A100, FACTS, L4, chart, cluster, gpu_node, holder, planned, service
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.inventory.assume import parse
from ragstow.inventory.identity import Assumption
from ragstow.plan import greedy, whatif
from ragstow.plan.exact import Answer
from ragstow.plan.model import Plan
from ragstow.plan.planner import plan
from ragstow.plan.situation import Situation, situation
from ragstow.spec import load, normalise, to_document
from ragstow.spec.model import Service
from support import ROOT

EXAMPLES = ROOT / "examples"


def take(wanted: Service, snapshot: Snapshot, assumed: tuple[Assumption, ...], changes: Mapping[str, Any]) -> Plan:
    """The plan with the changes of a way out made."""
    document = copy.deepcopy(to_document(wanted))
    place = situation(snapshot, FACTS, service=wanted.name, namespace=wanted.namespace, assumed=assumed)
    allow = False
    for path, value in changes.items():
        if path == "allowDisturb":
            allow = True
        elif path.startswith("cluster."):
            place = on_cluster(place, path.removeprefix("cluster."), value)
        else:
            edit(document, path, value)
    changed = normalise(document, FACTS)
    return plan(
        changed, place.snapshot, FACTS, document=document, assumed=place.assumed, allow_disturb=allow, alternatives=False
    )


def on_cluster(place: Situation, what: str, value: Any) -> Situation:
    if what == "dra":
        changed = whatif.with_dra(place)
        assert changed is not None
        return changed
    if what == "without":
        return whatif.without_pods(place, value, "gone")
    ((product, number),) = value.items()
    template = next((name for name, gpus in place.gpus.items() if gpus.product == product), None)
    if template is not None:
        return whatif.more_cards(place, template, number)
    gpu = FACTS.gpus.find(product)
    assert gpu is not None
    return whatif.first_cards(place, gpu, number)


def edit(document: dict[str, Any], path: str, value: Any) -> None:
    match = re.fullmatch(r"spec\.components\[(.+)\]\.(\w+)", path)
    if match:
        target = next(item for item in document["spec"]["components"] if item["name"] == match[1])
        field = match[2]
    else:
        target, field = document["spec"]["placement"], path.removeprefix("spec.placement.")
    if field == "tolerations":
        target[field] = [*target.get(field, []), *value]
    elif value in (None, [], {}):
        target.pop(field, None)
    else:
        target[field] = value


@pytest.mark.parametrize("name", ["k3s-two-cards", "all-cards-taken", "no-gpu"])
def test_of_the_refused_examples(name: str) -> None:
    snapshot = read(str(EXAMPLES / name / "cluster"))
    assumed = parse(("ragbox=NVIDIA-GeForce-RTX-3090:2",) if "k3s" in name else (), snapshot, FACTS)
    wanted = load(Path(EXAMPLES / name / "service.yaml"), FACTS)
    refused = plan(wanted, snapshot, FACTS, document=to_document(wanted), assumed=assumed)
    assert not refused.feasible
    assert refused.alternatives
    for way in refused.alternatives:
        made = take(wanted, snapshot, assumed, way.changes)
        assert made.feasible, way.text
        assert made.cards == way.cards, way.text


CASES: dict[str, tuple[Service, Snapshot]] = {
    "survive": (service("a 9000 2", "  placement: {survive: node}\n"), cluster(gpu_node("n", L4, 4), chart())),
    "held": (service("a 20000 3"), cluster(gpu_node("n", L4, 4), holder("x", "n", 2), holder("y", "n"), chart())),
    "too many": (service("a 20000 4"), cluster(gpu_node("n", L4, 3), chart())),
    "product": (service("a 30000", f"  placement: {{products: [{L4}]}}\n"), cluster(gpu_node("n", A100, 1), chart())),
    "modes": (
        service("a 9000 2", "  isolation: none\n  placement: {sharing: [exclusive]}\n"),
        cluster(gpu_node("n", L4, 1), chart()),
    ),
    "isolation": (service("a 12000\nb 9000"), cluster(gpu_node("n", L4, 1), chart())),
    "taint": (service("a 9000"), cluster(gpu_node("n", L4, 1, taints=("team=x:NoSchedule",)), chart())),
    "max": (service("a 20000 2", "  placement: {maxCards: 1}\n"), cluster(gpu_node("n", L4, 2), chart())),
}


@pytest.mark.parametrize("case", CASES)
def test_of_small_refusals(case: str) -> None:
    wanted, snapshot = CASES[case]
    refused = planned(wanted, snapshot)
    assert not refused.feasible
    assert refused.reasons
    assert refused.alternatives
    for way in refused.alternatives:
        assert way.verified
        made = take(wanted, snapshot, (), way.changes)
        assert made.feasible, way.text
        assert made.cards == way.cards, way.text


def test_cheap_ways_come_first() -> None:
    wanted, snapshot = CASES["held"]
    texts = [way.text for way in planned(wanted, snapshot).alternatives]
    assert texts[0] == "a: 1 of 3 replicas"
    assert texts.index("when Pod others/x ends (1 pod)") < texts.index(f"2 more {L4} on another node")


def test_where_only_the_greedy_solver_gave_up_the_exact_one_is_the_first_way(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = read(str(EXAMPLES / "cloud-l4-pool" / "cluster"))
    wanted = load(EXAMPLES / "cloud-l4-pool" / "service.yaml", FACTS)
    no_room = Reason("greedy-no-room", "greedy found no room for llm", "try --solver exact")
    monkeypatch.setattr(greedy, "solve", lambda _: Answer(None, 1, complete=False, refused=(no_room,)))
    refused = plan(wanted, snapshot, FACTS, document=to_document(wanted), solver="greedy")
    assert not refused.feasible
    assert (refused.alternatives[0].text, refused.alternatives[0].cards) == ("--solver exact", 4)
    assert "node-resources" not in {reason.code for reason in refused.reasons}, "nothing is blamed without a proof"
