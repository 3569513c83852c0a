"""What the device plugin answers when the kubelet hands devices to a container (internal/plugin/server.go, mps.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragstow.errors import Reason
from ragstow.sharing.devices import Device
from ragstow.sharing.pluginconfig import Config

_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_MOUNTED_LIST = "/var/run/nvidia-container-devices"
_CDI_GPU = "k8s.device-plugin.nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Response:
    """Environment variables, mounts (host path, container path) and CDI names that a container gets."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()
    cdi_devices: tuple[str, ...] = ()


def allocate(config: Config, resource: str, devices: Mapping[str, Device], ids: Sequence[str]) -> Response | Reason:
    """The answer to one container's request, or the refusal that lets the kubelet reject the pod.

    Args:
        config: the configuration in force.
        resource: the resource's name.
        devices: all devices of that resource.
        ids: the ids that the kubelet chose.
    """
    wrong = _invalid(config, devices, ids)
    if wrong is not None:
        return Reason("allocate-invalid", f'invalid allocation request for "{resource}": invalid request: {wrong}')
    lists = config.device_list_strategies
    chosen = _unique(config, devices, ids)
    env: dict[str, str] = {}
    mounts: list[tuple[str, str]] = []
    cdi = tuple(f"{_CDI_GPU}={item}" for item in chosen) if any(name.startswith("cdi-") for name in lists) else ()
    if config.sharing.strategy == "mps":
        root = str(config.flags.get("mpsRoot") or "").rstrip("/")
        pipe = f"/mps/{resource}/pipe"
        env["CUDA_MPS_PIPE_DIRECTORY"] = pipe
        mounts += [(f"{root}/{resource}/pipe", pipe), (f"{root}/shm", "/dev/shm")]
    for flag, name in (("gdrcopyEnabled", "NVIDIA_GDRCOPY"), ("gdsEnabled", "NVIDIA_GDS"), ("mofedEnabled", "NVIDIA_MOFED")):
        if config.flags.get(flag) is True:
            env[name] = "enabled"
    if all(name.startswith("cdi-") for name in lists):
        return Response(env, tuple(mounts), cdi)
    if "envvar" in lists:
        env[_VISIBLE] = ",".join(chosen)
    if "volume-mounts" in lists:
        env[_VISIBLE] = _MOUNTED_LIST
        mounts += [("/dev/null", f"{_MOUNTED_LIST}/{item}") for item in chosen]
    return Response(env, tuple(mounts), cdi)


def _invalid(config: Config, devices: Mapping[str, Device], ids: Sequence[str]) -> str | None:
    for item in ids:
        if item not in devices:
            return f"unknown device: {item}"
    shares = any("::" in item for item in ids)
    if shares and len(ids) > 1 and config.sharing.strategy != "none" and config.sharing.active.fail_requests_greater_than_one:
        return f"maximum request size for shared resources is 1; found {len(ids)}"
    return None


def _unique(config: Config, devices: Mapping[str, Device], ids: Sequence[str]) -> tuple[str, ...]:
    by_index = config.plugin.get("deviceIDStrategy") == "index"
    return tuple(dict.fromkeys(devices[item].index if by_index else devices[item].uuid for item in ids))
