"""DynamicResources on 500 nodes of 8 devices: pods per second, all nodes looked at for each.

Three loads: whole devices that must share a PCIe root or have a certain size, partitions of cards (counters) with a second
choice, and extended resources. Engine time only, in seconds of CPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from ragstow.cluster.build import build
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Engine, Options

Raw = dict[str, Any]
_RELEASE = Release.parse("1.37.2")
_DRIVER = "gpu.example.com"
_NODES, _DEVICES = 500, 8
_BAR = 60.0
"""Seconds for each load."""


def run() -> bool:
    """Measure, print, and say whether a bar was missed."""
    sys.stdout.write(f"{'500 nodes x 8 devices':44} {'pods':>6} {'seconds':>8} {'pods/s':>8} {'placed':>7}\n")
    missed = False
    for what, objects, pods in (
        ("whole devices, some with constraints", [*_whole()], [*_claimed(300, _wanted_whole)]),
        ("partitions of cards, second choices", [*_partitions()], [*_claimed(300, _wanted_partitions)]),
        ("extended resources", [*_whole()], [*_extended(300)]),
    ):
        cluster = build([*_nodes(), *_classes(), *objects, *pods])
        arrivals = [pod for pod in cluster.pods if pod.node is None]
        policy = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
        }
        started = time.process_time()
        engine = Engine(cluster, arrivals, Options(_RELEASE, order="list", preemption=False, policy=policy))
        placed = sum(1 for attempt in engine.run() if attempt.node is not None)
        seconds = time.process_time() - started
        sys.stdout.write(f"{what:44} {len(arrivals):6d} {seconds:8.2f} {len(arrivals) / seconds:8.1f} {placed:7d}\n")
        missed |= seconds > _BAR
    return missed


def _nodes() -> Iterator[Raw]:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    for number in range(_NODES):
        name = f"n{number:03d}"
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": room, "capacity": room}}


def _classes() -> Iterator[Raw]:
    rule = [{"cel": {"expression": f"device.driver == '{_DRIVER}'"}}]
    for name, more in (("gpu", {}), ("backed", {"extendedResourceName": "example.com/gpu"})):
        spec = {"selectors": rule, **more}
        yield {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _slice(node: str, name: str, count: int, **spec: Any) -> Raw:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    body = {"driver": _DRIVER, "nodeName": node, "pool": pool, **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node}-{name}"}, "spec": body}


def _whole() -> Iterator[Raw]:
    for number in range(_NODES):
        memory = "80Gi" if number % 5 else "40Gi"
        devices = [
            {
                "name": f"gpu-{index}",
                "attributes": {"root": {"string": f"pci{index // 4}"}, "index": {"int": index}},
                "capacity": {"memory": {"value": memory}},
            }
            for index in range(_DEVICES)
        ]
        yield _slice(f"n{number:03d}", "gpus", 1, devices=devices)


def _partitions() -> Iterator[Raw]:
    """Two cards a node, each a whole device or two halves or quarters: 8 devices or more share the counters."""
    for number in range(_NODES):
        node, devices = f"n{number:03d}", []
        for card in range(2):
            for size, count in (("8", 1), ("4", 2), ("2", 4)):
                for part in range(count):
                    units = [{"counterSet": f"card-{card}", "counters": {"units": {"value": size}}}]
                    attributes = {"size": {"int": int(size)}}
                    name = f"card-{card}-{size}-{part}"
                    devices.append({"name": name, "attributes": attributes, "consumesCounters": units})
        sets = [{"name": f"card-{card}", "counters": {"units": {"value": "8"}}} for card in range(2)]
        yield _slice(node, "parts", 2, devices=devices)
        yield _slice(node, "sets", 2, sharedCounters=sets)


def _wanted_whole(number: int) -> Raw:
    large = [{"cel": {"expression": f"device.capacity['{_DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"}}]
    count = (1, 2, 4, 8)[number % 4]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count, "selectors": large}}
    constraints = [{"matchAttribute": f"{_DRIVER}/root"}] if count in {2, 4} else []
    return {"requests": [request], "constraints": constraints}


def _wanted_partitions(number: int) -> Raw:
    def of(size: int) -> list[Raw]:
        return [{"cel": {"expression": f"device.attributes['{_DRIVER}'].size == {size}"}}]

    first, second = (8, 4) if number % 2 else (4, 2)
    choices = [{"name": name, "deviceClassName": "gpu", "selectors": of(size)} for name, size in (("a", first), ("b", second))]
    return {"requests": [{"name": "r", "firstAvailable": choices}, {"name": "s", "firstAvailable": choices}]}


def _claimed(count: int, wanted: Any) -> Iterator[Raw]:
    for number in range(count):
        name = f"p{number:03d}"
        meta = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
        spec = {"devices": wanted(number)}
        yield {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec}
        yield _pod(name, {}, [{"name": "c", "resourceClaimName": name}])


def _extended(count: int) -> Iterator[Raw]:
    for number in range(count):
        yield _pod(f"p{number:03d}", {"example.com/gpu": str((1, 2, 4, 8)[number % 4])}, [])


def _pod(name: str, amounts: Raw, claims: list[Raw]) -> Raw:
    resources = {"requests": {"cpu": "1", "memory": "1Gi", **amounts}, "limits": amounts}
    container = {"name": "c", "image": "i", "resources": resources}
    meta = {"name": name, "namespace": "default", "uid": f"pod-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], "resourceClaims": claims}}
