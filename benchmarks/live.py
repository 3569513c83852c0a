"""5,000 nodes and 20,000 pods on a real API server, listed and inspected in a process of its own: seconds and memory.

Needs the control plane of the tests (`make controlplane`); filling it takes minutes and is not counted.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import bigcluster

_ROOT = Path(__file__).resolve().parent.parent
NODES, PODS = 5000, 20_000
_SECONDS, _GIB = 60.0, 1.5
_AT_ONCE = 8
_RUN = """
import resource, sys, time
sys.path.insert(0, "src")
started = time.perf_counter()
from ragstow.cli.main import run
code = run(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
sys.stderr.write(f"{time.perf_counter() - started:.2f} {time.process_time():.2f} {peak:.2f} {code}")
"""


def run() -> bool:
    """Measure, print, and say whether a bar was missed; nothing is measured where no control plane was built."""
    sys.path[:0] = [str(_ROOT / "tests")]
    from controlplane_build import built, folder
    from controlplane_support import control_plane

    if not built():
        _say(f"no control plane in {folder()}: make controlplane")
        return False
    missed = False
    with control_plane() as plane:
        started = time.perf_counter()
        size = _fill(plane.kubeconfig)
        filling = time.perf_counter() - started
        _say(f"{NODES} nodes, {PODS} pods, {size / 1e6:.0f} MB, filled into a real API server in {filling:.0f} s")
        _say(f"  {'':20} {'seconds':>8} {'bar':>5} {'processor':>10} {'GiB':>6} {'bar':>5}")
        for words in (["inspect"], ["inspect", "-o", "json"], ["diagnose"]):
            command = [sys.executable, "-c", _RUN, *words, "--kubeconfig", str(plane.kubeconfig)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, check=False)
            seconds, processor, gib, code = done.stderr.splitlines()[-1].split()
            _say(f"  {' '.join(words):20} {seconds:>8} {_SECONDS:5.0f} {processor:>10} {gib:>6} {_GIB:5.1f}")
            missed |= float(seconds) > _SECONDS or float(gib) > _GIB or code not in ("0", "1")
    return missed


def _fill(kubeconfig: Path) -> int:
    """Create everything; the bytes that were sent."""
    import json

    from ragstow.live.client import ApiClient
    from ragstow.live.failures import Right
    from ragstow.live.kubeconfig import Choice, access
    from ragstow.live.transport import Transport

    client = ApiClient(Transport(access(Choice(kubeconfig=str(kubeconfig)), {})))
    right = Right("create", "objects")
    nodes = [_without_uid(node) for node in bigcluster.nodes(NODES)]
    names = [node["metadata"]["name"] for node in nodes]
    pods = [_without_uid(pod) for pod in bigcluster.running(PODS, names)]
    namespaces = sorted({pod["metadata"]["namespace"] for pod in pods})

    def create(path: str, items: Iterable[Any]) -> int:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return sum(pool.map(lambda item: _create(path.format(item["metadata"].get("namespace")), item), items))

    def _create(path: str, item: Any) -> int:
        made = client.transport.json("POST", path, right, body=item)
        if item["kind"] == "Pod":
            client.transport.send(
                "PUT", f"{path}/{item['metadata']['name']}/status", right, body={**made, "status": item["status"]}
            )
        return len(json.dumps(item))

    try:
        create(
            "/api/v1/namespaces", [{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}} for name in namespaces]
        )
        return create("/api/v1/nodes", nodes) + create("/api/v1/namespaces/{}/pods", pods)
    finally:
        client.close()


def _without_uid(item: Any) -> Any:
    """The server gives uids, and owners are not there."""
    meta = {key: value for key, value in item["metadata"].items() if key not in ("uid", "creationTimestamp", "ownerReferences")}
    return {**item, "metadata": meta}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
