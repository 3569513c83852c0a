"""Logs and host files that came with a saved cluster, and whose they are.

A log belongs to the container it is named after (`vllm.txt`, `ns_pod_container.log`, `logs/ns/pod/container.log`), else to the
only crashing pod, else to nobody. Host logs (dmesg, journal, kubelet) belong to a node where a node's name is in the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ragstow.cluster.objects import Container, Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.rules.index.states import PodStates
from ragstow.rules.model import Evidence

_WORDS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Log:
    """One text: its path in the folder, its lines, and whose it is; `certain` is False where that was concluded."""

    path: str
    lines: tuple[str, ...]
    pod: Pod | None = None
    container: str | None = None
    node: Node | None = None
    certain: bool = True

    def find(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        """(line number from 1, match) of every line that the pattern is found in."""
        for number, line in enumerate(self.lines, 1):
            match = pattern.search(line)
            if match:
                yield number, match

    def evidence(self, line: int) -> Evidence:
        """One line as evidence."""
        return Evidence(self.lines[line - 1].strip(), file=self.path, line=line)


class Logs:
    """Log look-ups over one snapshot."""

    def __init__(self, snapshot: Snapshot, states: PodStates) -> None:
        self._snapshot = snapshot
        self._states = states

    @cached_property
    def all(self) -> tuple[Log, ...]:
        """Every text under `logs/`, by path."""
        return tuple(
            self._attribute(path, tuple(text.splitlines()))
            for path, text in sorted(self._snapshot.attachments.items())
            if path.split("/", 1)[0] == "logs"
        )

    @cached_property
    def files(self) -> tuple[Log, ...]:
        """Every text under `files/`: host files, by path."""
        return tuple(
            Log(path, tuple(text.splitlines()), node=self._node(path))
            for path, text in sorted(self._snapshot.attachments.items())
            if path.split("/", 1)[0] == "files"
        )

    def of(self, pod: Pod) -> tuple[Log, ...]:
        """The logs that belong to a pod."""
        return tuple(log for log in self.all if log.pod is not None and log.pod.key == pod.key)

    def _attribute(self, path: str, lines: tuple[str, ...]) -> Log:
        stem = path.removeprefix("logs/").rsplit(".", 1)[0]
        words = [word for word in _WORDS.split(stem.lower()) if word]
        named = [(pod, c) for pod, c in self._containers() if _in(c.name, words) and _in(pod.name, words)]
        named = named or [(pod, c) for pod, c in self._containers() if _in(pod.name, words)]
        named = named or [(pod, c) for pod, c in self._containers() if _in(c.name, words) or _same(c.name, words)]
        troubled = [pair for pair in named if self._crashing(pair[0])]
        best = troubled or named
        if best and len({pod.key for pod, _ in best}) == 1:
            containers = {c.name for _, c in best}
            return Log(path, lines, best[0][0], containers.pop() if len(containers) == 1 else None)
        if best:
            return Log(path, lines, best[0][0], best[0][1].name, certain=False)
        node = self._node(path)
        if node is not None:
            return Log(path, lines, node=node)
        near = [
            (pod, c)
            for pod, c in self._containers()
            if _same(pod.name, words) or _within(c.name, words) or (pod.controller and _same(pod.controller.name, words))
        ]
        near = [pair for pair in near if self._crashing(pair[0])] or near
        if near:
            return Log(path, lines, near[0][0], near[0][1].name if len(near[0][0].containers) == 1 else None, certain=False)
        crashing = [state.pod for state in self._states.in_state("crashing")]
        if len(crashing) == 1:
            return Log(path, lines, crashing[0], certain=False)
        return Log(path, lines, certain=False)

    def _containers(self) -> Iterator[tuple[Pod, Container]]:
        for pod in self._snapshot.pods:
            for container in (*pod.containers, *pod.init_containers):
                yield pod, container

    def _crashing(self, pod: Pod) -> bool:
        state = self._states.of(pod)
        return state is not None and not state.healthy

    def _node(self, path: str) -> Node | None:
        words = [word for word in _WORDS.split(path.lower()) if word]
        return next((node for node in self._snapshot.nodes if _in(node.name, words)), None)


def _in(name: str, words: list[str]) -> bool:
    """Whether the words of a name stand in `words` in a row."""
    wanted = [word for word in _WORDS.split(name.lower()) if word]
    return bool(wanted) and any(words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1))


def _within(name: str, words: list[str]) -> bool:
    """Whether a file's whole name, of two words at least, stands in a container's."""
    wanted = [word for word in _WORDS.split(name.lower()) if word]
    return len(words) > 1 and any(wanted[i : i + len(words)] == words for i in range(len(wanted) - len(words) + 1))


def _same(name: str, words: list[str]) -> bool:
    """Whether a file's whole name is the beginning of a container's: `nvidia-device-plugin` for `nvidia-device-plugin-ctr`."""
    wanted = [word for word in _WORDS.split(name.lower()) if word]
    return bool(words) and wanted[: len(words)] == words
