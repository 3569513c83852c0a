"""From files and Pending pods to arrivals: what controllers create, what the API server admits, in which order.

`gather` gives the cluster with every object that exists then, the pods that arrive, and what was assumed. Workloads that live
in the cluster already bring only what is missing; where their template changes, the old pods are named, so that a rollout can
be played or the change be taken as done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import InputError, Reason
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.release import Release
from ragstow.scheduling.selectors import label_selector
from ragstow.simulate.admission import Admission
from ragstow.simulate.claims import ClaimMaker
from ragstow.simulate.controllers import by_scale_down, daemon_runs_on, owned_pods
from ragstow.simulate.defaulting import is_new, with_requests
from ragstow.simulate.sameness import contained
from ragstow.simulate.workload import (
    Workload,
    controlling_set,
    is_workload,
    made,
    pod_from_template,
    volume_claims,
    wrong_numbers,
)

Json = dict[str, Any]

_NOW = "9999-12-31T23:59:59Z"
"""Sorts after every timestamp of a cluster."""

_MISSHAPEN = (InputError, AttributeError, TypeError, KeyError, ValueError)
"""What reading a manifest of a wrong shape may raise."""

_MAKES_PODS = frozenset(
    {
        "CronJob", "LeaderWorkerSet", "JobSet", "RayCluster", "RayJob", "RayService", "InferenceService", "NIMService",
        "NIMPipeline", "Rollout", "PyTorchJob", "MPIJob", "PodGroup", "RagService",
    }
)  # fmt: skip
"""Kinds whose controllers make pods in a way we do not know."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that arrives. `refusal` says why the API server does not create it; `after` names the pod ("ns/name") that must be
    ready before its controller makes this one."""

    pod: Pod
    workload: Workload | None = None
    refusal: Reason | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """A workload whose template changes while its old pods run."""

    workload: Workload
    old: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The cluster as it is when the pods arrive, and the arrivals in order. `superfluous` are pods of workloads scaled down."""

    snapshot: Snapshot
    arrivals: tuple[Arrival, ...]
    workloads: tuple[Workload, ...] = ()
    updates: tuple[Update, ...] = ()
    superfluous: tuple[Pod, ...] = ()
    assumptions: tuple[str, ...] = ()
    admission: Admission | None = field(default=None, compare=False)


