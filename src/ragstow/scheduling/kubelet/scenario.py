"""Plays a scenario: a machine, a kubelet configuration, plugins and a sequence of events; gives back every step's result.

The format is that of recordings made with the real managers: `numa`, `kubelet`, `plugins`, `steps` with `op` and its
arguments. Steps that carry results already (a recording) may be followed: wherever the original leaves a choice to map
order, the recorded ids are taken if they lie in the right set, so that the later steps start from the recorded state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragstow import quantity
from ragstow.errors import InputError, Place
from ragstow.scheduling.kubelet.hints import Hint, bits
from ragstow.scheduling.kubelet.model import (
    GIB,
    MIB,
    Call,
    ContainerAsk,
    Device,
    DoesNotStart,
    NumaNode,
    Plugin,
    PodAsk,
    Settings,
)
from ragstow.scheduling.kubelet.node import Admission, Kubelet
from ragstow.scheduling.kubelet.picking import FirstPicker, Picker

Json = Mapping[str, Any]


def play(scenario: Json, *, follow: bool = True) -> dict[str, Any]:
    """The steps of a scenario with their results, in the recordings' format.

    Args:
        scenario: `numa`, `kubelet`, `plugins` (only for reading) and `steps`.
        follow: take recorded results as the answer where map order decides, if they are possible.

    Returns:
        {"steps": [...]} or {"error": text, "steps": []} where the kubelet does not start.
    """
    try:
        kubelet = Kubelet(numa_nodes(scenario["numa"]), settings(scenario["kubelet"]))
    except DoesNotStart as error:
        return {"error": str(error), "steps": []}
    steps = []
    for step in scenario["steps"]:
        result = _step(kubelet, step, follow=follow)
        if not step.get("node_not_synced"):
            kubelet.sync_node()
        held = sorted(kubelet.devices.pods)
        if held:
            result["held"] = held
        if kubelet.capacity:
            result["capacity"] = dict(sorted(kubelet.capacity.items()))
            result["allocatable"] = dict(sorted(kubelet.allocatable.items()))
        steps.append(result)
        if "panic" in result:
            break
    return {"steps": steps}


def numa_nodes(rows: Sequence[Json]) -> tuple[NumaNode, ...]:
    """NUMA nodes from `numa` rows: id, cpus, memory_gi, distances, and optionally cores (lists of sibling ids)."""
    return tuple(
        NumaNode(
            id=int(row["id"]),
            cpus=tuple(row.get("cpus") or ()),
            memory_bytes=int(row.get("memory_gi") or 0) * GIB,
            distances=tuple(row.get("distances") or ()),
            cores=tuple(tuple(core) for core in row.get("cores") or ()),
        )
        for row in rows
    )


def settings(config: Json) -> Settings:
    """Settings from the keys of KubeletConfiguration, `reservedCPU` (whole CPUs) and `reservedMemoryGi` (by NUMA id)."""
    return Settings(
        topology_policy=str(config.get("topologyManagerPolicy") or "none"),
        topology_scope=str(config.get("topologyManagerScope") or "container"),
        topology_options={str(k): str(v) for k, v in (config.get("topologyManagerPolicyOptions") or {}).items()},
        cpu_policy=str(config.get("cpuManagerPolicy") or "none"),
        memory_policy=str(config.get("memoryManagerPolicy") or "None"),
        reserved_cpus=int(config.get("reservedCPU") or 0),
        reserved_memory_bytes={int(k): int(v) * GIB for k, v in (config.get("reservedMemoryGi") or {}).items()},
        max_pods=int(config.get("maxPods") or 110),
    )


def plugin(raw: Json) -> Plugin:
    """A plugin from `devices`, `preferred` and `alloc_error`."""
    devices = tuple(
        Device(str(row["id"]), None if row.get("numa") is None else tuple(row["numa"]), row.get("healthy", True) is True)
        for row in raw["devices"]
    )
    return Plugin(devices, str(raw.get("preferred") or ""), bool(raw.get("alloc_error")))


def pod(raw: Json) -> PodAsk:
    """A pod from `name`, `init` and `containers`; Guaranteed if every container is marked so."""
    containers = [(row, True) for row in raw.get("init") or ()] + [(row, False) for row in raw.get("containers") or ()]
    return PodAsk(
        name=str(raw["name"]),
        containers=tuple(
            ContainerAsk(
                name=str(row["name"]),
                devices={str(name): int(count) for name, count in (row.get("devices") or {}).items()},
                cpu_milli=quantity.parse(row["cpu"]).milli if "cpu" in row else 0,
                memory_bytes=int(row.get("memory_mi") or 0) * MIB,
                init=init,
                sidecar=row.get("sidecar") is True,
            )
            for row, init in containers
        ),
        guaranteed=all(row.get("guaranteed") is True for row, _ in containers),
    )


class _Recorded(FirstPicker):
    """Takes the recorded ids where they are possible: from the Allocate calls in order, else from the devices at the end."""

    def __init__(self, result: Json) -> None:
        self.again = result.get("op") == "readmit"  # what it holds tells nothing about this admission
        self.calls: list[Json] = list(result.get("calls") or ())
        self.devices: Json = result.get("devices") or {}
        self.message = str(result.get("message") or "")

    def order(self, container: str, resources: Sequence[str], calls: int) -> Sequence[str]:
        """By the recorded calls still to come; then what got something, then what the message names."""
        got: Json = {} if self.again else self.devices.get(container) or {}
        coming = [call["resource"] for call in self.calls[calls:]]

        def rank(resource: str) -> tuple[int, bool, bool, str]:
            at = coming.index(resource) if resource in coming else len(coming)
            return (at, not got.get(resource), not self._blamed(resource), resource)

        return sorted(resources, key=rank)

    def pick(
        self, container: str, resource: str, taken: frozenset[str], pool: Sequence[str], count: int, calls: int
    ) -> Sequence[str]:
        """The recorded ids of the next Allocate call for the resource, or of the container's devices."""
        answers = [call.get("ids") for call in self.calls[calls:] if (call["call"], call["resource"]) == ("Allocate", resource)]
        answers = [*answers[:1], (self.devices.get(container) or {}).get(resource)]
        for ids in answers:
            new = [item for item in ids or () if item not in taken and item in pool]
            if taken.issubset(ids or ()) and len(new) == count:
                return new
        return super().pick(container, resource, taken, pool, count, calls)

    def _blamed(self, resource: str) -> bool:
        return re.search(re.escape(resource) + r"(\. |,)", self.message) is not None


