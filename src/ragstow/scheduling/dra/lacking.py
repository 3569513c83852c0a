"""What a node lacks for a pod's claims: request by request how many devices fit, how many are free, which claims hold the rest.

For people: the allocator itself says only that it cannot allocate. Requests are looked at one by one; where each could be
served alone, constraints are what keeps them apart, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import Node
from ragstow.scheduling.dra import taints
from ragstow.scheduling.dra.attempt import Cycle
from ragstow.scheduling.dra.cel import NotEvaluated
from ragstow.scheduling.dra.cluster import DraCluster
from ragstow.scheduling.dra.model import Claim, Device, DeviceId, Request
from ragstow.scheduling.dra.pools import Pool


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that keeps devices from others, and the pods that use it ("ns/name")."""

    claim: str
    users: tuple[str, ...]
    devices: tuple[DeviceId, ...]


@dataclass(frozen=True, slots=True)
class Lack:
    """One request on one node: `wanted` devices, `fitting` there are (taken or not), `free` of those, `tainted` are kept off by
    a taint, `exhausted` have no shared counters left; `holders` hold what is missing."""

    claim: str
    request: str
    device_class: str
    wanted: int
    fitting: int
    free: int
    tainted: int
    exhausted: int
    holders: tuple[Holder, ...]

    @property
    def missing(self) -> int:
        """How many devices lack."""
        return max(self.wanted - self.free, 0)

    @property
    def hopeless(self) -> bool:
        """The node has fewer such devices than are wanted, whoever holds them."""
        return self.wanted > self.fitting


def lacking(cycle: Cycle, node: Node, cluster: DraCluster) -> tuple[Lack, ...]:
    """Each request that is still to be served, the ones that lack most first.

    Args:
        cycle: the pod's cycle after the filter asked about this node.
        node: where.
        cluster: the DRA side of the world as it is now.
    """
    pools = [pool for pool in cluster.pools.on(node) if not pool.incomplete and not pool.invalid]
    claims = [claim for _, claim in cycle.to_allocate if claim.requests]
    claims += [wanted.extended.claim for wanted in cycle.wanted.values() if wanted.extended is not None]
    found = [
        min((_lack(claim, name, request, pools, cluster) for name, request in alternatives), key=lambda item: item.missing)
        for claim in claims
        for alternatives in _requests(claim)
    ]
    return tuple(sorted(found, key=lambda item: -item.missing))


def _requests(claim: Claim) -> Iterable[Sequence[tuple[str, Request]]]:
    for request in claim.requests:
        if request.exactly is not None:
            yield [(request.name, request.exactly)]
        elif request.alternatives:
            yield [(f"{request.name}/{item.name}", item) for item in request.alternatives]


def _lack(claim: Claim, name: str, request: Request, pools: Sequence[Pool], cluster: DraCluster) -> Lack:
    available = cluster.inputs().available
    fitting: list[tuple[Pool, Device]] = [
        (pool, device) for pool in pools for item in pool.here for device in item.devices if _fits(request, device, cluster)
    ]
    tainted = [device.id for _, device in fitting if taints.prevented(device, request.tolerations)]
    free: list[DeviceId] = []
    taken: list[Device] = []
    exhausted: list[tuple[Pool, Device]] = []
    for pool, device in fitting:
        if device.id in tainted:
            continue
        if cluster.allocated.whole(device.id):
            taken.append(device)
        elif not _counters_left(device, available.of(pool)[0]):
            exhausted.append((pool, device))
        else:
            free.append(device.id)
    wanted = len(fitting) if request.mode == "All" else request.count
    return Lack(
        claim.key,
        name,
        request.class_name,
        max(wanted, 1),
        len(fitting),
        len(free) if not request.admin else len(fitting),
        len(tainted),
        len(exhausted),
        _holders(taken, exhausted, cluster),
    )


def _fits(request: Request, device: Device, cluster: DraCluster) -> bool:
    known = cluster.classes.get(request.class_name)
    expressions = [*(known.selectors if known is not None else ()), *(item or "" for item in request.selectors)]
    try:
        return known is not None and all(cluster.selectors.verdict(text, device) is True for text in expressions)
    except NotEvaluated:
        return False


def _counters_left(device: Device, left: Mapping[str, Mapping[str, int]]) -> bool:
    return all(
        amount <= left.get(set_name, {}).get(name, amount)
        for set_name, values in device.consumes
        for name, amount in values.items()
    )


def _holders(taken: Sequence[Device], exhausted: Sequence[tuple[Pool, Device]], cluster: DraCluster) -> tuple[Holder, ...]:
    """Claims with the very devices, and claims whose devices draw on the counters that are used up."""
    wanted = {device.id for device in taken}
    sets = {(pool.driver, pool.name, name) for pool, device in exhausted for name, _ in device.consumes}
    drawing = {
        device.id
        for pool, _ in exhausted
        for item in (*pool.here, *pool.elsewhere)
        for device in item.devices
        if any((pool.driver, pool.name, name) in sets for name, _ in device.consumes)
    }
    found: list[Holder] = []
    for claim in cluster.claims():
        results = claim.allocation.results if claim.allocation is not None else ()
        devices = tuple(item.device for item in results if not item.admin and item.device in wanted | drawing)
        if devices:
            found.append(Holder(claim.key, cluster.users(claim), devices))
    return tuple(sorted(found, key=lambda item: (-len(item.devices), item.claim)))
