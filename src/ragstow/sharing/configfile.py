"""A plugin configuration file read as the device plugin reads it: non-strict, and with its own words where it refuses.

Only what the file says is decided here; flags and environment are laid over it in `commandline`
(k8s-device-plugin api/config/v1: config.go, replicas.go, resources.go, flags.go, duration.go).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ragstow import kubeyaml
from ragstow.errors import InputError
from ragstow.sharing import goduration
from ragstow.sharing.gojson import (
    Context,
    Field,
    Refused,
    as_int,
    boolean,
    dumps,
    finite,
    integer,
    kind,
    number,
    read_struct,
    text,
)
from ragstow.sharing.pluginconfig import (
    MAX_NAME_LENGTH,
    PREFIX,
    SHARED_SUFFIX,
    Config,
    Devices,
    Pattern,
    Resources,
    SharedResource,
    SharedResources,
    Sharing,
)

_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def read(content: str) -> Config:
    """The configuration that a file's text says, flags as far as the file sets them.

    Raises:
        Refused: the text as the plugin logs it after "error parsing config file: ".
    """
    value = _yaml(content)
    context = Context()
    try:
        held = read_struct(context, "Config", "v1.Config", _CONFIG, value, {}) or {}
    except Refused as error:
        raise Refused(f"unmarshal error: error unmarshaling JSON: while decoding JSON: {error.text}", error.source) from None
    if context.first is not None:
        raise Refused(f"unmarshal error: error unmarshaling JSON: while decoding JSON: {context.first}", "json")
    version = held.get("version") or "v1"
    if version != "v1":
        raise Refused(f"unknown version: {version}")
    flags = dict(held.get("flags") or {})
    plugin, gfd = flags.pop("plugin", None) or {}, flags.pop("gfd", None) or {}
    sharing = held.get("sharing") or {}
    imex = held.get("imex") or {}
    resources = held.get("resources") or {}
    return Config(
        version="v1",
        flags=flags,
        plugin=plugin,
        gfd=gfd,
        resources=Resources(resources.get("gpus"), resources.get("mig")),
        sharing=Sharing(sharing.get("timeSlicing") or SharedResources(), sharing.get("mps")),
        imex_channel_ids=tuple(imex.get("channelIDs") or ()),
        imex_required=bool(imex.get("required")),
    )


def _yaml(content: str) -> Any:
    try:
        document = kubeyaml.first(content)
    except InputError as error:
        raise Refused(f"unmarshal error: error converting YAML to JSON: yaml: {error.message}", "yaml") from None
    value = document.value if document is not None else None
    if not _string_keys(value):
        raise Refused("unmarshal error: error converting YAML to JSON: unsupported map key of type: %!s(<nil>)", "yaml")
    # A version is made a text on the way, be it no number that JSON can hold.
    held = value.items() if isinstance(value, Mapping) else ((None, value),)
    if not all(finite(item) or (isinstance(item, float) and str(key).casefold() == "version") for key, item in held):
        raise Refused("unmarshal error: error converting YAML to JSON: json: unsupported value", "json")
    return value


def _string_keys(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _string_keys(item) for key, item in value.items())
    return all(_string_keys(item) for item in value) if isinstance(value, list) else True


def resource_name(name: str) -> str:
    """The full resource name: the vendor's prefix is added where it is missing.

    Raises:
        Refused: the plugin accepts no such name.
    """
    full = name if name.startswith(f"{PREFIX}/") else f"{PREFIX}/{name}"
    if len(full.encode()) > MAX_NAME_LENGTH:
        raise Refused(f"fully-qualified resource name must be {MAX_NAME_LENGTH} characters or less: {full}")
    if _SUBDOMAIN.fullmatch(full.partition("/")[2]) is None:
        raise Refused(f"incorrect format for resource name '{full}': [{_SUBDOMAIN_TEXT}]")
    return full


def _name(context: Context, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise context.refuse_type(value, "string")
    return resource_name(value or "")


def _version(context: Context, value: Any, held: Any) -> Any:
    # The only plain string outside embedded structs: numbers and booleans become text on the way from YAML.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        whole = isinstance(value, int) and -(2**63) <= value < 2**64
        return str(value) if whole else f"{float(value):.8g}"
    return text(context, value, held)


def _mapping(context: Context, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise context.refuse_type(value, "map[string]json.RawMessage")
    return value


def _inner_boolean(context: Context, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise context.refuse_type(value, "bool")
    return value


def _replicated(context: Context, value: Any) -> SharedResources:
    given = _mapping(context, value)
    rename = bool(_inner_boolean(context, given.get("renameByDefault")))
    fail = _inner_boolean(context, given.get("failRequestsGreaterThanOne"))
    if "resources" not in given:
        raise Refused("no resources specified")
    listed = given["resources"]
    if listed is not None and not isinstance(listed, list):
        raise context.refuse_type(listed, "[]v1.ReplicatedResource")
    resources = [_shared_resource(context, item) for item in listed or ()]
    if not resources:
        raise Refused("no resources specified")
    if rename:
        resources = [
            SharedResource(item.name, item.replicas, item.rename or item.name + SHARED_SUFFIX, item.devices)
            for item in resources
        ]
    return SharedResources(rename, fail, tuple(resources))


def _shared_resource(context: Context, value: Any) -> SharedResource:
    given = _mapping(context, value)
    if "name" not in given:
        raise Refused("no resource name specified")
    name = _name(context, given["name"])
    devices = _devices(given["devices"]) if "devices" in given else Devices()
    if "replicas" not in given:
        raise Refused("no replicas specified")
    replicas = 0
    if (written := given["replicas"]) is not None:
        whole = as_int(written)
        if whole is None:
            what = f"number {number(written)}" if kind(written) == "number" else kind(written)
            raise Refused(context.type_text(what, "int"), "json")
        replicas = whole
    if replicas < 2:
        raise Refused("number of replicas must be >= 2")
    rename = _name(context, given["rename"]) if "rename" in given else None
    return SharedResource(name, replicas, rename, devices)


def _devices(value: Any) -> Devices:
    if value is None or isinstance(value, str):
        if value != "all":
            raise Refused(f"devices set as '{value or ''}' but the only valid string input is 'all'")
        return Devices()
    if (count := as_int(value)) is not None:
        if count <= 0:
            raise Refused(f"devices set as '{count}' but a count of devices must be > 0")
        return Devices(False, count)
    if isinstance(value, list):
        return Devices(False, 0, tuple(_device(item) for item in value))
    raise Refused(f"unrecognized type for devices spec: {dumps(value)}")


def _device(value: Any) -> str:
    if value is None:
        return "0"
    if kind(value) == "number" and re.fullmatch(r"[0-9]+", printed := number(value)) and int(printed) < 2**64:
        return printed
    item = value if isinstance(value, str) else ""
    if isinstance(value, str) and (_is_index(item) or _is_mig_index(item) or _is_uuid(item)):
        return item
    raise Refused(f"unsupported type for device in devices list: {item}, string")


def _is_index(item: str) -> bool:
    return re.fullmatch(r"[0-9]+", item, re.ASCII) is not None and int(item) < 2**64


def _is_mig_index(item: str) -> bool:
    gpu, colon, mig = item.partition(":")
    return bool(colon) and _is_index(gpu) and _is_index(mig)


def _is_uuid(item: str) -> bool:
    if item.startswith("GPU-"):
        return _uuid(item.removeprefix("GPU-"))
    if not item.startswith("MIG-"):
        return False
    rest = item.removeprefix("MIG-")
    if _uuid(rest):
        return True
    parts = rest.split("/", 2)
    return len(parts) == 3 and parts[0].startswith("GPU-") and _is_uuid(parts[0]) and all(map(_is_index, parts[1:]))


def _uuid(item: str) -> bool:
    # The forms that google/uuid accepts: plain, urn:uuid:, in braces, and 32 digits without dashes.
    plain = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    return re.fullmatch(rf"(?:(?:urn:uuid:)?{plain}|\{{{plain}.|[0-9a-f]{{32}})", item, re.ASCII | re.IGNORECASE) is not None


def _list_strategy(_context: Context, value: Any, held: Any) -> Any:
    if value is None:
        return held
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(item is None or isinstance(item, str) for item in value):
        return tuple(item or "" for item in value)
    raise Refused(f"invalid deviceListStrategy: {dumps(value)}")


def _duration(_context: Context, value: Any, held: Any) -> Any:
    if value is None:
        return held
    if kind(value) == "number":
        # A number that does not fit becomes the least one (Go on amd64).
        return int(value) if -(2**63) <= value < 2**63 else -(2**63)
    if not isinstance(value, str):
        raise Refused("invalid duration", "duration")
    return goduration.INFINITE if value == "infinite" else goduration.parse(value)


def _patterns(context: Context, value: Any, held: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list):
        context.mismatch(value, "[]v1.Resource")
        return held
    return tuple(_pattern(context, item) for item in value)


def _pattern(context: Context, value: Any) -> Pattern:
    given = _mapping(context, value)
    for key in ("pattern", "name"):
        if key not in given:
            raise Refused(f"resources must have a '{key}' field set")
    pattern = given["pattern"]
    if pattern is not None and not isinstance(pattern, str):
        raise context.refuse_type(pattern, "v1.ResourcePattern")
    return Pattern(pattern or "", _name(context, given["name"]))


def _channels(context: Context, value: Any, held: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list):
        context.mismatch(value, "[]int")
        return held
    return tuple(0 if item is None else (integer(context, item) or 0) for item in value)


def _time_slicing(context: Context, value: Any, _held: Any) -> Any:
    return _replicated(context, value)


def _mps(context: Context, value: Any, _held: Any) -> Any:
    return None if value is None else _replicated(context, value)


def _plugin_flags(context: Context, value: Any, held: Any) -> Any:
    return (
        None
        if value is None
        else read_struct(context, "PluginCommandLineFlags", "v1.PluginCommandLineFlags", _PLUGIN, value, held)
    )


def _gfd_flags(context: Context, value: Any, held: Any) -> Any:
    return None if value is None else read_struct(context, "GFDCommandLineFlags", "v1.GFDCommandLineFlags", _GFD, value, held)


_PLUGIN = (
    Field("passDeviceSpecs", boolean),
    Field("deviceListStrategy", _list_strategy),
    *(
        Field(name, text)
        for name in (
            "deviceIDStrategy",
            "cdiAnnotationPrefix",
            "nvidiaCTKPath",
            "containerDriverRoot",
            "sharedDevicesAllocationPolicy",
        )
    ),
)
_GFD = (
    Field("oneshot", boolean),
    Field("noTimestamp", boolean),
    Field("sleepInterval", _duration),
    Field("outputFile", text),
    Field("machineTypeFile", text),
)
_EMBEDDED = ("CommandLineFlags",)
_FLAGS = (
    *(
        Field(name, text, _EMBEDDED)
        for name in ("migStrategy", "mpsRoot", "nvidiaDriverRoot", "nvidiaDevRoot", "deviceDiscoveryStrategy")
    ),
    *(
        Field(name, boolean, _EMBEDDED)
        for name in ("failOnInitError", "gdrcopyEnabled", "gdsEnabled", "mofedEnabled", "useNodeFeatureAPI")
    ),
    Field("plugin", _plugin_flags, _EMBEDDED),
    Field("gfd", _gfd_flags, _EMBEDDED),
)


def _struct(struct: str, fields: tuple[Field, ...]) -> Any:
    def reader(context: Context, value: Any, held: Any) -> Any:
        return read_struct(context, struct, f"v1.{struct}", fields, value, held)

    return reader


_CONFIG = (
    Field("version", _version),
    Field("flags", _struct("Flags", _FLAGS)),
    Field("resources", _struct("Resources", (Field("gpus", _patterns), Field("mig", _patterns)))),
    Field("sharing", _struct("Sharing", (Field("timeSlicing", _time_slicing), Field("mps", _mps)))),
    Field("imex", _struct("Imex", (Field("channelIDs", _channels), Field("required", boolean)))),
)
