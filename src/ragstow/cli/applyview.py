"""What `apply` shows before it asks, as data: what differs, whom it costs what, which objects change, which steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragstow.cli.applyplan import Rendered
from ragstow.cluster.snapshot import Snapshot
from ragstow.inventory.model import Inventory
from ragstow.live.preview.model import ObjectPreview
from ragstow.plan.difference import Difference
from ragstow.plan.model import Plan
from ragstow.render.actions import Action, ApplyObject, Procedure, WaitReady
from ragstow.render.impact import Change, Impact, impact

_POD_OWNERS = ("Deployment", "StatefulSet", "DaemonSet")


@dataclass(frozen=True, slots=True)
class View:
    """What a person decides on. `problems` keep it from being carried out; `notes` are worth knowing."""

    service: str
    namespace: str
    cluster: str
    """What the cluster is called: the context."""
    dry_run: str
    """client, server or nothing."""
    digest: str
    replanned: bool
    resumed: str
    """Where an interrupted run goes on; "" for a new one."""
    differences: tuple[Difference, ...]
    rendered: tuple[Rendered, ...]
    edited: tuple[str, ...]
    impact: Impact
    changes: tuple[ObjectPreview, ...]
    steps: tuple[Action, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def nothing_to_do(self) -> bool:
        """Whether all objects are as they are to be and no node changes."""
        only_objects = all(isinstance(action, ApplyObject | WaitReady) for action in self.steps)
        return only_objects and all(item.what == "same" and not item.problem for item in self.changes)


def radius(
    procedure: Procedure,
    plan: Plan,
    snapshot: Snapshot,
    inventory: Inventory,
    previews: Sequence[ObjectPreview],
    limit: Callable[[Action], float] | None,
) -> Impact:
    """The blast radius, with what the previews say of workloads."""
    changes = {
        (item.kind, item.namespace, item.name): _change(item)
        for item in previews
        if item.kind in _POD_OWNERS and item.what != "unknown"
    }
    return impact(procedure, plan, snapshot, inventory, changes, limit)


def _change(item: ObjectPreview) -> Change:
    if item.what == "create":
        return "new"
    if item.what == "delete":
        return "deleted"
    if item.what == "same":
        return "same"
    if not item.fields or item.anew or any(change.path.startswith(".spec.template") for change in item.fields):
        return "replaced"
    return "scaled" if any(change.path == ".spec.replicas" for change in item.fields) else "changed"


def problems_of(previews: Sequence[ObjectPreview], *, force_conflicts: bool) -> list[str]:
    """What keeps these objects from being applied."""
    found: list[str] = []
    for item in previews:
        if item.problem:
            found.append(f"{item.ref}: {item.problem}")
        if item.conflicts and not force_conflicts:
            listed = ", ".join(f"{owned.field} belongs to {owned.manager}" for owned in item.conflicts)
            found.append(f"{item.ref}: {listed} (--force-conflicts takes it over)")
    return found


def not_ready(snapshot: Snapshot, procedure: Procedure) -> list[str]:
    """Workloads of the service that do not run as they should, although nothing is to be changed."""
    found: list[str] = []
    for action in procedure.actions:
        if not isinstance(action, WaitReady) or not action.replicas:
            continue
        live = snapshot.get(action.kind, action.name, action.namespace, group=action.api_version.rpartition("/")[0])
        ready = ((live.raw.get("status") or {}).get("readyReplicas") or 0) if live is not None else 0
        if ready < action.replicas:
            found.append(
                f"{action.kind} {action.namespace}/{action.name}: {ready} of {action.replicas} ready "
                f"(ragstow diagnose -n {action.namespace})"
            )
    return found


def secrets_needed(procedure: Procedure) -> list[str]:
    """The Secrets without which pods of the procedure do not start; ragstow reads none, so a person must look."""
    found: dict[tuple[str, str], None] = {}
    for action in procedure.actions:
        if isinstance(action, ApplyObject):
            namespace = str(action.manifest["metadata"].get("namespace") or procedure.namespace)
            found.update(dict.fromkeys((namespace, name) for name in _secrets(action.manifest.get("spec"))))
    return [
        f"Secret {namespace}/{name} must be there, or pods wait for it; ragstow reads none: "
        f"kubectl -n {namespace} get secret {name}"
        for namespace, name in found
    ]


def _secrets(value: Any) -> Iterator[str]:
    """Names of Secrets that a pod template needs, wherever they stand in it."""
    if isinstance(value, list):
        for item in value:
            yield from _secrets(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("secretKeyRef", "secretRef", "secret") and isinstance(item, Mapping):
                name = item.get("name") or item.get("secretName")
                if name and not item.get("optional"):
                    yield str(name)
            elif key == "imagePullSecrets" and isinstance(item, list):
                yield from (str(one["name"]) for one in item if isinstance(one, Mapping) and one.get("name"))
            else:
                yield from _secrets(item)
