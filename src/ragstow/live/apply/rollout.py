"""Waits until a workload is rolled out, and says at once when a pod of it is refused or crashes.

Ready means what `kubectl rollout status` means. Only pods of the newest revision count: the old ones may be in any state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragstow.live.apply.context import Object, Run
from ragstow.live.apply.model import ApplyStopped
from ragstow.render.actions import WaitReady

_REVISION = "deployment.kubernetes.io/revision"
_CRASHES = 2
"""Restarts after which a pod that waits to be started again is called crashing; the first may have been a race."""
_HOPELESS = frozenset(
    {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "RunContainerError"}
)
_FAILED_CREATE_SECONDS = 10.0


def wait_ready(run: Run, action: WaitReady, *, again: bool, spare: int = 0) -> None:
    """Wait until a workload is as it should be.

    Args:
        run: the run.
        action: what to wait for, and how long.
        again: this wait was begun by an earlier run; pods that had failed by now are not held against it once more.
        spare: how many pods of a DaemonSet need not be ready, since they were not before either.

    Raises:
        ApplyStopped: a pod is refused, crashes, cannot get its image, or finds no node.
        TimeoutReached: it is not ready in time.
    """
    resource = run.resource(action.api_version, action.kind)
    seconds = run.seconds(action.timeout_seconds)
    if action.kind not in ("Deployment", "StatefulSet"):

        def judge(item: Object | None) -> str:
            return _policy_stands(item) if action.kind == "ClusterPolicy" else _daemonset_stands(item, action.mentions, spare)

        run.until(resource, action.name, action.namespace, seconds, judge)
        return
    watched = _Pods(run, action, again=again)
    end = run.clock() + seconds

    def look() -> str:
        item = run.get(action.api_version, action.kind, action.name, action.namespace)
        standing = _stands(action, item)
        if standing and item is not None:
            standing += watched.judge(item)
        return standing

    # One short wait at a time on the workload itself, so that its last pod is seen at once; between them the pods.
    while standing := look():
        run.lease.check()
        run.tell("wait", standing)
        left = end - run.clock()
        if left <= 0:
            raise run.late(standing, seconds)
        for item in run.changes(resource, action.name, action.namespace, min(left, run.options.poll_seconds)):
            if item is None or not _stands(action, item):
                break


def _stands(action: WaitReady, item: Object | None) -> str:
    """Where a Deployment or StatefulSet stands; "" when it is rolled out."""
    if item is None:
        return f"{action.kind} {action.namespace}/{action.name} is gone"
    spec, status = item.get("spec") or {}, item.get("status") or {}
    wanted = int(spec.get("replicas", 1)) if action.replicas is None else action.replicas
    if int(status.get("observedGeneration") or 0) < int(item["metadata"].get("generation") or 0):
        return "the controller has not seen the change yet"
    updated, ready = int(status.get("updatedReplicas") or 0), int(status.get("availableReplicas") or 0)
    there = int(status.get("replicas") or 0)
    if updated < wanted:
        return f"{updated} of {wanted} pods are of the new version"
    if there > wanted:
        return f"{there - wanted} old pods are still there"
    if ready < wanted:
        return f"{ready} of {wanted} pods are ready"
    if action.kind == "StatefulSet" and status.get("updateRevision") != status.get("currentRevision") and wanted:
        return "the last pods of the old version are being replaced"
    return ""


def mentions(item: Object, text: str) -> bool:
    """Whether the pods of a DaemonSet have a text anywhere in their template."""
    return _mentions((item.get("spec") or {}).get("template"), text)


def settled(kind: str, item: Object, spare: int) -> str:
    """Where a DaemonSet or ClusterPolicy that is there stands; "" when it is settled."""
    return _policy_stands(item) if kind == "ClusterPolicy" else _daemonset_stands(item, "", spare)


def _daemonset_stands(item: Object | None, text: str, spare: int) -> str:
    if item is None:
        return "it does not exist"
    status = item.get("status") or {}
    if text and not mentions(item, text):
        return f"the operator has not carried the change out: its pods do not know {text} yet"
    if int(status.get("observedGeneration") or 0) < int(item["metadata"].get("generation") or 0):
        return "the controller has not seen the change yet"
    wanted = int(status.get("desiredNumberScheduled") or 0)
    updated, ready = int(status.get("updatedNumberScheduled") or 0), int(status.get("numberReady") or 0)
    if updated < wanted:
        return f"{updated} of {wanted} pods are of the new version"
    return f"{ready} of {wanted} pods are ready" if ready < wanted - spare else ""


def _policy_stands(item: Object | None) -> str:
    if item is None:
        return "it does not exist"
    state = (item.get("status") or {}).get("state")
    return "" if state == "ready" else f"its state is {state or 'not set'}"


def _mentions(value: Any, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_mentions(item, text) for item in value.values())
    if isinstance(value, list):
        return any(_mentions(item, text) for item in value)
    return bool(value == text)


class _Pods:
    """Looks at the pods of a workload's newest revision."""

    def __init__(self, run: Run, action: WaitReady, *, again: bool) -> None:
        self._run = run
        self._action = action
        self._waiting_since: dict[str, float] = {}
        self._refused_since: float | None = None
        self._known = {_uid(pod) for pod in self._all() if _phase(pod) == "Failed"} if again else set[str]()

    def judge(self, item: Object) -> str:
        """What the pods add to where the workload stands.

        Raises:
            ApplyStopped: one of them will not get ready by itself.
        """
        self._creation(item)
        pods = list(self._newest(item))
        said: list[str] = []
        for pod in pods:
            trouble = self._trouble(pod)
            if trouble:
                raise self._stop(f"pod {pod['metadata']['name']} {trouble}")
            waits = self._unschedulable(pod)
            if waits:
                said.append(f"{pod['metadata']['name']}: {waits}")
        return f" ({'; '.join(said)})" if said else ""

    def _all(self) -> list[Any]:
        item = self._run.get(self._action.api_version, self._action.kind, self._action.name, self._action.namespace)
        return list(self._selected(item)) if item is not None else []

    def _selected(self, item: Object) -> Iterable[Any]:
        wanted = ((item.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
        labels = ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))
        return self._run.list("v1", "Pod", self._action.namespace, labels=labels) if labels else []

    def _newest(self, item: Object) -> Iterable[Any]:
        """The pods of the newest ReplicaSet or revision."""
        if self._action.kind == "StatefulSet":
            owner, revision = _uid(item), (item.get("status") or {}).get("updateRevision")
            for pod in self._selected(item):
                labels = pod["metadata"].get("labels") or {}
                if _owner(pod) == owner and (not revision or labels.get("controller-revision-hash") == revision):
                    yield pod
            return
        newest = _newest_set(self._sets(item))
        if newest is not None:
            yield from (pod for pod in self._selected(item) if _owner(pod) == _uid(newest))

    def _sets(self, item: Object) -> list[Any]:
        found = self._run.list("apps/v1", "ReplicaSet", self._action.namespace)
        return [one for one in found if _owner(one) == _uid(item)]

    def _creation(self, item: Object) -> None:
        """Stop where the pods cannot even be created (quota, admission) for some seconds."""
        why = ""
        if self._action.kind == "Deployment":
            for condition in (item.get("status") or {}).get("conditions") or ():
                if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
                    why = str(condition.get("message") or condition.get("reason") or "")
        elif int((item.get("status") or {}).get("replicas") or 0) < int((item.get("spec") or {}).get("replicas", 1)):
            why = self._failed_create(item)
        if not why:
            self._refused_since = None
            return
        now = self._run.clock()
        self._refused_since = now if self._refused_since is None else self._refused_since
        if now - self._refused_since >= _FAILED_CREATE_SECONDS:
            raise self._stop(f"its pods cannot be created: {why}")

    def _failed_create(self, item: Object) -> str:
        fields = f"involvedObject.uid={_uid(item)},reason=FailedCreate"
        events = self._run.list("v1", "Event", self._action.namespace, fields=fields)
        return str(events[-1].get("message") or "") if events else ""

    def _trouble(self, pod: Object) -> str:
        """Why a pod will not get ready; "" where it may."""
        status = pod.get("status") or {}
        if _phase(pod) == "Failed" and _uid(pod) not in self._known:
            node = (pod.get("spec") or {}).get("nodeName")
            reason = status.get("reason") or "Failed"
            return f"was refused on {node}: {reason}: {status.get('message') or 'no message'}"
        for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason, name = str(waiting.get("reason") or ""), container.get("name")
            if reason == "CrashLoopBackOff" and int(container.get("restartCount") or 0) >= _CRASHES:
                ended = (container.get("lastState") or {}).get("terminated") or {}
                how = f"exit code {ended.get('exitCode')}, {ended.get('reason')}" if ended else "no exit code yet"
                return f"crashes: container {name}, {container.get('restartCount')} restarts, {how}"
            if reason in _HOPELESS:
                return f"cannot start: container {name}: {reason}: {waiting.get('message') or ''}".rstrip(": ")
        return ""

    def _unschedulable(self, pod: Object) -> str:
        """Where no node takes a pod: the scheduler's words, and a stop after a while."""
        uid = _uid(pod)
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
                words = str(condition.get("message") or "no node takes it")
                now = self._run.clock()
                since = self._waiting_since.setdefault(uid, now)
                if now - since >= self._run.options.unschedulable_seconds:
                    raise self._stop(f"pod {pod['metadata']['name']} finds no node for {now - since:.0f} s: {words}")
                return words
        self._waiting_since.pop(uid, None)
        return ""

    def _stop(self, why: str) -> ApplyStopped:
        action = self._action
        return ApplyStopped(
            "rollout-failed", f"{action.kind} {action.namespace}/{action.name}: {why}", hint=self._run.hint(late=True)
        )


def _newest_set(sets: Iterable[Any]) -> Any:
    def revision(item: Any) -> int:
        text = str((item["metadata"].get("annotations") or {}).get(_REVISION) or "")
        return int(text) if text.isdecimal() else 0

    return max(sets, key=revision, default=None)


def _owner(item: Object) -> str:
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid"))
    return ""


def _uid(item: Object) -> str:
    return str(item["metadata"].get("uid") or "")


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")
