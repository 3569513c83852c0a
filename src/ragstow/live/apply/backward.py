"""Takes the actions of a record back: workloads first, then nodes, then configuration, so that nothing hangs in the air.

Each step is one action's inverse and may be begun again. What was unchanged stays; what a person did by hand is only named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.live.apply import helm, nodes, rollout
from ragstow.live.apply.context import Object, Run
from ragstow.live.apply.fields import extract
from ragstow.live.apply.forward import delete, set_restarted
from ragstow.live.apply.record import PENDING, UNCHANGED, UNDONE, Record
from ragstow.live.failures import Conflict, Invalid
from ragstow.render.actions import (
    Action,
    ApplyObject,
    ByHand,
    Cordon,
    DeleteObject,
    EvictGpuPods,
    HelmUpgrade,
    MergePatch,
    RestartDaemonSet,
    SetLabels,
    Uncordon,
    WaitMigState,
    WaitNodeOffers,
    WaitReady,
)
from ragstow.render.names import MIG_CONFIG

_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Back:
    """One step of an undo: the action it takes back, what to tell people, what to do."""

    index: int
    title: str
    work: Callable[[Run], None]


def steps(record: Record) -> list[Back]:
    """All steps that an undo of this record has to take, in order."""
    procedure, states = record.procedure, record.progress.states
    there = [index for index, letter in enumerate(states) if letter not in (PENDING, UNCHANGED, UNDONE)]
    workloads = [index for index in reversed(there) if index >= procedure.workloads]
    between = [index for index in reversed(there) if procedure.configuration <= index < procedure.workloads]
    configured = [index for index in reversed(there) if index < procedure.configuration]
    if any(letter not in (PENDING, UNCHANGED) for letter in states[: procedure.configuration]):
        # A wait changes nothing itself, but what it waited for is waited for again.
        configured += [
            index
            for index, action in enumerate(procedure.actions[: procedure.configuration])
            if isinstance(action, WaitReady) and states[index] == UNCHANGED
        ]
    removed = [index for index in between if isinstance(procedure.actions[index], DeleteObject)]
    made: list[Back] = []
    made += _all(record, workloads)
    made += _all(record, [index for index in between if index not in removed])
    # What the plugin reads is put back before the plugin reads it anew.
    late = [index for index in configured if isinstance(procedure.actions[index], RestartDaemonSet | WaitReady)]
    made += _all(record, [index for index in configured if index not in late])
    made += _all(record, sorted(late, key=lambda index: (isinstance(procedure.actions[index], WaitReady), index)))
    made += _all(record, removed)
    return made


def emptied(record: Record) -> dict[str, Mapping[str, Any]]:
    """The nodes that an undo closes and empties, and what each was before: `resources`, `labels`, `cordoned`, `layout`."""
    found = dict.fromkeys(
        action.node for step in steps(record) if isinstance(action := record.procedure.actions[step.index], Uncordon)
    )
    cordons = {
        action.node: record.before.get(index, {})
        for index, action in enumerate(record.procedure.actions)
        if isinstance(action, Cordon)
    }
    return {node: cordons.get(node, {}) for node in found}


def _all(record: Record, indexes: list[int]) -> list[Back]:
    return [step for index in indexes for step in _inverse(record, index)]


def _inverse(record: Record, index: int) -> Iterator[Back]:
    action: Action = record.procedure.actions[index]
    before: Mapping[str, Any] = record.before.get(index, {})
    match action:
        case ApplyObject():
            former = before.get("object")
            verb = "take back" if former else "delete"
            yield Back(index, action.title.replace("apply", verb, 1), lambda run: _object(run, action, former))
        case DeleteObject():
            if before.get("object"):
                yield Back(index, action.title.replace("delete", "make again", 1), lambda run: restore(run, before["object"]))
        case MergePatch():
            yield Back(index, action.title.replace("patch", "patch back", 1), lambda run: _patch(run, action, before["patch"]))
        case HelmUpgrade():
            title = f"roll back {action.namespace}/{action.release}"
            yield Back(index, title, lambda run: helm.rollback(run, action, before.get("revision")))
        case RestartDaemonSet():
            yield Back(index, action.title, lambda run: _restart(run, action, before))
        case WaitReady():
            if index < record.procedure.configuration:
                yield Back(index, action.title, lambda run: _settled(run, action, before))
        case SetLabels():
            title = f"label {action.node} as before"
            yield Back(index, title, lambda run: _labels(run, action.node, before["labels"]))
        case Uncordon():
            yield Back(index, f"close {action.node} and evict its GPU pods", lambda run: _close(run, record, action.node))
        case EvictGpuPods():
            # The node is closed, and its labels are back: where pods came meanwhile they are gone by now.
            return
        case Cordon():
            yield Back(index, f"wait for {action.node} and open it", lambda run: _open(run, record, action.node, before))
        case ByHand():
            yield Back(index, f"by hand: {action.what}", lambda run: _named(run, action))
        case WaitMigState() | WaitNodeOffers():
            return


def _object(run: Run, action: ApplyObject, former: Object | None) -> None:
    manifest = action.manifest
    meta = manifest["metadata"]
    if former is not None:
        restore(run, former)
        return
    delete(run, manifest["apiVersion"], manifest["kind"], meta["name"], meta.get("namespace", ""))
    if manifest["kind"] == "StatefulSet":
        _claims(run, manifest)


def _claims(run: Run, manifest: Object) -> None:
    """The claims that a StatefulSet made stay, since they hold users' data; or they go where that was asked for."""
    templates = (manifest.get("spec") or {}).get("volumeClaimTemplates") or ()
    namespace, name = manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
    starts = tuple(f"{template['metadata']['name']}-{name}-" for template in templates)
    if not starts:
        return
    for claim in run.list("v1", "PersistentVolumeClaim", namespace):
        own = str(claim["metadata"]["name"])
        if not own.startswith(starts) or not own.rpartition("-")[2].isdecimal():
            continue
        if run.options.delete_claims:
            delete(run, "v1", "PersistentVolumeClaim", own, namespace)
        else:
            run.note(f"PersistentVolumeClaim {namespace}/{own} stays with its data; --delete-claims deletes it")


