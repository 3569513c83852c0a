"""Mode mig: which slices a node's cards can be cut into, and what a chosen layout gives, or why it cannot be made.

Layouts are for a whole node, one cut for each card. Strategy single wants every card cut alike and shows the slices as
nvidia.com/gpu, strategy mixed gives every profile a resource of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.facts.mig import Geometry, MigProfile
from ragstow.sharing import miglayout, pluginfile, verdict
from ragstow.sharing.host import Cut, Host
from ragstow.sharing.modes import LAYOUT_LABEL, Given, given, server_refuses


@dataclass(frozen=True, slots=True)
class Cuttable:
    """What a node's cards can be cut into: geometry, the profiles their driver knows, every legal layout of a card."""

    geometry: Geometry
    profiles: tuple[MigProfile, ...]
    layouts: miglayout.Layouts


def strategy_of(host: Host) -> str:
    """The MIG strategy in force: environment and flags beat the file."""
    read = verdict.plugin(host.config, env=host.env, args=host.args)
    return read.effective.mig_strategy if read.effective is not None else "none"


def cuttable(host: Host, facts: Facts, *, base_only: bool = False) -> Cuttable | Reason:
    """What the cards of a node can be cut into, or why they cannot.

    Args:
        host: the node.
        facts: MIG geometry.
        base_only: only plain profiles, no double memory and no suffixes.
    """
    reason = server_refuses(host, "mig")
    if reason is not None:
        return reason
    if len(host.products) > 1:
        return Reason("mig-several-products", f"{host.name} has several kinds of cards: {', '.join(host.products)}")
    gpu = host.gpus[0]
    geometry = facts.mig.of(gpu)
    if geometry is None:
        return Reason(
            "mig-not-capable", f"on {host.name} {gpu.product} cannot be cut into MIG slices", "use mps or time-slicing"
        )
    need = geometry.card.min_driver
    if host.older_than(need):
        return Reason(
            "mig-driver-too-old",
            f"on {host.name} driver {host.driver} is older than {need}, which MIG on {gpu.product} needs",
            f"update the driver to {need} or newer",
        )
    if host.driver in geometry.card.broken_drivers:
        why = f"on {host.name} MIG does not work with driver {host.driver} on {gpu.product}"
        return Reason("mig-driver-broken", why, "use another driver")
    kinds = miglayout.kinds_of(geometry, driver=host.driver, base_only=base_only)
    profiles = tuple(profile for profile in geometry.profiles if profile.name in kinds)
    return Cuttable(geometry, profiles, miglayout.of_geometry(geometry, driver=host.driver, base_only=base_only))


def mig(host: Host, cuts: Sequence[Cut], facts: Facts, *, strategy: str | None = None) -> Given | Reason:
    """What a layout of the whole node gives.

    Args:
        host: the node.
        cuts: for each card profile -> instances, or None to leave it whole.
        facts: MIG geometry.
        strategy: the MIG strategy to have afterwards; default: the one in force, or mixed where that is none.
    """
    able = cuttable(host, facts)
    if isinstance(able, Reason):
        return able
    if len(cuts) != len(host.gpus):
        return Reason("mig-layout-cards", f"{host.name} has {len(host.gpus)} cards, the layout names {len(cuts)}")
    wrong = _illegal(host, cuts, able)
    if wrong is not None:
        return wrong
    fault = (
        facts.drivers.fault(host.driver, "mig-beside-whole") if None in cuts and any(cut is not None for cut in cuts) else None
    )
    if fault is not None:
        why = f"on {host.name} with driver {host.driver} {fault.text}"
        return Reason("mig-driver-fault", why, f"cut all cards of the node, or use a driver newer than {fault.last}")
    now = strategy_of(host)
    wanted = strategy or (now if now != "none" else "mixed")
    fixed = "MIG_STRATEGY" in host.env or any(arg.startswith(("--mig-strategy", "-mig-strategy")) for arg in host.args)
    if fixed and wanted != now:
        return Reason(
            "mig-strategy-fixed",
            f"on {host.name} the plugin's environment sets MIG strategy {now}, not {wanted}, and that beats its file",
            f"set mig.strategy to {wanted} where the plugin is installed; that is for all nodes",
        )
    config = pluginfile.plugin_file("none", mig_strategy=wanted, flags=pluginfile.flags_of(host.config))
    chosen = tuple(cuts)
    name = layout_name(able.geometry, chosen)
    labels = {LAYOUT_LABEL: name} if host.mig_manager and name is not None else {}
    made = given(host, "mig", config, f"mig-{wanted}", chosen, facts, labels=labels, notes=_notes(host, able))
    if isinstance(made, Reason):
        uneven = wanted == "single" and made.code == "plugin-refuses"
        hint = "strategy single needs every card cut, and all into one profile; mixed does not" if uneven else made.hint
        return replace(made, hint=hint)
    if wanted == now:
        return made
    return replace(made, side_effects=(*made.side_effects, f"MIG strategy becomes {wanted} (now {now})"))


def layout_name(geometry: Geometry, cuts: Sequence[Cut]) -> str | None:
    """The default layout of mig-parted that cuts the cards so; None where a layout of one's own is needed."""
    first = cuts[0] if cuts else None
    if any(cut != first for cut in cuts):
        return None
    if first is None:
        return "all-disabled"
    wanted = {name: count for name, count in first.items() if count}
    if not wanted:
        return "all-enabled"
    return next((name for name, counts in geometry.default_layouts.items() if counts == wanted), None)


def _notes(host: Host, able: Cuttable) -> tuple[str, ...]:
    notes = []
    if not host.mig_manager:
        notes.append("no MIG manager runs on the node: the cards must be cut by hand (nvidia-smi mig, or mig-parted)")
    if able.geometry.card.placements == "assumed":
        notes.append(f"placements on {host.gpus[0].product} are assumed from cards of the same shape")
    if host.driver is None and any(profile.min_driver for profile in able.geometry.profiles):
        notes.append(f"the driver is unknown; MIG needs {able.geometry.card.min_driver} or newer, some profiles a newer one")
    return tuple(notes)


def _illegal(host: Host, cuts: Sequence[Cut], able: Cuttable) -> Reason | None:
    known = [profile.name for profile in able.profiles]
    kinds = miglayout.kinds_of(able.geometry, driver=host.driver)
    product = host.gpus[0].product
    for index, cut in enumerate(cuts):
        for name in cut or {}:
            if name in known:
                continue
            near = able.geometry.profile(name)
            if near is not None and near.min_driver is not None and near.name not in known:
                why = f"on {host.name} driver {host.driver} does not know profile {near.name} of {product}"
                return Reason("mig-profile-driver", why, f"update the driver to {near.min_driver} or newer")
            return Reason("mig-profile-unknown", f"{product} has no MIG profile {name}", f"profiles: {', '.join(known)}")
        if cut and miglayout.place(kinds, cut, miglayout.exclusive_of(kinds)) is None:
            shown = ", ".join(f"{count} x {name}" for name, count in cut.items())
            return Reason("mig-layout-illegal", f"{shown} do not fit on one {product} (card {index} of {host.name})")
    return None
