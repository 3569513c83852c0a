"""A node after its sharing was changed: resources, slots and labels, worked out by running the plugin's and GFD's model.

There is one model of these programs (`devices`, `mpsdaemon`, `labels`); this module only gives it the machine and the file of
tomorrow, and lays the result over the labels that the node has today. Labels whose value cannot be known are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.sharing import devices, labels, mpsdaemon, verdict
from ragstow.sharing.devices import Served
from ragstow.sharing.host import Cut, Host, machine_of
from ragstow.sharing.labels import Labels
from ragstow.sharing.pluginconfig import Strategy

_OF_RESOURCE = re.compile(
    r"nvidia\.com/(?:gpu\.(?:product|count|replicas|sharing-strategy|memory|multiprocessors|slices\..*|engines\..*)|mig-.+\..+)"
)
_OF_SHARING = ("nvidia.com/mig.strategy", "nvidia.com/mps.capable")
_OF_CARD = ("nvidia.com/gpu.family", "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor", "nvidia.com/mig.capable")


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What the node offers and how it is labelled.

    `resources` keeps names that stay registered, with 0. `labels` is the first of `possible_labels`; there are several where a
    node has several products and GFD's choice among them is chance. `devices` are the plugin's by resource, `strategy` the way
    of sharing in force, `cap_mib` the memory limit of one MPS client (None: none), `warnings` what the plugin logs,
    `invalid_labels` what GFD would publish and the API server would refuse.
    """

    resources: Mapping[str, int]
    labels: Mapping[str, str]
    possible_labels: tuple[Mapping[str, str], ...] = ()
    devices: Mapping[str, Served] = field(default_factory=dict)
    strategy: Strategy = "none"
    cap_mib: int | None = None
    warnings: tuple[str, ...] = ()
    invalid_labels: tuple[str, ...] = ()


def aftermath(host: Host, content: str | None, cuts: tuple[Cut, ...], facts: Facts) -> Aftermath | Reason:
    """The node with this configuration, or the reason in the programs' own words why they would not run.

    Args:
        host: the node as it is.
        content: text of the plugin's configuration file (None: no file).
        cuts: how each card will be cut.
        facts: cards and MIG geometry.
    """
    machine = machine_of(host, cuts, facts.gpus, facts.mig)
    read = verdict.plugin(content, env=host.env, args=host.args)
    offer = devices.offer(read, machine)
    if offer.failure is not None or read.effective is None:
        why = offer.failure.text if offer.failure is not None else "its configuration cannot be read"
        return Reason("plugin-refuses", f"on {host.name} the device plugin would end: {why}")
    strategy = read.effective.sharing.strategy
    cap: int | None = None
    if strategy == "mps":
        served = mpsdaemon.daemons(verdict.daemon(content, env=host.env), machine)
        if isinstance(served, str):
            return Reason("mps-refuses", f"on {host.name} the MPS control daemon would end: {served}")
        if not served:
            return Reason("mps-serves-nothing", f"on {host.name} no resource would be served under MPS")
        cap = min((limit for daemon in served for limit in daemon.pinned_memory_mib.values()), default=None)
    feature = labels.labels(verdict.gfd(content, env=host.env), machine) if host.gfd else None
    if feature is not None and feature.failure is not None:
        return Reason("gfd-refuses", f"on {host.name} GPU feature discovery would end: {feature.failure.text}")
    after = _labels(host, feature, cuts, facts) if feature is not None else (dict(host.labels),)
    resources = dict.fromkeys(sorted(host.resources), 0) | offer.counts()
    invalid = feature.refused if feature is not None else ()
    return Aftermath(resources, after[0], after, offer.resources, strategy, cap, offer.log, invalid)


def _labels(host: Host, made: Labels, cuts: tuple[Cut, ...], facts: Facts) -> tuple[dict[str, str], ...]:
    kept = {key: value for key, value in host.labels.items() if not _OF_RESOURCE.fullmatch(key) and key not in _OF_SHARING}
    found = []
    for new in made.possible():
        mine = {
            key: value
            for key, value in new.items()
            # What the machine says of driver, board and mode is not changed by sharing: the node's own labels stay.
            if _OF_RESOURCE.fullmatch(key) or key in _OF_SHARING or (key in _OF_CARD and key not in kept)
        }
        # Whether NFD leaves out a label that the API server would refuse, or more than that, was never seen: not promised.
        known = {
            key: value for key, value in mine.items() if labels.valid_value(value) and not _unknown(key, host, cuts, facts)
        }
        same = {
            key: value
            for key, value in host.labels.items()
            # A group of labels that stays as it is keeps the values that we could not know.
            if key in mine and key not in known and _group(key, host.labels) == _group(key, mine)
        }
        found.append(dict(sorted({**kept, **known, **same}.items())))
    return tuple(found)


def _group(key: str, all_labels: Mapping[str, str]) -> str | None:
    """The product label of the resource that a label is about: nvidia.com/mig-1g.5gb.memory -> that of mig-1g.5gb."""
    prefix = max(
        (
            name.removesuffix("product")
            for name in all_labels
            if name.endswith(".product") and key.startswith(name.removesuffix("product"))
        ),
        key=len,
        default=None,
    )
    return None if prefix is None else all_labels[f"{prefix}product"]


def _unknown(key: str, host: Host, cuts: tuple[Cut, ...], facts: Facts) -> bool:
    """Whether a label's value rests on something that facts do not have: engines, and sizes of slices never measured."""
    name, _, suffix = key.removeprefix("nvidia.com/").rpartition(".")
    if ".engines." in key:
        return True
    if suffix not in ("memory", "multiprocessors"):
        return False
    geometry = facts.mig.of(host.gpus[0])
    sizes = [profile for cut in cuts for profile in cut or {}]
    profile = name.removeprefix("mig-") if name.startswith("mig-") else sizes[0] if sizes and None not in cuts else None
    known = geometry.profile(profile) if geometry is not None and profile is not None else None
    if known is None:
        # A whole card: its memory is known from the node's own label, or else from the table's.
        return suffix == "memory" and host.label_mib is None and not facts.gpus.memory(host.gpus[0]).measured
    return not known.memory.measured if suffix == "memory" else known.multiprocessors is None