def restore(run: Run, former: Object) -> None:
    """Put an object back: the fields that were ours by server-side apply, then what others' fields were."""
    api_version, kind = former["apiVersion"], former["kind"]
    meta = former["metadata"]
    name, namespace = meta["name"], meta.get("namespace", "")
    clean = {key: value for key, value in meta.items() if key not in ("uid", "resourceVersion")}
    whole = {**{key: value for key, value in former.items() if key not in ("ours", "ready")}, "metadata": clean}
    there = run.get(api_version, kind, name, namespace)
    if there is None:
        try:
            run.ask(lambda: run.client.create(whole))
        except Conflict:
            there = run.get(api_version, kind, name, namespace)
        if there is None:
            return
    identity = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
    ours = extract(whole, former.get("ours") or {})
    ours = {**ours, **identity, "metadata": {**(ours.get("metadata") or {}), **identity["metadata"]}}
    try:
        made = run.ask(lambda: run.client.apply(ours, force=True))
    except Invalid:
        # A field that cannot be changed: the object was made anew on the way forward, and is again.
        delete(run, api_version, kind, name, namespace)
        run.ask(lambda: run.client.create(whole))
        return
    change = difference(made, whole)
    if change:
        run.patch(api_version, kind, name, namespace, change)


def difference(there: Object, wanted: Object) -> dict[str, Any]:
    """The merge patch from an object that is there to one that was; what the server keeps for itself is left out."""
    labelled = ("labels", "annotations")
    meta = {key: (there["metadata"].get(key) or {}) for key in labelled}
    former = {key: (wanted["metadata"].get(key) or {}) for key in labelled}
    return _merge({**_body(there), "metadata": meta}, {**_body(wanted), "metadata": former})


def _body(item: Object) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata", "status")}


