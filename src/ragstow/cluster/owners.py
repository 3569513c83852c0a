"""Who made whom: from a pod up to the Deployment, Job or other workload that a person wrote.

An owner is found by uid, else by kind, namespace and name: saved clusters are often partial, and a controller that is not in
the data is still named by the reference.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.cluster.objects import KubeObject, OwnerRef
from ragstow.cluster.snapshot import Snapshot

_MAX_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """The top of a chain of controllers; `object` is None where it is not in the data."""

    kind: str
    namespace: str
    name: str
    object: KubeObject | None

    @property
    def ref(self) -> str:
        """ "Kind ns/name"."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Owners:
    """Finds owners in one snapshot; made once and asked often."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._by_uid: dict[str, KubeObject] = {}
        self._by_name: dict[tuple[str, str, str, str], KubeObject] = {}
        for (group, kind), table in snapshot.objects.items():
            if kind in ("Pod", "Event", "ConfigMap"):
                continue  # these own nothing of interest, and are most of a cluster
            for (namespace, name), item in table.items():
                self._by_name[(group, kind, namespace, name)] = item
                if item.uid:
                    self._by_uid[item.uid] = item

    def owner(self, item: KubeObject, reference: OwnerRef) -> KubeObject | None:
        """The object that an owner reference of `item` means, or None where it is not in the data."""
        found = self._by_uid.get(reference.uid) if reference.uid else None
        if found is not None:
            return found
        group = reference.api_version.rpartition("/")[0]
        for namespace in (item.namespace, ""):
            found = self._by_name.get((group, reference.kind, namespace, reference.name))
            # A reference by another uid means an object of that name that is gone.
            if found is not None and not (reference.uid and found.uid):
                return found
        return None

    def workload(self, item: KubeObject) -> Workload:
        """The top of the chain of controllers above `item`; `item` itself where nothing controls it."""
        top: KubeObject = item
        for _ in range(_MAX_CHAIN):
            reference = top.controller
            if reference is None:
                break
            above = self.owner(top, reference)
            if above is None:
                return Workload(reference.kind, top.namespace, reference.name, None)
            top = above
        return Workload(top.kind, top.namespace, top.name, top)
