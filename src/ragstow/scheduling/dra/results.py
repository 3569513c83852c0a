"""A solution of the search as the allocations that are written to the claims.

The node selector is the node's name as soon as one device is local to it or binds to it, else the union of the requirements of
the devices' slices, else none. Source: createNodeSelector of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.cluster.objects import Node
from ragstow.scheduling.dra.model import Allocation, DeviceResult, NodeScope
from ragstow.scheduling.dra.requests import AllocationError
from ragstow.scheduling.dra.taking import Taken


def allocation(taken: Sequence[Taken], node: Node) -> Allocation:
    """The allocation of one claim.

    Raises:
        AllocationError: a slice has a node selector with several terms.
    """
    return Allocation(
        tuple(
            DeviceResult(
                request=item.data.name,
                device=item.candidate[2].id,
                admin=item.data.request.admin,
                shared=item.shared,
                consumed=item.consumed,
                tolerations=item.data.request.tolerations,
            )
            for item in taken
        ),
        NodeScope.read(_node_selector(taken, node)),
    )


def _node_selector(taken: Sequence[Taken], node: Node) -> Mapping[str, Any] | None:
    fields: list[Mapping[str, Any]] = []
    expressions: list[Mapping[str, Any]] = []
    for item in taken:
        _, source, device = item.candidate
        where = device if source.per_device else source
        if where.node_name or device.binds_to_node:
            return {"nodeSelectorTerms": [{"matchFields": [_requirement("metadata.name", node.name)]}]}
        terms = where.scope.raw.get("nodeSelectorTerms") or () if where.scope else ()
        if len(terms) > 1:
            raise AllocationError(f"create NodeSelector: unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            _union(fields, term.get("matchFields") or ())
            _union(expressions, term.get("matchExpressions") or ())
    term = {name: found for name, found in (("matchExpressions", expressions), ("matchFields", fields)) if found}
    return {"nodeSelectorTerms": [term]} if term else None


def _union(known: list[Mapping[str, Any]], added: Sequence[Mapping[str, Any]]) -> None:
    for requirement in added:
        if not any(
            one.get("key") == requirement.get("key")
            and one.get("operator") == requirement.get("operator")
            and set(one.get("values") or ()) == set(requirement.get("values") or ())
            for one in known
        ):
            known.append(requirement)


def _requirement(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}
