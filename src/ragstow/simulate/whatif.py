"""What if: nodes added, pods left out, workloads scaled. Each gives a new snapshot that shares what is unchanged.

Nothing here schedules. A node that is added is a copy of one that exists (with the labels it has, its devices under dynamic
resource allocation, and the DaemonSet pods that would run there), an instance type from facts, or an object from a file.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.objects import KubeObject, Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import UsageError
from ragstow.facts.instances import Instance
from ragstow.facts.store import Facts
from ragstow.simulate.controllers import by_scale_down, owned_pods
from ragstow.simulate.defaulting import is_new
from ragstow.simulate.workload import EXPANDED, Workload, is_workload, made, pod_from_template, recreated

Json = dict[str, Any]

_HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_GENERATED = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
_LOST = ("providerID", "podCIDR", "podCIDRs", "unschedulable")
_DRA = "resource.k8s.io"
_NVIDIA = "nvidia.com"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A changed cluster, and what was assumed for it."""

    snapshot: Snapshot
    assumptions: tuple[str, ...] = ()


def without(snapshot: Snapshot, names: Iterable[str]) -> WhatIf:
    """The cluster without these pods ("ns/name", or "name" where only one pod has it); their controllers do not make new ones.

    Raises:
        UsageError: no pod, or more than one, has that name.
    """
    gone: list[Pod] = []
    for name in names:
        found = [pod for pod in snapshot.pods if name in (pod.key, pod.name)]
        if len(found) != 1:
            what = "no pod has" if not found else f"{len(found)} pods have"
            hint = "write it as NAMESPACE/NAME" if found else "kubectl get pods -A shows the names"
            raise UsageError("without-pod", f"--without {name}: {what} this name", hint=hint)
        gone.append(found[0])
    claims = [claim for pod in gone for claim in _generated_claims(snapshot, pod)]
    return WhatIf(snapshot.replace(remove=[*gone, *claims]))


def without_given(given: Iterable[KubeObject], names: Iterable[str]) -> tuple[tuple[KubeObject, ...], tuple[str, ...]]:
    """The objects of the files without these pods, and the names that no pod of the files that waits for a node has."""
    given, names = tuple(given), tuple(names)
    waiting = [item for item in given if isinstance(item, Pod) and item.node is None]
    found = {name for name in names if any(name in (pod.key, pod.name) for pod in waiting)}
    kept = tuple(item for item in given if not (isinstance(item, Pod) and found & {item.key, item.name}))
    return kept, tuple(name for name in names if name not in found)


