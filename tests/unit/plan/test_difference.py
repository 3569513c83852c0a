"""Two plans of one service: what a person should see before the newer one is carried out."""

from __future__ import annotations

from dataclasses import replace

from ragstow.plan.difference import Difference, differences
from render_plans import SCENARIOS


def test_a_plan_does_not_differ_from_itself_nor_by_its_digest() -> None:
    for make in SCENARIOS.values():
        plan = make().plan
        assert differences(plan, replace(plan, digest="another", reasons=())) == ()


def test_placements_slots_layouts_and_the_disturbed_are_named() -> None:
    old = SCENARIOS["mig-operator"]().plan
    (layout,) = old.layouts
    judge = next(item for item in old.components if item.name == "judge")
    new = replace(
        old,
        cards=old.cards + 1,
        components=tuple(
            replace(item, replicas=2, slot=replace(item.slot, profile="4g.40gb", resource="nvidia.com/mig-4g.40gb"))
            if item is judge
            else item
            for item in old.components
        ),
        layouts=(replace(layout, changes=("card 1: 7 x 1g.10gb",), disturbs=("a/b",)),),
    )
    assert differences(old, new) == (
        Difference(
            "slot", "judge", "1 x mig 3g.40gb (1 x nvidia.com/mig-3g.40gb)", "2 x mig 4g.40gb (1 x nvidia.com/mig-4g.40gb)"
        ),
        Difference("layout", "gpu-h100-1", "card 0: 4 x 1g.10gb, 1 x 3g.40gb", "card 1: 7 x 1g.10gb"),
        Difference("disturbs", "gpu-h100-1", "", "a/b"),
        Difference("cards", "cards in use", str(old.cards), str(old.cards + 1)),
    )


def test_a_node_that_is_done_has_nothing_to_change() -> None:
    old = SCENARIOS["mig-operator"]().plan
    new = replace(old, layouts=tuple(replace(layout, changes=()) for layout in old.layouts))
    assert [(item.kind, item.after) for item in differences(old, new)] == [("layout", "nothing to change")]
