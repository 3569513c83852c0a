"""The device plugin's configuration as a value: what a config file, environment and flags amount to.

Reading one is `configfile`, flags and environment are `commandline`, judging one is `verdict`. Names and defaults follow the
plugin's own types (k8s-device-plugin api/config/v1); None is "not set".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

PREFIX = "nvidia.com"
FULL_GPU = "nvidia.com/gpu"
SHARED_SUFFIX = ".shared"
MAX_NAME_LENGTH = 63

Strategy = Literal["none", "time-slicing", "mps"]


@dataclass(frozen=True, slots=True)
class Devices:
    """Which devices of a resource are to be shared: all, a count, or a list. The plugin ignores everything but all."""

    all: bool = True
    count: int = 0
    listed: tuple[str, ...] | None = None

    def to_json(self) -> Any:
        """As the plugin prints it."""
        if self.all:
            return "all"
        return self.count if self.count > 0 else list(self.listed or ())


@dataclass(frozen=True, slots=True)
class SharedResource:
    """A resource that is advertised `replicas` times per device, under `rename` where that is set."""

    name: str
    replicas: int
    rename: str | None = None
    devices: Devices = Devices()

    def to_json(self) -> dict[str, Any]:
        """As the plugin prints it."""
        made: dict[str, Any] = {"name": self.name, "devices": self.devices.to_json(), "replicas": self.replicas}
        if self.rename:
            made["rename"] = self.rename
        return made


@dataclass(frozen=True, slots=True)
class SharedResources:
    """sharing.timeSlicing or sharing.mps."""

    rename_by_default: bool = False
    fail_requests_greater_than_one: bool | None = None
    resources: tuple[SharedResource, ...] = ()

    @property
    def replicated(self) -> bool:
        """Whether anything is shared at all."""
        return any(resource.replicas > 1 for resource in self.resources)

    def to_json(self) -> dict[str, Any]:
        """As the plugin prints it."""
        made: dict[str, Any] = {}
        if self.rename_by_default:
            made["renameByDefault"] = True
        if self.fail_requests_greater_than_one is not None:
            made["failRequestsGreaterThanOne"] = self.fail_requests_greater_than_one
        if self.resources:
            made["resources"] = [resource.to_json() for resource in self.resources]
        return made


@dataclass(frozen=True, slots=True)
class Sharing:
    """Both ways of sharing; where mps is set it wins, the other must still be valid."""

    time_slicing: SharedResources = SharedResources()
    mps: SharedResources | None = None

    @property
    def strategy(self) -> Strategy:
        """The way that is in force."""
        if self.mps is not None and self.mps.replicated:
            return "mps"
        return "time-slicing" if self.time_slicing.replicated else "none"

    @property
    def active(self) -> SharedResources:
        """The resources of the way that is in force."""
        return self.mps if self.mps is not None else self.time_slicing

    def to_json(self) -> dict[str, Any]:
        """As the plugin prints it."""
        made: dict[str, Any] = {"timeSlicing": self.time_slicing.to_json()}
        if self.mps is not None:
            made["mps"] = self.mps.to_json()
        return made


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rule of resources.gpus or resources.mig: devices whose name matches get this resource name."""

    pattern: str
    name: str

    def to_json(self) -> dict[str, Any]:
        """As the plugin prints it."""
        return {"pattern": self.pattern, "name": self.name}


