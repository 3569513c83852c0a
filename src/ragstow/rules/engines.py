"""Reads how an inference engine was started from a container's command, arguments and environment. Judges nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

GPU_DOMAIN = "nvidia.com/"
TENSOR_PARALLEL = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp", "--num-shard", "--tensor_parallel_size")
PIPELINE_PARALLEL = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pipeline_parallel_size")
DATA_PARALLEL = ("--data-parallel-size-local", "--data-parallel-size", "-dp", "--dp-size")
PROCESSES = ("--nproc_per_node", "--nproc-per-node", "--num_processes", "--num-processes")
"""Of torchrun and accelerate: one process for each GPU."""
PARALLEL_VARIABLES = ("NUM_SHARD", "TENSOR_PARALLEL_SIZE", "NIM_TENSOR_PARALLEL_SIZE")
"""Of TGI, of entry points of vLLM's images, of NIM; a flag wins over them."""
MEMORY_FRACTION = ("--gpu-memory-utilization", "--gpu_memory_utilization", "--mem-fraction-static", "--cuda-memory-fraction")
KV_BYTES = ("--kv-cache-memory-bytes", "--kv-cache-memory")


def words(container: Mapping[str, Any]) -> list[str]:
    """Command and arguments as single words; a `sh -c` script is split as a shell would."""
    listed: list[str] = []
    for key in ("command", "args"):
        value = container.get(key)
        for item in value if isinstance(value, Sequence) and not isinstance(value, str) else ():
            text = str(item)
            if " " in text.strip() or "\n" in text:
                try:
                    listed.extend(shlex.split(text, comments=False))
                except ValueError:
                    listed.extend(text.split())
            else:
                listed.append(text)
    return listed


def flag(container: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The value of the last flag with one of these names, given as `--flag value` or `--flag=value`; None where absent."""
    wanted = tuple(names)
    found: str | None = None
    listed = words(container)
    for index, word in enumerate(listed):
        name, equals, value = word.partition("=")
        if name in wanted:
            if equals:
                found = value
            elif index + 1 < len(listed):
                found = listed[index + 1]
    return found


def number(container: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """A flag's value as a whole number; None where it is absent or no number."""
    value = flag(container, names)
    return int(value) if value is not None and value.isdecimal() else None


def parallel(container: Mapping[str, Any]) -> int:
    """Cards that the engine wants in this container: tensor x pipeline x local data parallel, 1 where none is said."""
    sizes = (number(container, names) for names in (TENSOR_PARALLEL, PIPELINE_PARALLEL, DATA_PARALLEL, PROCESSES))
    product = 1
    for size in sizes:
        product *= size or 1
    if product > 1:
        return product
    variables = environment(container)
    told = (variables[name] for name in PARALLEL_VARIABLES if variables.get(name, "").isdecimal())
    return max(1, int(next(told, "1")))


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables with a literal value."""
    listed = container.get("env")
    return {
        str(item.get("name")): str(item.get("value") or "")
        for item in (listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ())
        if isinstance(item, Mapping) and "valueFrom" not in item
    }


def limits(container: Mapping[str, Any], key: str = "limits") -> dict[str, Any]:
    """resources.limits (or requests) as written."""
    resources = container.get("resources")
    value = resources.get(key) if isinstance(resources, Mapping) else None
    return dict(value) if isinstance(value, Mapping) else {}


def gpu_limits(container: Mapping[str, Any]) -> dict[str, int]:
    """GPU resources that hand out devices (cards, shares, MIG slices) and how many the container is limited to."""
    found: dict[str, int] = {}
    for name, amount in limits(container).items():
        if is_device(str(name)):
            text = str(amount)
            found[str(name)] = int(text) if text.isdecimal() else 0
    return found


def is_device(resource: str) -> bool:
    """Whether a resource name stands for devices of NVIDIA: nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-…"""
    tail = resource.removeprefix(GPU_DOMAIN)
    return tail != resource and (tail == "gpu" or tail.startswith(("gpu.", "mig-")) or tail == "pgpu")


def has_claims(container: Mapping[str, Any]) -> bool:
    """Whether the container uses a resource claim (DRA)."""
    resources = container.get("resources")
    return isinstance(resources, Mapping) and bool(resources.get("claims"))
