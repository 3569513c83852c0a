"""Checks across components: names, groups that contradict each other, isolation that no allowed mode gives, card limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragstow.errors import InputError
from ragstow.facts import Facts
from ragstow.facts.gpus import split_product
from ragstow.spec.document import SpecShape
from ragstow.spec.lookup import Known
from ragstow.spec.model import MODE_ISOLATION, SHARING_MODES, Isolation, SharingMode
from ragstow.spec.problems import Where, near

_STRENGTH: Mapping[Isolation, int] = {"none": 0, "memory": 1, "fault": 2}
_PLACEMENT = ("spec", "placement")


def check_placement(
    spec: SpecShape, components: Sequence[Known], names: Sequence[str], facts: Facts, where: Where
) -> Iterator[InputError]:
    """Everything wrong between components.

    Args:
        spec: the service.
        facts: product labels.
        components: those that could be read.
        names: the names of all components of the document, readable or not.
        where: for the places of errors.
    """
    yield from _duplicates(components, where)
    placement = spec.placement
    modes = allowed_modes(spec)
    by_name = {known.shape.name: known for known in components}
    yield from _isolation(spec, components, modes, where)
    if placement is None:
        return
    if placement.sharing is not None and "auto" in placement.sharing and len(placement.sharing) > 1:
        yield where.error("sharing", (*_PLACEMENT, "sharing"), "auto stands for all modes, it cannot be listed with others")
    yield from _products(placement.products or (), facts, where)
    together = _groups("together", placement.together or (), by_name, names, where)
    apart = _groups("apart", placement.apart or (), by_name, names, where)
    yield from together[1]
    yield from apart[1]
    yield from _together(together[0], by_name, modes, where)
    yield from _contradictions(together[0], apart[0], where)
    if placement.max_cards is not None:
        yield from _card_limit(placement.max_cards, apart[0], by_name, where)


def allowed_modes(spec: SpecShape) -> tuple[SharingMode, ...]:
    """The modes that the document allows, simplest first."""
    given = spec.placement.sharing if spec.placement is not None else None
    if given is None or "auto" in given:
        return SHARING_MODES
    return tuple(mode for mode in SHARING_MODES if mode in given)


def isolation_of(known: Known, spec: SpecShape) -> Isolation:
    """What a component is promised."""
    return known.shape.isolation or spec.isolation or "memory"


_Group = tuple[int, tuple[str, ...]]


def _duplicates(components: Sequence[Known], where: Where) -> Iterator[InputError]:
    first: dict[str, int] = {}
    for known in components:
        name = known.shape.name
        if name in first:
            said = f"name {name!r} again (first: spec.components[{first[name]}])"
            yield where.error("name-duplicate", (*known.path, "name"), said)
        first.setdefault(name, known.index)


def _isolation(
    spec: SpecShape, components: Sequence[Known], modes: Sequence[SharingMode], where: Where
) -> Iterator[InputError]:
    for known in components:
        wanted = isolation_of(known, spec)
        if known.gpu == "never" or any(_STRENGTH[MODE_ISOLATION[mode]] >= _STRENGTH[wanted] for mode in modes):
            continue
        given = ", ".join(f"{mode} gives {MODE_ISOLATION[mode]}" for mode in modes)
        able = ", ".join(mode for mode in SHARING_MODES if _STRENGTH[MODE_ISOLATION[mode]] >= _STRENGTH[wanted])
        said = f"{known.shape.name} wants isolation {wanted}, but placement.sharing allows only modes that give less ({given})"
        yield where.error("isolation-impossible", (*_PLACEMENT, "sharing"), said, f"allow one of {able}, or a lower isolation")


def _products(labels: Sequence[str], facts: Facts, where: Where) -> Iterator[InputError]:
    known = [name for row in facts.gpus.cards for name in (row.product, *row.aliases)]
    for index, label in enumerate(labels):
        path = (*_PLACEMENT, "products", index)
        bare = split_product(label)
        if bare.shared or bare.profile is not None:
            yield where.error("product-suffix", path, f"{label} carries a suffix of sharing or MIG", f"products: [{bare.base}]")
        elif label not in known:
            found = facts.gpus.find(label)
            hint = f"did you mean {found.product}?" if found is not None else near(label, known)
            hint = (
                hint
                or "the value of the node label nvidia.com/gpu.product; a card of your own is a row of gpus.csv (--facts DIR)"
            )
            yield where.error("product-unknown", path, f"product {label!r} is not in the facts", hint)


def _groups(
    field: str, groups: Sequence[Sequence[str]], by_name: Mapping[str, Known], names: Sequence[str], where: Where
) -> tuple[list[_Group], list[InputError]]:
    """The groups whose members exist and take a GPU, and what is wrong with the others."""
    good: list[_Group] = []
    errors: list[InputError] = []
    for index, group in enumerate(groups):
        path = (*_PLACEMENT, field, index)
        before = len(errors)
        for member in group:
            if member not in names:
                hint = near(member, names) or f"components: {', '.join(names)}"
                errors.append(where.error("group-unknown", path, f"{field} names {member!r}, which is no component", hint))
            elif member in by_name and by_name[member].gpu == "never":
                errors.append(where.error("group-no-gpu", path, f"{member} takes no GPU, so it is on no card"))
        if len(set(group)) < len(group):
            errors.append(where.error("group-duplicate", path, f"{field} names a component twice"))
        if len(group) < (2 if field == "together" else 1):
            hint = "one component alone is always together; apart with one means its replicas" if field == "together" else ""
            errors.append(where.error("group-short", path, f"a group of {field} needs more components", hint))
        if len(errors) == before:
            good.append((index, tuple(group)))
    return good, errors


def _together(
    groups: Sequence[_Group], by_name: Mapping[str, Known], modes: Sequence[SharingMode], where: Where
) -> Iterator[InputError]:
    for index, group in groups:
        path = (*_PLACEMENT, "together", index)
        for member in group:
            known = by_name.get(member)
            if known is not None and (known.shape.tensor_parallel or 1) > 1:
                said = f"{member} takes {known.shape.tensor_parallel} cards, so it cannot sit on one card with another"
                yield where.error("together-cards", path, said)
        if tuple(modes) == ("exclusive",):
            yield where.error("together-exclusive", path, "on an exclusive card there is no second pod", "allow a sharing mode")


def _contradictions(together: Sequence[_Group], apart: Sequence[_Group], where: Where) -> Iterator[InputError]:
    joined: dict[str, str] = {}

    def root(name: str) -> str:
        while joined.get(name, name) != name:
            name = joined[name]
        return name

    for _, group in together:
        for member in group[1:]:
            joined[root(member)] = root(group[0])
    for index, group in apart:
        for position, first in enumerate(group):
            for second in group[position + 1 :]:
                if root(first) == root(second):
                    said = f"{first} and {second} must be together and apart"
                    yield where.error("group-contradiction", (*_PLACEMENT, "apart", index), said, "drop one of the two groups")


def _card_limit(limit: int, apart: Sequence[_Group], by_name: Mapping[str, Known], where: Where) -> Iterator[InputError]:
    path = (*_PLACEMENT, "maxCards")
    for known in by_name.values():
        cards = known.shape.tensor_parallel or 1
        if known.gpu == "required" and cards > limit:
            yield where.error("max-cards", path, f"maxCards is {limit}, a replica of {known.shape.name} takes {cards} cards")
    for _, group in apart:
        needed = len(group)
        if len(group) == 1 and group[0] in by_name:
            needed = by_name[group[0]].shape.replicas or 1
        if needed > limit:
            said = f"maxCards is {limit}, but apart {list(group)} takes at least {needed} cards"
            yield where.error("max-cards", path, said)
