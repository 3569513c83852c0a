"""Actions on one node: cordon, labels, eviction of its GPU pods, and the waits for what it offers afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragstow.errors import InputError
from ragstow.inventory.resources import is_gpu_resource
from ragstow.live.apply.context import Object, Run
from ragstow.live.apply.model import ApplyStopped
from ragstow.quantity import parse
from ragstow.render.names import MIG_CONFIG, SERVICE

VENDOR = "nvidia.com/"
MIG_STATE = f"{MIG_CONFIG}.state"
OFFER_SECONDS, MIG_SECONDS, EVICT_SECONDS = 300.0, 900.0, 600.0
"""Defaults of the waits: a plugin that starts anew, a cut with a reset or a reboot, budgets and grace periods."""
SHOWN = (".product", ".replicas", ".sharing-strategy", "mig.config.state")
"""Ends of the labels that say how the cards are shared."""


_ALLOW = "move it, or agree to it with --allow-disturb"


def must_be(run: Run, name: str) -> dict[str, Any]:
    """A node that the plan counts on.

    Raises:
        ApplyStopped: it is gone.
    """
    found = run.node(name)
    if found is None:
        raise ApplyStopped("node-gone", f"{run.title}: there is no node {name}", hint="plan again on this cluster")
    return found


def labels_of(node: Object) -> Mapping[str, str]:
    """A node's labels."""
    labels: Mapping[str, str] = (node.get("metadata") or {}).get("labels") or {}
    return labels


def unschedulable(node: Object) -> bool:
    """Whether a node is cordoned."""
    return (node.get("spec") or {}).get("unschedulable") is True


def offers(node: Object) -> dict[str, int]:
    """The GPU resources that a node offers, without those of which it has none; network devices of the vendor are none."""
    found = ((node.get("status") or {}).get("allocatable") or {}).items()
    counted = {str(name): _count(value) for name, value in found if is_gpu_resource(str(name))}
    return {name: count for name, count in sorted(counted.items()) if count}


def _count(value: Any) -> int:
    try:
        return parse(str(value)).value
    except (InputError, ValueError):
        return 0


def set_cordon(run: Run, node: str, wanted: bool) -> bool:
    """Cordon or uncordon; whether it changed anything."""
    if unschedulable(must_be(run, node)) == wanted:
        return False
    run.patch("v1", "Node", node, "", {"spec": {"unschedulable": True if wanted else None}})
    return True


def set_labels(run: Run, node: str, wanted: Mapping[str, str | None]) -> bool:
    """Set labels (None: take away); whether it changed anything.

    The state of the last MIG layout goes together with a new layout, or the old `success` would be taken for the new one.
    """
    there = labels_of(must_be(run, node))
    change = {key: value for key, value in wanted.items() if there.get(key) != value}
    if not change:
        return False
    if MIG_CONFIG in change and MIG_STATE in there:
        change[MIG_STATE] = None
    run.patch("v1", "Node", node, "", {"metadata": {"labels": change}})
    return True


def wait_mig(run: Run, node: str, layout: str) -> None:
    """Wait until the MIG manager says `success`.

    Raises:
        ApplyStopped: it says `failed`.
        TimeoutReached: it says nothing of the kind in time.
    """
    resource = run.resource("v1", "Node")

    def judge(item: Object | None) -> str:
        labels = labels_of(item or {})
        state = labels.get(MIG_STATE)
        if labels.get(MIG_CONFIG) != layout:
            return f"{MIG_CONFIG} is {labels.get(MIG_CONFIG) or 'not set'}, not {layout}: somebody else changed it"
        if state == "failed":
            raise ApplyStopped(
                "mig-failed",
                f"the MIG manager could not cut {node} into {layout}: a card may be in use, or cannot be cut so",
                hint=f"its log says why (kubectl logs of the nvidia-mig-manager pod on {node}); {run.hint()}",
            )
        return "" if state == "success" else f"{MIG_STATE} is {state or 'not set yet'}"

    run.until(resource, node, "", run.seconds(MIG_SECONDS), judge)


def wait_offers(run: Run, node: str, resources: Mapping[str, int], labels: Mapping[str, str]) -> None:
    """Wait until a node offers exactly these GPU resources and shows these labels.

    Raises:
        TimeoutReached: it does not in time.
    """
    wanted = {name: count for name, count in sorted(resources.items()) if count}

    def judge(item: Object | None) -> str:
        if item is None:
            return "the node is gone"
        found = offers(item)
        if found != wanted:
            return f"{node} offers {_listed(found)}; expected {_listed(wanted)}"
        shown = labels_of(item)
        wrong = [f"{key}={shown.get(key, '(not set)')}" for key, value in sorted(labels.items()) if shown.get(key) != value]
        right = [f"{key}={value}" for key, value in sorted(labels.items()) if shown.get(key) != value]
        return f"{node} has {', '.join(wrong)}; expected {', '.join(right)}" if wrong else ""

    run.until(run.resource("v1", "Node"), node, "", run.seconds(OFFER_SECONDS), judge)


