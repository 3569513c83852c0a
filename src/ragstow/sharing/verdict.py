"""What the device plugin and GPU feature discovery say to a configuration: accepted, or refused at a stage, in their words.

Whether a machine can do what the configuration asks is not decided here but in `devices` and `labels`
(k8s-device-plugin cmd/nvidia-device-plugin/main.go, cmd/gpu-feature-discovery/main.go).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragstow.sharing import commandline, configfile
from ragstow.sharing.commandline import Option
from ragstow.sharing.gojson import Refused, Source
from ragstow.sharing.pluginconfig import Config, without_custom_names

Stage = Literal["command-line", "load", "validate", "default-resources", "plugins", "manager", "labels"]

LIST_STRATEGIES = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")


@dataclass(frozen=True, slots=True)
class Failure:
    """Where and with which words a program ends; `source` says whose words the last part of the text is."""

    stage: Stage
    text: str
    source: Source = "plugin"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A configuration after flags and environment (`config`), what is left of it in force (`effective`), what is logged
    about the difference, and where reading it ends if it does."""

    config: Config | None
    effective: Config | None
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def accepted(self) -> bool:
        """Whether the program goes on to look at the machine."""
        return self.failure is None


def plugin(
    content: str | None,
    *,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] = (),
    nvml: bool = True,
) -> Verdict:
    """The device plugin's verdict.

    Args:
        content: text of the configuration file; None when no file is given.
        env: environment variables of the plugin's container.
        args: its arguments.
        nvml: whether the node has NVIDIA's management library (CDI asks for it).
    """
    loaded = _load(commandline.PLUGIN_OPTIONS, content, env or {}, args, "error starting plugins: ")
    if loaded.effective is None:
        return loaded
    wrong = _wrong_flag(loaded.effective, nvml)
    if wrong is None:
        return loaded
    failure = Failure("validate", f"error starting plugins: unable to validate flags: {wrong}")
    return Verdict(loaded.config, loaded.effective, loaded.warnings, failure)


def gfd(content: str | None, *, env: Mapping[str, str] | None = None, args: Sequence[str] = ()) -> Verdict:
    """GPU feature discovery's verdict on the same file: it checks less than the plugin."""
    loaded = _load(commandline.GFD_OPTIONS, content, env or {}, args, "")
    if loaded.config is None:
        return loaded
    discovery = loaded.config.flags.get("deviceDiscoveryStrategy")
    if discovery in ("auto", "nvml", "tegra", "vfio"):
        return loaded
    failure = Failure(
        "validate", f"unable to load config: unable to validate flags: invalid --device-discovery-strategy option {discovery}"
    )
    return Verdict(loaded.config, loaded.effective, loaded.warnings, failure)


def daemon(content: str | None, *, env: Mapping[str, str] | None = None) -> Verdict:
    """The MPS control daemon's reading of the same file; it checks no flags."""
    return _load(commandline.DAEMON_OPTIONS, content, env or {}, (), "error starting plugins: ")


def _load(options: Sequence[Option], content: str | None, env: Mapping[str, str], args: Sequence[str], prefix: str) -> Verdict:
    try:
        found = commandline.given(options, env, args)
    except Refused as error:
        return Verdict(None, None, (), Failure("command-line", error.text, error.source))
    try:
        file = configfile.read(content) if content is not None else Config()
    except Refused as error:
        text = (
            f"{prefix}unable to load config: unable to finalize config: unable to parse config file: "
            f"error parsing config file: {error.text}"
        )
        return Verdict(None, None, (), Failure("load", text, error.source))
    config = commandline.lay_over(file, options, found)
    effective, warnings = without_custom_names(config)
    return Verdict(config, effective, warnings)


def _wrong_flag(config: Config, nvml: bool) -> str | None:
    lists = config.device_list_strategies
    for strategy in lists:
        if strategy not in LIST_STRATEGIES:
            return f"invalid --device-list-strategy option: invalid strategy: {strategy}"
    if not nvml and any(strategy.startswith("cdi-") for strategy in lists):
        return "CDI --device-list-strategy options are only supported on NVML-based systems"
    ids = config.plugin.get("deviceIDStrategy")
    if ids not in ("uuid", "index"):
        return f"invalid --device-id-strategy option: {ids}"
    policy = config.plugin.get("sharedDevicesAllocationPolicy")
    if policy not in ("distributed", "packed"):
        return f"invalid --shared-devices-allocation-policy option: {policy}"
    if config.sharing.strategy == "mps":
        if config.mig_strategy == "mixed":
            return "using --mig-strategy=mixed is not supported with MPS"
        if not config.flags.get("mpsRoot"):
            return "using MPS requires --mps-root to be specified"
    discovery = config.flags.get("deviceDiscoveryStrategy")
    if discovery not in ("auto", "nvml", "tegra"):
        return f"invalid --device-discovery-strategy option {discovery}"
    if config.mig_strategy not in ("none", "single", "mixed"):
        return f"unknown MIG strategy: {config.mig_strategy}"
    channels = config.imex_channel_ids
    if channels not in ((), (0,)):
        shown = " ".join(map(str, channels))
        return f"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [{shown}]"
    return None
