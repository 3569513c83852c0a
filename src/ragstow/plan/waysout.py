"""What would make a service fit: changes of the description or of the cluster, each tried by planning again.

First every change alone; then, for promises that stand against each other, all at once and as few of them as suffice. Changes
of the cluster are tried with the promises as they are, and where that does not do, with as few lifted as suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragstow.cluster.owners import Owners
from ragstow.errors import InputError, Reason
from ragstow.plan import exact, whatif
from ragstow.plan.attempt import Attempt, attempt
from ragstow.plan.change import holders
from ragstow.plan.model import Alternative
from ragstow.plan.obstacles import ample
from ragstow.plan.openings import Opening, openings, raised
from ragstow.plan.refusing import listed, plural
from ragstow.plan.relaxing import Step, levers, relaxations, requests, together
from ragstow.plan.situation import Situation
from ragstow.spec.model import Service

_TRIES, _FEWER_TRIES, _MANY_NODES = 90, 45, 8
_LEAST_TRIES = 20
"""Plans that are tried at most; fewer where each takes longer, fewest where not even all nodes are looked at."""
_MOST_CARDS = 16
_MOST_SHOWN = 8
_PROMISES, _SMALLER, _GONE, _CLUSTER, _DISTURB = 0, 10, 15, 20, 40


@dataclass(slots=True)
class _Search:
    """The tries so far; `ways` are (cost, order found, way)."""

    tried: Attempt
    left: int
    ways: list[tuple[int, int, Alternative]] = field(default_factory=list)

    def fits(self, service: Service, situation: Situation | None = None) -> Attempt | None:
        """The attempt with this change, where it fits."""
        if self.left <= 0:
            return None
        self.left -= 1
        try:
            made = attempt(situation or self.tried.situation, service, self.tried.solver, quick=True)
        except InputError:
            return None
        return made if made.feasible else None

    def add(self, cost: int, text: str, changes: dict[str, Any], made: Attempt) -> None:
        """Note a way that was tried and fits, unless a part of it is known to be enough."""
        if not any(all(changes.get(path) == value for path, value in other.changes.items()) for _, _, other in self.ways):
            self.ways.append((cost, len(self.ways), Alternative(text, changes, made.cards, True)))


def ways_out(tried: Attempt) -> tuple[Alternative, ...]:
    """Ways out, cheapest first; each was tried and fits."""
    large = sum(bool(node.configs) for node in tried.posed.problem.nodes) > _MANY_NODES
    search = _Search(tried, _LEAST_TRIES if tried.few is not None else _FEWER_TRIES if large else _TRIES)
    service = tried.service
    if tried.solver == "greedy":
        exact = attempt(tried.situation, service, "exact")
        if exact.feasible:
            search.add(0, "--solver exact", {"solver": "exact"}, exact)
    steps = relaxations(service, _taints(tried))
    _promises(search, steps)
    if tried.offered.cards:
        for lever in levers(service, tried.situation.facts):
            _smaller(search, lever)
    if _too_large(tried):
        _requests(search)
    opened = openings(tried)
    _opened(search, opened)
    _cluster(search, [*steps, *opened])
    if not search.ways:
        _both(search, [*steps, *opened])
    return tuple(way for _, _, way in sorted(search.ways, key=lambda item: item[:2])[:_MOST_SHOWN])


def not_all_ways(tried: Attempt) -> tuple[Reason, ...]:
    """That more ways out may exist than were tried, where a cluster is too large for all of them."""
    if tried.few is None:
        return ()
    text = f"ways out were tried {_LEAST_TRIES} times at most, each on {tried.few} of {len(tried.posed.problem.nodes)} nodes"
    return (Reason("ways-not-all", f"{text}, few of each kind: there may be more", "fewer nodes by placement.nodeSelector"),)


def _taints(tried: Attempt) -> tuple[tuple[str, str, str], ...]:
    found: dict[tuple[str, str, str], None] = {}
    for name, reason in tried.offered.excluded.items():
        if reason.code == "node-taint":
            for taint in tried.situation.nodes[name].taints:
                if taint.effect != "PreferNoSchedule" and not taint.key.startswith("node.kubernetes.io/"):
                    found[taint.key, taint.value, taint.effect] = None
    return tuple(found)


def _too_large(tried: Attempt) -> bool:
    """Whether smaller requests of CPU and memory could help: a quota counts them, or nodes with more of both would do."""
    if tried.blocked:
        return True
    ready = bool(tried.offered.cards) and all(made.options for made in tried.choices.values())
    return ready and exact.fewest(ample(tried.posed.problem, cpu=True, memory=True)).verdict is not None


def _changed(search: _Search, steps: Iterable[Step | Opening], situation: Situation | None) -> Attempt | None:
    """The attempt with all these changes of the description and of the cluster, where it fits."""
    service, place = search.tried.service, situation or search.tried.situation
    for step in steps:
        if isinstance(step, Opening):
            place = step.open(place)
        else:
            service = step.apply(service)
    return search.fits(service, place)


_Kept = tuple[list[Step | Opening], Attempt]


def _fewest(search: _Search, steps: Sequence[Step | Opening], situation: Situation | None) -> _Kept | None:
    """As few of these steps as suffice: all at once, then each taken back where the rest suffices."""
    made = _changed(search, steps, situation)
    if made is None:
        return None
    kept = list(steps)
    for step in steps:
        fewer = [other for other in kept if other is not step]
        found = _changed(search, fewer, situation) if fewer or situation else None
        if found is not None:
            kept, made = fewer, found
    return _measured(search, kept, made, situation)


def _measured(search: _Search, steps: list[Step | Opening], made: Attempt, situation: Situation | None) -> _Kept | None:
    """Quotas that were set aside, raised to what the service takes instead, and tried so."""
    if not any(isinstance(step, Opening) and step.changes[0][0] == "cluster.quota" for step in steps):
        return steps, made
    exactly = raised(search.tried.situation, made)
    steps = [exactly if isinstance(step, Opening) and step.changes[0][0] == "cluster.quota" else step for step in steps]
    found = _changed(search, steps, situation)
    return None if found is None else (steps, found)


def _opened(search: _Search, opened: list[Opening]) -> None:
    """Each opening alone; where none does, as few nodes together as suffice."""
    alone = False
    for opening in opened:
        found = _fewest(search, [opening], None)
        if found is not None:
            alone = True
            text, changes = together(found[0])
            search.add(_SMALLER - 1, text, changes, found[1])
    if not alone and len(opened) > 1:
        found = _fewest(search, opened, None)
        if found is not None:
            text, changes = together(found[0])
            search.add(_SMALLER + len(found[0]), text, changes, found[1])


def _promises(search: _Search, steps: list[Step]) -> None:
    alone = False
    for step in steps:
        made = search.fits(step.apply(search.tried.service))
        if made is not None:
            alone = True
            search.add(_PROMISES + 1, step.text, dict(step.changes), made)
    if not alone and len(steps) > 1:
        found = _fewest(search, steps, None)
        if found is not None:
            text, changes = together(found[0])
            search.add(_PROMISES + len(found[0]), text, changes, found[1])


def _smaller(search: _Search, lever: list[Step]) -> None:
    """The gentlest step of a lever that suffices; the hardest is asked first, so that a useless lever costs one try."""
    if len(lever) > 1 and search.fits(lever[-1].apply(search.tried.service)) is None and not _mixed(lever):
        return
    for step in lever:
        made = search.fits(step.apply(search.tried.service))
        if made is not None:
            search.add(_SMALLER, step.text, dict(step.changes), made)
            return


def _requests(search: _Search) -> None:
    """Less CPU, less memory; both only where neither alone does."""
    *singly, both = requests(search.tried.service)
    before = len(search.ways)
    for levers_ in (*singly, both):
        if levers_ is both and len(search.ways) > before:
            return
        for lever in levers_:
            _smaller(search, lever)


def _both(search: _Search, steps: Sequence[Step | Opening]) -> None:
    """Where nothing alone does: the hardest step of one lever with as few promises lifted as suffice."""
    found = _fewest(search, steps, None) if steps else None
    if found is not None:
        text, changes = together(found[0])
        search.add(_SMALLER + len(found[0]), text, changes, found[1])
        return
    service = search.tried.service
    for lever in (*levers(service, search.tried.situation.facts), *(group[-1] for group in requests(service))):
        for step in lever if _mixed(lever) else lever[-1:]:
            found = _fewest(search, [*steps, step], None)
            if found is not None:
                text, changes = together(found[0])
                search.add(_SMALLER + len(found[0]), text, changes, found[1])
                return


def _mixed(lever: list[Step]) -> bool:
    """Whether the last step is not the hardest (precisions, cards of a replica)."""
    return lever[0].changes[0][0].endswith((".quantization", ".model", ".tensorParallel"))


def _cluster(search: _Search, steps: Sequence[Step | Opening]) -> None:
    situation = search.tried.situation
    changed = whatif.with_dra(situation)
    if changed is not None and _release(search) >= whatif.DRA_SINCE:
        _with_cluster(
            search, steps, changed, _CLUSTER, "install the DRA driver in the place of the device plugin", {"cluster.dra": True}
        )
    _gone(search)
    _more(search, steps)
    if any(holders(situation.gpus[name]) for name in search.tried.offered.cards) and not situation.allow_disturb:
        made = search.fits(search.tried.service, replace(situation, allow_disturb=True))
        verdict = made.answer.verdict if made is not None else None
        if made is not None and verdict is not None:
            pods = sorted({pod for name in verdict.design.changed for pod in made.offered.disturbs.get(name, ())})
            search.add(
                _DISTURB, f"--allow-disturb: {listed(pods)} would lose their GPUs for a while", {"allowDisturb": True}, made
            )


def _release(search: _Search) -> tuple[int, ...]:
    from ragstow.cluster.release import detect
    from ragstow.scheduling.behaviours import NEWEST

    return detect(search.tried.situation.snapshot, newest_recorded=str(NEWEST)).numbers[:2]


def _with_cluster(
    search: _Search, steps: Sequence[Step | Opening], changed: Situation, cost: int, text: str, changes: dict[str, Any]
) -> bool:
    made = search.fits(search.tried.service, changed)
    if made is not None:
        search.add(cost, text, changes, made)
        return True
    found = _fewest(search, steps, changed) if steps else None
    if found is not None:
        more, fields = together(found[0])
        search.add(cost + len(found[0]), f"{text}, and {more}", {**changes, **fields}, found[1])
    return found is not None


def _gone(search: _Search) -> None:
    """Workloads of others whose end would make room, lowest priority and fewest pods first."""
    situation = search.tried.situation
    owners = Owners(situation.snapshot)
    held = sorted({pod for name in search.tried.offered.cards for pod in holders(situation.gpus[name])})
    workloads: dict[str, list[str]] = {}
    priority: dict[str, int] = {}
    for pod in situation.snapshot.pods:
        if pod.key in held:
            ref = owners.workload(pod).ref
            workloads.setdefault(ref, []).append(pod.key)
            priority[ref] = pod.priority
    order = sorted(workloads, key=lambda ref: (priority[ref], len(workloads[ref]), ref))
    gone: list[str] = []
    for ref in order:
        if _without(search, [ref], workloads):
            return
    for ref in order:
        gone.append(ref)
        if len(gone) > 1 and _without(search, gone, workloads):
            return


def _without(search: _Search, refs: list[str], workloads: dict[str, list[str]]) -> bool:
    pods = [pod for ref in refs for pod in workloads[ref]]
    text = f"when {listed(refs, most=6)} {'ends' if len(refs) == 1 else 'end'} ({plural(len(pods), 'pod')})"
    made = search.fits(search.tried.service, whatif.without_pods(search.tried.situation, pods, text))
    if made is not None:
        search.add(_GONE, text, {"cluster.without": sorted(pods)}, made)
    return made is not None


def _more(search: _Search, steps: Sequence[Step | Opening]) -> None:
    """The fewest further cards of each product on one more node; of a cluster without GPUs the smallest product that does."""
    situation = search.tried.situation
    templates: dict[str, str] = {}
    for name in sorted(search.tried.offered.cards):
        product = situation.gpus[name].product
        if product is not None:
            templates.setdefault(product, name)
    for product, template in templates.items():
        _cards(search, steps, product, lambda number, template=template: whatif.more_cards(situation, template, number))  # type: ignore[misc]  # bound as a default
    if not templates and situation.nodes:
        for gpu in sorted(situation.facts.gpus.cards, key=lambda gpu: (situation.facts.gpus.memory(gpu).mib, gpu.product)):
            if gpu.label_confidence == "seen" and _cards(
                search,
                steps,
                gpu.product,
                lambda number, gpu=gpu: whatif.first_cards(situation, gpu, number),  # type: ignore[misc]  # as above
            ):
                return


def _cards(search: _Search, steps: Sequence[Step | Opening], product: str, make: Callable[[int], Situation]) -> bool:
    most = min(max(search.tried.bound, _pods(search.tried.service)), _MOST_CARDS)
    if search.fits(search.tried.service, make(most)) is None:
        text = f"1 more {product} on another node"
        return _with_cluster(search, steps, make(1), _CLUSTER + 5, text, {"cluster.cards": {product: 1}})
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if search.fits(search.tried.service, make(middle)) is not None:
            high = middle
        else:
            low = middle + 1
    made = search.fits(search.tried.service, make(low))
    if made is not None:
        search.add(_CLUSTER + 5, f"{low} more {product} on another node", {"cluster.cards": {product: low}}, made)
    return made is not None


def _pods(service: Service) -> int:
    return sum(item.replicas * item.tensor_parallel for item in service.components if item.gpu != "never")