def _merge(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {key: None for key in there if key not in wanted}
    for key, value in wanted.items():
        if key not in there:
            made[key] = value
        elif isinstance(value, Mapping) and isinstance(there[key], Mapping):
            below = _merge(there[key], value)
            if below:
                made[key] = below
        elif there[key] != value:
            made[key] = value
    return made


def _patch(run: Run, action: MergePatch, change: Mapping[str, Any]) -> None:
    if run.get(action.api_version, action.kind, action.name, action.namespace) is None:
        run.note(f"{action.kind} {action.name} is gone, so there is nothing to take back in it")
        return
    run.patch(action.api_version, action.kind, action.name, action.namespace, change)


def _restart(run: Run, action: RestartDaemonSet, before: Mapping[str, Any]) -> None:
    """The annotation goes back, which replaces the pods once more."""
    if run.get("apps/v1", "DaemonSet", action.name, action.namespace) is None:
        return
    set_restarted(run, action.namespace, action.name, before.get("annotation"))
    wait = WaitReady("apps/v1", "DaemonSet", action.namespace, action.name, None, _SECONDS)
    rollout.wait_ready(run, wait, again=False, spare=int(before.get("unready") or 0))


def _settled(run: Run, action: WaitReady, before: Mapping[str, Any]) -> None:
    """Wait until what was patched back is carried out; a DaemonSet must not know our configuration any more."""
    resource = run.resource(action.api_version, action.kind)
    seconds = run.seconds(action.timeout_seconds)

    def judge(item: Object | None) -> str:
        if item is None:
            return ""
        if action.mentions and rollout.mentions(item, action.mentions):
            return f"the operator has not taken {action.mentions} out yet"
        return rollout.settled(action.kind, item, int(before.get("unready") or 0))

    run.until(resource, action.name, action.namespace, seconds, judge)


def _labels(run: Run, node: str, former: Mapping[str, str | None]) -> None:
    if run.node(node) is None:
        run.note(f"node {node} is gone")
        return
    nodes.set_labels(run, node, former)


def _close(run: Run, record: Record, node: str) -> None:
    if run.node(node) is None:
        return
    nodes.set_cordon(run, node, True)
    nodes.evict(run, node, run.options.disturb, _evicted(record, node))


def _evicted(record: Record, node: str) -> list[str]:
    """Whose pods the run evicted from a node; they may have come back to it, and go once more."""
    for index, action in enumerate(record.procedure.actions):
        if isinstance(action, EvictGpuPods) and action.node == node:
            return list(record.before.get(index, {}).get("owners") or ())
    return []


def _open(run: Run, record: Record, node: str, before: Mapping[str, Any]) -> None:
    """Wait until the node is what it was, then let pods onto it, if it was open."""
    there = run.node(node)
    if there is None:
        return
    layout = before.get("layout")
    touched = _labelled(record, node)
    if MIG_CONFIG in touched and layout is not None and "nvidia.com/mig.config.state" in before["labels"]:
        nodes.wait_mig(run, node, layout)
    if touched and not _cut_by_hand(record, node):
        nodes.wait_offers(run, node, before["resources"], before["labels"])
    if not before["cordoned"]:
        nodes.set_cordon(run, node, False)


def _labelled(record: Record, node: str) -> set[str]:
    """The labels that this run may have set on a node while it was closed."""
    return {
        key
        for index, action in enumerate(record.procedure.actions)
        if isinstance(action, SetLabels) and action.node == node
        and record.progress.states[index] not in (PENDING, UNCHANGED)
        for key in action.labels
    } - {"ragstow.dev/pool"}  # fmt: skip


def _cut_by_hand(record: Record, node: str) -> bool:
    return any(isinstance(action, ByHand) and action.node == node for action in record.procedure.actions)


def _named(run: Run, action: ByHand) -> None:
    run.note(f"the cards of {action.node} were cut by hand and stay so; STEPS.md has the commands that undo it")


def wait_restored(run: Run, record: Record) -> None:
    """Wait until the workloads that were put back have as many ready pods as they had.

    Raises:
        TimeoutReached, ApplyStopped: as any wait for a workload.
    """
    for index, letter in enumerate(record.progress.states):
        former = record.before.get(index, {}).get("object")
        if letter != UNDONE or not former or former["kind"] not in ("Deployment", "StatefulSet") or not former["ready"]:
            continue
        meta = former["metadata"]
        wanted = int((former.get("spec") or {}).get("replicas", 1))
        if former["ready"] < wanted:
            continue  # it was not whole before either
        run.title = f"wait for {former['kind']} {meta['namespace']}/{meta['name']} as it was"
        wait = WaitReady(former["apiVersion"], former["kind"], meta["namespace"], meta["name"], wanted, 3600)
        rollout.wait_ready(run, wait, again=True)
