"""Environment variables and flags of the device plugin and of GPU feature discovery, laid over a configuration file.

Precedence: flag, environment variable, file (k8s-device-plugin cmd/*/main.go; values are read as urfave/cli v2 reads them).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ragstow.sharing import goduration
from ragstow.sharing.gojson import Refused
from ragstow.sharing.pluginconfig import Config, SharedResources, Sharing

Type = Literal["text", "bool", "texts", "numbers", "duration"]
Where = Literal["flags", "plugin", "gfd", "imex", "none"]


@dataclass(frozen=True, slots=True)
class Option:
    """A flag: its names, type, environment variables, default, and the field of the configuration it sets."""

    names: tuple[str, ...]
    type: Type
    env: tuple[str, ...]
    default: Any = None
    where: Where = "none"
    field: str = ""


def _env(name: str) -> tuple[str, ...]:
    return (name.upper().replace("-", "_"),)


def _option(name: str, type_: Type, default: Any, where: Where, field: str, *aliases: str, env: tuple[str, ...] = ()) -> Option:
    return Option((name, *aliases), type_, env or _env(name), default, where, field)


_DISCOVERY = _option("device-discovery-strategy", "text", "auto", "flags", "deviceDiscoveryStrategy")
_DRIVER_CONTAINER = _option(
    "driver-root-ctr-path",
    "text",
    "/driver-root",
    "plugin",
    "containerDriverRoot",
    "container-driver-root",
    env=("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
)

PLUGIN_OPTIONS = (
    _option("mig-strategy", "text", "none", "flags", "migStrategy"),
    _option("fail-on-init-error", "bool", True, "flags", "failOnInitError"),
    _option("driver-root", "text", "/", "flags", "nvidiaDriverRoot", "nvidia-driver-root", env=("NVIDIA_DRIVER_ROOT",)),
    _option("dev-root", "text", "", "flags", "nvidiaDevRoot", "nvidia-dev-root", env=("NVIDIA_DEV_ROOT",)),
    _option("pass-device-specs", "bool", False, "plugin", "passDeviceSpecs"),
    _option("device-list-strategy", "texts", ("envvar",), "plugin", "deviceListStrategy"),
    _option("device-id-strategy", "text", "uuid", "plugin", "deviceIDStrategy"),
    _option("gdrcopy-enabled", "bool", False, "flags", "gdrcopyEnabled"),
    _option("gds-enabled", "bool", False, "flags", "gdsEnabled"),
    _option("mofed-enabled", "bool", False, "flags", "mofedEnabled"),
    _option("cdi-annotation-prefix", "text", "cdi.k8s.io/", "plugin", "cdiAnnotationPrefix"),
    _option(
        "nvidia-cdi-hook-path",
        "text",
        "/usr/bin/nvidia-ctk",
        "plugin",
        "nvidiaCTKPath",
        "nvidia-ctk-path",
        env=("NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"),
    ),
    _DRIVER_CONTAINER,
    _option("mps-root", "text", "", "flags", "mpsRoot"),
    _option("shared-devices-allocation-policy", "text", "distributed", "plugin", "sharedDevicesAllocationPolicy"),
    _DISCOVERY,
    _option("imex-channel-ids", "numbers", (), "imex", "channelIDs"),
    _option("imex-required", "bool", False, "imex", "required"),
    _option("kubelet-socket", "text", "", "none", ""),
    _option("config-file", "text", "", "none", ""),
    _option("cdi-feature-flags", "texts", (), "none", ""),
    _option("cdi-disable-hooks", "texts", (), "none", ""),
)

GFD_OPTIONS = (
    _option("mig-strategy", "text", "none", "flags", "migStrategy", env=("GFD_MIG_STRATEGY", "MIG_STRATEGY")),
    _option(
        "fail-on-init-error", "bool", True, "flags", "failOnInitError", env=("GFD_FAIL_ON_INIT_ERROR", "FAIL_ON_INIT_ERROR")
    ),
    _option("oneshot", "bool", False, "gfd", "oneshot", env=("GFD_ONESHOT",)),
    _option("no-timestamp", "bool", False, "gfd", "noTimestamp", env=("GFD_NO_TIMESTAMP",)),
    _option("sleep-interval", "duration", 60 * 10**9, "gfd", "sleepInterval", env=("GFD_SLEEP_INTERVAL",)),
    _option(
        "output-file",
        "text",
        "/etc/kubernetes/node-feature-discovery/features.d/gfd",
        "gfd",
        "outputFile",
        "output",
        "o",
        env=("GFD_OUTPUT_FILE",),
    ),
    _option(
        "machine-type-file",
        "text",
        "/sys/class/dmi/id/product_name",
        "gfd",
        "machineTypeFile",
        env=("GFD_MACHINE_TYPE_FILE",),
    ),
    _option("config-file", "text", "", "none", "", env=("GFD_CONFIG_FILE", "CONFIG_FILE")),
    _option(
        "use-node-feature-api",
        "bool",
        True,
        "flags",
        "useNodeFeatureAPI",
        env=("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"),
    ),
    _DISCOVERY,
    _DRIVER_CONTAINER,
)

DAEMON_OPTIONS = (
    _option("config-file", "text", "", "none", ""),
    _option("mig-strategy", "text", "none", "flags", "migStrategy"),
)
"""Flags of the MPS control daemon, which reads the same file."""


def given(options: Sequence[Option], env: Mapping[str, str], args: Sequence[str]) -> dict[str, Any]:
    """What environment and flags set: first name of the option -> value.

    Args:
        options: the program's flags.
        env: environment variables of its container.
        args: its arguments.

    Raises:
        Refused: a value cannot be read; the text is the one the program ends with.
    """
    found: dict[str, Any] = {}
    for option in options:
        for variable in option.env:
            if variable in env:
                _from_env(option, variable, env[variable], found)
                break
    _from_args(options, args, found)
    return found


def lay_over(config: Config, options: Sequence[Option], found: Mapping[str, Any]) -> Config:
    """The configuration with flags and environment laid over the file, and defaults where nothing says anything."""
    parts: dict[str, dict[str, Any]] = {
        "flags": dict(config.flags),
        "plugin": dict(config.plugin),
        "gfd": dict(config.gfd),
        "imex": {"channelIDs": config.imex_channel_ids, "required": config.imex_required},
    }
    for option in options:
        if option.where == "none":
            continue
        part = parts[option.where]
        if option.names[0] in found:
            part[option.field] = found[option.names[0]]
        elif option.where != "imex" and part.get(option.field) is None:
            part[option.field] = option.default
    flags = parts["flags"]
    if not flags.get("nvidiaDevRoot"):
        flags["nvidiaDevRoot"] = flags.get("nvidiaDriverRoot")
    mps = config.sharing.mps
    if mps is not None and mps.fail_requests_greater_than_one is None:
        mps = SharedResources(mps.rename_by_default, True, mps.resources)
    return replace(
        config,
        flags=flags,
        plugin=parts["plugin"],
        gfd=parts["gfd"],
        sharing=Sharing(config.sharing.time_slicing, mps),
        imex_channel_ids=parts["imex"]["channelIDs"],
        imex_required=parts["imex"]["required"],
    )


def _quote(text: str) -> str:
    """The text as Go's %q writes it."""
    return json.dumps(text, ensure_ascii=False)


