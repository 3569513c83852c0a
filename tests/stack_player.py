"""Plays what a GPU stack does on a simulated cluster: the operator, the MIG manager, the plugin and feature discovery.

A thread looks at nodes, ClusterPolicies and DaemonSets some times a second and changes what the real ones would change, as
administrator. It knows nothing of ragstow: for each node the test says what a label makes of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ragstow.errors import RagstowError
from ragstow.live.client import ApiClient
from ragstow.live.failures import Right

MIG, STATE, PLUGIN = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/device-plugin.config"
VENDOR = "nvidia.com/"


@dataclass(frozen=True)
class Shape:
    """What a node offers: resources, and labels that feature discovery publishes."""

    resources: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Stack:
    """The played stack.

    Args:
        client: of the administrator.
        shapes: (node, label, value) -> what the node offers while it carries that label; value None: without it.
        fails: layouts with which the MIG manager ends in `failed`.
        never: layouts with which it never ends.
        delay_seconds: between a label and what follows.
    """

    client: ApiClient
    shapes: Mapping[tuple[str, str, str | None], Shape]
    fails: Sequence[str] = ()
    never: Sequence[str] = ()
    delay_seconds: float = 0.3
    managed: dict[str, str | None] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)
    """Set once all has been looked at."""

    def play(self) -> None:
        """Until `end` is set."""
        while not self.end.wait(0.1):
            try:
                self._operator()
                for node in self.client.list(self._of("", "nodes")):
                    self._node(node)
                self.settled.set()
            except RagstowError as error:
                self.errors.append(str(error))

    def _of(self, group: str, plural: str) -> Any:
        return self.client.resources().plural(group, plural)

    def _node(self, node: Mapping[str, Any]) -> None:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        label = next((key for owner, key, _ in self.shapes if owner == name), None)
        if label is None:
            return
        value = labels.get(label)
        if label == MIG and value is not None and (self.managed.get(name) != value or labels.get(STATE) is None):
            self._label(name, {STATE: "pending"})
            self.managed[name] = value
            self.end.wait(self.delay_seconds)
            if value in self.never:
                return
            self._offer(node, self.shapes.get((name, label, value)))
            self._label(name, {STATE: "failed" if value in self.fails else "success"})
            return
        if label != MIG and self.managed.get(name, "") != value:
            self.end.wait(self.delay_seconds)
            self.managed[name] = value
            self._offer(node, self.shapes.get((name, label, value)))

    def _offer(self, node: Mapping[str, Any], shape: Shape | None) -> None:
        if shape is None:
            return
        name = node["metadata"]["name"]
        there = (node.get("status") or {}).get("allocatable") or {}
        gone = {key: "0" for key in there if key.startswith(VENDOR)}
        offered = {**gone, **{key: str(count) for key, count in shape.resources.items()}}
        change = {"status": {"allocatable": offered, "capacity": offered}}
        resource = self._of("", "nodes")
        self.client.transport.json(
            "PATCH", resource.path("", name, "status"), _RIGHT, body=change, content_type="application/merge-patch+json"
        )
        self._label(name, dict(shape.labels))

    def _label(self, name: str, labels: Mapping[str, str | None]) -> None:
        self.client.patch(self._of("", "nodes"), name, "", {"metadata": {"labels": dict(labels)}})

    def _operator(self) -> None:
        """Write the names of ConfigMaps in a policy, and its MIG strategy, into the pods of the DaemonSets."""
        policies = self._of("nvidia.com", "clusterpolicies")
        if policies is None:
            return
        for policy in self.client.list(policies):
            spec = policy.get("spec") or {}
            plugin = ((spec.get("devicePlugin") or {}).get("config") or {}).get("name") or ""
            manager = ((spec.get("migManager") or {}).get("config") or {}).get("name") or ""
            strategy = (spec.get("mig") or {}).get("strategy") or ""
            for item in list(self.client.list(self._of("apps", "daemonsets"))):
                wanted = {
                    "nvidia-device-plugin-daemonset": {"played/config": plugin, "played/strategy": strategy},
                    "nvidia-mig-manager": {"played/layouts": manager},
                }.get(item["metadata"]["name"])
                there = (item["spec"]["template"]["metadata"].get("annotations")) or {}
                # What was never set stays unset, so that an undo can be compared with what was before.
                change = {key: value or None for key, value in (wanted or {}).items() if there.get(key, "") != value}
                if change:
                    meta = item["metadata"]
                    body = {"spec": {"template": {"metadata": {"annotations": change}}}}
                    self.client.patch(self._of("apps", "daemonsets"), meta["name"], meta["namespace"], body)


@contextmanager
def playing(stack: Stack) -> Iterator[Stack]:
    """The stack played by a thread for the time of the `with` block."""
    thread = threading.Thread(target=stack.play, daemon=True)
    thread.start()
    assert stack.settled.wait(20), stack.errors
    try:
        yield stack
    finally:
        stack.end.set()
        thread.join(20)


_RIGHT = Right("patch", "nodes/status")
