"""mig-parted's configuration file: read as mig-parted reads it, a layout chosen from it, and the cards each entry is for.

Nothing is applied here; that is `migapply` (mig-parted api/spec/v1, pkg/types, cmd/nvidia-mig-parted/assert).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ragstow import kubeyaml
from ragstow.errors import InputError
from ragstow.sharing import migname
from ragstow.sharing.gojson import Refused, Source, as_int, kind, number
from ragstow.sharing.migname import Malformed

Stage = Literal["parse", "select"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a layout: which cards (None: all), a filter of PCI ids (None: absent, text or list as written), MIG on or
    off, and profile -> count (None: absent)."""

    devices: tuple[int, ...] | None
    mig_enabled: bool
    mig_devices: Mapping[str, int] | None
    device_filter: str | tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """As mig-parted prints it."""
        made: dict[str, Any] = {
            "devices": "all" if self.devices is None else list(self.devices),
            "mig-enabled": self.mig_enabled,
            "mig-devices": None if self.mig_devices is None else dict(self.mig_devices),
        }
        if self.device_filter is not None:
            made["device-filter"] = self.device_filter if isinstance(self.device_filter, str) else list(self.device_filter)
        return made

    def applies(self, index: int, device_id: str) -> bool:
        """Whether the entry is for the card with this index and PCI id ("0x20B010DE", or with ":0x..." and the subsystem)."""
        if self.devices is not None and index not in self.devices:
            return False
        filters = (self.device_filter,) if isinstance(self.device_filter, str) else self.device_filter or ()
        filters = tuple(item for item in filters if item or not isinstance(self.device_filter, str))
        return not filters or any(_matches(item, device_id) for item in filters)


@dataclass(frozen=True, slots=True)
class Spec:
    """A whole file: layout name -> entries."""

    version: str
    layouts: Mapping[str, tuple[Entry, ...]]

    def to_json(self) -> dict[str, Any]:
        """As mig-parted prints it."""
        made: dict[str, Any] = {"version": self.version}
        if self.layouts:
            made["mig-configs"] = {name: [entry.to_json() for entry in entries] for name, entries in self.layouts.items()}
        return made


@dataclass(frozen=True, slots=True)
class Failure:
    """Where and with which words mig-parted ends."""

    stage: Stage
    text: str
    source: Source = "plugin"


def read(content: str) -> Spec | Failure:
    """A configuration file, or why mig-parted refuses it."""
    prefix = "error parsing config file: unmarshal error: "
    try:
        document = kubeyaml.first(content)
    except InputError as error:
        return Failure("parse", f"{prefix}error converting YAML to JSON: yaml: {error.message}", "yaml")
    value = document.value if document is not None else None
    if value is None:
        return Spec("", {})
    try:
        return _spec(value)
    except Refused as error:
        return Failure("parse", f"{prefix}error unmarshaling JSON: while decoding JSON: {error.text}", error.source)


def select(spec: Spec, name: str = "") -> tuple[Entry, ...] | Failure:
    """The entries of one layout.

    Args:
        spec: the file.
        name: the layout's name; may be empty where the file has just one.
    """
    if not name and len(spec.layouts) > 1:
        why = "missing required flag 'selected-config' when more than one config available"
        return Failure("select", f"error selecting MIG config: {why}")
    if not name and len(spec.layouts) == 1:
        name = next(iter(spec.layouts))
    if name not in spec.layouts:
        return Failure("select", f"error selecting MIG config: selected mig-config not present: {name}")
    return spec.layouts[name]


