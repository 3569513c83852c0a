"""Joins a service to its plan: every component with what it got, the engine's facts and the image for its card."""

from __future__ import annotations

from ragstow.errors import InputError, InputErrors, RagstowError
from ragstow.facts import Facts
from ragstow.plan.model import ComponentPlan, Plan, SlotKind
from ragstow.render.model import Context, Item
from ragstow.spec.model import Component, Service


def context(service: Service, plan: Plan, facts: Facts, *, stand_in: str | None = None) -> Context:
    """The inputs of a rendering.

    Args:
        service: the normalised service.
        plan: a feasible plan of it.
        facts: how engines run, and the cards.
        stand_in: the image of components that have none; without it they are an error.

    Raises:
        InputError, InputErrors: the plan is not feasible or belongs to another service, or a component has no image.
    """
    if not plan.feasible:
        raise InputError(
            "render-infeasible",
            f"the plan of {plan.namespace}/{plan.service} does not fit, so there is nothing to render",
            hint="`ragstow plan` says what would make it fit",
        )
    if (plan.service, plan.namespace) != (service.name, service.namespace):
        raise InputError(
            "render-other-plan",
            f"the plan is of {plan.namespace}/{plan.service}, the service is {service.namespace}/{service.name}",
        )
    planned = {row.name: row for row in plan.components}
    items: list[Item] = []
    errors: list[RagstowError] = []
    for component in service.components:
        row = planned.get(component.name)
        if row is None:
            if component.gpu == "required":
                errors.append(InputError("render-not-planned", f"the plan says nothing of component {component.name}"))
                continue
            row = without_gpu(component)
        serving = facts.serving.get(component.engine)
        capability = compute_capability(facts, row)
        image = component.image if component.given("image") else None
        image = image or (serving.image_for(component.version, capability) if serving else None) or component.image or stand_in
        if image is None:
            errors.append(
                InputError(
                    "render-no-image", f"component {component.name} has no image", hint="give one: spec.components image"
                )
            )
            continue
        items.append(Item(service, component, row, serving, image, capability))
    if errors:
        raise InputErrors(errors)
    return Context(service, plan, facts, tuple(items))


def without_gpu(component: Component) -> ComponentPlan:
    """The plan of a component that the planner had nothing to say about."""
    slot = SlotKind("none", None, 0, None, None, 1, 0)
    return ComponentPlan(component.name, component.replicas, slot, None, {}, False, (), None)


def compute_capability(facts: Facts, row: ComponentPlan) -> str | None:
    """The compute capability of the card that a component is on; None without a GPU, "" where it is not known."""
    if row.slot.mode == "none":
        return None
    card = facts.gpus.find(row.slot.product) if row.slot.product else None
    return card.compute_capability if card else ""
