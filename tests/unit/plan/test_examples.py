"""The bundled examples from file to plan and round: what fits closes the circle, what does not is refused with ways out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from plan_circle import apply_to_snapshot
from ragstow import facts
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.inventory.assume import parse
from ragstow.inventory.build import inventory
from ragstow.inventory.identity import Assumption
from ragstow.plan.model import Plan
from ragstow.plan.planner import plan
from ragstow.render import render
from ragstow.spec import load, to_document
from support import ROOT

FACTS = facts.load()
EXAMPLES = ROOT / "examples"
ASSUMED = {"k3s-two-cards": ("ragbox=NVIDIA-GeForce-RTX-3090:2",)}


@dataclass(frozen=True)
class Expected:
    """What a person works out by hand: cards, and for each component (mode, profile or None)."""

    service: str
    cards: int
    modes: dict[str, tuple[str, str | None]]


FITS = (
    # Five A100 or T4 cards: two for the LLM, three for the small ones, since a node with foreign pods is not cut.
    Expected(
        "mixed-t4-a100/service.yaml",
        5,
        {"llm": ("exclusive", None), "embedder": ("exclusive", None), "reranker": ("exclusive", None)},
    ),
    # Every card is shared by two; LLM (17.5 GiB) and any neighbour (2 GiB) fit 23.6 GiB.
    Expected(
        "k3s-two-cards/service-no-isolation.yaml",
        2,
        {"llm": ("time-slicing", None), "embedder": ("time-slicing", None), "reranker": ("time-slicing", None)},
    ),
    Expected("k3s-two-cards-dra/service.yaml", 2, {"llm": ("dra", None), "embedder": ("dra", None), "reranker": ("dra", None)}),
    # Two cards for each LLM replica; five small servers take five of seven 1g slices of one card.
    Expected(
        "h100-operator/service.yaml",
        5,
        {
            "llm": ("exclusive", None),
            "rewriter": ("mig", "1g.10gb"),
            "embedder": ("mig", "1g.10gb"),
            "reranker": ("mig", "1g.10gb"),
        },
    ),
    Expected(
        "cloud-l4-pool/service.yaml",
        4,
        {"llm": ("exclusive", None), "embedder": ("exclusive", None), "reranker": ("exclusive", None)},
    ),
)


def folder(service: str) -> str:
    return service.partition("/")[0]


@cache
def cluster(name: str) -> tuple[Snapshot, tuple[Assumption, ...]]:
    snapshot = read(str(EXAMPLES / name / "cluster"))
    return snapshot, parse(ASSUMED.get(name, ()), snapshot, FACTS)


def planned(service: str, snapshot: Snapshot, assumed: tuple[Assumption, ...]) -> Plan:
    wanted = load(Path(EXAMPLES / service), FACTS)
    return plan(wanted, snapshot, FACTS, document=to_document(wanted), assumed=assumed)


@cache
def example(service: str) -> Plan:
    return planned(service, *cluster(folder(service)))


@pytest.mark.parametrize("expected", FITS, ids=lambda item: item.service)
def test_fits_with_these_cards_and_modes(expected: Expected) -> None:
    made = example(expected.service)
    assert made.feasible
    assert made.cards == expected.cards
    assert made.optimal
    assert made.lower_bound == expected.cards
    found = {item.name: (item.slot.mode, item.slot.profile) for item in made.components if item.slot.mode != "none"}
    assert found == expected.modes
    assert all(item.node for item in made.placements)
    assert all(item.node in item.nodes for item in made.placements)
    for item in made.components:
        assert not item.slot.resource or item.reasons
    others = {(item.component, item.mode) for item in made.refused}
    assert all((name, mode) not in others for name, (mode, _) in found.items())
    assert len(others) == 4 * len(found)


@pytest.mark.parametrize("expected", FITS, ids=lambda item: item.service)
def test_after_it_was_applied_there_is_nothing_to_do(expected: Expected) -> None:
    snapshot, assumed = cluster(folder(expected.service))
    first = example(expected.service)
    wanted = load(Path(EXAMPLES / expected.service), FACTS)
    after = apply_to_snapshot(snapshot, first, render(wanted, first, FACTS).objects)
    second = planned(expected.service, after, assumed)
    assert second.feasible
    assert [layout.changes for layout in second.layouts] == [()] * len(second.layouts)
    assert second.placements == first.placements
    assert second.cards == first.cards
    assert [(item.slot, item.node_labels, item.pool, item.not_beside) for item in second.components] == [
        (item.slot, item.node_labels, item.pool, item.not_beside) for item in first.components
    ]
    seen = inventory(after, FACTS, assumed=assumed)
    for layout in first.layouts:
        node = seen.node(layout.node)
        assert node.sharing == layout.sharing
        if layout.sharing != "dra":
            offered = {name: use.allocatable for name, use in node.resources.items()}
            assert offered == dict(layout.resources_after)
    held = {pod for node in seen.nodes for use in node.resources.values() for pod in use.holders}
    held |= {pod for node in seen.nodes for claim in node.claims for pod in claim.pods}
    with_gpu = [item for item in first.placements if item.mode != "none"]
    assert len([pod for pod in held if pod.startswith(f"{first.namespace}/{first.service}-")]) == len(with_gpu)


def test_one_card_of_two_cannot_be_shared_and_three_ways_out_are_tried() -> None:
    made = example("k3s-two-cards/service.yaml")
    assert not made.feasible
    assert made.lower_bound == 3
    assert any("shares all cards of a node or none" in reason.text for reason in made.reasons)
    assert all(way.verified for way in made.alternatives)
    changes = [dict(way.changes) for way in made.alternatives]
    assert {
        **{f"spec.components[{name}].isolation": "none" for name in ("llm", "embedder", "reranker")},
        "spec.placement.apart": [],
        "spec.placement.together": [],
    } in changes
    small = {f"spec.components[{name}].isolation": "none" for name in ("embedder", "reranker")}
    assert {"cluster.dra": True, **small} in changes
    assert {"cluster.cards": {"NVIDIA-GeForce-RTX-3090": 1}, **small} in changes


def test_the_llm_may_get_either_neighbour_and_that_is_said() -> None:
    made = example("k3s-two-cards/service-no-isolation.yaml")
    llm = next(item for item in made.components if item.name == "llm")
    assert any("embedder or reranker" in reason.text for reason in llm.reasons)
    assert llm.sizing is not None
    assert llm.sizing.budget is not None
    assert llm.sizing.budget.kv_cache_memory_bytes is not None
    waits = {item.name: item.start_after for item in made.components}
    assert waits["llm"] == ()
    assert waits["embedder"] or waits["reranker"]


def test_all_cards_taken_names_holders_and_what_would_free_enough() -> None:
    made = example("all-cards-taken/service.yaml")
    assert not made.feasible
    assert made.lower_bound == 2
    text = " ".join(reason.text for reason in made.reasons)
    assert "research/notebook-jonas-0" in text
    assert "search/answers-d795df6bd4-cxkcp" in text
    changes = [dict(way.changes) for way in made.alternatives]
    assert {"cluster.without": ["batch/embed-archive-fzqnk", "batch/embed-archive-q2hzr"]} in changes
    assert {"cluster.cards": {"NVIDIA-L4": 2}} in changes


def test_no_gpu_at_all() -> None:
    made = example("no-gpu/service.yaml")
    assert not made.feasible
    assert made.lower_bound >= 1
    assert made.reasons[0].code == "no-gpu"
    assert any("cluster.cards" in way.changes for way in made.alternatives)


@pytest.mark.parametrize("expected", FITS, ids=lambda item: item.service)
def test_the_greedy_answer_fits_too_and_claims_no_more_than_it_knows(expected: Expected) -> None:
    snapshot, assumed = cluster(folder(expected.service))
    wanted = load(EXAMPLES / expected.service, FACTS)
    made = plan(wanted, snapshot, FACTS, document=to_document(wanted), assumed=assumed, solver="greedy")
    assert made.feasible
    assert made.solver == "greedy"
    assert expected.cards <= made.cards <= expected.cards + 1
    assert made.optimal == (made.cards == made.lower_bound)


def test_claims_need_no_runtime_class() -> None:
    snapshot, assumed = cluster(folder("k3s-two-cards-dra/service.yaml"))
    wanted = load(EXAMPLES / "k3s-two-cards-dra" / "service.yaml", FACTS)
    made = plan(wanted, snapshot, FACTS, document=to_document(wanted), assumed=assumed)
    assert {item.slot.mode for item in made.components} >= {"dra"}
    assert {item.runtime_class for item in made.components if item.slot.mode == "dra"} == {None}
