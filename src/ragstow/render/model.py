"""What rendering gives: files, and the objects in them that `kubectl apply` takes. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragstow.facts import Facts
from ragstow.facts.serving import Serving
from ragstow.plan.model import ComponentPlan, NodeLayout, Plan, SlotKind
from ragstow.spec.model import Component, Service

if TYPE_CHECKING:
    from ragstow.render.actions import Action

Manifest = dict[str, Any]
"""A Kubernetes object, keys in the order in which they are printed."""


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """A file below the output folder; `path` has forward slashes."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A step for a person: what and why, the commands, and how to see that it worked."""

    title: str
    text: str = ""
    commands: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    expect: str = ""


@dataclass(frozen=True, slots=True)
class NodePart:
    """A part of the node configuration: its files, the objects among them that are applied as they are (path -> object),
    the steps in order, and how to undo them (already in the order of undoing).

    `actions` is what `apply` does for those steps that are no node's own; what is done to each node is made in `procedure`.
    """

    files: tuple[RenderedFile, ...] = ()
    objects: Mapping[str, Manifest] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    undo: tuple[Step, ...] = ()
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Rendering:
    """Everything of one plan. `objects` is what `-o yaml` prints: node configuration first, then workloads.

    `by_hand` says what is needed beside those objects (labels, patches, Helm values), one sentence each; empty where
    applying the objects is all.
    """

    service: str
    namespace: str
    digest: str
    files: tuple[RenderedFile, ...]
    objects: tuple[Manifest, ...]
    by_hand: tuple[str, ...] = ()
    node_objects: Mapping[str, Manifest] = field(default_factory=dict)
    """Those of `objects` that are node configuration, by file."""


@dataclass(frozen=True, slots=True)
class Item:
    """A component as the builders see it: what was asked for, what it got, how its engine runs (None: an image alone)."""

    service: Service
    component: Component
    planned: ComponentPlan
    serving: Serving | None
    image: str
    compute_capability: str | None
    """Of the card it is on; None without a GPU, "" where the card is not known."""

    @property
    def name(self) -> str:
        """The component's name in the spec."""
        return self.component.name

    @property
    def slot(self) -> SlotKind:
        """The kind of slot that each pod gets."""
        return self.planned.slot

    @property
    def has_gpu(self) -> bool:
        """Whether its pods take a GPU."""
        return self.slot.mode != "none"

    @property
    def port(self) -> int | None:
        """The port it serves on: the user's, the engine's, the role's; None where it serves nothing."""
        if self.serving is not None and not self.component.given("port"):
            return self.serving.port
        return self.component.port


@dataclass(frozen=True, slots=True)
class Context:
    """One rendering's inputs: the service, its plan and the facts, with the components joined to what they got."""

    service: Service
    plan: Plan
    facts: Facts
    items: tuple[Item, ...]

    @property
    def changed(self) -> tuple[NodeLayout, ...]:
        """The node layouts that need a change."""
        return tuple(layout for layout in self.plan.layouts if layout.changes)

    def item(self, name: str) -> Item:
        """The item of a component; KeyError where there is none."""
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(name)
