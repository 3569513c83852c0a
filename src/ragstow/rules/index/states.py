"""What state each pod is in, in the words of a person on call. Reads status only; why it is so is the rules' work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot

State = Literal["pending", "gated", "starting", "rejected", "crashing", "unready", "running", "finished", "terminating"]
"""pending: no node yet. starting: bound, containers not started. rejected: the kubelet refused it. crashing: a container
exits again and again, failed to start, or was killed. unready: runs, but not Ready."""

_Owner = tuple[str, str, str]

_NOT_STARTING = frozenset(
    {
        "CrashLoopBackOff",
        "RunContainerError",
        "CreateContainerError",
        "CreateContainerConfigError",
        "StartError",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
    }
)


@dataclass(frozen=True, slots=True)
class ContainerState:
    """One container's status: where it is now and how it ended last."""

    name: str
    init: bool
    ready: bool
    restarts: int
    state: str
    reason: str
    message: str
    exit_code: int | None
    last_reason: str
    last_message: str
    last_exit_code: int | None

    @property
    def crashing(self) -> bool:
        """It fails, or has failed and been restarted without being ready."""
        if self.reason in _NOT_STARTING or self.reason in ("Error", "OOMKilled", "ContainerCannotRun"):
            return True
        return not self.ready and self.restarts > 0 and not (self.init and self.state == "terminated" and self.exit_code == 0)


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod, its state, and the containers' states."""

    pod: Pod
    state: State
    reason: str
    message: str
    containers: tuple[ContainerState, ...]
    since: str | None

    @property
    def healthy(self) -> bool:
        """Nothing is wrong with it as far as its status tells."""
        return self.state in ("running", "finished", "terminating")


class PodStates:
    """State look-ups over one snapshot; manifests that never became objects are left out."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def all(self) -> tuple[PodState, ...]:
        """Every live pod's state, in the order read."""
        states = tuple(state_of(pod) for pod in self._snapshot.pods if pod.live)
        ready = Counter(_owner(state.pod) for state in states if state.state == "running")
        return tuple(replace(state, state="finished") if self._superseded(state.pod, ready) else state for state in states)

    def _superseded(self, pod: Pod, ready: Mapping[_Owner | None, int]) -> bool:
        """Whether a failed pod is a leftover: its ReplicaSet or StatefulSet has as many ready pods as it wants.

        It was evicted, rejected after a reboot or ended with its node; the controller has made another since.
        """
        owner = pod.controller if pod.phase == "Failed" else None
        found = self._snapshot.get(owner.kind, owner.name, pod.namespace, "apps") if owner is not None else None
        spec = found.raw.get("spec") if found is not None else None
        if owner is None or owner.kind not in ("ReplicaSet", "StatefulSet") or not isinstance(spec, Mapping):
            return False
        wanted = spec.get("replicas", 1)
        return isinstance(wanted, int) and ready.get(_owner(pod), 0) >= wanted

    @cached_property
    def _by_key(self) -> Mapping[str, PodState]:
        return {state.pod.key: state for state in self.all}

    def of(self, pod: Pod | str) -> PodState | None:
        """The state of a pod, given it or "namespace/name"."""
        return self._by_key.get(pod if isinstance(pod, str) else pod.key)

    def in_state(self, *states: State) -> tuple[PodState, ...]:
        """The pods in one of these states."""
        return tuple(state for state in self.all if state.state in states)


def _owner(pod: Pod) -> _Owner | None:
    return (pod.namespace, pod.controller.kind, pod.controller.name) if pod.controller is not None else None


def state_of(pod: Pod) -> PodState:
    """The state of one pod, from its status."""
    status = pod.status
    conditions = {str(c.get("type")): c for c in status.get("conditions") or () if isinstance(c, Mapping)}
    containers = tuple(
        _container(raw, init)
        for key, init in (("initContainerStatuses", True), ("containerStatuses", False))
        for raw in status.get(key) or ()
        if isinstance(raw, Mapping)
    )
    scheduled = conditions.get("PodScheduled", {})
    ready = conditions.get("Ready")
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")

    def made(state: State, cause: Mapping[str, Any] | None = None) -> PodState:
        cause = cause or {}
        return PodState(
            pod,
            state,
            reason or str(cause.get("reason") or ""),
            message or str(cause.get("message") or ""),
            containers,
            str(cause.get("lastTransitionTime") or "") or pod.created,
        )

    if pod.deleted:
        return made("terminating")
    if pod.phase == "Succeeded":
        return made("finished")
    if pod.phase == "Failed":
        return made("rejected" if not containers or not any(c.state == "terminated" for c in containers) else "crashing")
    if not pod.node and pod.phase != "Running":  # a report typed by hand may leave the node out
        return made("gated" if scheduled.get("reason") == "SchedulingGated" else "pending", scheduled)
    if any(container.crashing for container in containers):
        return made("crashing", ready)
    if pod.phase == "Pending":
        return made("starting", ready)
    if (ready is not None and ready.get("status") == "False") or any(not c.ready and not c.init for c in containers):
        return made("unready", ready)
    return made("running", ready)


def _container(raw: Mapping[str, Any], init: bool) -> ContainerState:
    now, detail = _only(raw.get("state"))
    _, last = _only(raw.get("lastState"))
    code, last_code = detail.get("exitCode"), last.get("exitCode")
    return ContainerState(
        name=str(raw.get("name") or ""),
        init=init,
        ready=raw.get("ready") is True,
        restarts=int(raw.get("restartCount") or 0),
        state=now,
        reason=str(detail.get("reason") or ""),
        message=str(detail.get("message") or ""),
        exit_code=code if isinstance(code, int) else None,
        last_reason=str(last.get("reason") or ""),
        last_message=str(last.get("message") or ""),
        last_exit_code=last_code if isinstance(last_code, int) else None,
    )


def _only(value: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(value, Mapping):
        for name, detail in value.items():
            return str(name), detail if isinstance(detail, Mapping) else {}
    return "", {}
