"""A big cluster read, inspected and diagnosed, in a process of its own: seconds, memory; and what loading the rules costs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import bigcluster

Raw = dict[str, Any]
NODES, PODS, PENDING = 5000, 50_000, 200
_SECONDS, _GIB, _RULES_MS = 20.0, 2.0, 40.0
_ROOT = Path(__file__).resolve().parent.parent
_RUN = """
import resource, sys, time
sys.path.insert(0, "src")
started = time.perf_counter()
from ragstow.cli.main import run
code = run(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
sys.stderr.write(f"{time.perf_counter() - started:.2f} {time.process_time():.2f} {peak:.2f} {code}")
"""
_RULES = """
import sys, time
sys.path.insert(0, "src")
import ragstow.cli.diagnose, ragstow.cli.cluster, ragstow.cli.diagnosis, ragstow.rules.run
started = time.process_time()
count = len(ragstow.rules.run.all_rules())
print(count, (time.process_time() - started) * 1000)
"""


def run() -> bool:
    """Measure, print, and say whether a bar was missed.

    The bar is for processor time, which other work on the machine does not change; the program has one thread.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"  # as an installed package is: compiled once
        missed = _rules(environment)
        path = Path(folder) / "cluster.json"
        _write(path)
        size = path.stat().st_size / 1e6
        _say(f"{NODES} nodes, {PODS} pods, {PENDING} waiting, {size:.0f} MB of JSON")
        _say(f"  {'':20} {'seconds':>8} {'processor':>10} {'bar':>5} {'GiB':>6} {'bar':>5}")
        for words in (["inspect"], ["diagnose"], ["diagnose", "-o", "json"]):
            command = [sys.executable, "-c", _RUN, *words, "--from", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, check=False, env=environment)
            seconds, processor, gib, code = done.stderr.splitlines()[-1].split()
            _say(f"  {' '.join(words):20} {seconds:>8} {processor:>10} {_SECONDS:5.0f} {gib:>6} {_GIB:5.0f}")
            missed |= float(processor) > _SECONDS or float(gib) > _GIB or code not in ("0", "1")
    return missed


def _rules(environment: dict[str, str]) -> bool:
    """The best of a few loads; the first compiles."""
    times = []
    for _ in range(6):
        command = [sys.executable, "-c", _RULES]
        done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, check=True, env=environment)
        count, milliseconds = done.stdout.split()
        times.append(float(milliseconds))
    _say(f"loading {count} rules: {min(times):.0f} ms (bar {_RULES_MS:.0f})")
    return min(times) > _RULES_MS


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _write(path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write('{"apiVersion": "v1", "kind": "List", "items": [\n')
        for number, item in enumerate(objects()):
            file.write((",\n" if number else "") + json.dumps(item, indent=1))
        file.write("\n]}\n")


def objects(nodes: int = NODES, pods: int = PODS, pending: int = PENDING) -> Iterator[Raw]:
    """The whole cluster: nodes, the device plugin on those with GPUs, workloads, pods, GPU pods that wait, events."""
    listed = list(bigcluster.nodes(nodes))
    gpu_nodes = [node for node in listed if "nvidia.com/gpu" in node["status"]["capacity"]]
    yield from listed
    yield from bigcluster.workloads()
    yield from _deployments()
    plugins = list(_plugin(gpu_nodes))
    yield from plugins
    gpu_pods = list(_gpu_pods(gpu_nodes))
    yield from gpu_pods
    names = [node["metadata"]["name"] for node in listed]
    yield from bigcluster.running(pods - len(gpu_pods) - len(plugins) - pending, names)
    yield from _waiting(pending)


def _deployments() -> Iterator[Raw]:
    for number in range(200):
        name = f"app-{number:03d}"
        namespace = ("search", "ads", "rag", "batch", "platform")[number % 5]
        labels = {"app": name}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"d-{number}",
                "creationTimestamp": "2026-01-05T00:00:00Z",
            },
            "spec": {
                "replicas": 250,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {}},
            },
            "status": {"replicas": 250},
        }


def _plugin(nodes: list[Raw]) -> Iterator[Raw]:
    container = {"name": "nvidia-device-plugin-ctr", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
    spec = {
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
    }
    labels = {"app.kubernetes.io/name": "nvidia-device-plugin"}
    meta = {"name": "nvdp", "namespace": "nvidia", "uid": "ds-nvdp", "creationTimestamp": "2026-01-02T00:00:00Z"}
    yield {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": meta,
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        "status": {"desiredNumberScheduled": len(nodes), "currentNumberScheduled": len(nodes), "numberReady": len(nodes)},
    }
    draw = random.Random(5)
    for number, node in enumerate(nodes):
        made = bigcluster.pod(f"nvdp-{number:05d}", 0, draw, node=node["metadata"]["name"])
        made["metadata"].update(namespace="nvidia", labels=labels)
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "nvdp", "uid": "ds-nvdp", "controller": True}
        ]
        made["spec"]["containers"][0].update(container, resources={})
        made["spec"]["tolerations"] = spec["tolerations"]
        yield made


def _gpu_pods(nodes: list[Raw]) -> Iterator[Raw]:
    """Nine of ten cards of every node are held."""
    draw = random.Random(6)
    number = 0
    for node in nodes:
        cards = int(node["status"]["capacity"]["nvidia.com/gpu"])
        for _ in range(cards if draw.random() < 0.7 else cards - 1):
            made = bigcluster.pod(f"gpu-{number:06d}", number % 200, draw, node=node["metadata"]["name"])
            amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
            made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": {"nvidia.com/gpu": "1"}}
            made["spec"]["tolerations"].append({"key": "nvidia.com/gpu", "operator": "Exists"})
            yield made
            number += 1


def _waiting(count: int) -> Iterator[Raw]:
    """GPU pods that find no node: too many cards, a label of nobody, no toleration; of 40 workloads."""
    draw = random.Random(7)
    for number in range(count):
        workload = number % 40
        made = bigcluster.pod(f"waits-{number:05d}", workload, draw)
        cards = ("8", "8", "1", "1")[workload % 4]
        amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": cards}
        made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": {"nvidia.com/gpu": cards}}
        if workload % 4 != 3:
            made["spec"]["tolerations"].append({"key": "nvidia.com/gpu", "operator": "Exists"})
        if workload % 4 == 2:
            made["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H200"}
        when = f"2026-02-01T0{number % 10}:00:00Z"
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": when}
        made["status"] = {"phase": "Pending", "conditions": [condition]}
        yield made
        yield {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e-{number}", "namespace": made["metadata"]["namespace"], "uid": f"e-{number}"},
            "involvedObject": {"kind": "Pod", "namespace": made["metadata"]["namespace"], "name": made["metadata"]["name"]},
            "reason": "FailedScheduling",
            "message": f"0/{NODES} nodes are available: {NODES} Insufficient nvidia.com/gpu.",
            "type": "Warning",
            "lastTimestamp": when,
        }
