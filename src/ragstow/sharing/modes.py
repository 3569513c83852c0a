"""What each mode of sharing gives and denies on a node, or the reason why it is impossible there.

Sharing is per node and per resource name, never per card. Isolation: "none" promises nothing, "memory" that nobody else can
take a pod's GPU memory, "fault" that a neighbour's crash cannot reach it. Whether a pod fits is the planner's question; here
is what a slot is (device plugin documentation, MPS and MIG guides; the programs' own limits through their model).
Mode mig is in `migmode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.facts.clouds import Cloud, SharingLabels
from ragstow.sharing import pluginfile
from ragstow.sharing.aftermath import Aftermath, aftermath
from ragstow.sharing.effects import effects
from ragstow.sharing.host import Cut, Host
from ragstow.sharing.mpsdaemon import most_clients
from ragstow.sharing.pluginconfig import FULL_GPU
from ragstow.sharing.slots import Isolation, Mode, Slot, share_of, slots_of, whole_or_slice

CONFIG_LABEL = "nvidia.com/device-plugin.config"
LAYOUT_LABEL = "nvidia.com/mig.config"


@dataclass(frozen=True, slots=True)
class Given:
    """What a mode gives on a node.

    `config` is the device plugin's file for it and `config_key` a name for that file, `cuts` how each card is cut.
    `labels_to_set` chooses both where labels do that. `side_effects` are sentences about what changes for others on that
    node, empty when nothing changes; `notes` what a person should know about the mode.
    """

    mode: Mode
    isolation: Isolation
    slots: tuple[Slot, ...]
    after: Aftermath
    config: Mapping[str, Any] | None = None
    config_key: str | None = None
    cuts: tuple[Cut, ...] = ()
    labels_to_set: Mapping[str, str] = field(default_factory=dict)
    side_effects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def server_refuses(host: Host, mode: Mode) -> Reason | None:
    """Why the configuration of this node's cards cannot be changed by us at all; None where it can."""
    code, where = f"{mode}-not-here", f"on {host.name}"
    if not host.gpus:
        return Reason("no-gpu", f"{host.name} has no GPU")
    if host.server == "cloud" or (host.cloud is not None and host.cloud.plugin_managed):
        cloud = host.cloud
        name = cloud.name if cloud is not None else "the cloud"
        how = "" if cloud is None else cloud.how_to_mig if mode == "mig" else cloud.how_to_share
        return Reason(code, f"{where} the device plugin is run by {name} and its configuration cannot be changed", how)
    if host.server == "dra":
        return Reason(code, f"{where} cards are handed out by the DRA driver, not by the device plugin", "use mode dra")
    if host.server in ("hami", "kai"):
        return Reason(code, f"{where} cards are handed out by another allocator ({host.server})", "use its own annotations")
    if host.server == "none":
        return Reason(code, f"{where} nothing hands out the cards", "install the device plugin or the GPU Operator")
    return None


def exclusive(host: Host, facts: Facts) -> Given | Reason:
    """Whole cards, one pod each."""
    reason = server_refuses(host, "exclusive")
    if reason is not None:
        return reason
    config = pluginfile.plugin_file("none", flags=pluginfile.flags_of(host.config))
    labels = {LAYOUT_LABEL: "all-disabled"} if host.mig_on and host.mig_manager else {}
    return given(host, "exclusive", config, "exclusive", (None,) * len(host.gpus), facts, labels=labels)


def time_slicing(host: Host, replicas: int, facts: Facts, *, rename: bool = True) -> Given | Reason:
    """Cards shared in turns by `replicas` pods: no cap, no isolation.

    Args:
        host: the node.
        replicas: shares of one card, 2 or more.
        facts: cards.
        rename: shares get the resource name nvidia.com/gpu.shared.
    """
    reason = server_refuses(host, "time-slicing") or _replicas(host, replicas) or _cut(host, "time-slicing")
    if reason is not None:
        return reason
    config = pluginfile.plugin_file("time-slicing", replicas=replicas, rename=rename, flags=pluginfile.flags_of(host.config))
    return given(host, "time-slicing", config, _key("time-slicing", replicas, rename), (None,) * len(host.gpus), facts)


def mps(host: Host, replicas: int, facts: Facts, *, rename: bool = True) -> Given | Reason:
    """Cards shared at the same time by `replicas` pods, each with its part of memory and threads as a default limit.

    Args:
        host: the node.
        replicas: shares of one card, 2 to 48 (16 on cards below compute capability 7.5).
        facts: cards.
        rename: shares get the resource name nvidia.com/gpu.shared.
    """
    reason = server_refuses(host, "mps") or _replicas(host, replicas) or _cut(host, "mps") or _mps_possible(host, replicas)
    if reason is not None:
        return reason
    flags = pluginfile.flags_of(host.config)
    root = None if host.env.get("MPS_ROOT") or flags.get("mpsRoot") else pluginfile.MPS_ROOT
    config = pluginfile.plugin_file("mps", replicas=replicas, rename=rename, mps_root=root, flags=flags)
    return given(host, "mps", config, _key("mps", replicas, rename), (None,) * len(host.gpus), facts)


