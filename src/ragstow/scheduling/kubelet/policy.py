"""The topology manager's policies: what they store, what they admit, and which configurations do not start.

Source: cm/topologymanager (policy_*.go, policy_options.go, topology_manager.go), KEP-693, KEP-3545. With policy none the
topology manager is not built at all: scope and options are not even looked at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ragstow.scheduling.kubelet.hints import Hint, bits, mask_of, merge
from ragstow.scheduling.kubelet.model import DoesNotStart, NumaNode, Settings

MAX_NUMA_NODES = 8
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class TopologyPolicy:
    """A policy that started: its name, its scope ("container" or "pod"; "" for none) and the machine's NUMA nodes."""

    name: str
    scope: str
    numa: tuple[NumaNode, ...]
    closest: bool = False

    @property
    def everything(self) -> int:
        """The mask of all NUMA nodes."""
        return mask_of(node.id for node in self.numa)

    def decide(self, lists: Sequence[Sequence[Hint]]) -> tuple[Hint, bool]:
        """The hint to store and whether the pod (or container) is admitted, for one list of hints a resource."""
        if self.name == "single-numa-node":
            single = [
                [hint for hint in hints if hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)]
                for hints in lists
            ]
            best = merge(single, self.everything)
            if best.mask == self.everything:
                best = Hint(None, best.preferred)
            return best, best.preferred
        best = merge(lists, self.everything, self._distance if self.closest else None)
        return best, best.preferred or self.name == "best-effort"

    def _distance(self, mask: int) -> int:
        rows = {node.id: node.distances for node in self.numa}
        nodes = bits(mask)
        return sum(rows[a][b] for a in nodes for b in nodes)


def start(settings: Settings, numa: Sequence[NumaNode]) -> TopologyPolicy:
    """The policy for these settings.

    Raises:
        DoesNotStart: the kubelet ends with this configuration.
    """
    name = settings.topology_policy
    if name == "none":
        return TopologyPolicy("none", "", tuple(numa))
    closest, most = _options(settings)
    if len(numa) > most:
        raise DoesNotStart(f"unsupported on machines with more than {most} NUMA Nodes")
    if name not in ("best-effort", "restricted", "single-numa-node"):
        raise DoesNotStart(f"unknown policy: {json.dumps(name)}")
    if settings.topology_scope not in ("container", "pod"):
        raise DoesNotStart(f"unknown scope: {json.dumps(settings.topology_scope)}")
    return TopologyPolicy(name, settings.topology_scope, tuple(numa), closest and name != "single-numa-node")


def _options(settings: Settings) -> tuple[bool, int]:
    closest, most = False, MAX_NUMA_NODES
    for key, value in settings.topology_options.items():
        if key == "prefer-closest-numa-nodes":
            if value not in _TRUE | _FALSE:
                raise DoesNotStart(_bad(key, "ParseBool", value))
            closest = value in _TRUE
        elif key == "max-allowable-numa-nodes":
            try:
                most = int(value)
            except ValueError:
                raise DoesNotStart(
                    f"unable to convert policy option to integer {json.dumps(key)}: "
                    f"strconv.Atoi: parsing {json.dumps(value)}: invalid syntax"
                ) from None
            if most < MAX_NUMA_NODES:
                raise DoesNotStart(f'the minimum value of "{key}" should not be less than {MAX_NUMA_NODES}')
        else:
            raise DoesNotStart(f"unknown Topology Manager Policy option: {json.dumps(key)}")
    return closest, most


def _bad(key: str, function: str, value: str) -> str:
    return f"bad value for option {json.dumps(key)}: strconv.{function}: parsing {json.dumps(value)}: invalid syntax"
