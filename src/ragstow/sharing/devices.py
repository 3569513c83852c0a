"""Which extended resources the device plugin advertises on a machine, with which devices; or with which words it ends.

k8s-device-plugin internal/rm (device_map.go, rm.go, devices.go), internal/plugin/factory.go. Knows no Kubernetes node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ragstow.sharing.machine import Card, Instance, Machine, Platform
from ragstow.sharing.pluginconfig import FULL_GPU, Config, SharedResources
from ragstow.sharing.verdict import Failure, Verdict


class Ended(Exception):
    """The program ends; the text is its own."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as it is handed to the kubelet: `id` (with "::n" where it is a share), the id of what it stands for, its index
    ("2", "0:3" for a MIG device, "all", "tegra"'s "0"), memory in bytes (0: unknown), compute capability, and the factor."""

    id: str
    uuid: str
    index: str
    memory_bytes: int
    compute_capability: str
    replicas: int = 0

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG device."""
        return ":" in self.index


class Served(Mapping[str, Device]):
    """The devices of one resource by id, kept as devices and factors: a million shares take no more room than one.

    `groups` maps the id of a card or MIG device to it and the factors by which it is replicated (none: it is handed out as it
    is). Of several factors the largest decides how many shares there are; a share belongs to the last factor that reaches it.
    """

    def __init__(self, groups: Mapping[str, tuple[Device, tuple[int, ...]]]) -> None:
        self.groups = dict(groups)

    def __getitem__(self, item: str) -> Device:
        uuid, shares, number = item.partition("::")
        device, factors = self.groups[uuid]
        if not factors and not shares:
            return device
        if not factors or not number.isdigit() or str(int(number)) != number or int(number) >= max(factors):
            raise KeyError(item)
        return _share(device, int(number), next(factor for factor in reversed(factors) if int(number) < factor))

    def __iter__(self) -> Iterator[str]:
        for uuid, (_, factors) in self.groups.items():
            if not factors:
                yield uuid
            else:
                yield from (f"{uuid}::{number}" for number in range(max(factors)))

    def __len__(self) -> int:
        return sum(max(factors, default=1) for _, factors in self.groups.values())


def _share(device: Device, number: int, factor: int) -> Device:
    return Device(f"{device.uuid}::{number}", device.uuid, device.index, device.memory_bytes, device.compute_capability, factor)


@dataclass(frozen=True, slots=True)
class Offer:
    """What the plugin serves: resource name -> device id -> device; and what it logs."""

    resources: Mapping[str, Served] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    failure: Failure | None = None

    def counts(self) -> dict[str, int]:
        """Resource name -> number of devices, as the node will advertise it."""
        return {name: len(devices) for name, devices in self.resources.items()}


def offer(verdict: Verdict, machine: Machine) -> Offer:
    """What the device plugin advertises on a machine.

    Args:
        verdict: its verdict on the configuration (`verdict.plugin`).
        machine: the node.
    """
    log = list(verdict.warnings)
    config = verdict.effective
    if verdict.failure is not None or config is None:
        return Offer({}, tuple(log), verdict.failure)
    try:
        patterns = mig_resources(config, machine, log)
    except Ended as error:
        text = f"error starting plugins: unable to add default resources to config: {error}"
        return Offer({}, tuple(log), Failure("default-resources", text))
    try:
        resources = _serve(config, machine, patterns, log)
        if config.sharing.strategy == "mps" and any(
            device.is_mig for served in resources.values() for device, _ in served.groups.values()
        ):
            raise Ended("unable to create plugins: failed to create plugin: sharing using MPS is not supported for MIG devices")
    except Ended as error:
        return Offer({}, tuple(log), Failure("plugins", f"error starting plugins: error getting plugins: {error}"))
    return Offer({name: resources[name] for name in sorted(resources) if resources[name]}, tuple(log))


def mig_resources(config: Config, machine: Machine, log: list[str]) -> Mapping[str, str]:
    """MIG profile name -> resource name, as far as the plugin makes them at its start (AddDefaultResourcesToConfig).

    "*" matches every profile.

    Raises:
        Ended: the driver lists a profile that has no name.
    """
    if config.mig_strategy == "single":
        return {"*": FULL_GPU}
    if config.mig_strategy != "mixed":
        return {}
    if not machine.nvml:
        log.append('W mig-strategy="mixed" is only supported with NVML')
        return {}
    names: dict[str, str] = {}
    for _, card in machine.served:
        for profile in card.profiles:
            name = card.name_of(profile)
            if isinstance(name, str):
                raise Ended(
                    f"error visiting devices: error visiting device: error visiting device: error creating MIG profile: {name}"
                )
            names.setdefault(str(name), f"nvidia.com/mig-{name.label}")
    return names


def _serve(config: Config, machine: Machine, patterns: Mapping[str, str], log: list[str]) -> dict[str, Served]:
    for channel in config.imex_channel_ids:
        if channel in machine.imex_channels:
            continue
        if config.imex_required:
            raise Ended(f"error querying IMEX channels: requested IMEX channel channel{channel} does not exist")
        log.append(f"W Ignoring requested IMEX channel channel{channel} (<nil>)")
    failed = "unable to create plugins: failed to construct resource managers: "
    if discovery(config, machine, log) == "tegra":
        devices = {FULL_GPU: {"tegra": Device("tegra", "tegra", "0", 0, "0.0")}}
        return replicate(config.sharing.active, devices)
    if not machine.nvml:
        log += [
            "E Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND.",
            "E If this is a GPU node, did you set the docker default runtime to `nvidia`?",
            (
                "E If this is not a GPU node, you should set up a toleration or nodeSelector "
                "to only deploy this plugin on GPU nodes"
            ),
        ]
        if config.fail_on_init_error:
            raise Ended(f"{failed}nvml init failed: ERROR_LIBRARY_NOT_FOUND")
        log.append("W nvml init failed: ERROR_LIBRARY_NOT_FOUND")
        return {}
    try:
        return device_map(config, machine, patterns, log)
    except Ended as error:
        raise Ended(f"{failed}{error}") from None


def discovery(config: Config, machine: Machine, log: list[str]) -> str:
    """ "nvml" or "tegra": the wish of the configuration, else what the machine is."""
    wished = config.flags.get("deviceDiscoveryStrategy")
    if isinstance(wished, str) and wished not in ("", "auto"):
        return wished
    if machine.platform == "tegra":
        return "tegra"
    if machine.platform == "nvml" and not machine.nvml:
        log.append("W Unsupported platform detected; defaulting to nvml")
    return "nvml"


def device_map(config: Config, machine: Machine, patterns: Mapping[str, str], log: list[str]) -> dict[str, Served]:
    """Resource name -> device id -> device on a machine with NVML.

    Raises:
        Ended: the cards are cut in a way that the MIG strategy does not allow.
    """
    try:
        found = _unshared(config, machine, patterns, log)
    except Ended as error:
        raise Ended(f"error building device map: error building device map from config.resources: {error}") from None
    return replicate(config.sharing.active, found)


def _unshared(config: Config, machine: Machine, patterns: Mapping[str, str], log: list[str]) -> dict[str, dict[str, Device]]:
    strategy = config.mig_strategy
    found: dict[str, dict[str, Device]] = {}
    for index, card in machine.served:
        if card.mig_enabled and strategy != "none":
            continue
        device = _whole(index, card, machine.platform, log)
        found.setdefault(FULL_GPU, {})[device.id] = device
    if strategy == "none":
        return found
    cut = _mig(machine, patterns)
    _check_mig(machine, strategy == "single", log)
    if strategy == "single" and found and cut:
        raise Ended("all devices on the node must be configured with the same migEnabled value")
    for name, devices in cut.items():
        found.setdefault(name, {}).update(devices)
    return found


def _whole(index: int, card: Card, platform: Platform, log: list[str]) -> Device:
    if platform == "wsl":
        return Device("all", "all", "all", 0, "")
    if card.memory_mib is None:
        warning = "W Ignoring error getting device memory: ERROR_NOT_SUPPORTED"
        if warning not in log:
            log.append(warning)
    capability = "{}.{}".format(*card.compute_capability)
    return Device(card.uuid, card.uuid, str(index), (card.memory_mib or 0) * 2**20, capability)


def _mig(machine: Machine, patterns: Mapping[str, str]) -> dict[str, dict[str, Device]]:
    found: dict[str, dict[str, Device]] = {}
    for index, card in machine.served:
        for number, instance in enumerate(card.instances or ()):
            name = str(card.instance_name(instance))
            resource = patterns.get("*") or patterns.get(name)
            if resource is None:
                raise Ended(
                    _visiting("error building MIG device map: ", f"MIG profile '{name}' does not match any resource patterns")
                )
            found.setdefault(resource, {})[instance.uuid] = _slice(index, number, card, instance)
    return found


def _slice(index: int, number: int, card: Card, instance: Instance) -> Device:
    capability = "{}.{}".format(*card.compute_capability)
    return Device(instance.uuid, instance.uuid, f"{index}:{number}", instance.profile.memory_mib * 2**20, capability)


def _visiting(prefix: str, text: str) -> str:
    return (
        f"{prefix}error visiting devices: error visiting device: error visiting device: "
        f"error visiting MIG device: error visiting MIG device: {text}"
    )


def _check_mig(machine: Machine, uniform: bool, log: list[str]) -> None:
    for index, card in machine.served:
        if card.instances == ():
            text = f"device {index} has no MIG devices configured"
            if uniform:
                raise Ended(
                    "invalid MIG configuration: at least one device with migEnabled=true was not configured correctly: "
                    f"error visiting device: {text}"
                )
            log.append(f"W {text}")
    if not uniform:
        return
    kinds = {instance.attributes for _, card in machine.served for instance in card.instances or ()}
    if len(kinds) > 1:
        raise Ended(_visiting("invalid MIG configuration: ", "more than one MIG device type present on node"))


def replicate(shared: SharedResources, found: Mapping[str, Mapping[str, Device]]) -> dict[str, Served]:
    """Every device of a shared resource `replicas` times, under its new name; names that the machine lacks are passed over.

    A resource listed twice keeps the larger number of ids (updateDeviceMapWithReplicas).
    """
    listed = {resource.name for resource in shared.resources}
    made: dict[str, dict[str, tuple[Device, tuple[int, ...]]]] = {
        name: {uuid: (device, ()) for uuid, device in devices.items()} for name, devices in found.items() if name not in listed
    }
    for resource in shared.resources:
        for uuid, device in found.get(resource.name, {}).items():
            target = made.setdefault(resource.rename or resource.name, {})
            target[uuid] = (device, (*target.get(uuid, (device, ()))[1], resource.replicas))
    return {name: Served(groups) for name, groups in made.items()}
