"""A pod as the scheduler sees it: what its plugins ask for, read once from the spec.

Everything is derived from the frozen `Pod` and the release; parts that few pods need are made on first use. A `PodInfo` knows
nothing of nodes. Two infos of one pod are the same pod when their `key` is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragstow.cluster.objects import Pod
from ragstow.scheduling import requests
from ragstow.scheduling.images import normalized
from ragstow.scheduling.release import Release
from ragstow.scheduling.selectors import (
    NOTHING,
    NodeSelector,
    NodeTerm,
    Selector,
    exact,
    label_selector,
    node_selector,
    node_term,
)

HostPort = tuple[str, str, int]
"""(host IP, protocol, port); 0.0.0.0 is every address."""


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A pod (anti-)affinity term with its namespaces resolved as far as the pod itself tells; `weight` 0 for required ones."""

    selector: Selector
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int = 0

    def matches(self, pod: PodInfo, namespace_labels: Mapping[str, str] | None) -> bool:
        """Whether `pod` is one that the term speaks of; `namespace_labels` are those of the pod's namespace."""
        if pod.namespace in self.namespaces or self.namespace_selector.matches(namespace_labels or {}):
            return self.selector.matches(pod.labels)
        return False


class PodInfo:
    """See the module. Identity is `key` ("namespace/name"); `nominated_node` is the one thing that the engine may change."""

    def __init__(self, pod: Pod, release: Release) -> None:
        self.pod = pod
        self.release = release
        self.key = pod.key
        self.name = pod.name
        self.namespace = pod.namespace
        self.labels = pod.labels
        self.priority = pod.priority
        self.terminating = pod.deleted is not None
        self.nominated_node = str(pod.status.get("nominatedNodeName") or "")
        self.sums = requests.of_pod(pod, release)
        affinity = pod.spec.get("affinity")
        self.affinity: Mapping[str, Any] = affinity if isinstance(affinity, Mapping) else {}
        self.has_affinity = self.affinity.get("podAffinity") is not None or self.affinity.get("podAntiAffinity") is not None

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Ports claimed on the host by containers and sidecars (GetHostPorts)."""
        spec = self.pod.spec
        sidecars = [raw for raw in spec.get("initContainers") or () if raw.get("restartPolicy") == "Always"]
        found = []
        for raw in [*(spec.get("containers") or ()), *sidecars]:
            for port in raw.get("ports") or ():
                number = port.get("hostPort") or 0
                if number > 0:
                    found.append((str(port.get("hostIP") or "0.0.0.0"), str(port.get("protocol") or "TCP"), int(number)))
        return tuple(found)

    @cached_property
    def gates(self) -> tuple[str, ...]:
        """Names of the scheduling gates that hold the pod back."""
        return tuple(str(gate.get("name") or "") for gate in self.pod.spec.get("schedulingGates") or ())

    @property
    def start_time(self) -> str:
        """status.startTime, "" if the pod never started: then it counts as started last."""
        return str(self.pod.status.get("startTime") or "")

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Normalised image names of init containers and containers."""
        return tuple(normalized(container.image) for container in (*self.pod.init_containers, *self.pod.containers))

    @cached_property
    def image_volumes(self) -> tuple[str, ...]:
        """Normalised image names of image volumes."""
        listed = (volume.get("image") for volume in self.pod.spec.get("volumes") or ())
        return tuple(normalized(str(image.get("reference") or "")) for image in listed if image is not None)

    # --- node affinity ---

    @cached_property
    def node_selector(self) -> Selector | None:
        """spec.nodeSelector, None without one."""
        raw = self.pod.spec.get("nodeSelector")
        return None if raw is None else exact({str(key): str(value) for key, value in raw.items()})

    @cached_property
    def required_terms_raw(self) -> tuple[Mapping[str, Any], ...] | None:
        """The required node affinity terms as written, None where there is no required node affinity."""
        required = (self.affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        return None if required is None else tuple(required.get("nodeSelectorTerms") or ())

    @cached_property
    def required_nodes(self) -> NodeSelector | None:
        """The required node affinity, compiled."""
        return None if self.required_terms_raw is None else node_selector(self.required_terms_raw)

    @cached_property
    def preferred_nodes(self) -> tuple[tuple[int, NodeTerm], ...] | None:
        """(weight, term) of the preferred node affinity, None without any; empty terms and weight 0 left out."""
        raw = (self.affinity.get("nodeAffinity") or {}).get("preferredDuringSchedulingIgnoredDuringExecution")
        return preferred_terms(raw) if raw else None

    # --- pod affinity ---

    @cached_property
    def required_affinity(self) -> tuple[AffinityTerm, ...]:
        """Terms of the required pod affinity."""
        return self._terms("podAffinity", "required")

    @cached_property
    def required_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        """Terms of the required pod anti-affinity."""
        return self._terms("podAntiAffinity", "required")

    @cached_property
    def preferred_affinity(self) -> tuple[AffinityTerm, ...]:
        """Weighted terms of the preferred pod affinity."""
        return self._terms("podAffinity", "preferred")

    @cached_property
    def preferred_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        """Weighted terms of the preferred pod anti-affinity."""
        return self._terms("podAntiAffinity", "preferred")

    def _terms(self, side: str, kind: str) -> tuple[AffinityTerm, ...]:
        if not self.has_affinity:
            return ()
        listed = (self.affinity.get(side) or {}).get(f"{kind}DuringSchedulingIgnoredDuringExecution") or ()
        if kind == "required":
            return tuple(self._term(raw, 0) for raw in listed)
        return tuple(self._term(raw.get("podAffinityTerm") or {}, int(raw.get("weight") or 0)) for raw in listed)

    def _term(self, raw: Mapping[str, Any], weight: int) -> AffinityTerm:
        names, selected = raw.get("namespaces") or (), raw.get("namespaceSelector")
        own = not names and selected is None
        return AffinityTerm(
            selector=label_selector(raw.get("labelSelector")),
            topology_key=str(raw.get("topologyKey") or ""),
            namespaces=frozenset([self.namespace] if own else (str(name) for name in names)),
            namespace_selector=NOTHING if selected is None else label_selector(selected),
            weight=weight,
        )


def preferred_terms(raw: Iterable[Mapping[str, Any]]) -> tuple[tuple[int, NodeTerm], ...]:
    """(weight, term) of preferred scheduling terms; weight 0 and empty terms select nothing and are left out."""
    made = ((int(item.get("weight") or 0), node_term(item.get("preference") or {})) for item in raw)
    return tuple((weight, term) for weight, term in made if weight and term is not None)
