"""Configuration files for the device plugin and for mig-parted, made for a way of sharing.

What the plugin makes of them is not assumed: `aftermath` runs the plugin's model on them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ragstow import kubeyaml
from ragstow.errors import InputError
from ragstow.sharing.host import Cut
from ragstow.sharing.pluginconfig import FULL_GPU

MPS_ROOT = "/run/nvidia/mps"
"""Where the vendor's chart and operator keep the daemon's files (k8s-device-plugin chart 0.20.0)."""


def flags_of(config: str | None) -> dict[str, Any]:
    """`flags` of a configuration file, to be kept when its sharing changes; {} where there are none."""
    try:
        document = kubeyaml.first(config) if config is not None else None
    except InputError:
        return {}
    value = document.value if document is not None else None
    flags = value.get("flags") if isinstance(value, Mapping) else None
    return dict(flags) if isinstance(flags, Mapping) else {}


def plugin_file(
    sharing: Literal["none", "time-slicing", "mps"],
    *,
    replicas: int = 0,
    resources: Sequence[str] = (FULL_GPU,),
    rename: bool = True,
    mig_strategy: str | None = None,
    mps_root: str | None = None,
    flags: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A device-plugin configuration file as a value.

    Args:
        sharing: the way of sharing; "none" makes whole cards (and slices) exclusive.
        replicas: shares of one device.
        resources: the resources to share.
        rename: give shares a resource name of their own (`renameByDefault`), so that nothing lands on them by mistake.
        mig_strategy: set flags.migStrategy.
        mps_root: set flags.mpsRoot, where the container's environment does not.
        flags: other flags to keep.
    """
    kept = dict(flags or {})
    if mig_strategy is not None:
        kept["migStrategy"] = mig_strategy
    if mps_root is not None:
        kept["mpsRoot"] = mps_root
    made: dict[str, Any] = {"version": "v1"}
    if kept:
        made["flags"] = kept
    if sharing != "none":
        shared: dict[str, Any] = {"renameByDefault": True} if rename else {}
        if sharing == "time-slicing":
            # Two shares of one card give no more than one: a request for two is a mistake that should fail.
            shared["failRequestsGreaterThanOne"] = True
        shared["resources"] = [{"name": name, "replicas": replicas} for name in resources]
        made["sharing"] = {"timeSlicing" if sharing == "time-slicing" else "mps": shared}
    return made


def text_of(value: Mapping[str, Any]) -> str:
    """The file's text in JSON, which is YAML."""
    return json.dumps(value)


def mig_parted_entries(cuts: Sequence[Cut]) -> list[dict[str, Any]]:
    """The entries of a mig-parted layout that cuts each card so: cards that are cut alike share an entry.

    Args:
        cuts: one for each card of the node, in the driver's order.
    """
    groups: dict[tuple[tuple[str, int], ...] | None, list[int]] = {}
    for index, cut in enumerate(cuts):
        groups.setdefault(None if cut is None else tuple(cut.items()), []).append(index)
    made = []
    for key, cards in groups.items():
        entry: dict[str, Any] = {"devices": "all" if len(groups) == 1 else cards, "mig-enabled": key is not None}
        if key is not None:
            entry["mig-devices"] = dict(key)
        made.append(entry)
    return made


def mig_parted_file(layouts: Mapping[str, Sequence[Cut]]) -> dict[str, Any]:
    """A mig-parted configuration file with these layouts: name -> how each card is cut."""
    return {"version": "v1", "mig-configs": {name: mig_parted_entries(cuts) for name, cuts in layouts.items()}}
