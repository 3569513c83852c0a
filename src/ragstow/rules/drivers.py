"""What is known of the NVIDIA driver on a node: who installs it there, and what says that it is not there. Judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from ragstow.cluster.objects import Node, Pod
from ragstow.rules.context import Context
from ragstow.rules.daemonsets import looks_like_gpu_node
from ragstow.rules.index.texts import Hit
from ragstow.rules.times import parse

_CAUSE = "driver-not-installed"
_VALIDATION, _PATIENCE = "driver-validation", timedelta(minutes=10)
"""Init container of the operator's pods that waits for a driver (gpu-operator, assets)."""
_HASTE, _DEPLOY = timedelta(minutes=1), "nvidia.com/gpu.deploy.driver"
"""Where the node's label says that the operator brings no driver, there is nothing to wait for."""
_EXPLAINED = ("nvidia.com/cuda.", "nvidia.com/mig.config", "nvidia.com/device-plugin.config")
_WAITERS = ("validator", "container-toolkit", "device-plugin", "feature-discovery", "dcgm-exporter")
_CHOICE, _OFF = "cloud.google.com/gke-gpu-driver-version", ("disabled",)


@dataclass(frozen=True, slots=True)
class DriverSigns:
    """Signs on one node: what programs said, driver pods that fail, a label that asks for no installer ("" for none), and pods
    of the operator that wait for a driver where no pod brings one."""

    hits: tuple[Hit, ...] = ()
    failing: tuple[Pod, ...] = ()
    declined: str = ""
    waiting: tuple[Pod, ...] = ()

    @property
    def absent(self) -> bool:
        """Whether the driver is known not to be there: its pod fails, the installer is off, or a program proves it."""
        return bool(self.failing or self.declined or self.waiting or any(hit.signature.strong for hit in self.hits))

    def __bool__(self) -> bool:
        return bool(self.hits or self.failing or self.declined or self.waiting)


def driver_signs(context: Context, name: str) -> DriverSigns:
    """The signs on the node of this name."""
    return context.remember("driver-signs", lambda: _all(context)).get(name, DriverSigns())


def idle_plugin(context: Context, node: Node) -> bool:
    """Whether a node looks like a GPU node and runs a plugin that is well and offers nothing, while no label, condition or text
    about the node explains it (a layout or configuration being applied, a driver that discovery has seen)."""
    plugins = context.stack.pods("device-plugin", node=node.name)
    states = [context.states.of(pod) for pod in plugins]
    found = context.inventory.node(node.name)
    return (
        bool(plugins)
        and all(state is not None and state.healthy for state in states)
        and not node.unschedulable
        and found.sharing != "dra"
        and not any(use.capacity for use in found.resources.values())
        and not any(key.startswith(_EXPLAINED) for key in node.labels)
        and not any(value.startswith("paused-for") for value in node.labels.values())
        and node.name not in context.remember("spoken-nodes", lambda: _spoken(context))
        and looks_like_gpu_node(context, node)
    )


def outside_runtime(context: Context, plugin: Pod) -> bool:
    """Whether a plugin does not use the RuntimeClass of the NVIDIA runtime that the cluster has."""
    classes = context.snapshot.of("RuntimeClass", "node.k8s.io")
    return plugin.runtime_class is None and any(item.raw.get("handler") == "nvidia" for item in classes)


def _spoken(context: Context) -> frozenset[str]:
    return frozenset(hit.text.node.name for hit in context.texts.hits if hit.text.node is not None and hit.text.current)


def _all(context: Context) -> Mapping[str, DriverSigns]:
    said: dict[str, list[Hit]] = {}
    for hit in context.texts.of_cause(_CAUSE):
        if hit.text.node is not None:
            said.setdefault(hit.text.node.name, []).append(hit)
    broken = {hit.text.node.name for hit in context.texts.of_cause("gpu-unhealthy", strong=True) if hit.text.node is not None}
    return {node.name: _of(context, node, said.get(node.name, []), node.name in broken) for node in context.snapshot.nodes}


def _of(context: Context, node: Node, hits: list[Hit], broken: bool) -> DriverSigns:
    pods = context.stack.pods("driver", node=node.name)
    states = [(pod, context.states.of(pod)) for pod in pods]
    failing = tuple(pod for pod, state in states if state is not None and not state.healthy)
    runs = any(state is not None and state.healthy for _, state in states)
    # A card that does not answer makes the driver say that it drives none.
    kept = tuple(hit for hit in hits if hit.signature.strong or not broken)
    choice = node.labels.get(_CHOICE, "")
    patience = _PATIENCE if node.labels.get(_DEPLOY, "true") == "true" else _HASTE
    waiting = (
        () if pods else tuple(pod for pod in context.stack.pods(*_WAITERS, node=node.name) if _waits(context, pod, patience))
    )
    return DriverSigns(kept, failing, f"{_CHOICE}={choice}" if choice in _OFF and not runs else "", waiting)


def _waits(context: Context, pod: Pod, patience: timedelta) -> bool:
    """Whether the operator's init container that looks for the driver has looked in vain for long."""
    state, since, now = context.states.of(pod), parse(pod.created), parse(context.now)
    if state is None or since is None or now is None or now - since < patience:
        return False
    listed = [c for c in state.containers if c.init]
    if not listed:  # told by hand: of the operator's pods, the one whose only or first init container it is stands there
        first = next((item.name for item in pod.init_containers), "")
        return first == _VALIDATION and any(c.reason == "PodInitializing" for c in state.containers)
    return any(
        c.name == _VALIDATION and not c.ready and c.state in ("running", "waiting") and c.reason != "PodInitializing"
        for c in listed
    )
