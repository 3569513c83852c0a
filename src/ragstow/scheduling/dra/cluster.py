"""The DRA side of a cluster: slices, classes and claims of a release, and the devices taken, while a simulation runs.

Made once from the world's objects (what the release drops is dropped here); claims change when the scheduler allocates them and
when their last user is gone, as the resourceclaim controller does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ragstow.scheduling.dra import assumed, parse, strategy, taints
from ragstow.scheduling.dra.cel import Selectors
from ragstow.scheduling.dra.counters import AvailableCounters
from ragstow.scheduling.dra.model import Allocation, Claim, DeviceClass, Slice
from ragstow.scheduling.dra.pools import PoolIndex
from ragstow.scheduling.dra.remembered import Remembered
from ragstow.scheduling.dra.rules import DraRules, rules_for
from ragstow.scheduling.dra.search import Inputs
from ragstow.scheduling.dra.state import AllocatedDevices
from ragstow.scheduling.world import World

GROUP = "resource.k8s.io"
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
MAX_USERS = 256
"""ResourceClaimReservedForMaxSize."""


class DraCluster:
    """See the module; use `world.view(DraCluster)`, so that all profiles see the same."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rules = rules = rules_for(world.release)
        self.selectors = Selectors()
        self.classes: dict[str, DeviceClass] = {
            item.name: strategy.admit_class(parse.device_class(item), rules) for item in world.objects("DeviceClass", GROUP)
        }
        self._by_resource = _resources(self.classes.values(), implicit=rules.extended)
        slices = [parse.resource_slice(item) for item in world.objects("ResourceSlice", GROUP)]
        claims = [parse.resource_claim(item) for item in world.objects("ResourceClaim", GROUP)]
        self.pools = PoolIndex(_admitted(slices, world, rules), rules)
        self.allocated = AllocatedDevices(rules.consumable)
        self.remembered = Remembered(self.allocated)
        self._claims: dict[tuple[str, str], Claim] = {}
        for claim in claims:
            self._admit(claim)
        self._assumed = (*assumed.dropped(slices, claims, rules), *assumed.bound(slices, rules))

    def claim(self, namespace: str, name: str) -> Claim | None:
        """A claim by name, as it is now."""
        return self._claims.get((namespace, name))

    def claims(self) -> tuple[Claim, ...]:
        """All claims as they are now."""
        return tuple(self._claims.values())

    def users(self, claim: Claim) -> tuple[str, ...]:
        """The pods ("ns/name") that use a claim; of one made for extended resources the pod that it was made for."""
        named = tuple(f"{claim.namespace}/{name}" for kind, name, _ in claim.reserved_for if kind == "pods")
        if named or not claim.extended_for:
            return named
        return tuple(info.key for info, _ in self._world.placed if claim.extended_for in (info.pod.uid, info.key))

    @contextmanager
    def undone(self) -> Iterator[None]:
        """What happens to claims within this block is taken back at its end: for trying something out."""
        before = dict(self._claims)
        try:
            yield
        finally:
            for key, now in list(self._claims.items()):
                if now.allocation is not None and (key not in before or before[key].allocation is None):
                    self.allocated.remove(now.allocation)
            for key, claim in before.items():
                known = self._claims.get(key)
                if claim.allocation is not None and (known is None or known.allocation is None):
                    self.allocated.add(claim.allocation)
            self._claims = before

    def extended_claim(self, pod_uid: str) -> Claim | None:
        """The claim that the scheduler made for the extended resources of a pod."""
        return next((claim for claim in self._claims.values() if pod_uid and claim.extended_for == pod_uid), None)

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class that backs an extended resource, by its own name or by the implicit one."""
        return self._by_resource.get(resource)

    def inputs(self) -> Inputs:
        """What holds for all nodes of one pod's cycle."""
        available = AvailableCounters(self.allocated, by_driver=self.rules.counters_by_driver)
        return Inputs(self.rules, self.classes, self.selectors, self.allocated, available)

    def assumptions(self) -> tuple[str, ...]:
        """What decisions about devices rest on here."""
        pools = (self.pools.on(info.node) for info in self._world.nodes)
        return (*self._assumed, *assumed.searched(pools, in_order=self.rules.pools_sorted))

    def allocate(self, claim: Claim, allocation: Allocation) -> None:
        """Gives a claim (new ones are added) its devices; of a claim that a pod names twice the first allocation counts."""
        known = self._claims.get((claim.namespace, claim.name))
        if known is not None and known.allocation is not None:
            return
        self.allocated.add(allocation)
        self._claims[(claim.namespace, claim.name)] = replace(claim, allocation=allocation)

    def deallocate(self, claim: Claim) -> None:
        """Takes a claim's devices away; nobody uses it any more."""
        known = self._claims.get((claim.namespace, claim.name))
        if known is not None and known.allocation is not None:
            self.allocated.remove(known.allocation)
            self._claims[(claim.namespace, claim.name)] = replace(known, allocation=None, reserved_for=())

    def reserve(self, claim: Claim, pod_name: str, pod_uid: str) -> None:
        """Notes a pod as a user of the claim."""
        known = self._claims[(claim.namespace, claim.name)]
        user = ("pods", pod_name, pod_uid)
        if user not in known.reserved_for:
            self._claims[(claim.namespace, claim.name)] = replace(known, reserved_for=(*known.reserved_for, user))

    def release(self, namespace: str, pod_name: str, pod_uid: str, names: Iterable[str]) -> None:
        """A pod is gone: it uses its claims no more, and a claim without users loses its devices."""
        for name in names:
            known = self._claims.get((namespace, name))
            if known is None:
                continue
            left = tuple(user for user in known.reserved_for if user[1:] != (pod_name, pod_uid))
            self._claims[(namespace, name)] = replace(known, reserved_for=left)
            if not left:
                self.deallocate(known)
        extended = self.extended_claim(pod_uid)
        if extended is not None:
            self.deallocate(extended)
            del self._claims[(extended.namespace, extended.name)]

    def _admit(self, made: Claim) -> None:
        claim = strategy.admit_claim(made, self.rules)
        if claim is None:
            return
        self._claims[(claim.namespace, claim.name)] = claim
        if claim.allocation is not None:
            self.allocated.add(claim.allocation)


def _admitted(slices: Iterable[Slice], world: World, rules: DraRules) -> list[Slice]:
    taint_rules = [taints.taint_rule(item) for item in world.objects("DeviceTaintRule", GROUP)] if rules.taint_rules else []
    admitted = (strategy.admit_slice(item, rules) for item in slices)
    return [taints.with_rules(item, taint_rules) for item in admitted if item is not None]


def _resources(classes: Iterable[DeviceClass], *, implicit: bool) -> dict[str, DeviceClass]:
    """Resource -> class, by the name that a class gives and by its implicit one.

    Of classes with the same resource the newest counts, then the lower name. The original looks at them in the order of their
    names, and one that loses to an earlier one gets no implicit name either.
    """
    found: dict[str, DeviceClass] = {}
    for item in sorted(classes, key=lambda entry: entry.name):
        known = found.get(item.extended_resource) if item.extended_resource else None
        if known is not None and item.created <= known.created:
            continue
        if item.extended_resource:
            found[item.extended_resource] = item
        if implicit:
            found[IMPLICIT_PREFIX + item.name] = item
    return found
