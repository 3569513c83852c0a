"""The Plan: everything that `render` and `apply` need, and why it is so. Data only.

Names in JSON are the camelCase of these (INTERFACE 3, DESIGN 2). A plan never holds secrets, clocks or host names to steer
pods by: pods are steered by resource name, product label, pool label and taints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragstow.cluster.objects import Toleration
from ragstow.errors import Reason
from ragstow.sizing.model import ComponentSizing

Mode = Literal["exclusive", "mig", "mps", "time-slicing", "dra", "none"]
"""The slot modes; "none" is a component that takes no GPU."""


@dataclass(frozen=True, slots=True)
class SlotKind:
    """A kind of slot that a component may get.

    `resource` is the extended resource name (None for DRA and for no GPU), `count` how many of it one pod asks for,
    `sharers` how many pods may sit on the card together (1: alone), `memory_bytes` the CUDA-visible memory a pod may count on.
    """

    mode: Mode
    resource: str | None
    count: int
    profile: str | None
    product: str | None
    sharers: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ClaimKind:
    """What the DRA claim of one replica asks for: class, number of devices, CEL selectors that must all hold.

    `shared_with` names the other components whose replica i uses the very same claim as replica i of this one (for i up to the
    smallest replica count; further replicas get a claim of their own).
    """

    device_class: str
    count: int = 1
    selectors: tuple[str, ...] = ()
    shared_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """What one component gets and how its pods are steered there.

    `node_labels` are label -> allowed values that exist *after* the layout is applied; empty means that the resource name
    alone decides. `pool` says that the label ragstow.dev/pool=<service> is selected. `start_after` names components that
    must be Ready before this one starts, because they share cards and the engine checks free memory at start.

    The pods are rendered with exactly these constraints and no others, so what was simulated is what is applied: `not_beside`
    names components no pod of which may be on the same node (its own name: its replicas are on different nodes), `beside`
    those that must be there, `spread_nodes` that not all replicas may be on one node (a topology spread by host name with
    maxSkew = replicas - 1, minDomains 2, DoNotSchedule: with a smaller skew a full node would block the others).
    """

    name: str
    replicas: int
    slot: SlotKind
    sizing: ComponentSizing | None
    node_labels: Mapping[str, tuple[str, ...]]
    pool: bool
    tolerations: tuple[Toleration, ...]
    runtime_class: str | None
    start_after: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    """Why this slot."""
    claim: ClaimKind | None = None
    not_beside: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    spread_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """One replica. `node` is the simulation's choice with ties by name, `nodes` the possible set; `card` a number only where
    the layout or a claim decides it."""

    component: str
    replica: int
    node: str
    nodes: tuple[str, ...]
    card: int | None
    mode: Mode
    profile: str | None
    resource: str | None
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """How the cards of one node are cut, and what must change for it (nothing, where `changes` is empty).

    `sharing` is the state after; `plugin_config` the device-plugin file for this node and `plugin_config_key` the key it gets
    in the ConfigMap; `mig` is profile -> count for each card index; `mig_layout` the name of the layout for the MIG manager;
    `labels` the labels to set; `labels_after` all GPU labels that will exist; `resources_after` the allocatable GPU resources.
    """

    node: str
    sharing: str
    changes: tuple[str, ...] = ()
    disturbs: tuple[str, ...] = ()
    plugin_config: Mapping[str, Any] | None = None
    plugin_config_key: str | None = None
    mig: Mapping[int, Mapping[str, int]] | None = None
    mig_layout: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    labels_before: Mapping[str, str] = field(default_factory=dict)
    """The values that those labels have now, for undoing; a label that is absent here is not set."""
    labels_after: Mapping[str, str] = field(default_factory=dict)
    resources_after: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A mode that a component does not get, and why."""

    component: str
    mode: Mode
    reason: Reason


@dataclass(frozen=True, slots=True)
class Alternative:
    """A way out or a neighbour answer: what to change (a spec patch as field path -> value, or words) and what it gives."""

    text: str
    changes: Mapping[str, Any]
    cards: int | None
    verified: bool
    """True when planning with the change was tried and is feasible."""


@dataclass(frozen=True, slots=True)
class PluginInstall:
    """The device plugin of the cluster: how it was installed and where its configuration is.

    `kind` is "chart", "operator", "static", "cloud", "dra" or "none".
    """

    kind: str
    namespace: str | None = None
    daemonset: str | None = None
    release: str | None = None
    config_map: str | None = None
    config_keys: tuple[str, ...] = ()
    config_default: str | None = None
    config_data: Mapping[str, str] = field(default_factory=dict)
    cluster_policy: str | None = None
    mig_strategy: str | None = None
    mig_config_map: str | None = None
    mig_config_data: Mapping[str, str] = field(default_factory=dict)
    gfd: bool = False
    image: str | None = None
    """The image of the plugin's container, for a second DaemonSet beside a static one."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of the cluster that the plan rests on and the renderer needs; `digest` covers the GPU-relevant state."""

    kubernetes: str
    kubernetes_origin: str
    plugin: PluginInstall
    runtime_classes: tuple[str, ...]
    runtime_class_needed: bool
    default_storage_class: str | None
    digest: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer. `cards` and `lower_bound` count physical cards; `optimal` is cards == lower_bound or a solver's proof."""

    service: str
    namespace: str
    feasible: bool
    cards: int
    lower_bound: int
    lower_bound_reason: str
    optimal: bool
    solver: str
    components: tuple[ComponentPlan, ...]
    placements: tuple[Placement, ...]
    layouts: tuple[NodeLayout, ...]
    refused: tuple[Refusal, ...]
    reasons: tuple[Reason, ...]
    alternatives: tuple[Alternative, ...]
    assumptions: tuple[str, ...]
    spec: Mapping[str, Any]
    """The normalised RagService document."""
    cluster: ClusterFacts
    digest: str
    simulation: Mapping[str, Any] | None = None
