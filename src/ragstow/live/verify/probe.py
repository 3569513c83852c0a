"""Runs nvidia-smi inside containers and makes one `Look` of all that it printed.

One command after the other in a container, several containers at once; a container that hangs or fails costs its own time limit
and hides no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ragstow.cluster.objects import Pod
from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.client import Client
from ragstow.live.failures import Forbidden
from ragstow.verification.drivers import HostDriver
from ragstow.verification.seen import Answer, Look
from ragstow.verification.smi import details, listing, rows, table
from ragstow.verification.smi.merge import merge
from ragstow.verification.smi.model import Reading
from ragstow.verification.smi.values import failure
from ragstow.verification.targets import Target

AT_ONCE = 8
EXEC_SECONDS = 30.0
T = TypeVar("T")
R = TypeVar("R")

_TABLE = ("nvidia-smi",)
_LIST = ("nvidia-smi", "-L")
_ROWS = ("nvidia-smi", f"--query-gpu={','.join(rows.COLUMNS)}", "--format=csv")
_DETAILS = ("nvidia-smi", "-q")
_CUDA = ("printenv", "CUDA_VERSION")
_DRIVER = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`work` of every item, a few at once, in order; an interrupt waits for nothing that has not begun."""
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="verify")
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def looks(client: Client, targets: Sequence[Target], *, timeout_seconds: float = EXEC_SECONDS) -> Mapping[str, Look]:
    """What each pod sees, by "namespace/name"."""
    found = in_parallel(lambda target: look(client, target, timeout_seconds=timeout_seconds), targets)
    return {target.pod.key: item for target, item in zip(targets, found, strict=True)}


def look(client: Client, target: Target, *, timeout_seconds: float = EXEC_SECONDS) -> Look:
    """What one pod sees; never raises for what the pod or its node does."""
    asked = Asked(client, target.pod, target.container.name, timeout_seconds)
    try:
        return _look(asked)
    except TimeoutReached as error:
        return Look(_reading(asked.answers), asked.answers, hung=error.message)
    except Forbidden as error:
        return Look(answers=asked.answers, forbidden=error.message)
    except ClusterError as error:
        said = failure(error.message)
        if said is not None and said.kind == "program-missing":
            return Look(Reading(failure=said), asked.answers)
        return Look(answers=asked.answers, refused=error.message)


def _look(asked: Asked) -> Look:
    first = asked.run("table", _TABLE)
    reading = table.read(first.text)
    if reading.cards or reading.failure is None:
        asked.run("list", _LIST)
        asked.run("rows", _ROWS)
        asked.run("details", _DETAILS)
        reading = _reading(asked.answers)
    elif reading.failure.kind in ("device-lost", "no-devices"):
        # Other forms may list the cards that still answer.
        asked.run("list", _LIST)
        reading = _reading(asked.answers)
    return Look(reading, asked.answers, cuda=_cuda(asked) if reading.cards else None)


def _cuda(asked: Asked) -> str | None:
    """major.minor of the CUDA that the image says it was built with."""
    try:
        answer = asked.run("cuda", _CUDA)
    except (ClusterError, TimeoutReached):
        return None  # an image without printenv says nothing
    parts = answer.text.strip().split(".")
    return ".".join(parts[:2]) if answer.code == 0 and len(parts) >= 2 and all(part.isdecimal() for part in parts[:2]) else None


def _reading(answers: Mapping[str, Answer]) -> Reading:
    readers = {"table": table.read, "list": listing.read, "rows": rows.read, "details": details.read}
    return merge([read(answers[name].text) for name, read in readers.items() if name in answers])


class Asked:
    """The commands that were run in one container.

    Args:
        client: the API server.
        pod, container: where.
        timeout_seconds: for each command.
    """

    def __init__(self, client: Client, pod: Pod, container: str, timeout_seconds: float) -> None:
        self._client, self._pod, self._container = client, pod, container
        self._timeout_seconds = timeout_seconds
        self.answers: dict[str, Answer] = {}

    def command(self, words: Sequence[str]) -> str:
        """How a person runs it again."""
        return f"kubectl exec -n {self._pod.namespace} {self._pod.name} -c {self._container} -- {' '.join(words)}"

    def run(self, name: str, words: Sequence[str]) -> Answer:
        """Run a command and keep its answer.

        Raises:
            ClusterError: it could not be started.
            TimeoutReached: it did not end in time.
        """
        pod = self._pod
        done = self._client.execute(
            pod.name, pod.namespace, self._container, list(words), timeout_seconds=self._timeout_seconds
        )
        text = done.stdout if done.stdout.strip() else done.stderr
        if done.stderr.strip() and done.stdout.strip():
            text = f"{done.stderr.rstrip()}\n{done.stdout}"
        self.answers[name] = Answer(self.command(words), done.code, text)
        return self.answers[name]


def hosts(
    client: Client, pods: Mapping[str, Sequence[tuple[Pod, str, str]]], *, timeout_seconds: float = EXEC_SECONDS
) -> Mapping[str, HostDriver]:
    """The driver of each node as its own driver or plugin pod sees it.

    Args:
        client: the API server.
        pods: node -> (pod, container, what it is), the best one first.
        timeout_seconds: for each command.
    """

    def one(item: tuple[str, Sequence[tuple[Pod, str, str]]]) -> tuple[str, HostDriver]:
        node, candidates = item
        why = "no driver or plugin pod on the node"
        command = ""
        for pod, container, title in candidates:
            asked = Asked(client, pod, container, timeout_seconds)
            command = asked.command(_DRIVER)
            try:
                answer = asked.run("driver", _DRIVER)
            except (ClusterError, TimeoutReached) as error:
                why = f"{title} {pod.key}: {error.message}"
                continue
            version = next((line.strip() for line in answer.text.splitlines() if line.strip()), "")
            if answer.code == 0 and version[:1].isdigit():
                return node, HostDriver(version, f"{title} {pod.key}", command)
            why = f"{title} {pod.key}: {version or 'nvidia-smi printed nothing'}"
        return node, HostDriver(None, "", command, why)

    return dict(in_parallel(one, sorted(pods.items())))
