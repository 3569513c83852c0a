"""The scheduling engine: pods per second, how it grows with nodes and pods, peak memory.

Engine time only, in seconds of CPU (one thread): reading the cluster and printing are outside.
"""

from __future__ import annotations

import gzip
import itertools
import json
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks import bigcluster
from ragstow.cluster.build import build
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Engine, Options

_TRACE = Path(__file__).resolve().parent.parent.parent / "shared" / "golden"
_RELEASE = Release.parse("1.37.2")


def run() -> bool:
    """Measure, print, and say whether a bar was missed."""
    _say(f"{'what':58} {'seconds':>8} {'pods/s':>8} {'placed':>7} {'bar':>6}")
    missed = _trace()
    for nodes, pods, count, bar in ((1250, 12_500, 2000, None), (2500, 25_000, 2000, None), (5000, 50_000, 2000, 10.0)):
        missed |= _big(nodes, pods, count, bar)
    _say(f"peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB (bar 2)")
    return missed


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _trace() -> bool:
    """8,152 pods of the openb trace onto its 1,213 nodes, all nodes scored, under three profiles."""
    path = _TRACE / "kube-scheduler-1.34.1" / "openb" / "snap8152.json.gz"
    if not path.exists():
        _say(f"openb trace: not there ({path})")
        return False
    raw = json.loads(gzip.decompress(path.read_bytes()))
    cluster = build([*raw["nodes"], *raw["pods"]])
    missed = False
    for profile in ("default", "most", "rtcr"):
        policy = None if profile == "default" else yaml.safe_load((path.parent / f"{profile}.yaml").read_text())
        missed |= _measure(f"openb, 1,213 nodes, profile {profile}", cluster, len(raw["pods"]), policy, 1.5, preemption=False)
    return missed


def _big(nodes: int, pods: int, arrivals: int, bar: float | None) -> bool:
    """Arrivals of 20 shapes into a cluster that is in use."""
    listed = list(bigcluster.nodes(nodes))
    names = [node["metadata"]["name"] for node in listed]
    parts = (listed, bigcluster.workloads(), bigcluster.running(pods, names), bigcluster.arrivals(arrivals))
    cluster = build(itertools.chain.from_iterable(parts))
    return _measure(f"{nodes} nodes, {pods} running, 20 shapes", cluster, arrivals, None, bar, preemption=True)


def _measure(
    what: str, cluster: Snapshot, count: int, policy: Mapping[str, Any] | None, bar: float | None, *, preemption: bool
) -> bool:
    arrivals = [pod for pod in cluster.pods if pod.node is None]
    started = time.process_time()
    engine = Engine(cluster, arrivals, Options(_RELEASE, order="list", preemption=preemption, policy=policy))
    placed = sum(1 for attempt in engine.run() if attempt.node is not None)
    seconds = time.process_time() - started
    _say(f"{what:58} {seconds:8.2f} {count / seconds:8.0f} {placed:7d} {'' if bar is None else f'{bar:6.1f}'}")
    return bar is not None and seconds > bar