def gpu_pods(run: Run, node: str) -> list[dict[str, Any]]:
    """The pods that hold a GPU of a node, by extended resource."""
    pods = run.list("v1", "Pod", fields=f"spec.nodeName={node}")
    return [pod for pod in pods if _running(pod) and any(_asks(item) for item in _containers(pod))]


def owner(pod: Object) -> str:
    """Whose a pod is: "namespace kind name" of its controller (a Deployment's ReplicaSet by the Deployment's name)."""
    meta = pod["metadata"]
    for item in meta.get("ownerReferences") or ():
        if item.get("controller"):
            name = str(item["name"])
            # A rollout makes another ReplicaSet of the same Deployment.
            return f"{meta['namespace']} {item['kind']} {name.rpartition('-')[0] if item['kind'] == 'ReplicaSet' else name}"
    return f"{meta['namespace']} Pod {meta['name']}"


def evict(run: Run, node: str, expected: Sequence[str], owners: Sequence[str] = ()) -> bool:
    """Evict the GPU pods of a node and wait until they are gone; whether there were any.

    Args:
        run: the run.
        node: the node, closed already.
        expected: pods ("namespace/name") that may go.
        owners: those whose pods may go, as `owner` names them.

    Raises:
        ApplyStopped: a pod that nobody was told about holds a GPU there; nothing is evicted then.
        TimeoutReached: a disruption budget, a finalizer or a slow end keeps one there.
    """

    def listed(pod: Object) -> bool:
        return key(pod) in expected or _own(run, pod) or owner(pod) in owners

    first = gpu_pods(run, node)
    strangers = [key(pod) for pod in first if not listed(pod)]
    if strangers:
        raise ApplyStopped(
            "gpu-held",
            f"{', '.join(strangers)} {'hold' if len(strangers) > 1 else 'holds'} a GPU of {node}, which nobody was told "
            "about; nothing was evicted",
            hint=f"{_ALLOW}; {run.hint()}",
        )
    stubborn = [pod for pod in first if owner(pod).split(" ")[1] == "DaemonSet"]
    if stubborn:
        # Its controller does not mind a cordon: an evicted pod would be back at once.
        raise ApplyStopped(
            "gpu-held",
            f"{', '.join(map(key, stubborn))} of a DaemonSet holds a GPU of {node} and would come back; nothing was evicted",
            hint=f"keep the DaemonSet off the node (its nodeSelector or affinity) for the time being; {run.hint()}",
        )

    def look() -> str:
        standing: list[str] = []
        for pod in gpu_pods(run, node):
            if not listed(pod):
                continue  # bound in the moment of the cordon; told after the wait
            if pod["metadata"].get("deletionTimestamp"):
                standing.append(f"{key(pod)} is ending")
            elif not _away(run, pod):
                standing.append(f"a disruption budget keeps {key(pod)}{_budgets(run, pod)}")
            else:
                standing.append(f"{key(pod)} was evicted and is ending")
        return "; ".join(standing)

    run.poll(run.seconds(EVICT_SECONDS), look)
    late = [key(pod) for pod in gpu_pods(run, node)]
    if late:
        raise ApplyStopped(
            "gpu-held",
            f"{', '.join(late)} got a GPU of {node} while it was being closed",
            hint=f"{_ALLOW}; {run.hint()}",
        )
    return bool(first)


def key(pod: Object) -> str:
    """ "namespace/name" of a pod."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _away(run: Run, pod: Object) -> bool:
    """Evict one pod. A pod of the service itself goes even where its own budget says no: its new place is not there yet."""
    meta = pod["metadata"]
    if run.ask(lambda: run.client.evict(meta["name"], meta["namespace"])):
        return True
    if not _own(run, pod):
        return False
    run.delete(run.resource("v1", "Pod"), meta["name"], meta["namespace"], meta["uid"])
    return True


def _own(run: Run, pod: Object) -> bool:
    meta = pod["metadata"]
    return meta["namespace"] == run.namespace and (meta.get("labels") or {}).get(SERVICE) == run.service


def _budgets(run: Run, pod: Object) -> str:
    """Which budgets select a pod, and what they allow."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    said = []
    for item in run.list("policy/v1", "PodDisruptionBudget", meta["namespace"]):
        selector = (item.get("spec") or {}).get("selector") or {}
        wanted = selector.get("matchLabels") or {}
        if wanted and all(labels.get(name) == value for name, value in wanted.items()):
            allowed = (item.get("status") or {}).get("disruptionsAllowed", 0)
            said.append(f"{item['metadata']['name']} allows {allowed} now")
    return f" ({', '.join(said)})" if said else ""


def _running(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _containers(pod: Object) -> Iterable[Mapping[str, Any]]:
    spec = pod.get("spec") or {}
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _asks(container: Mapping[str, Any]) -> bool:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return any(is_gpu_resource(str(name)) and _count(value) for name, value in wanted.items())


def _listed(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in resources.items()) or "no GPU"
