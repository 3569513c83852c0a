"""A plan that was printed is read back as it was, and a damaged one is refused with every fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstow.cli.output import camel, document
from ragstow.errors import InputErrors
from ragstow.plan.load import json_name, load_plan
from ragstow.plan.model import Plan
from render_plans import SCENARIOS, mig_operator


def printed(plan: Plan) -> dict[str, Any]:
    body = {name: getattr(plan, name) for name in plan.__slots__}
    made = document("Plan", {camel(name): value for name, value in body.items()})
    loaded: dict[str, Any] = json.loads(json.dumps(made))
    return loaded


@pytest.mark.parametrize("name", SCENARIOS)
def test_round_trip(name: str) -> None:
    plan = SCENARIOS[name]().plan
    assert load_plan(printed(plan)) == plan


def test_names_are_those_of_the_printer() -> None:
    for name in ("memory_bytes", "cards", "memory_mib_per_card", "gpu_memory_utilization"):
        assert json_name(name) == camel(name)


def test_unknown_fields_are_left_aside() -> None:
    made = printed(mig_operator().plan)
    assert load_plan({**made, "newField": 1}) == mig_operator().plan


def test_every_fault_is_named() -> None:
    made = printed(mig_operator().plan)
    del made["cards"]
    made["feasible"] = "yes"
    made["components"][0]["slot"]["mode"] = "magic"
    made["layouts"][0]["mig"] = {"first": {}}
    made["placements"] = "none"
    with pytest.raises(InputErrors) as caught:
        load_plan(made, file="plan.json")
    text = str(caught.value)
    for part in (
        "cards is missing",
        "feasible must be true or false, not 'yes'",
        "components[0].slot.mode must be one of exclusive",
        "layouts[0].mig must be a number as key, not 'first'",
        "placements must be a list, not 'none'",
        "plan.json",
    ):
        assert part in text
