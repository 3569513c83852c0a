"""The kubelets of a cluster's nodes after the scheduler: which devices a bound pod gets, or why the node rejects it.

What a kubelet knows (its configuration, NUMA nodes, devices and who holds them) is not in the API: it comes from a file
(`--kubelet`). A node that the file does not describe is taken to admit what the scheduler counted, and the answer says so.
The file holds, in any number of documents: a KubeletConfiguration (or configz's answer) for all nodes; `numa` and `devices` (or
`plugins`) as in recordings, for all nodes or below `nodes: {NAME: ...}`; and there `held`: pod -> container -> resource -> ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ragstow import quantity
from ragstow.errors import InputError, Place
from ragstow.scheduling.amounts import is_extended
from ragstow.scheduling.kubelet.hints import bits
from ragstow.scheduling.kubelet.model import ContainerAsk as Ask
from ragstow.scheduling.kubelet.model import DoesNotStart, NumaNode, Plugin, PodAsk, Settings
from ragstow.scheduling.kubelet.node import Admission, Kubelet
from ragstow.scheduling.kubelet.scenario import numa_nodes, plugin, settings
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.simulate import pluginrules
from ragstow.simulate.model import FreePick, KubeletAnswer

Json = Mapping[str, Any]

_ONE_NUMA = (NumaNode(0, (), 0, (10,)),)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a file says about one node's kubelet."""

    settings: Settings = field(default_factory=Settings)
    numa: tuple[NumaNode, ...] = _ONE_NUMA
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KubeletFacts:
    """A whole file: what holds for all nodes, and for single ones."""

    default: NodeFacts | None
    nodes: Mapping[str, NodeFacts]

    def of(self, node: str) -> NodeFacts | None:
        """What is known about a node's kubelet."""
        return self.nodes.get(node, self.default)


