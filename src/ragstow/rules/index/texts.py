"""Everything that programs said, in one place: log lines, event and container messages, conditions of nodes; and whose it is.

A failure's text reaches a report by chance in a log, an event or a container's last message; rules look for its signature in
all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ragstow.cluster.objects import Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts.stack import Signature, Signatures
from ragstow.rules.index.events import Events
from ragstow.rules.index.logs import Logs
from ragstow.rules.index.states import PodStates
from ragstow.rules.model import Evidence, ObjectRef

_KUBELETS = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "OutOfDisk"})
"""Conditions of the kubelet and of network plugins."""
_WELL = ("Ready", "Healthy", "OK", "Ok")
"""Ends of the names of conditions that are True while all is well; those of problem detectors are True in trouble."""
_OPERATED = ("ClusterPolicy", "NVIDIADriver", "GPUCluster")
_NOT_WELL = (("Error", "True"), ("Ready", "False"))


@dataclass(frozen=True, slots=True)
class Text:
    """One text: whose it is (as far as known), and the evidence it makes. `current` is False for an event about something
    that has recovered since: the pod runs and is ready."""

    value: str
    evidence: Evidence
    pod: Pod | None = None
    container: str | None = None
    node: Node | None = None
    about: ObjectRef | None = None
    current: bool = True
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Hit:
    """A signature found in a text."""

    signature: Signature
    text: Text
    match: re.Match[str]


class Texts:
    """Text look-ups over one snapshot."""

    def __init__(self, snapshot: Snapshot, events: Events, logs: Logs, states: PodStates, signatures: Signatures) -> None:
        self._snapshot, self._events, self._logs, self._states = snapshot, events, logs, states
        self._signatures = signatures

    @cached_property
    def all(self) -> tuple[Text, ...]:
        """Every text: logs, host files, container messages, conditions of nodes and of operators' objects, events; newest
        events first."""
        return (
            *self._from_logs(),
            *self._from_states(),
            *self._from_nodes(),
            *self._from_devices(),
            *self._from_operators(),
            *self._from_events(),
        )

    @cached_property
    def hits(self) -> tuple[Hit, ...]:
        """Every signature found, in the order of texts; of one log only the last line of each signature (and fault number)."""
        found: dict[tuple[str, object, str | None], Hit] = {}
        for index, text in enumerate(self.all):
            for signature, match in self._signatures.search(text.value):
                number = match.groupdict().get("xid")
                found[(signature.id, text.evidence.file or index, number)] = Hit(signature, text, match)
        return tuple(found.values())

    def of_cause(self, *causes: str, strong: bool = False) -> tuple[Hit, ...]:
        """The signatures found that speak for one of these causes (only those that prove it alone, if `strong`)."""
        return tuple(
            hit
            for hit in self.hits
            if hit.signature.cause in causes and hit.text.current and (hit.signature.strong or not strong)
        )

    def _from_logs(self) -> Iterator[Text]:
        nodes = {node.name: node for node in self._snapshot.nodes}
        for log in (*self._logs.all, *self._logs.files):
            node = log.node or (nodes.get(log.pod.node or "") if log.pod is not None else None)
            for number, line in enumerate(log.lines, 1):
                if line.strip():
                    yield Text(line, log.evidence(number), log.pod, log.container, node, certain=log.certain)

    def _from_states(self) -> Iterator[Text]:
        nodes = {node.name: node for node in self._snapshot.nodes}
        for state in self._states.all:
            node = nodes.get(state.pod.node or "")
            ref = ObjectRef.of(state.pod)
            if state.message:
                said = Evidence(state.message, ref, "status.message")
                yield Text(state.message, said, state.pod, None, node, ref, current=state.state != "finished")
            for container in state.containers:
                where = f"status.{'initContainerStatuses' if container.init else 'containerStatuses'}[{container.name}]"
                for message, part in ((container.message, "state"), (container.last_message, "lastState")):
                    if message:
                        evidence = Evidence(message, ref, f"{where}.{part}.message")
                        yield Text(message, evidence, state.pod, container.name, node, ref, current=not state.healthy)

    def _from_nodes(self) -> Iterator[Text]:
        """What problem detectors wrote on nodes, as `Type=Status Reason: message`; not the kubelet's own conditions, nor those
        that say that all is well."""
        for node in self._snapshot.nodes:
            for condition in node.status.get("conditions") or ():
                if not isinstance(condition, Mapping):
                    continue
                kind, status = str(condition.get("type") or ""), str(condition.get("status") or "")
                if kind in _KUBELETS or status != ("False" if kind.endswith(_WELL) else "True"):
                    continue
                reason, message = str(condition.get("reason") or ""), str(condition.get("message") or "")
                ref = ObjectRef.of(node)
                evidence = Evidence(f"{reason}: {message}".strip(": ") or status, ref, f"status.conditions[{kind}]")
                yield Text(f"{kind}={status} {reason}: {message}", evidence, None, None, node, ref)

    def _from_operators(self) -> Iterator[Text]:
        """What operators write into the conditions of their own objects when they cannot do their work."""
        for kind in _OPERATED:
            for item in self._snapshot.of(kind, "nvidia.com"):
                status = item.raw.get("status")
                conditions = status.get("conditions") if isinstance(status, Mapping) else None
                for condition in conditions if isinstance(conditions, list) else ():
                    message = condition.get("message") if isinstance(condition, Mapping) else None
                    if message and (condition.get("type"), condition.get("status")) in _NOT_WELL:
                        ref = ObjectRef.of(item)
                        yield Text(str(message), Evidence(str(message), ref, "status.conditions"), about=ref)

    def _from_devices(self) -> Iterator[Text]:
        """Taints that keep claims off published devices, as `DeviceTaint key=value:effect device`; effect None only informs."""
        nodes = {node.name: node for node in self._snapshot.nodes}
        for item in self._snapshot.of("ResourceSlice", "resource.k8s.io"):
            spec = item.raw.get("spec")
            listed = spec.get("devices") if isinstance(spec, Mapping) else None
            for device in listed if isinstance(listed, list) else ():
                body = (device.get("basic") or device) if isinstance(device, Mapping) else {}
                taints = body.get("taints") if isinstance(body, Mapping) else None
                for taint in taints if isinstance(taints, list) else ():
                    if isinstance(taint, Mapping) and taint.get("effect") in ("NoSchedule", "NoExecute"):
                        words = f"{taint.get('key')}={taint.get('value') or ''}:{taint['effect']} {device.get('name')}"
                        ref = ObjectRef.of(item)
                        node = nodes.get(str(spec.get("nodeName") or "")) if isinstance(spec, Mapping) else None
                        yield Text(f"DeviceTaint {words}", Evidence(words, ref, "spec.devices[].taints"), None, None, node, ref)

    def _from_events(self) -> Iterator[Text]:
        nodes = {node.name: node for node in self._snapshot.nodes}
        for event in self._events.all:
            state = self._states.of(f"{event.about.namespace}/{event.about.name}") if event.about.kind == "Pod" else None
            pod = state.pod if state is not None else None
            node = nodes.get(event.about.name if event.about.kind == "Node" else (pod.node or "") if pod is not None else "")
            # Without any pod in the data the pods were not saved, and an event about one says nothing of its end.
            gone = event.about.kind == "Pod" and state is None and bool(self._snapshot.pods)
            current = not gone and (state is None or not state.healthy)
            yield Text(event.message, event.evidence, pod, None, node, event.about, current=current)
