"""What a plan takes for granted because the API does not say it, one sentence each."""

from __future__ import annotations

from ragstow.cluster.demand import pod_demand
from ragstow.plan.after import after
from ragstow.plan.attempt import Attempt
from ragstow.plan.quotas import limits
from ragstow.plan.refusing import listed, plural
from ragstow.simulate.placing import Placing


def assumptions(tried: Attempt, placed: Placing | None) -> tuple[str, ...]:
    """The assumptions of an attempt, most important first."""
    found: list[str] = [*tried.situation.notes]
    if tried.left_out:
        found.append(
            f"{listed(list(tried.left_out))} would like a GPU and {'go' if len(tried.left_out) > 1 else 'goes'} without"
        )
    verdict = tried.answer.verdict
    if verdict is None:
        return (*found, *_read(tried))
    state = after(tried.posed.problem, verdict.design)
    shared = [group for group in state.groups if not group.slot.alone and group.slot.sharers > 1]
    for resource in dict.fromkeys(group.slot.resource for group in shared if group.slot.resource):
        nodes = listed(sorted({node.name for group in shared for node in state.reach[group.name]}))
        found.append(
            f"nobody else asks for {resource} on {nodes}; nothing but a quota or a taint would keep other pods from it"
        )
    found += _uncounted(tried, sorted({group.slot.resource for group in state.groups if group.slot.resource}))
    waiting = _waiting(tried, {group.slot.resource for group in state.groups if group.slot.resource})
    if waiting:
        found.append(
            f"{plural(len(waiting), 'pending pod')} of others ({listed(waiting)}) may take slots of the same kind first"
        )
    tight = _tight(tried)
    if tight:
        found.append(
            f"CPU or memory of {listed(tight)} would not hold all of the service at once: the simulation places everything, "
            "other orders of arrival are not proved"
        )
    if any(not group.slot.alone for group in state.groups) or any(node.supply.cards > 1 for node in state.nodes):
        found.append("kubelet topology manager policy is none (not in the data); another one may reject pods after binding")
    if placed is not None and not placed.complete:
        found.append("the nodes named as possible are those that were seen; a pod may land on other nodes of its kind too")
    if placed is not None and placed.may_fail:
        found.append(f"ties broken another way may leave {listed(list(placed.may_fail))} waiting until others are placed")
    return (*found, *_read(tried))


def _read(tried: Attempt) -> list[str]:
    """What the inventory and the sums had to assume."""
    found: list[str] = []
    for name in tried.offered.cards:
        found += [f"{name}: {note}" for note in tried.situation.gpus[name].assumed]
    verdict = tried.answer.verdict
    notes: dict[str, list[str]] = {}
    for name, made in tried.choices.items():
        option = verdict.design.options.get(name) if verdict is not None else None
        for note in made.sizing[option].notes if option is not None else ():
            notes.setdefault(note, []).append(name)
    found += [f"{listed(names)}: {note}" for note, names in notes.items()]
    return list(dict.fromkeys((*found, *tried.service.notes)))


def of_simulation(placed: Placing) -> tuple[str, ...]:
    """What the simulation assumed; rules taken over from a neighbouring release are counted, not listed."""
    taken = [text for text in placed.assumptions if " as in " in text]
    told = [text for text in placed.assumptions if text not in taken]
    if taken:
        told.append(
            f"{len(taken)} rules of the scheduler are taken from the release nearest to it (ragstow simulate lists them)"
        )
    return tuple(told)


def _waiting(tried: Attempt, resources: set[str]) -> list[str]:
    return sorted(
        pod.key
        for pod in tried.situation.snapshot.pods
        if pod.node is None and not pod.finished and any(pod_demand(pod, resource) for resource in sorted(resources))
    )


def _uncounted(tried: Attempt, used: list[str]) -> list[str]:
    """Quotas on some GPU resource that do not count the one that the service asks for, since its name is another."""
    counted: dict[str, list[str]] = {}
    for item in limits(tried.situation):
        if "/" in item.resource:
            counted.setdefault(item.quota, []).append(item.resource)
    return [
        f"ResourceQuota {tried.situation.namespace}/{quota} limits {listed(resources)}; it does not count {resource}, "
        "which this plan uses: ask whoever set it whether that is meant"
        for quota, resources in sorted(counted.items())
        for resource in used
        if resource not in resources and any(item.partition("/")[0] == resource.partition("/")[0] for item in resources)
    ]


def _tight(tried: Attempt) -> list[str]:
    components = tried.posed.problem.components
    cpu = sum(item.cpu_milli * item.replicas for item in components)
    memory = sum(item.memory_bytes * item.replicas for item in components)
    return [
        node.name
        for node in tried.posed.problem.nodes
        if node.name in tried.offered.cards and (node.cpu_milli < cpu or node.memory_bytes < memory)
    ]
