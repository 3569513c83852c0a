"""The folder: which file holds what. `render` is the room's one entry.

STEPS.md                 what to type, in order, with a check after each step, and how to undo it
workloads/               namespaced objects, one file for each component, and a kustomization
nodes/                   cluster-scoped and plugin configuration; only where the plan changes nodes
"""

from __future__ import annotations

from ragstow.facts import Facts
from ragstow.plan.model import Plan
from ragstow.render import claims, names
from ragstow.render.context import context as make_context
from ragstow.render.model import Context, Item, Manifest, RenderedFile, Rendering
from ragstow.render.network import disruption_budget, services
from ragstow.render.nodes import node_parts
from ragstow.render.nodes.common import header
from ragstow.render.steps import steps_page
from ragstow.render.units import units
from ragstow.render.workload import workloads
from ragstow.render.yamltext import dump, stream
from ragstow.spec.model import Service

CLAIMS = "workloads/claims.yaml"


def render(service: Service, plan: Plan, facts: Facts) -> Rendering:
    """Everything that brings a plan to life, as files and as objects.

    Args:
        service: the normalised service that the plan was made for.
        plan: a feasible plan of it.
        facts: how engines run, and the cards.

    Raises:
        InputError, InputErrors: the plan does not fit, is of another service, or a component has no image.
    """
    context = make_context(service, plan, facts)
    parts = node_parts(context)
    shared = claims.shared(context)
    by_component = {item.name: component_objects(context, item) for item in context.items}

    files: list[RenderedFile] = []
    if shared:
        about = "Claims that several pods use together: they sit on the same card."
        files.append(RenderedFile(CLAIMS, header(context, about) + stream(shared)))
    files += [
        RenderedFile(f"workloads/{item.name}.yaml", header(context, about_component(item)) + stream(by_component[item.name]))
        for item in context.items
    ]
    workload_files = tuple(file.path for file in files)
    files.append(RenderedFile("workloads/kustomization.yaml", kustomization(context, workload_files)))
    node_objects = {path: manifest for part in parts for path, manifest in part.objects.items()}
    files += [file for part in parts for file in part.files]
    if node_objects:
        files.append(RenderedFile("nodes/kustomization.yaml", kustomization(context, tuple(node_objects))))
    files.append(RenderedFile("STEPS.md", steps_page(context, parts, workload_files)))

    applied = set(node_objects) | set(workload_files) | {"STEPS.md", "workloads/kustomization.yaml", "nodes/kustomization.yaml"}
    by_hand = tuple(f"{file.path} is not part of this stream (see STEPS.md)" for file in files if file.path not in applied)
    objects = (*node_objects.values(), *shared, *(manifest for rows in by_component.values() for manifest in rows))
    return Rendering(
        service.name,
        service.namespace,
        plan.digest,
        tuple(sorted(files, key=lambda file: file.path)),
        objects,
        by_hand,
        node_objects,
    )


def workload_objects(service: Service, plan: Plan, facts: Facts) -> tuple[Manifest, ...]:
    """The namespaced objects alone, also where a component has no image yet: what a simulation of the plan places.

    Raises:
        InputError, InputErrors: the plan does not fit or is of another service.
    """
    context = make_context(service, plan, facts, stand_in=names.NO_IMAGE)
    listed = [manifest for item in context.items for manifest in component_objects(context, item)]
    return (*claims.shared(context), *listed)


def component_objects(context: Context, item: Item) -> list[Manifest]:
    """All objects of a component, in the order in which they are applied: what pods need before the pods."""
    made = list(services(context, item))
    budget = disruption_budget(item)
    if budget is not None:
        made.append(budget)
    if any(unit.template for unit in units(context, item)):
        made.append(claims.template(item))
    return [*made, *workloads(context, item)]


def about_component(item: Item) -> str:
    """What a component's file holds, in one or two lines for its head."""
    slot = item.slot
    if slot.mode == "none":
        return f"Component {item.name}: {item.component.replicas} without a GPU."
    what = f"{slot.count} x {slot.resource}" if slot.resource else "a ResourceClaim"
    text = (
        f"Component {item.name}: {item.component.replicas} x {slot.mode}{f' {slot.profile}' if slot.profile else ''} ({what})."
    )
    if item.planned.reasons:
        text += f"\n{item.planned.reasons[0].text}"
    return text


def kustomization(context: Context, paths: tuple[str, ...]) -> str:
    """The kustomization of one folder; `paths` are below the output folder."""
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [path.partition("/")[2] for path in paths],
    }
    return header(context, f"What `kubectl apply -k` takes for {names.join(context.service.name)}.") + dump(document)