_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


def _bool(value: str) -> bool:
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise Refused(f"strconv.ParseBool: parsing {_quote(value)}: invalid syntax", "flags")


def _whole(value: str) -> int:
    if re.fullmatch(r"[-+]?[0-9]+", value, re.ASCII) is not None:
        return int(value)
    for prefix, base in (("0x", 16), ("0o", 8), ("0b", 2)):
        if value.lower().startswith(prefix) and value[2:]:
            try:
                return int(value[2:], base)
            except ValueError:
                break
    raise Refused(f"strconv.ParseInt: parsing {_quote(value)}: invalid syntax", "flags")


def _duration(value: str) -> int:
    return goduration.INFINITE if value == "infinite" else goduration.parse(value)


def _from_env(option: Option, variable: str, value: str, found: dict[str, Any]) -> None:
    name = option.names[0]
    where = f'environment variable "{variable}"'
    quoted = _quote(value)
    if option.type == "text":
        found[name] = value
    elif option.type == "texts":
        found[name] = tuple(part.strip() for part in value.split(","))
    elif option.type == "bool":
        try:
            found[name] = value != "" and _bool(value)
        except Refused as error:
            raise Refused(
                f"could not parse {quoted} as bool value from {where} for flag {name}: {error.text}", "flags"
            ) from None
    elif value and option.type == "numbers":
        try:
            found[name] = tuple(_whole(part.strip()) for part in value.split(","))
        except Refused as error:
            raise Refused(
                f"could not parse {quoted} as int slice value from {where} for flag {name}: {error.text}", "flags"
            ) from None
    elif value:
        try:
            found[name] = _duration(value)
        except Refused as error:
            raise Refused(f"could not parse {quoted} from {where} as value for flag {name}: {error.text}", "flags") from None


def _from_args(options: Sequence[Option], args: Sequence[str], found: dict[str, Any]) -> None:
    by_name = {name: option for option in options for name in option.names}
    started: set[str] = set()
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if len(arg) < 2 or not arg.startswith("-") or arg == "--":
            return
        name, equals, value = arg.removeprefix("-").removeprefix("-").partition("=")
        if not name or name.startswith("-"):
            raise Refused(f"bad flag syntax: {arg}", "flags")
        option = by_name.get(name)
        if option is None:
            raise Refused(f"flag provided but not defined: -{name}", "flags")
        if option.type == "bool" and not equals:
            value = "true"
        elif not equals:
            if not rest:
                raise Refused(f"flag needs an argument: -{name}", "flags")
            value = rest.pop(0)
        _set(option, name, value, found, started)


def _set(option: Option, name: str, value: str, found: dict[str, Any], started: set[str]) -> None:
    first = option.names[0]
    try:
        if option.type == "text":
            found[first] = value
        elif option.type == "bool":
            found[first] = _bool(value)
        elif option.type == "duration":
            found[first] = _duration(value)
        else:
            # The first use of a list flag replaces what the environment said, further ones add.
            held = found[first] if first in started else ()
            parts = tuple(part.strip() for part in value.split(","))
            found[first] = (*held, *(parts if option.type == "texts" else map(_whole, parts)))
            started.add(first)
    except Refused as error:
        if option.type == "bool":
            raise Refused(f"invalid boolean value {_quote(value)} for -{name}: parse error", "flags") from None
        raise Refused(f"invalid value {_quote(value)} for flag -{name}: {error.text}", "flags") from None
