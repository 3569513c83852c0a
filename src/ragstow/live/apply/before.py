"""What was before an action: enough of the touched object to take the action back, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.live.apply import nodes
from ragstow.live.apply.context import Object, Run
from ragstow.live.apply.helm import revision
from ragstow.live.apply.model import ApplyStopped
from ragstow.render.actions import (
    Action,
    ApplyObject,
    Cordon,
    DeleteObject,
    EvictGpuPods,
    HelmUpgrade,
    MergePatch,
    RestartDaemonSet,
    RestartPluginPod,
    SetLabels,
    WaitReady,
)
from ragstow.render.names import MIG_CONFIG

RESTARTED = "ragstow.dev/restarted-by"
_MANAGER = "ragstow"


def before(run: Run, action: Action) -> dict[str, Any]:
    """What an action is about to change, as JSON values; {} for waits.

    Raises:
        ApplyStopped: the object to patch does not exist.
    """
    match action:
        case ApplyObject():
            meta = action.manifest["metadata"]
            found = run.get(action.manifest["apiVersion"], action.manifest["kind"], meta["name"], meta.get("namespace", ""))
            return {"object": slim(found)}
        case DeleteObject():
            return {"object": slim(run.get(action.api_version, action.kind, action.name, action.namespace))}
        case MergePatch():
            found = _there(run, action.api_version, action.kind, action.name, action.namespace)
            return {"patch": inverse_patch(action.patch, found)}
        case RestartDaemonSet():
            found = _there(run, "apps/v1", "DaemonSet", action.name, action.namespace)
            meta = (found["spec"]["template"].get("metadata") or {}).get("annotations") or {}
            return {"annotation": meta.get(RESTARTED), "unready": unready(found)}
        case WaitReady(kind="DaemonSet"):
            return {"unready": unready(run.get(action.api_version, action.kind, action.name, action.namespace))}
        case Cordon():
            node = nodes.must_be(run, action.node)
            shown = {key: value for key, value in nodes.labels_of(node).items() if key.startswith(nodes.VENDOR)}
            return {
                "cordoned": nodes.unschedulable(node),
                "resources": nodes.offers(node),
                "labels": {key: value for key, value in sorted(shown.items()) if key.endswith(nodes.SHOWN)},
                "layout": nodes.labels_of(node).get(MIG_CONFIG),
            }
        case EvictGpuPods():
            return {"owners": sorted({nodes.owner(pod) for pod in nodes.gpu_pods(run, action.node)})}
        case SetLabels():
            there = nodes.labels_of(nodes.must_be(run, action.node))
            return {"labels": {key: there.get(key) for key in (*action.labels, *action.gone)}}
        case RestartPluginPod():
            return {"pods": [pod["metadata"]["uid"] for pod in plugin_pods(run, action)]}
        case HelmUpgrade():
            return {"revision": revision(run, action)}
        case _:
            return {}


def unready(daemonset: Object | None) -> int:
    """How many pods of a DaemonSet are not ready: those on a node that is broken anyway are nothing to wait for."""
    status = (daemonset or {}).get("status") or {}
    return max(0, int(status.get("desiredNumberScheduled") or 0) - int(status.get("numberReady") or 0))


def slim(item: Object | None) -> dict[str, Any] | None:
    """An object without what the server keeps for itself; of the field managers only what was ours."""
    if item is None:
        return None
    meta = {
        key: value
        for key, value in item["metadata"].items()
        if key in ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers", "uid", "resourceVersion")
    }
    ours = [
        entry["fieldsV1"]
        for entry in item["metadata"].get("managedFields") or ()
        if entry.get("manager") == _MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")
    ]
    rest = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    ready = int((item.get("status") or {}).get("readyReplicas") or 0)
    return {**rest, "metadata": meta, "ours": ours[0] if ours else None, "ready": ready}


def inverse_patch(patch: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that takes `patch` back from an object that was `there`."""
    made: dict[str, Any] = {}
    for key, value in patch.items():
        if key not in there:
            made[key] = None
        elif isinstance(value, Mapping) and isinstance(there[key], Mapping):
            made[key] = inverse_patch(value, there[key])
        else:
            made[key] = there[key]
    return made


def plugin_pods(run: Run, action: RestartPluginPod) -> list[dict[str, Any]]:
    """The pods of the device plugin's DaemonSet on a node."""
    daemonset = _there(run, "apps/v1", "DaemonSet", action.daemonset, action.namespace)
    pods = run.list("v1", "Pod", action.namespace, fields=f"spec.nodeName={action.node}")
    uid = daemonset["metadata"]["uid"]
    return [pod for pod in pods if any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())]


def _there(run: Run, api_version: str, kind: str, name: str, namespace: str) -> dict[str, Any]:
    found = run.get(api_version, kind, name, namespace)
    if found is None:
        where = f"{namespace}/{name}" if namespace else name
        raise ApplyStopped("object-gone", f"{run.title}: there is no {kind} {where}", hint="plan again on this cluster")
    return found
