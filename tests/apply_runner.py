"""Runs `apply` in processes of its own that kill themselves at a chosen point, so that tests can see what a crash leaves.

Started as a program it reads one job (JSON) a line and forks a child for each; what the child ended with is the answer. A kill
point is (when, number): `started`, the record says that action `number` begins and nothing of it is done; `finished`, it is
done and the record does not say so yet. Numbers count from 0; in an undo they count its steps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent


class Runner:
    """The program as a test sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, **job: Any) -> dict[str, Any]:
        """Run one job: {"killed": bool, "state" or "error": ...}."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def runner() -> Iterator[Runner]:
    """The program, for the time of the `with` block."""
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    try:
        yield Runner(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def main() -> None:
    """Serve jobs until the input ends."""
    # Loaded once, here, so that a child costs no more than its fork.
    import ragstow.live.apply.engine
    import ragstow.live.transport  # noqa: F401

    for line in sys.stdin:
        job = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(job, write)
        os.close(write)
        with os.fdopen(read) as stream:
            said = stream.read()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        sys.stdout.write(json.dumps({"killed": killed, **json.loads(said or "{}")}) + "\n")
        sys.stdout.flush()


def _child(job: Mapping[str, Any], write: int) -> None:
    from apply_support import client_of
    from ragstow.errors import RagstowError
    from ragstow.live import apply
    from ragstow.live.apply import codec

    client = client_of(job["kubeconfig"], job.get("user", "applier"))
    options = apply.Options(lease_seconds=1, **job.get("options", {}))
    _arm(job.get("kill"))
    try:
        if "procedure" in job:
            outcome = apply.run(client, codec.from_document(job["procedure"]), options=options)
        else:
            outcome = apply.undo(client, job["service"], job["namespace"], options=options)
        answer: dict[str, Any] = {"state": outcome.state}
    except RagstowError as error:
        answer = {"error": error.code, "text": str(error), "exit": error.exit_code}
    os.write(write, json.dumps(answer).encode())
    os._exit(0)


def _arm(kill: Any) -> None:
    """Put the kill point into the journal; an undo has no `start`, so its steps are counted where they are done."""
    if kill is None:
        return
    from ragstow.live.apply.record import UNDONE, Journal

    when, number = kill
    start, mark = Journal.start, Journal.mark
    undone = 0

    def started(self: Journal, record: Any, index: int, before: Any) -> None:
        start(self, record, index, before)
        if (when, number) == ("started", index):
            os.kill(os.getpid(), signal.SIGKILL)

    def marked(self: Journal, record: Any, index: int, letter: str) -> None:
        nonlocal undone
        if when == "finished" and number == (undone if letter == UNDONE else index):
            os.kill(os.getpid(), signal.SIGKILL)
        mark(self, record, index, letter)
        undone += letter == UNDONE

    Journal.start, Journal.mark = started, marked  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