@dataclass(frozen=True, slots=True)
class Resources:
    """resources of the file: read, checked, and then ignored by the plugin. None is null."""

    gpus: tuple[Pattern, ...] | None = None
    mig: tuple[Pattern, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """As the plugin prints it."""
        made: dict[str, Any] = {"gpus": None if self.gpus is None else [item.to_json() for item in self.gpus]}
        if self.mig:
            made["mig"] = [item.to_json() for item in self.mig]
        return made


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration. `flags` holds flags.* by their JSON names, `plugin` flags.plugin.*, `gfd` flags.gfd.* (with
    sleepInterval in nanoseconds); what was never set is absent or None."""

    version: str = "v1"
    flags: Mapping[str, Any] = field(default_factory=dict)
    plugin: Mapping[str, Any] = field(default_factory=dict)
    gfd: Mapping[str, Any] = field(default_factory=dict)
    resources: Resources = Resources()
    sharing: Sharing = Sharing()
    imex_channel_ids: tuple[int, ...] = ()
    imex_required: bool = False

    @property
    def mig_strategy(self) -> str:
        """flags.migStrategy after defaults."""
        value = self.flags.get("migStrategy")
        return value if isinstance(value, str) else "none"

    @property
    def fail_on_init_error(self) -> bool:
        """flags.failOnInitError after defaults."""
        return self.flags.get("failOnInitError") is not False

    @property
    def device_list_strategies(self) -> tuple[str, ...]:
        """flags.plugin.deviceListStrategy after defaults."""
        value = self.plugin.get("deviceListStrategy")
        return tuple(value) if value is not None else ("envvar",)

    def to_json(self) -> dict[str, Any]:
        """As the plugin prints it at its start (GFD's own flags left out, as the plugin drops them)."""
        flags: dict[str, Any] = {name: self.flags.get(name) for name in _ALWAYS}
        flags.update({name: self.flags[name] for name in _WHERE_SET if self.flags.get(name) is not None})
        flags["plugin"] = {
            name: list(value) if isinstance(value := self.plugin.get(name), tuple) else value for name in _PLUGIN
        }
        imex: dict[str, Any] = {}
        if self.imex_channel_ids:
            imex["channelIDs"] = list(self.imex_channel_ids)
        if self.imex_required:
            imex["required"] = True
        return {
            "version": self.version,
            "flags": flags,
            "resources": self.resources.to_json(),
            "sharing": self.sharing.to_json(),
            "imex": imex,
        }


_ALWAYS = (
    "migStrategy",
    "failOnInitError",
    "gdrcopyEnabled",
    "gdsEnabled",
    "mofedEnabled",
    "useNodeFeatureAPI",
    "deviceDiscoveryStrategy",
)
_WHERE_SET = ("mpsRoot", "nvidiaDriverRoot", "nvidiaDevRoot")
_PLUGIN = (
    "passDeviceSpecs",
    "deviceListStrategy",
    "deviceIDStrategy",
    "cdiAnnotationPrefix",
    "nvidiaCTKPath",
    "containerDriverRoot",
    "sharedDevicesAllocationPolicy",
)


def without_custom_names(config: Config) -> tuple[Config, tuple[str, ...]]:
    """What is left of a configuration where the plugin ignores things, and the warnings it logs about that.

    Ignored are `resources`, every rename that is not the default one, and every choice of devices
    (DisableResourceNamingInConfig in api/config/v1/config.go).
    """
    warnings: list[str] = []
    if config.resources.gpus or config.resources.mig:
        warnings.append("W Customizing the 'resources' field is not yet supported in the config. Ignoring...")
    sliced, said = _plain(config.sharing.time_slicing, "timeSlicing")
    warnings += said
    mps = config.sharing.mps
    if mps is not None:
        mps, said = _plain(mps, "mps")
        warnings += said
    return replace(config, resources=Resources(), sharing=Sharing(sliced, mps)), tuple(warnings)


def _plain(shared: SharedResources, name: str) -> tuple[SharedResources, list[str]]:
    renames = devices = False
    made: list[SharedResource] = []
    for resource in shared.resources:
        wanted = resource.name + SHARED_SUFFIX if shared.rename_by_default else None
        renames |= (resource.rename or None) != wanted
        devices |= not resource.devices.all
        made.append(SharedResource(resource.name, resource.replicas, wanted))
    said = []
    if renames:
        said.append(f"W Setting the 'rename' field in sharing.{name}.resources is not yet supported in the config. Ignoring...")
    if devices:
        said.append(
            f"W Customizing the 'devices' field in sharing.{name}.resources is not yet supported in the config. Ignoring..."
        )
    return replace(shared, resources=tuple(made)), said
