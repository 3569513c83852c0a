"""5,000 nodes and 20,000 pods on a real API server, listed and inspected in a process of its own: seconds and memory.

Needs the control plane of the tests (`make controlplane`); filling it is not counted.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks import bigcluster

_ROOT = Path(__file__).resolve().parent.parent
NODES, PODS = 5000, 20_000
_SECONDS, _GIB = 60.0, 1.5
_AT_ONCE = 100
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
        size = _fill(plane.etcd)
        filling = time.perf_counter() - started
        _say(f"{NODES} nodes, {PODS} pods, {size / 1e6:.0f} MB, put under a real API server in {filling:.0f} s")
        _say(f"  {'':20} {'seconds':>8} {'bar':>5} {'processor':>10} {'GiB':>6} {'bar':>5}")
        for words in (["inspect"], ["inspect", "-o", "json"], ["diagnose"]):
            command = [sys.executable, "-c", _RUN, *words, "--kubeconfig", str(plane.kubeconfig)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, check=False)
            seconds, processor, gib, code = done.stderr.splitlines()[-1].split()
            _say(f"  {' '.join(words):20} {seconds:>8} {_SECONDS:5.0f} {processor:>10} {gib:>6} {_GIB:5.1f}")
            if "json" in words:
                assert len(json.loads(done.stdout)["nodes"]) == NODES
            missed |= float(seconds) > _SECONDS or float(gib) > _GIB or code not in ("0", "1")
    return missed


def _fill(etcd: str) -> int:
    """Put everything into the server's own store, which is much faster than asking the server; the bytes that it takes."""
    size = 0
    pairs: list[tuple[str, bytes]] = []
    nodes = list(bigcluster.nodes(NODES))
    names = [node["metadata"]["name"] for node in nodes]
    pods = list(bigcluster.running(PODS, names))
    for namespace in sorted({pod["metadata"]["namespace"] for pod in pods}):
        item = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "uid": f"namespace-{namespace}"}}
        pairs.append((f"/registry/namespaces/{namespace}", json.dumps(item).encode()))
    pairs += [(f"/registry/minions/{node['metadata']['name']}", json.dumps(_alone(node)).encode()) for node in nodes]
    for pod in pods:
        meta = pod["metadata"]
        pairs.append((f"/registry/pods/{meta['namespace']}/{meta['name']}", json.dumps(_alone(pod)).encode()))
    for start in range(0, len(pairs), _AT_ONCE):
        puts = [
            {"requestPut": {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}}
            for key, value in pairs[start : start + _AT_ONCE]
        ]
        request = urllib.request.Request(f"{etcd}/v3/kv/txn", data=json.dumps({"success": puts}).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
        size += sum(len(value) for _, value in pairs[start : start + _AT_ONCE])
    return size


def _alone(item: Any) -> Any:
    """Owners are not there."""
    return {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "ownerReferences"}}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
