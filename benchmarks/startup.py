"""What a person waits for first: help, a plan of the bundled service, a small saved cluster read. CPU time of whole processes.

The least of several runs is compared with the bar: other work on the machine only ever adds to it. Modules are compiled once,
as they are when the package is installed, into a folder of the benchmark's own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import bigcluster
from ragstow.cluster.read import read

_ROOT = Path(__file__).resolve().parent.parent
_EXAMPLE = _ROOT / "examples" / "h100-operator"
_RUNS = 9
_SMALL_BYTES = 2_000_000


def run() -> bool:
    """Measure, print, and say whether a bar was missed."""
    sys.stdout.write(f"{'start-up and small work, CPU ms':44} {'least':>8} {'median':>8} {'bar':>6}\n")
    plan = ["plan", str(_EXAMPLE / "service.yaml"), "--from", str(_EXAMPLE / "cluster"), "-o", "json"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        path.write_text(_small(), encoding="utf-8")
        compiled = str(Path(folder) / "compiled")
        rows = (
            ("ragstow --help", [_process(["--help"], compiled) for _ in range(_RUNS)], 60),
            ("ragstow plan, 8 cards, 6 components", [_process(plan, compiled) for _ in range(_RUNS)], 1000),
            (f"reading {path.stat().st_size / 1e6:.1f} MB of JSON", [_reading(str(path)) for _ in range(_RUNS)], 100),
        )
    missed = False
    for what, seconds, bar in rows:
        ordered = sorted(seconds)
        least, median = ordered[0] * 1000, ordered[len(ordered) // 2] * 1000
        sys.stdout.write(f"{what:44} {least:8.1f} {median:8.1f} {bar:6d}\n")
        missed |= least > bar
    return missed


def _process(arguments: list[str], compiled: str) -> float:
    code = "import sys; from ragstow.cli.main import run; sys.exit(run(sys.argv[1:]))"
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src"), "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def _reading(path: str) -> float:
    started = time.process_time()
    read(path)
    return time.process_time() - started


def _small() -> str:
    items = list(bigcluster.nodes(60))
    names = [item["metadata"]["name"] for item in items]
    text = ""
    for pod in bigcluster.running(2000, names):
        items.append(pod)
        if len(items) % 50 == 0:
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            if len(text) >= _SMALL_BYTES:
                break
    return text
