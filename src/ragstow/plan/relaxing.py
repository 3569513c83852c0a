"""Changes of a service description that ask for less, each as a sentence, a field and a value.

A `Relaxation` lifts one promise or wish; a `Lever` makes one component smaller step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ragstow import quantity
from ragstow.facts import Facts
from ragstow.plan.openings import Opening
from ragstow.plan.refusing import listed
from ragstow.quantity import Quantity
from ragstow.spec.model import GIVEN, SHARING_MODES, Component, Service, Toleration

Change = Callable[[Service], Service]


@dataclass(frozen=True, slots=True)
class Step:
    """One change: what to say, the field paths with their new values, and the change itself."""

    text: str
    changes: tuple[tuple[str, Any], ...]
    apply: Change


def relaxations(service: Service, taints: tuple[tuple[str, str, str], ...]) -> list[Step]:
    """Promises and wishes that could be lifted, those first that cost the user least.

    Args:
        service: the service as it is.
        taints: taints (key, value, effect) that keep it off GPU nodes.
    """
    placement = service.placement
    steps = [
        Step(
            f"tolerate the taint {key}{'=' + value if value else ''}:{effect}",
            (("spec.placement.tolerations", [{"key": key, "operator": "Exists", "effect": effect}]),),
            _tolerate(key, effect),
        )
        for key, value, effect in taints
    ]
    if placement.sharing_given and set(placement.sharing) != set(SHARING_MODES):
        steps.append(
            Step(
                "allow every sharing mode",
                (("spec.placement.sharing", "auto"),),
                _placed(sharing=SHARING_MODES, sharing_given=False),
            )
        )
    if placement.products:
        steps.append(Step("allow every product", (("spec.placement.products", []),), _placed(products=())))
    if placement.node_selector:
        steps.append(Step("allow every node", (("spec.placement.nodeSelector", {}),), _placed(node_selector={})))
    if placement.max_cards is not None:
        steps.append(Step("no limit on cards", (("spec.placement.maxCards", None),), _placed(max_cards=None)))
    if placement.survive == "node":
        steps.append(Step("do without surviving a node", (("spec.placement.survive", "none"),), _placed(survive="none")))
    if placement.apart:
        steps.append(Step("give up apart", (("spec.placement.apart", []),), _placed(apart=())))
    if placement.together:
        steps.append(Step("give up together", (("spec.placement.together", []),), _placed(together=())))
    gpu = [component for component in service.components if component.gpu != "never"]
    steps += [_isolated(component.name, "memory") for component in gpu if component.isolation == "fault"]
    return [*steps, *(_isolated(component.name, "none") for component in gpu if component.isolation != "none")]


def levers(service: Service, facts: Facts) -> list[list[Step]]:
    """For each thing that could be made smaller: the steps from gentle to hard."""
    found: list[list[Step]] = []
    for component in service.components:
        if component.gpu == "never":
            continue
        found.append([_component(component, "replicas", number) for number in range(component.replicas - 1, 0, -1)])
        if component.footprint is not None:
            continue
        found.append(list(_quantized(component, facts)))
        if component.context is not None and component.role == "llm":
            found.append([_component(component, "context", value) for value in _halves(component.context, 1024)])
        if component.concurrency is not None and component.role == "llm":
            found.append([_component(component, "concurrency", value) for value in _halves(component.concurrency, 1)])
        if component.max_batch_tokens is not None:
            steps = [_component(component, "max_batch_tokens", value) for value in _halves(component.max_batch_tokens, 512)]
            found.append(steps)
        if component.role == "llm":
            wide = [number for number in (2, 4, 8) if number > component.tensor_parallel]
            found.append([_component(component, "tensor_parallel", number) for number in wide])
    return [steps for steps in found if steps]


def requests(service: Service) -> list[list[list[Step]]]:
    """Levers for smaller requests of CPU, of memory, and of both: each of one component, then of all, from gentle to hard.

    CPU only makes a pod slower, so it goes far down; memory no further than a quarter. Whether it is enough is the user's to
    judge, so the old amount is said too.
    """
    asked = [(component,) for component in service.components]
    groups = [*asked, service.components] if len(asked) > 1 else asked
    return [
        [[_requests(group, fields, part) for part in parts] for group in groups]
        for fields, parts in ((("cpu",), (*_PARTS, *_FAR)), (("memory",), _PARTS), (("cpu", "memory"), _PARTS))
    ]


_PARTS = (Fraction(3, 4), Fraction(1, 2), Fraction(1, 4))
_FAR = (Fraction(1, 8), Fraction(1, 16), Fraction(1, 32))


def _requests(components: tuple[Component, ...], fields: tuple[str, ...], part: Fraction) -> Step:
    texts: list[str] = []
    changes: list[tuple[str, Any]] = []
    made: list[Change] = []
    for component in components:
        words = []
        for field in fields:
            old: Quantity = getattr(component, field)
            unit = quantity.parse("1m" if field == "cpu" else "1Mi").nano
            amount = max(int(old.nano * part) // unit, 1) * unit
            new = quantity.parse(quantity.canonical(replace(old, nano=amount)))
            words.append(f"{field} {new} instead of {old}")
            changes.append((f"spec.components[{component.name}].{field}", str(new)))
            made.append(_with(component.name, **{field: new}))
        texts.append(f"{component.name}: {' and '.join(words)}")

    def change(service: Service) -> Service:
        for one in made:
            service = one(service)
        return service

    return Step("; ".join(texts), tuple(changes), change)


def together(steps: Sequence[Step | Opening]) -> tuple[str, dict[str, Any]]:
    """Several steps as one sentence and one set of changes; isolation of all components reads as one."""
    changes: dict[str, Any] = {}
    for step in steps:
        for path, value in step.changes:
            known = changes.get(path)
            changes[path] = [*known, *value] if known is not None and isinstance(value, list) else value
    isolated: dict[str, list[str]] = {}
    texts: list[str] = []
    for step in steps:
        path, value = step.changes[0]
        if path.endswith("].isolation"):
            isolated.setdefault(value, []).append(path.partition("[")[2].partition("]")[0])
        else:
            texts.append(step.text)
    for value, names in isolated.items():
        what = "nothing is promised" if value == "none" else "only memory is kept apart"
        texts.insert(0, f"isolation: {value} for {listed(names)} ({what})")
    return ", ".join(texts), changes


def _isolated(name: str, value: str) -> Step:
    return Step(
        f"isolation: {value} for {name}",
        ((f"spec.components[{name}].isolation", value),),
        _with(name, isolation=value),
    )


def _placed(**changes: Any) -> Change:
    return lambda service: replace(service, placement=replace(service.placement, **changes))


def _tolerate(key: str, effect: str) -> Change:
    added = Toleration(key, "Exists", None, effect)

    def change(service: Service) -> Service:
        placement = service.placement
        return replace(service, placement=replace(placement, tolerations=(*placement.tolerations, added)))

    return change


def _with(name: str, **changes: Any) -> Change:
    def change(service: Service) -> Service:
        return replace(
            service,
            components=tuple(
                replace(item, **changes, origins={**item.origins, **dict.fromkeys(changes, GIVEN)})
                if item.name == name
                else item
                for item in service.components
            ),
        )

    return change


_WORDS = {
    "replicas": ("replicas", "{name}: {value} of {old} replicas"),
    "context": ("context", "{name}: context {value} instead of {old} tokens"),
    "concurrency": ("concurrency", "{name}: {value} requests at once instead of {old}"),
    "max_batch_tokens": ("maxBatchTokens", "{name}: maxBatchTokens {value} instead of {old}"),
    "tensor_parallel": ("tensorParallel", "{name}: spread over {value} cards (tensorParallel)"),
}


def _component(component: Component, field: str, value: int) -> Step:
    name, words = _WORDS[field]
    text = words.format(name=component.name, value=value, old=getattr(component, field))
    return Step(text, ((f"spec.components[{component.name}].{name}", value),), _with(component.name, **{field: value}))


def _quantized(component: Component, facts: Facts) -> Iterator[Step]:
    """Precisions that take less memory: what the engine makes at load, then checkpoints that are known."""
    if component.engine is None or component.role != "llm" or component.quantization not in (None, "none"):
        return
    for scheme in facts.quantizations.rows:
        if scheme.online:
            yield Step(
                f"{component.name}: quantization {scheme.name}",
                ((f"spec.components[{component.name}].quantization", scheme.name),),
                _with(component.name, quantization=scheme.name),
            )
    for variant in facts.models.variants_of(component.model or ""):
        yield Step(
            f"{component.name}: the checkpoint {variant.id} ({variant.quantization})",
            (
                (f"spec.components[{component.name}].model", variant.id),
                (f"spec.components[{component.name}].quantization", variant.quantization),
            ),
            _with(component.name, model=variant.id, quantization=variant.quantization),
        )


def _halves(value: int, least: int) -> list[int]:
    found = []
    while value // 2 >= least:
        value //= 2
        found.append(value)
    return found