def kubelet_facts(documents: Iterable[Any], file: str | None = None) -> KubeletFacts:
    """The facts in a file's documents.

    Raises:
        InputError: a document is of none of the known shapes.
    """
    config: dict[str, Any] = {}
    common: dict[str, Any] = {}
    nodes: dict[str, Json] = {}
    for document in documents:
        if not isinstance(document, Mapping):
            raise InputError("kubelet-file", "a document is not a mapping", place=Place(file))
        if isinstance(document.get("kubeletconfig"), Mapping):
            config.update(document["kubeletconfig"])
        elif document.get("kind") == "KubeletConfiguration" or "topologyManagerPolicy" in document:
            config.update(document)
        elif known := {"numa", "devices", "plugins", "kubelet", "nodes"} & set(document):
            common.update({key: document[key] for key in sorted(known - {"nodes"})})
            nodes.update(document.get("nodes") or {})
        else:
            raise InputError(
                "kubelet-file",
                "neither a KubeletConfiguration nor `numa`, `devices` or `nodes`",
                place=Place(file),
                hint="see docs/simulate.md, --kubelet",
            )
    try:
        default = _facts({**common, "kubelet": {**config, **(common.get("kubelet") or {})}}) if config or common else None
        single = {
            str(name): _facts(
                {**common, **raw, "kubelet": {**config, **(common.get("kubelet") or {}), **(raw.get("kubelet") or {})}}
            )
            for name, raw in nodes.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("kubelet-file", f"not as in the recordings: {error!r}", place=Place(file)) from None
    return KubeletFacts(default, single)


def _facts(raw: Json) -> NodeFacts:
    config = _configuration(raw.get("kubelet") or {})
    plugins: dict[str, Plugin] = {}
    for resource, listed in {**(raw.get("devices") or {}), **(raw.get("plugins") or {})}.items():
        body = {"devices": listed} if isinstance(listed, list) else listed
        plugins[str(resource)] = plugin(body if "preferred" in body else {**body, "preferred": _preference(body["devices"])})
    held = {
        str(pod): {
            str(name): {str(resource): tuple(map(str, ids)) for resource, ids in resources.items()}
            for name, resources in containers.items()
        }
        for pod, containers in (raw.get("held") or {}).items()
    }
    return NodeFacts(settings(config), numa_nodes(raw["numa"]) if raw.get("numa") else _ONE_NUMA, plugins, held)


def _preference(devices: Any) -> str:
    """The NVIDIA plugin's own: replicas are spread over cards; whole cards go by their links, which are not known here."""
    return "distributed" if any("::" in str(device.get("id")) for device in devices) else ""


def _configuration(config: Json) -> dict[str, Any]:
    """KubeletConfiguration's own keys for reserved CPUs and memory, in the recordings' words."""
    found = dict(config)
    if "reservedSystemCPUs" in found and "reservedCPU" not in found:
        found["reservedCPU"] = len(_cpu_list(str(found["reservedSystemCPUs"])))
    if found.get("reservedMemory") and "reservedMemoryGi" not in found:
        found["reservedMemoryGi"] = {
            row["numaNode"]: quantity.parse((row.get("limits") or {}).get("memory") or 0).value >> 30
            for row in found["reservedMemory"]
        }
    return found


def _cpu_list(text: str) -> set[int]:
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


class Kubelets:
    """The kubelets of one simulation; each is made when the first pod comes to its node.

    Args:
        facts: what a file says, None without one.
        only_one: node -> resources of which its plugin gives a container one at most (`pluginrules.nodes`).
        packed: nodes whose plugin packs shares; counts where the file does not name the preference (`pluginrules.packed`).
    """

    def __init__(
        self,
        facts: KubeletFacts | None,
        only_one: Mapping[str, frozenset[str]] | None = None,
        packed: frozenset[str] = frozenset(),
    ) -> None:
        self._facts = facts
        self._only_one = only_one or {}
        self._packed = packed
        self._made: dict[str, Kubelet] = {}
        self.assumptions: dict[str, None] = {}

    def admit(self, pod: PodInfo, node: NodeInfo) -> KubeletAnswer | None:
        """What the node does with a pod that was just bound to it; None where nothing about its kubelet is known.

        Args:
            pod: the pod; already among `node.pods`.
            node: its node.

        Raises:
            InputError: the file's configuration is one that the kubelet does not start with.
        """
        known = self._facts.of(node.name) if self._facts is not None else None
        if known is None:
            if any(is_extended(name) for name in pod.sums.plain):
                self.assumptions[
                    "the kubelets' topology manager policy and device choice are not in the data: policy none is assumed; "
                    "under restricted or single-numa-node a node may reject a pod that fits by count (give --kubelet FILE)"
                ] = None
            return self._counted(pod, node.name)
        kubelet = self._kubelet(known, node, pod)
        return answer(kubelet.admit(ask(pod)), known)

    def _counted(self, pod: PodInfo, node: str) -> KubeletAnswer | None:
        """What is known without a file: a plugin that gives one share only."""
        for container in ask(pod).containers:
            for resource, count in container.devices.items():
                if count > 1 and resource in self._only_one.get(node, ()):
                    return KubeletAnswer(False, "UnexpectedAdmissionError", pluginrules.refusal(resource, count))
        return None

    def remove(self, key: str, node: str) -> None:
        """A pod is gone from a node."""
        if node in self._made:
            self._made[node].remove(key)

    def _kubelet(self, known: NodeFacts, node: NodeInfo, arriving: PodInfo) -> Kubelet:
        if node.name in self._made:
            return self._made[node.name]
        try:
            kubelet = Kubelet(known.numa, replace(known.settings, max_pods=node.max_pods))
        except DoesNotStart as error:
            raise InputError("kubelet-does-not-start", f"the kubelet of {node.name} does not start: {error}") from None
        kubelet.others = {name: amount for name, amount in node.allocatable.items() if not is_extended(name)}
        for resource, its in known.plugins.items():
            if its.preference == "distributed" and node.name in self._packed:
                its = replace(its, preference="packed")
            kubelet.register(resource, its)
        kubelet.sync_node()
        self._made[node.name] = kubelet
        running = [other for other in node.pods if other.key != arriving.key]
        running.sort(key=lambda other: (other.start_time or "~", other.key))
        told = False
        for other in running:
            held = known.held.get(other.key)
            if held is not None:
                kubelet.devices.adopt(other.key, held)
                kubelet.known[other.key] = kubelet.active[other.key] = ask(other)
            elif any(kubelet.devices.known(resource) for container in ask(other).containers for resource in container.devices):
                told = True
        for other in running:
            if other.key not in known.held:
                kubelet.admit(ask(other))
                kubelet.active[other.key] = kubelet.known[other.key]
        if told:
            self.assumptions[
                f"which devices the running pods of {node.name} hold is not in the data: "
                "they are taken as admitted in start order"
            ] = None
        return kubelet


def answer(done: Admission, known: NodeFacts) -> KubeletAnswer:
    """An admission as the simulation reports it."""
    openly: dict[str, dict[str, FreePick]] = {}
    for pick in done.picks:
        openly.setdefault(pick.container, {})[pick.resource] = FreePick(pick.taken, pick.pool, pick.count)
    assumed = () if known.plugins else ("the node's devices are not in the file: they are counted, not named",)
    return KubeletAnswer(
        admitted=done.admitted,
        reason=done.reason or ("KubeletCrash" if done.panic else ""),
        message=done.message or done.panic,
        devices=done.devices or {},
        open=openly,
        numa={name: None if hint.mask is None else bits(hint.mask) for name, hint in sorted((done.hints or {}).items())},
        assumed=assumed,
    )


def ask(pod: PodInfo) -> PodAsk:
    """A pod in the kubelet's terms."""
    listed = [(True, item) for item in pod.pod.init_containers] + [(False, item) for item in pod.pod.containers]
    containers = [
        Ask(
            name=item.name,
            devices={name: amount for name, amount in item.limits.items() if is_extended(name)},
            cpu_milli=item.requests.get("cpu", 0),
            memory_bytes=item.requests.get("memory", 0),
            init=init,
            sidecar=init and item.restart_policy == "Always",
        )
        for init, item in listed
    ]
    return PodAsk(
        name=pod.key,
        containers=tuple(containers),
        guaranteed=_guaranteed(pod),
        overhead_cpu_milli=pod.pod.overhead.get("cpu", 0),
        overhead_memory_bytes=pod.pod.overhead.get("memory", 0),
    )


def _guaranteed(pod: PodInfo) -> bool:
    """QoS class Guaranteed: every container has equal requests and limits for cpu and memory."""
    return all(
        container.limits.get(name, 0) > 0 and container.limits.get(name) == container.requests.get(name)
        for container in (*pod.pod.init_containers, *pod.pod.containers)
        for name in ("cpu", "memory")
    )