def matches(entries: Sequence[Entry], device_ids: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """For each entry, the cards it applies to; later entries win over earlier ones.

    Args:
        entries: a layout.
        device_ids: PCI ids of the cards, in order.
    """
    return tuple(
        tuple(index for index, device_id in enumerate(device_ids) if entry.applies(index, device_id)) for entry in entries
    )


def check_devices(mig_devices: Mapping[str, int]) -> str | None:
    """What mig-parted finds wrong with a map of profiles, in its words; None where it takes it."""
    if not mig_devices:
        return None
    for name in sorted(mig_devices):
        try:
            migname.parse(name)
        except Malformed as error:
            return f"invalid format for '{name}': {error}"
        if mig_devices[name] < 0:
            return f"invalid count for '{mig_devices[name]}': <nil>"
    return None if any(count > 0 for count in mig_devices.values()) else "all counts for all MigProfiles are 0"


def _wrong_type(value: Any, type_name: str) -> Refused:
    what = f"number {number(value)}" if kind(value) == "number" and type_name == "int" else kind(value)
    return Refused(f"json: cannot unmarshal {what} into Go value of type {type_name}", "json")


def _object(value: Any, type_name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong_type(value, type_name)
    return value


def _spec(value: Any) -> Spec:
    given = _object(value, "map[string]json.RawMessage")
    if given and "version" not in given:
        raise Refused("unable to parse with missing 'version' field")
    version = given.get("version")
    if version is not None and not isinstance(version, str):
        raise _wrong_type(version, "string")
    if version != "v1":
        raise Refused(f"unknown version: {version or ''}")
    layouts: dict[str, tuple[Entry, ...]] = {}
    for key in sorted(given):
        if key == "version":
            continue
        if key != "mig-configs":
            raise Refused(f"unexpected field: {key}")
        layouts = _layouts(key, given[key])
    return Spec("v1", layouts)


def _layouts(key: str, value: Any) -> dict[str, tuple[Entry, ...]]:
    made: dict[str, tuple[Entry, ...]] = {}
    wrong: Refused | None = None
    listed = _object(value, "map[string]v1.MigConfigSpecSlice")
    for name in sorted(listed):
        entries = listed[name]
        if entries is not None and not isinstance(entries, list):
            wrong = wrong or _wrong_type(entries, "v1.MigConfigSpecSlice")
            continue
        made[name] = tuple(_entry(entry) for entry in entries or ())
    if wrong is not None:
        raise wrong
    if not made:
        raise Refused(f"at least one entry in '{key}' is required")
    for name, read_entries in made.items():
        if not read_entries:
            raise Refused(f"at least one entry in '{name}' is required")
    return made


_FIELDS = ("device-filter", "devices", "mig-devices", "mig-enabled")


def _entry(value: Any) -> Entry:
    given = _object(value, "map[string]json.RawMessage")
    for name in ("devices", "mig-enabled"):
        if name not in given:
            raise Refused(f"missing required field: {name}")
    for name in sorted(given):
        if name not in _FIELDS:
            raise Refused(f"unexpected field: {name}")
    chosen = _filter(given["device-filter"]) if "device-filter" in given else None
    devices = _devices(given["devices"])
    mig_devices = _mig_devices(given["mig-devices"]) if given.get("mig-devices") is not None else None
    enabled = given["mig-enabled"]
    if enabled is not None and not isinstance(enabled, bool):
        raise _wrong_type(enabled, "bool")
    if enabled and mig_devices is None:
        raise Refused("missing required field 'mig-devices' when 'mig-enabled' is true")
    if not enabled and mig_devices:
        raise Refused("MIG devices included when 'mig-enabled' is false")
    return Entry(devices, bool(enabled), mig_devices, chosen)


def _filter(value: Any) -> str | tuple[str, ...]:
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise _neither(value, _wrong_type(value, "[]string"))
    for item in value:
        if item is not None and not isinstance(item, str):
            raise _neither(value, _wrong_type(item, "string"))
    return tuple(item or "" for item in value)


def _devices(value: Any) -> tuple[int, ...] | None:
    if value is None or isinstance(value, str):
        if value != "all":
            raise Refused(f"invalid string input for 'devices': {value or ''}")
        return None
    if not isinstance(value, list):
        raise _neither(value, _wrong_type(value, "[]int"))
    made = []
    for item in value:
        whole = 0 if item is None else as_int(item)
        if whole is None:
            raise _neither(value, _wrong_type(item, "int"))
        made.append(whole)
    return tuple(made)


def _neither(value: Any, second: Refused) -> Refused:
    return Refused(f"({_wrong_type(value, 'string').text}, {second.text})", "json")


def _mig_devices(value: Any) -> dict[str, int]:
    given = _object(value, "types.MigConfig")
    made: dict[str, int] = {}
    for name in sorted(given):
        whole = 0 if given[name] is None else as_int(given[name])
        if whole is None:
            raise _wrong_type(given[name], "int")
        made[name] = whole
    wrong = check_devices(made)
    if wrong is not None:
        raise Refused(f"error validating values in 'mig-devices' field: {wrong}")
    return made


def _number(text: str) -> int | None:
    # strconv.ParseUint with base 0 and 32 bits.
    lower = text.lower()
    for prefix, digits, base in (
        ("0x", "[0-9a-f]", 16),
        ("0b", "[01]", 2),
        ("0o", "[0-7]", 8),
        ("0", "[0-7]", 8),
        ("", "[0-9]", 10),
    ):
        pattern = rf"{prefix}(?:_?{digits})+" if prefix else rf"{digits}(?:_?{digits})*"
        if re.fullmatch(pattern, lower, re.ASCII):
            value = int(lower.removeprefix(prefix).replace("_", "") or "0", base)
            return value if value < 2**32 else None
    return 0 if lower == "0" else None


def _id(text: str) -> tuple[int, int | None]:
    """Device and vendor, and the subsystem where it is given; a text that is no id is id 0, which no card has."""
    parts = text.split(":")
    numbers = [_number(part) for part in parts]
    if len(parts) > 2 or any(value is None for value in numbers):
        return 0, None
    first = numbers[0] or 0
    return first, numbers[1] if len(numbers) == 2 else None


def _matches(chosen: str, device_id: str) -> bool:
    wanted, subsystem = _id(chosen)
    has, has_subsystem = _id(device_id)
    return wanted == has and (subsystem is None or subsystem == (has_subsystem or 0))