def _step(kubelet: Kubelet, step: Json, *, follow: bool) -> dict[str, Any]:
    op = step["op"]
    result: dict[str, Any] = {"op": op}
    if op == "plugin_start":
        kubelet.register(step["resource"], plugin(step["plugin"]))
    elif op == "set_devices":
        kubelet.list_devices(step["resource"], plugin(step["plugin"]).devices)
    elif op == "plugin_stop":
        kubelet.disconnect(step["resource"])
    elif op == "remove":
        kubelet.remove(step["name"])
    elif op == "kubelet_restart":
        kubelet.restart((name.split("/", 1)[0], name.split("/", 1)[1]) for name in step.get("running") or ())
    elif op == "sources_ready":
        kubelet.sources_ready()
    elif op == "wait":
        kubelet.wait(int(step["times"]))
    elif op == "admit":
        result |= _described(kubelet.admit(pod(step["pod"]), _picker(step, follow=follow)))
    elif op == "readmit":
        result |= _described(kubelet.readmit(step["name"], _picker(step, follow=follow)))
    elif op == "repeat_admit":
        result["outcomes"] = _repeat(kubelet, step, follow=follow)
    else:
        raise InputError("scenario-op", f"{str(op)[:40]!r} is no step of a kubelet scenario", place=Place(field="steps[].op"))
    return result


def _picker(result: Json, *, follow: bool) -> Picker:
    return _Recorded(result) if follow else FirstPicker()


def _repeat(kubelet: Kubelet, step: Json, *, follow: bool) -> list[dict[str, Any]]:
    """Each recorded outcome played from the same state; one outcome where nothing is followed."""
    arriving = pod(step["pod"])
    outcomes: Sequence[Json] = step.get("outcomes") or () if follow else ()
    played: list[dict[str, Any]] = []
    for outcome in outcomes or ({"count": step["times"]},):
        described = _described(kubelet.copy().admit(arriving, _picker(outcome, follow=follow)))
        kept = {key: value for key, value in described.items() if key in ("admit", "reason", "message", "devices")}
        played.append({"count": outcome["count"], **kept})
    kubelet.admit(arriving)
    kubelet.remove(arriving.name)
    kubelet.collect()
    return played


def _described(done: Admission) -> dict[str, Any]:
    """An admission in the recordings' words; what is empty is left out."""
    result: dict[str, Any] = {"admit": done.admitted}
    if done.reason:
        result |= {"reason": done.reason, "message": done.message}
    if done.panic:
        result["panic"] = done.panic
    if done.devices:
        result["devices"] = {name: {r: list(ids) for r, ids in sorted(held.items())} for name, held in done.devices.items()}
    if done.hints:
        result["hints"] = {name: _hint(hint) for name, hint in sorted(done.hints.items())}
    if done.calls:
        result["calls"] = [_call(call) for call in done.calls]
    if done.cpus:
        result["cpus"] = {name: list(cpus) for name, cpus in sorted(done.cpus.items())}
    if done.memory:
        result["memory"] = {
            name: [{"numa": list(bits(mask)), "size_mi": size // MIB}] for name, (mask, size) in sorted(done.memory.items())
        }
    return result


def _hint(hint: Hint) -> dict[str, Any]:
    return {"numa": None if hint.mask is None else list(bits(hint.mask)), "preferred": hint.preferred}


def _call(call: Call) -> dict[str, Any]:
    result: dict[str, Any] = {"call": call.call, "resource": call.resource}
    if call.call == "GetPreferredAllocation":
        result["available"] = list(call.available)
        if call.must_include:
            result["must_include"] = list(call.must_include)
        result["size"] = call.size
    result["ids"] = None if call.error is not None and call.call == "GetPreferredAllocation" else list(call.ids)
    if call.error is not None:
        result["error"] = call.error
    return result
