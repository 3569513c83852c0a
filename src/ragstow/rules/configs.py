"""Finds device-plugin and MIG configurations among ConfigMaps, and what is wrong in them by the programs' own rules.

The programs read non-strictly: a key in the wrong place is dropped without a word. `dropped` finds such keys, by comparing what
is written with the fields the programs know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ragstow import kubeyaml
from ragstow.cluster.objects import KubeObject
from ragstow.errors import InputError
from ragstow.sharing import migparted, verdict
from ragstow.sharing.pluginconfig import Config

Kind = Literal["plugin", "mig"]

_TOP = frozenset({"version", "flags", "resources", "sharing", "imex"})
_FLAGS = frozenset(
    {
        "migstrategy", "failoniniterror", "mpsroot", "nvidiadriverroot", "nvidiadevroot", "gdrcopyenabled", "gdsenabled",
        "mofedenabled", "usenodefeatureapi", "devicediscoverystrategy", "plugin", "gfd", "vgpu", "imagename", "hookpath",
    }
)  # fmt: skip
_SHARED = frozenset({"renamebydefault", "failrequestsgreaterthanone", "resources", "default"})
_SHARED_EXACT = frozenset({"renameByDefault", "failRequestsGreaterThanOne", "resources", "default"})
_RESOURCE_EXACT = frozenset({"name", "rename", "devices", "replicas"})
_PLUGIN = re.compile(r"\bversion[\"']?\s*:")
_WORDS = re.compile(r"[\"']?\b(?:timeSlicing|mps|migStrategy|sharing|flags)[\"']?\s*:")
_INSTALLED = {"MPS_ROOT": "/run/nvidia/mps"}
"""What chart and operator give the plugin beside its file; without it every MPS configuration is refused."""
_MANY = 1000
"""More replicas than this on one card are a typing error: no scheduler of processes makes use of them."""


@dataclass(frozen=True, slots=True)
class ConfigText:
    """One configuration in a ConfigMap."""

    map: KubeObject
    key: str
    text: str
    kind: Kind


def config_texts(maps: tuple[KubeObject, ...]) -> Iterator[ConfigText]:
    """The plugin's and the MIG manager's configurations among these ConfigMaps."""
    for item in maps:
        data = item.raw.get("data")
        for key, text in sorted((data if isinstance(data, Mapping) else {}).items()):
            if not isinstance(text, str):
                continue
            if "mig-configs:" in text or '"mig-configs"' in text:
                yield ConfigText(item, str(key), text, "mig")
            elif _PLUGIN.search(text) and _WORDS.search(text):
                yield ConfigText(item, str(key), text, "plugin")


def trouble(config: ConfigText) -> tuple[str, ...]:
    """What is wrong with a configuration: why its program refuses it, or which keys it drops."""
    if config.kind == "mig":
        read = migparted.read(config.text)
        return (read.text,) if isinstance(read, migparted.Failure) else ()
    said = verdict.plugin(config.text, env=_INSTALLED)
    if said.failure is not None:
        return (said.failure.text,)
    return (*dropped(config.text), *(warning for warning in said.warnings if "Ignoring" in warning or "Setting" in warning))


def dropped(text: str) -> tuple[str, ...]:
    """Keys that the plugin drops without a word, each with its place and, where it is known, the place it belongs to."""
    value = _value(text)
    found = [f"{key} is no key of the file" + _belongs(str(key)) for key in value if str(key).lower() not in _TOP]
    flags = _at(value, "flags")
    found += [f"flags.{key} is no flag" + _belongs(str(key)) for key in flags if str(key).lower() not in _FLAGS]
    sharing = _at(value, "sharing")
    found += [
        f"sharing.{key} is no sharing strategy" + _belongs(str(key))
        for key in sharing
        if str(key).lower() not in ("timeslicing", "mps")
    ]
    for strategy in ("timeSlicing", "mps"):
        inner = _at(sharing, strategy)
        found += [f"sharing.{strategy}.{key} is ignored" + _belongs(str(key)) for key in inner if key not in _SHARED_EXACT]
        listed = inner.get("resources")
        for index, item in enumerate(listed if isinstance(listed, list) else ()):
            if not isinstance(item, Mapping):
                continue
            where = f"sharing.{strategy}.resources[{index}]"
            found += [f"{where}.{key} is ignored" + _belongs(str(key)) for key in item if key not in _RESOURCE_EXACT]
            replicas = item.get("replicas")
            if isinstance(replicas, int) and replicas > _MANY:
                found.append(f"{where}.replicas is {replicas}: every card is advertised that many times")
    return tuple(found)


def shares(text: str) -> bool:
    """Whether a valid configuration shares cards."""
    said = verdict.plugin(text, env=_INSTALLED)
    return said.effective is not None and bool(said.effective.sharing.active.replicated)


def shares_by_mps(text: str) -> bool:
    """Whether a valid configuration shares cards by MPS."""
    said = verdict.plugin(text, env=_INSTALLED)
    return said.effective is not None and said.effective.sharing.mps is not None and said.effective.sharing.mps.replicated


def effective(text: str) -> Config | None:
    """What is written, as the plugin takes it; None where it refuses the file."""
    return verdict.plugin(text, env=_INSTALLED).config


def given(text: str) -> frozenset[str]:
    """Resource names that a valid sharing configuration makes: renamed ones where it renames."""
    said = verdict.plugin(text, env=_INSTALLED)
    if said.effective is None:
        return frozenset()
    active = said.effective.sharing.active
    return frozenset(f"{item.name}.shared" if active.rename_by_default else item.name for item in active.resources)


def layouts(text: str) -> tuple[str, ...]:
    """Names of the MIG layouts in a configuration; () where it cannot be read."""
    value = _at(_value(text), "mig-configs")
    return tuple(str(key) for key in value)


def _belongs(key: str) -> str:
    low = key.lower()
    if low in ("renamebydefault", "failrequestsgreaterthanone"):
        exact = next(name for name in _SHARED_EXACT if name.lower() == low)
        return f": it belongs under sharing.timeSlicing (or mps), spelt {exact}"
    if low == "replicas":
        return ": it belongs to an entry of sharing.timeSlicing.resources"
    if low in ("timeslicing", "mps"):
        return ": it belongs under sharing"
    return ""


def _at(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    for name, inner in value.items():
        if str(name).lower() == key.lower():
            return inner if isinstance(inner, Mapping) else {}
    return {}


def _value(text: str) -> Mapping[str, Any]:
    try:
        documents = kubeyaml.load_all(text)
    except InputError:
        return {}
    value = documents[0].value if documents else None
    return value if isinstance(value, Mapping) else {}