def present(host: Host, facts: Facts) -> Given | Reason:
    """What the node gives as it is configured now; the reason is why the plugin cannot be running so."""
    if host.cloud is not None and host.cloud.plugin_managed:
        return _of_cloud(host, host.cloud, facts)
    reason = server_refuses(host, "exclusive")
    if reason is not None:
        return reason
    after = aftermath(host, host.config, host.layout, facts)
    if isinstance(after, Reason):
        return after
    slots = slots_of(after, host, host.layout, facts)
    mode = slots[0].mode if slots else "exclusive"
    isolation: Isolation = min((slot.isolation for slot in slots), key=_ORDER.index, default="none")
    return Given(mode, isolation, slots, after, cuts=host.layout)


def _of_cloud(host: Host, cloud: Cloud, facts: Facts) -> Given | Reason:
    """What a cloud's own plugin gives, by the labels in which the cloud says so."""
    if not host.gpus:
        return Reason("no-gpu", f"{host.name} has no GPU")
    said = cloud.sharing or SharingLabels()
    strategy = host.labels.get(said.strategy or "")
    clients = host.labels.get(said.clients or "", "")
    sharers = int(clients) if strategy is not None and clients.isdigit() else 1
    profile = host.labels.get(said.partition or "") or None
    mode: Mode = "exclusive" if profile is None else "mig"
    memory, cap = whole_or_slice(host, profile, facts)
    if sharers > 1:
        mode = "mps" if strategy == said.mps else "time-slicing"
        cap = facts.gpus.memory(host.gpus[0]).mib // sharers if mode == "mps" else None
        memory = share_of(memory, sharers, cap) if mode == "mps" else memory
    isolation = _ISOLATION[mode]
    slot = Slot(mode, isolation, FULL_GPU, profile, host.resources.get(FULL_GPU, 0), len(host.gpus), sharers, memory, cap)
    return Given(mode, isolation, (slot,), Aftermath(host.resources, host.labels, (host.labels,)), cuts=host.layout)


def given(
    host: Host,
    mode: Mode,
    config: Mapping[str, Any],
    key: str,
    cuts: tuple[Cut, ...],
    facts: Facts,
    *,
    labels: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Given | Reason:
    """What a configuration file and a layout give, or why the programs would not run with them.

    Args:
        host: the node as it is.
        mode: what to call it.
        config: the plugin's file.
        key: a name for the file.
        cuts: how each card will be cut.
        facts: cards and MIG geometry.
        labels: node labels to set besides the one that chooses the file.
        notes: what a person should know.
    """
    after = aftermath(host, pluginfile.text_of(config), cuts, facts)
    if isinstance(after, Reason):
        return after
    return Given(
        mode,
        _ISOLATION[mode],
        slots_of(after, host, cuts, facts),
        after,
        config,
        key,
        cuts,
        {**({CONFIG_LABEL: key} if host.named_configs else {}), **(labels or {})},
        effects(host, after, cuts, facts),
        (
            *_NOTES.get(mode, ()),
            *notes,
            *(f"a label would not be valid and may be missing: {text}" for text in after.invalid_labels),
        ),
    )


def _key(mode: str, replicas: int, rename: bool) -> str:
    return f"{mode}-{replicas}" if rename else f"{mode}-{replicas}-same-name"


def _replicas(host: Host, replicas: int) -> Reason | None:
    if replicas < 2:
        return Reason("replicas-too-few", f"on {host.name} {replicas} is no number of shares", "a card is shared by 2 or more")
    return None


def _cut(host: Host, mode: Literal["mps", "time-slicing"]) -> Reason | None:
    if not host.mig_on:
        return None
    cut = sum(layout is not None for layout in host.layout)
    return Reason(
        f"{mode}-mig-on",
        f"on {host.name} MIG is on for {cut} of {len(host.gpus)} cards",
        "turn MIG off there first, use the slices, or share another node",
    )


def _mps_possible(host: Host, replicas: int) -> Reason | None:
    if not host.gfd:
        return Reason(
            "mps-needs-gfd",
            f"on {host.name} GPU feature discovery does not run: the MPS control daemon runs only where it publishes a label",
            "enable GFD (chart: gfd.enabled=true)",
        )
    for gpu in host.gpus:
        capability = f"{gpu.product} (compute capability {gpu.compute_capability})"
        if gpu.mps != "yes":
            return Reason(
                "mps-not-limited",
                f"on {host.name} {capability} cannot limit the memory of each MPS client",
                "MPS limits clients from compute capability 7.0 on",
            )
        if gpu.unified_memory:
            return Reason(
                "mps-unified-memory",
                f"on {host.name} the driver does not say how much memory {gpu.product} has, so MPS sets no limit",
                "time-slicing promises as much there",
            )
        most = most_clients(gpu.cc)
        if replicas > most:
            return Reason(
                "mps-too-many",
                f"on {host.name} {capability} takes at most {most} MPS clients, not {replicas}",
                f"ask for at most {most}",
            )
    return None


_ORDER: tuple[Isolation, ...] = ("none", "memory", "fault")
_ISOLATION: Mapping[Mode, Isolation] = {"exclusive": "fault", "mig": "fault", "mps": "memory", "time-slicing": "none"}
_NOTES: Mapping[Mode, tuple[str, ...]] = {
    "time-slicing": (
        "nothing caps a pod's memory: the sum over all pods on a card is what counts",
        "a fault of one process can end all processes on the card",
        "asking for two shares gives no more than one",
    ),
    "mps": (
        "the limit is a default that clients inherit from the daemon",
        "whether an engine sees the limit or the whole card as its total is not verified: give it bytes, not a fraction",
        "a fatal fault of one client can end all clients of the card",
    ),
}
