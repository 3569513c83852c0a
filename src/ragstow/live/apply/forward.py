"""Carries out one action. Each looks first whether it is so already, so that it may be begun again after an interruption."""

from __future__ import annotations

from typing import Any

from ragstow.live.apply import helm, nodes, rollout
from ragstow.live.apply.before import RESTARTED, plugin_pods
from ragstow.live.apply.context import Object, Run
from ragstow.live.apply.model import ApplyStopped
from ragstow.live.apply.record import CHANGED, Record
from ragstow.live.failures import ApiError, Conflict, Forbidden, Invalid
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
    RestartPluginPod,
    SetLabels,
    Uncordon,
    WaitMigState,
    WaitNodeOffers,
    WaitReady,
)

DELETE_SECONDS = 600.0
_REPLACED = ("Deployment", "StatefulSet", "ResourceClaimTemplate")
"""Kinds of ours that may be deleted and made anew where a field of theirs cannot be changed."""
PLUGIN_SECONDS = 300.0


def carry_out(run: Run, record: Record, index: int, *, again: bool) -> bool:
    """Carry out one action of a record; whether it changed anything.

    Args:
        run: the run.
        record: the record, which holds what was before this action.
        index: which action.
        again: an earlier run had begun it.

    Raises:
        ApplyStopped: it cannot be done.
        TimeoutReached: it takes too long.
        ClusterError: the API server refuses or cannot be reached.
    """
    action = record.procedure.actions[index]
    before = record.before.get(index, {})
    match action:
        case ApplyObject():
            return apply_object(run, action.manifest, before.get("object"))
        case DeleteObject():
            return delete(run, action.api_version, action.kind, action.name, action.namespace)
        case MergePatch():
            return _merge(run, action)
        case HelmUpgrade():
            return helm.upgrade(run, action)
        case RestartDaemonSet():
            return _restart(run, record, index, action)
        case Cordon():
            return nodes.set_cordon(run, action.node, True)
        case EvictGpuPods():
            return nodes.evict(run, action.node, action.expected)
        case SetLabels():
            return nodes.set_labels(run, action.node, {**action.labels, **dict.fromkeys(action.gone)})
        case RestartPluginPod():
            return _restart_pod(run, action, before.get("pods") or ())
        case Uncordon():
            cordoned = _cordoned_before(record, action.node)
            return False if cordoned else nodes.set_cordon(run, action.node, False)
        case _:
            _wait(run, action, again=again, spare=int(before.get("unready") or 0))
            return False


def _wait(run: Run, action: Action, *, again: bool, spare: int) -> None:
    match action:
        case WaitReady():
            rollout.wait_ready(run, action, again=again, spare=spare)
        case WaitMigState():
            nodes.wait_mig(run, action.node, action.layout)
        case WaitNodeOffers():
            nodes.wait_offers(run, action.node, action.resources, action.labels)
        case ByHand():
            if not by_hand_done(run, action):
                raise by_hand(action)


def apply_object(run: Run, manifest: Object, before: Object | None) -> bool:
    """Server-side apply; whether the object is another one now.

    Raises:
        ApplyStopped: fields belong to others, or the server does not take the object.
    """
    try:
        made = run.ask(lambda: run.client.apply(manifest, force=run.options.force_conflicts))
    except Conflict as error:
        listed = ", ".join(f"{owned.field} ({owned.manager})" for owned in error.owned)
        raise ApplyStopped(
            "field-conflict",
            f"{run.title}: others own fields of it: {listed or error.message}",
            hint=f"--force-conflicts takes them over; {run.hint()}",
        ) from None
    except Invalid as error:
        if before is None or manifest["kind"] not in _REPLACED or not _immutable(error):
            raise ApplyStopped("object-refused", f"{run.title}: {error.message}", hint=run.hint()) from None
        meta = manifest["metadata"]
        run.note(f"{run.title}: a field of it cannot be changed, so it is made anew")
        delete(run, manifest["apiVersion"], manifest["kind"], meta["name"], meta.get("namespace", ""))
        made = run.ask(lambda: run.client.apply(manifest, force=run.options.force_conflicts))
    except ApiError as error:
        # A 403 that is no missing right comes from admission: a quota, a policy.
        if error.status != 403 or isinstance(error, Forbidden):
            raise
        raise ApplyStopped("object-refused", f"{run.title}: {error.message}", hint=run.hint()) from None
    former = (before or {}).get("metadata") or {}
    return bool(made["metadata"]["resourceVersion"] != former.get("resourceVersion"))