def _generated_claims(snapshot: Snapshot, pod: Pod) -> list[KubeObject]:
    """Resource claims that live and die with the pod."""
    names = [str(item.get("resourceClaimName")) for item in pod.status.get("resourceClaimStatuses") or ()]
    extended = pod.status.get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        names.append(str(extended["resourceClaimName"]))
    found = (snapshot.get("ResourceClaim", name, pod.namespace, group=_DRA) for name in names)
    return [claim for claim in found if claim is not None]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A cluster with workloads scaled: pods that arrive, and pods that go (already out of the snapshot)."""

    snapshot: Snapshot
    arriving: tuple[tuple[Json, str], ...]
    """(pod, workload)."""
    gone: tuple[str, ...]


def scale(snapshot: Snapshot, wishes: Sequence[tuple[str, int]], namespace: str | None = None) -> Scaled:
    """Scale workloads that are in the cluster.

    Args:
        snapshot: the cluster.
        wishes: ("kind/name" or "kind/namespace/name", replicas).
        namespace: where to look for a name without namespace; None: everywhere.

    Raises:
        UsageError: no such workload, or several.
    """
    owned = owned_pods(snapshot)
    taken = {pod.key for pod in snapshot.pods}
    arriving: list[tuple[Json, str]] = []
    gone: list[Pod] = []
    for text, wanted in wishes:
        workload = _find(snapshot, text, namespace)
        pods = [pod for pod in owned.get(workload.key, []) if not pod.finished]
        if workload.kind == "StatefulSet":
            by_name = {pod.name: pod for pod in pods}
            numbers = range(workload.first_ordinal, workload.first_ordinal + wanted)
            keep = {f"{workload.name}-{number}" for number in numbers}
            gone += [pod for name, pod in sorted(by_name.items()) if name not in keep]
            missing = [
                (number, f"{workload.name}-{number}") for number in numbers if f"{workload.name}-{number}" not in by_name
            ]
        else:
            gone += by_scale_down(pods)[: max(len(pods) - wanted, 0)]
            missing = []
            number = 0
            while len(missing) < wanted - len(pods):
                key = f"{workload.namespace}/{workload.name}-{number}"
                if key not in taken:
                    taken.add(key)
                    missing.append((number, f"{workload.name}-{number}"))
                number += 1
        for number, name in missing:
            # A running pod shows what the present template came to after admission; the template is the next best.
            raw = (
                recreated(pods[0].raw, name)
                if pods and workload.kind != "StatefulSet"
                else pod_from_template(workload, number, name=name)
            )
            arriving.append((raw, workload.ref))
    claims = [claim for pod in gone for claim in _generated_claims(snapshot, pod)]
    return Scaled(snapshot.replace(remove=[*gone, *claims]), tuple(arriving), tuple(pod.key for pod in gone))


def scale_given(
    given: Iterable[KubeObject], wishes: Iterable[tuple[str, int]], namespace: str | None = None
) -> tuple[tuple[KubeObject, ...], tuple[tuple[str, int], ...]]:
    """The objects of the files with the replicas wished for, and the wishes that name no workload of the files.

    Raises:
        UsageError: not a kind that scales, or a name that workloads of several namespaces have.
    """
    objects, left = list(given), []
    for text, wanted in wishes:
        kind, where, name = _named(text, namespace)
        found = [
            at
            for at, item in enumerate(objects)
            if is_workload(item) and is_new(item.raw) and (item.kind, item.name) == (kind, name)
            if where in (None, item.namespace)
        ]
        if not found:
            left.append((text, wanted))
            continue
        if len({objects[at].namespace for at in found}) > 1:
            raise _ambiguous(text, kind, name, len(found))
        for at in found:
            raw = dict(objects[at].raw)
            size = {"parallelism": wanted} if kind == "Job" else {"replicas": wanted}
            objects[at] = made({**raw, "spec": {**(raw.get("spec") or {}), **size}})
    return tuple(objects), tuple(left)


def _named(text: str, namespace: str | None) -> tuple[str, str | None, str]:
    """(kind, namespace or None, name) of "kind/name" or "kind/namespace/name"."""
    kind, *rest = text.split("/")
    where, name = (rest[0], rest[1]) if len(rest) == 2 else (namespace, rest[-1] if rest else "")
    kinds = {known.lower(): known for known in EXPANDED if known != "DaemonSet"}
    short = {"deploy": "deployment", "sts": "statefulset", "rs": "replicaset", "rc": "replicationcontroller"}
    asked = kind.lower()
    asked = short.get(asked, asked if asked in kinds else asked.removesuffix("s"))
    if asked not in kinds or not name:
        raise UsageError(
            "scale-kind", f"--scale {text}: not a workload that scales", hint="deployment/NAME=N or statefulset/NAME=N"
        )
    return kinds[asked], where, name


def _find(snapshot: Snapshot, text: str, namespace: str | None) -> Workload:
    kind, where, name = _named(text, namespace)
    found = [item for item in snapshot.of(kind, EXPANDED[kind]) if item.name == name and where in (None, item.namespace)]
    if not found:
        raise UsageError("scale-workload", f"--scale {text}: {kind} {name} is not in the cluster and not in the files")
    if len(found) > 1:
        raise _ambiguous(text, kind, name, len(found))
    return Workload(found[0])


def _ambiguous(text: str, kind: str, name: str, namespaces: int) -> UsageError:
    return UsageError(
        "scale-workload",
        f"--scale {text}: {kind} {name} is in {namespaces} namespaces",
        hint=f"{kind.lower()}/NAMESPACE/{name}=N",
    )


# --- nodes --------------------------------------------------------------------------------------------------------------


def add_nodes(snapshot: Snapshot, shape: str, count: int, facts: Facts, objects: Sequence[KubeObject] | None = None) -> WhatIf:
    """The cluster with `count` more nodes of a shape.

    Args:
        snapshot: the cluster.
        shape: a node's name, an instance type of facts, or what `objects` came from.
        count: how many.
        facts: for instance types.
        objects: the objects of a file of that name, if there is one; its first node is the shape.

    Raises:
        UsageError: nothing has that name.
    """
    existing = snapshot.get("Node", shape)
    if isinstance(existing, Node):
        return _copies(snapshot, existing, count)
    instance = facts.instances.find(shape)
    if instance is not None:
        return _instances(snapshot, instance, count, facts)
    node = next((item for item in objects or () if isinstance(item, Node)), None)
    if node is not None:
        return _copies(snapshot.replace(put=[item for item in objects or () if item.kind == "ResourceSlice"]), node, count)
    names = ", ".join([node.name for node in snapshot.nodes][:5])
    like = ", ".join(list(facts.instances.like(shape))[:3])
    raise UsageError(
        "add-nodes-shape",
        f"--add-nodes {shape}: no node, instance type or file has this name",
        hint=f"a node ({names}), an instance type{f' ({like})' if like else ''} or a file with a Node",
    )


def _copies(snapshot: Snapshot, node: Node, count: int) -> WhatIf:
    added: list[KubeObject] = []
    slices = [item for item in snapshot.of("ResourceSlice", _DRA) if (item.raw.get("spec") or {}).get("nodeName") == node.name]
    csi = snapshot.get("CSINode", node.name, group="storage.k8s.io")
    daemons = [
        pod for pod in snapshot.pods
        if pod.node == node.name and not pod.finished and pod.controller is not None and pod.controller.kind == "DaemonSet"
    ]  # fmt: skip
    for name in _fresh_names(snapshot, node.name, count):
        added.append(_renamed_node(node, name))
        added += [_renamed_slice(item, node.name, name) for item in slices]
        if csi is not None:
            added.append(made({**csi.raw, "metadata": {"name": name}}))
        added += [_daemon_copy(pod, name) for pod in daemons]
    notes = [f"{count} node(s) like {node.name} are added, each with the {len(daemons)} DaemonSet pod(s) that run on it"]
    return WhatIf(snapshot.replace(put=added), tuple(notes))


def _fresh_names(snapshot: Snapshot, base: str, count: int) -> list[str]:
    taken = {node.name for node in snapshot.nodes}
    names: list[str] = []
    number = 1
    while len(names) < count:
        name = f"{base}-new-{number}"
        if name not in taken:
            names.append(name)
        number += 1
    return names


def _renamed_node(node: Node, name: str) -> KubeObject:
    raw: Json = copy.deepcopy(dict(node.raw))
    meta = {key: value for key, value in (raw.get("metadata") or {}).items() if key not in _GENERATED}
    labels = dict(meta.get("labels") or {})
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    raw["metadata"] = {**meta, "name": name, "labels": labels}
    spec = {key: value for key, value in (raw.get("spec") or {}).items() if key not in _LOST}
    spec["taints"] = [
        taint for taint in spec.get("taints") or () if not str(taint.get("key")).startswith("node.kubernetes.io/")
    ]
    raw["spec"] = spec
    status = raw.get("status") or {}
    capacity = status.get("capacity") or status.get("allocatable") or {}
    # A new node's devices are healthy, also where those of its model are not.
    healthy = {resource: amount for resource, amount in capacity.items() if "/" in resource}
    allocatable = {**(status.get("allocatable") or capacity), **healthy}
    raw["status"] = {**status, "allocatable": allocatable, "images": []}
    return made(raw)


def _renamed_slice(item: KubeObject, old: str, new: str) -> KubeObject:
    raw: Json = copy.deepcopy(dict(item.raw))
    raw["metadata"] = {"name": item.name.replace(old, new) if old in item.name else f"{item.name}-{new}"}
    spec = raw["spec"]
    spec["nodeName"] = new
    pool = spec.get("pool") or {}
    pool["name"] = str(pool.get("name") or "").replace(old, new) or new
    spec["pool"] = pool
    return made(raw)


def _daemon_copy(pod: Pod, node: str) -> KubeObject:
    raw = recreated(pod.raw, f"{pod.name}-{node}")
    raw["spec"]["nodeName"] = node
    raw["status"] = {"phase": "Running"}
    return made(raw)


def _instances(snapshot: Snapshot, instance: Instance, count: int, facts: Facts) -> WhatIf:
    """Nodes of an instance type: whole cards behind the device plugin, labelled as GPU feature discovery would."""
    known = facts.gpus.find(instance.product)
    labels: dict[str, str] = {
        "kubernetes.io/arch": instance.arch,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance.instance,
        f"{_NVIDIA}/gpu.present": "true",
        f"{_NVIDIA}/gpu.product": instance.product,
        f"{_NVIDIA}/gpu.count": str(instance.cards),
        f"{_NVIDIA}/gpu.replicas": "1",
        f"{_NVIDIA}/gpu.sharing-strategy": "none",
    }
    if known is not None:
        labels[f"{_NVIDIA}/gpu.family"] = known.family
        if known.memory_mib is not None:
            labels[f"{_NVIDIA}/gpu.memory"] = str(known.memory_mib)
    cpu = instance.allocatable_cpu_milli or instance.cpu * 1000
    memory = instance.allocatable_memory_mib or instance.memory_mib
    amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(instance.pods), f"{_NVIDIA}/gpu": str(instance.cards)}
    name = instance.instance
    notes = [f"{name}: {instance.cards} x {instance.product}, whole cards, no taint, the labels of GPU feature discovery"]
    if instance.allocatable_memory_mib is None:
        notes.append(f"{name}: what the system keeps for itself is not known; all CPU and memory is taken as free")
    zones = sorted({node.labels[_ZONE] for node in snapshot.nodes if _ZONE in node.labels})
    if zones:
        labels[_ZONE] = zones[0]
        notes.append(f"{name}: the new nodes are put into zone {zones[0]}")
    added: list[KubeObject] = []
    for fresh in _fresh_names(snapshot, name, count):
        raw: Mapping[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": fresh, "labels": {**labels, _HOSTNAME: fresh}},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        added.append(made(raw))
    return WhatIf(snapshot.replace(put=added), tuple(notes))