def pending(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Pods of the cluster that wait for a node."""
    return tuple(pod for pod in snapshot.pods if pod.node is None and not pod.finished and pod.deleted is None)


def names_its_node(item: Pod) -> bool:
    """A pod as a person writes it, with spec.nodeName: it comes past the scheduler, and its node decides."""
    return item.node is not None and is_new(item.raw) and not item.raw.get("status")


def running(pod: Pod) -> Pod:
    """A pod that runs, where a person wrote it: its limits are its requests too, as the API server has them."""
    if not is_new(pod.raw):
        return pod
    try:
        filled = made(with_requests(pod.raw))
    except _MISSHAPEN:
        return pod
    assert isinstance(filled, Pod)
    return filled


def arrives(item: KubeObject) -> bool:
    """Whether an object of a file is, or makes, pods that arrive; all others stand in the cluster from the start."""
    if _one_run(item) is not None:
        return True
    waits = isinstance(item, Pod) and (item.node is None or names_its_node(item))
    return waits or (is_workload(item) and is_new(item.raw))


def _one_run(item: KubeObject) -> KubeObject | None:
    """The Job that a CronJob of a file makes when its time comes; None for other objects, and for one that is suspended."""
    spec = item.raw.get("spec")
    if item.kind != "CronJob" or item.group != "batch" or not is_new(item.raw) or not isinstance(spec, Mapping):
        return None
    template = spec.get("jobTemplate")
    if spec.get("suspend") is True or not isinstance(template, Mapping):
        return None
    meta = {**(template.get("metadata") or {}), "name": f"{item.name}-run", "namespace": item.namespace}
    return made({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": template.get("spec") or {}})


def gather(
    snapshot: Snapshot,
    given: Sequence[KubeObject],
    release: Release,
    *,
    only_files: bool = False,
    rolling: bool = False,
    extended_toleration: bool = False,
) -> Gathered:
    """See the module.

    Args:
        snapshot: the cluster.
        given: objects of the files, in their order.
        release: the release to decide as.
        only_files: leave the pods that are Pending in the cluster out.
        rolling: leave a workload whose template changes as it is (`updates` says which), so that its rollout can be played;
            else its old pods are taken out and the new ones arrive.
        extended_toleration: whether the cloud's API server adds tolerations for extended resources.
    """
    waiting = () if only_files else pending(snapshot)
    return _Gatherer(snapshot, given, release, rolling=rolling, extended_toleration=extended_toleration).run(waiting)


class _Gatherer:
    def __init__(
        self,
        snapshot: Snapshot,
        given: Sequence[KubeObject],
        release: Release,
        *,
        rolling: bool,
        extended_toleration: bool,
    ) -> None:
        self.rolling = rolling
        self.before = snapshot
        self.given = given = _once(given)
        self.release = release
        self.claims = ClaimMaker(snapshot)
        self.arrivals: list[Arrival] = []
        self._put([item for item in given if not (isinstance(item, Pod) and (item.node is None or names_its_node(item)))])
        numbers = tuple(number for number in (release.major, release.minor, release.patch) if number is not None)
        self.admission = Admission(self.claims.snapshot, numbers, extended_toleration=extended_toleration)
        self.workloads: list[Workload] = []
        self.updates: list[Update] = []
        self.superfluous: list[Pod] = []
        self.assumptions: dict[str, None] = {}
        self._taken = {pod.key for pod in snapshot.pods} | {item.ref.partition(" ")[2] for item in given if item.kind == "Pod"}
        self._owned: dict[tuple[str, str, str], list[Pod]] | None = None

    def run(self, waiting: Iterable[Pod]) -> Gathered:
        arriving = {(item.namespace, item.name) for item in self.given if isinstance(item, Pod)}
        waits = [pod for pod in waiting if (pod.namespace, pod.name) not in arriving]
        for item in self.given:
            so_far, known = len(self.arrivals), len(self.workloads)
            try:
                self._arriving(item)
            except _MISSHAPEN as error:
                del self.arrivals[so_far:], self.workloads[known:]
                self._broken(item, error)
        self._note_named()
        leaving = [*self.superfluous]
        if not self.rolling:
            leaving += [pod for update in self.updates for pod in update.old]
        gone = {pod.key for pod in leaving}
        first = [Arrival(pod) for pod in waits if pod.key not in gone]
        notes = {**self.assumptions, **self.admission.assumptions, **self.claims.assumptions}
        return Gathered(
            self.claims.snapshot.replace(remove=leaving),
            (*first, *self.arrivals),
            tuple(self.workloads),
            tuple(self.updates),
            tuple(self.superfluous),
            tuple(notes),
            self.admission,
        )

    def _note_named(self) -> None:
        """Pods that name their node come past the scheduler: said, since it is seldom meant."""
        named = [f"{item.pod.key} on {item.pod.node}" for item in self.arrivals if item.pod.node and item.refusal is None]
        if named:
            more = f" and {len(named) - 3} more" if len(named) > 3 else ""
            self.assumptions[
                f"spec.nodeName is set in the files: no scheduler looks at {', '.join(named[:3])}{more}; the node's kubelet is "
                "asked about resources, node affinity, host ports and NoExecute taints"
            ] = None

    def _arriving(self, item: KubeObject) -> None:
        if isinstance(item, Pod):
            self._pod(item)
        elif (run := _one_run(item)) is not None or (is_workload(item) and is_new(item.raw)):
            if run is not None:
                self.assumptions[f"{item.ref}: one run of it is played, as Job {run.namespace}/{run.name}"] = None
            workload = Workload(run or item)
            if wrong := wrong_numbers(workload):
                raise InputError("manifest-number", wrong)
            label_selector(workload.spec.get("selector"))
            owned = controlling_set(workload)
            if owned is not None:
                self.claims.put(owned)
            self._workload(workload)
        elif item.kind == "CronJob" and (item.raw.get("spec") or {}).get("suspend") is True:
            self.assumptions[f"{item.ref} is suspended: it makes no pods"] = None
        elif item.kind in _MAKES_PODS and is_new(item.raw):
            self.assumptions[f"{item.ref}: what pods its controller makes is not known here; none is simulated"] = None

    def _put(self, items: Sequence[KubeObject]) -> None:
        """Add what is not a pod without a node; a claim of a wrong shape is told like a pod that cannot be created."""
        claims: list[KubeObject] = []
        others: list[KubeObject] = []
        for item in items:
            (claims if item.kind == "PersistentVolumeClaim" and is_new(item.raw) else others).append(item)
        self.claims.put_all(others)
        for claim in claims:
            try:
                self.claims.put(claim)
            except _MISSHAPEN as error:
                self._broken(claim, error)

    def _broken(self, item: KubeObject, error: Exception) -> None:
        why = error.message if isinstance(error, InputError) else f"a field has a wrong type ({error})"
        where = f" ({error.place.field})" if isinstance(error, InputError) and error.place.field else ""
        pod = made(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": item.name, "namespace": item.namespace or "default"}}
        )
        assert isinstance(pod, Pod)
        workload = Workload(item) if is_workload(item) else None
        reason = Reason(
            "manifest-broken", f"{item.ref}: {why}{where}", "kubectl apply --dry-run=server -f FILE shows all of it"
        )
        self.arrivals.append(Arrival(pod, workload, reason))

    def _pod(self, pod: Pod) -> None:
        if pod.node is not None and not names_its_node(pod):
            return
        existing = self.before.get("Pod", pod.name, pod.namespace)
        if isinstance(existing, Pod) and existing.node is not None and not existing.finished:
            self.assumptions[
                f"pod {pod.key} runs on {existing.node} already: a pod's spec cannot change, it stays as it is"
            ] = None
            return
        if is_new(pod.raw):
            self._arrive(dict(pod.raw), None)
        else:
            self.arrivals.append(Arrival(_last(pod)))

    def _arrive(self, raw: Mapping[str, Any], workload: Workload | None, after: str | None = None) -> str:
        admitted = self.admission.admit(raw)
        if admitted.refusal is not None:
            self.arrivals.append(Arrival(admitted.pod, workload, admitted.refusal, after))
            return admitted.pod.key
        pod = made(self.claims.for_pod(dict(admitted.pod.raw)))
        assert isinstance(pod, Pod)
        _check(PodInfo(pod, self.release))
        self.arrivals.append(Arrival(_last(pod), workload, None, after))
        return pod.key

    def _workload(self, workload: Workload) -> None:
        self.workloads.append(workload)
        live = self.before.get(workload.kind, workload.name, workload.namespace, group=workload.object.group)
        old = self._pods_of(workload) if live is not None else []
        if live is not None and not contained(workload.template, Workload(live).template):
            self.updates.append(Update(workload, tuple(old)))
            if self.rolling:
                return
            self.assumptions[
                f"{workload.ref} changes: its {len(old)} old pod(s) are taken as gone when the new ones come "
                "(--rollout plays the steps)"
            ] = None
            old = []
        if workload.kind == "DaemonSet":
            self._daemons(workload, old)
        elif workload.kind == "StatefulSet":
            self._ordinals(workload, old)
        else:
            alive = [pod for pod in old if not pod.finished]
            missing = workload.replicas - len(alive)
            if missing < 0:
                self.superfluous += by_scale_down(alive)[:-missing]
            for number, name in self._free_names(workload, max(missing, 0)):
                self._arrive(pod_from_template(workload, number, name=name), workload)

    def _daemons(self, workload: Workload, old: Sequence[Pod]) -> None:
        have = {pod.node for pod in old if pod.node is not None}
        for node in self.claims.snapshot.nodes:
            if node.name not in have and daemon_runs_on(workload, NodeInfo(node), self.release):
                self._arrive(pod_from_template(workload, 0, node.name), workload)

    def _ordinals(self, workload: Workload, old: Sequence[Pod]) -> None:
        have = {pod.name: pod for pod in old if not pod.finished}
        last = workload.first_ordinal + workload.replicas
        before: str | None = None
        for number in range(workload.first_ordinal, last):
            name = f"{workload.name}-{number}"
            existing = have.pop(name, None)
            if existing is not None:
                before = None if existing.node is not None else existing.key
                continue
            for claim in volume_claims(workload, number):
                held = self.claims.snapshot.get("PersistentVolumeClaim", claim["metadata"]["name"], workload.namespace)
                if held is None:
                    self.claims.put(made(claim))
            after = before if workload.ordered else None
            before = self._arrive(pod_from_template(workload, number, name=name), workload, after)
        self.superfluous += list(have.values())

    def _free_names(self, workload: Workload, count: int) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        number = 0
        while len(found) < count:
            key = f"{workload.namespace}/{workload.name}-{number}"
            if key not in self._taken:
                self._taken.add(key)
                found.append((number, f"{workload.name}-{number}"))
            number += 1
        return found

    def _pods_of(self, workload: Workload) -> list[Pod]:
        if self._owned is None:
            self._owned = owned_pods(self.before)
        return self._owned.get(workload.key, [])


def _once(given: Sequence[KubeObject]) -> tuple[KubeObject, ...]:
    """Of an object that the files have more than once the last counts, in the place of the first, as applying them would do."""
    last = {(item.group, item.kind, item.namespace, item.name): item for item in given}
    return tuple(last.values())


def _check(pod: PodInfo) -> None:
    """Read everything that the scheduler reads, so that a wrong type shows here and not in the middle of a cycle."""
    _ = (
        pod.host_ports,
        pod.gates,
        pod.node_selector,
        pod.required_nodes,
        pod.preferred_nodes,
        pod.required_affinity,
        pod.required_anti_affinity,
        pod.preferred_affinity,
        pod.preferred_anti_affinity,
    )
    for constraint in pod.pod.spec.get("topologySpreadConstraints") or ():
        label_selector(constraint.get("labelSelector"))
        _ = int(constraint.get("maxSkew") or 1), int(constraint.get("minDomains") or 1)
    for listed in ("volumes", "resourceClaims"):
        for item in pod.pod.spec.get(listed) or ():
            _ = item.get("name")


def _last(pod: Pod) -> Pod:
    """A pod of a file comes after those that wait already: it is created now."""
    return pod if pod.created else replace(pod, created=_NOW)