def _immutable(error: Invalid) -> bool:
    return "immutable" in error.message or "are forbidden" in error.message


def delete(run: Run, api_version: str, kind: str, name: str, namespace: str) -> bool:
    """Delete an object, wait until it and what it owns is gone; whether it was there.

    Raises:
        TimeoutReached: something keeps it.
    """
    resource = run.resource(api_version, kind)
    there = run.get(api_version, kind, name, namespace)
    if there is None:
        return False
    uid = str(there["metadata"]["uid"])
    run.delete(resource, name, namespace, uid, dependents_first=True)

    def judge(item: Object | None) -> str:
        if item is None or item["metadata"].get("uid") != uid:
            return ""
        held = ", ".join(item["metadata"].get("finalizers") or ())
        return f"{kind} {name} is ending" + (f" (finalizers: {held})" if held else "")

    run.until(resource, name, namespace, run.seconds(DELETE_SECONDS), judge)
    return True


def _merge(run: Run, action: MergePatch) -> bool:
    there = run.get(action.api_version, action.kind, action.name, action.namespace)
    if there is None:
        raise ApplyStopped("object-gone", f"{run.title}: it is gone", hint="plan again on this cluster")
    made = run.patch(action.api_version, action.kind, action.name, action.namespace, action.patch)
    return bool(made["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"])


def _restart(run: Run, record: Record, index: int, action: RestartDaemonSet) -> bool:
    """Restart where a patch or object of this run changed what the pods read; and wait for the new pods."""
    configuration = record.procedure.configuration
    if CHANGED not in record.progress.states[: min(index, configuration)]:
        return False
    there = run.get("apps/v1", "DaemonSet", action.name, action.namespace)
    if there is None:
        raise ApplyStopped("object-gone", f"{run.title}: it is gone", hint="plan again on this cluster")
    set_restarted(run, action.namespace, action.name, record.name)
    spare = int(record.before.get(index, {}).get("unready") or 0)
    rollout.wait_ready(run, _daemonset(action), again=False, spare=spare)
    return True


def set_restarted(run: Run, namespace: str, name: str, by: str | None) -> None:
    """The annotation of a DaemonSet's pods by which they are replaced."""
    change = {"spec": {"template": {"metadata": {"annotations": {RESTARTED: by}}}}}
    run.patch("apps/v1", "DaemonSet", name, namespace, change)


def _daemonset(action: RestartDaemonSet) -> WaitReady:
    return WaitReady("apps/v1", "DaemonSet", action.namespace, action.name, None, 600)


def _restart_pod(run: Run, action: RestartPluginPod, former: Any) -> bool:
    """Delete the pods that were there before, and wait for ready ones."""
    resource = run.resource("v1", "Pod")

    def look() -> str:
        pods = plugin_pods(run, action)
        for pod in pods:
            meta = pod["metadata"]
            if meta["uid"] in former:
                if not meta.get("deletionTimestamp"):
                    run.delete(resource, meta["name"], meta["namespace"], meta["uid"])
                return f"{meta['name']} is ending"
        ready = [pod for pod in pods if _is_ready(pod)]
        return "" if ready else "the new pod is not ready yet"

    run.poll(run.seconds(PLUGIN_SECONDS), look)
    return True


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _cordoned_before(record: Record, node: str) -> bool:
    for index, action in enumerate(record.procedure.actions):
        if isinstance(action, Cordon) and action.node == node:
            return bool(record.before.get(index, {}).get("cordoned"))
    return False


def by_hand_done(run: Run, action: ByHand) -> bool:
    """Whether a person has done it: the node offers what was to come of it."""
    node = run.node(action.node)
    wanted = {name: count for name, count in sorted(action.resources.items()) if count}
    return node is not None and nodes.offers(node) == wanted


def by_hand(action: ByHand) -> ApplyStopped:
    """The refusal of what needs a person."""
    commands = "".join(f"\n    {command}" for command in action.commands)
    return ApplyStopped(
        "by-hand",
        f"this needs a person: {action.what}. {action.text}{commands}",
        hint="STEPS.md of `ragstow render` has all steps in order; when the node offers the slices, the same apply goes on",
    )
