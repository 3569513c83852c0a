"""From a proved design to what each node's layout is and what must change for it.

The plugin's configuration is the one in force with only the sharing replaced; shares are renamed, so nothing lands on them by
mistake. What follows for labels and resources is `sharing`'s word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragstow.cluster.objects import Node
from ragstow.errors import Reason
from ragstow.inventory.model import NodeGpus
from ragstow.plan.after import After, NodeAfter
from ragstow.plan.change import cut_name
from ragstow.plan.kinds import FULL_GPU
from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.plan.problem import KEEP, NodeState
from ragstow.plan.situation import POOL_LABEL, Situation
from ragstow.plan.supply import Supply
from ragstow.sharing import migmode, modes
from ragstow.sharing.host import Host
from ragstow.sharing.modes import CONFIG_LABEL, LAYOUT_LABEL, Given

VENDOR, OURS = "nvidia.com/", "ragstow.dev/"
_MIG_STATE = "nvidia.com/mig.config.state"
_OFF = "all-disabled"


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a changed node becomes: sharing state, shares of a card, MIG instances of each card by profile."""

    sharing: str
    shares: int
    cuts: tuple[Mapping[str, int], ...]


def layouts(situation: Situation, offered: Supply, state: After, used: frozenset[str]) -> tuple[NodeLayout, ...]:
    """The layouts of all nodes that change or that a pod of the service may be on with a GPU, by name.

    Args:
        situation: the cluster.
        offered: nodes and cards.
        state: the proved design on the cluster.
        used: nodes where pods are placed.
    """
    names = dict.fromkeys(state.design.changed, f"ragstow-{situation.service}")
    wishes = {name: _wish(offered, changed) for name, changed in state.design.changed.items()}
    distinct = list(dict.fromkeys(tuple(_frozen(cut) for cut in wish.cuts) for wish in wishes.values() if any(wish.cuts)))
    if len(distinct) > 1:
        for name, wish in wishes.items():
            if any(wish.cuts):
                names[name] += f"-{distinct.index(tuple(_frozen(cut) for cut in wish.cuts)) + 1}"
    made = []
    for node in state.nodes:
        if node.name in wishes:
            made.append(_changed(situation, offered, node, wishes[node.name], names[node.name]))
        elif node.name in used and node.supply.cards:
            made.append(_kept(situation, node))
    return tuple(made)


def _frozen(cut: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(cut.items()))


def _kept(situation: Situation, node: NodeAfter) -> NodeLayout:
    raw, gpus = situation.nodes[node.name], situation.gpus[node.name]
    mig: dict[int, Mapping[str, int]] | None = None
    if gpus.layout and all(group.cards is not None for group in gpus.layout):
        mig = {index: dict(group.mig or {}) for group in gpus.layout for index in group.cards or ()}
    return NodeLayout(
        node=node.name,
        sharing=gpus.sharing,
        mig=dict(sorted(mig.items())) if mig else None,
        labels_after=_visible(raw.labels),
        resources_after={name: use.allocatable for name, use in gpus.resources.items()},
    )


def _visible(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in sorted(labels.items()) if key.startswith((VENDOR, OURS))}


def _wish(offered: Supply, state: NodeState) -> _Wish:
    kinds = [[(offered.kinds[key], count) for key, count in cut.slots] for cut in state.cuts]
    cuts = tuple({kind.profile: count for kind, count in cut if kind.mode == "mig" and kind.profile} for cut in kinds)
    if any(cuts):
        single = any(kind.mode == "mig" and kind.resource == FULL_GPU for cut in kinds for kind, _ in cut)
        return _Wish("mig-single" if single else "mig-mixed", 1, cuts)
    shared = next((kind for cut in kinds for kind, _ in cut if kind.sharers > 1), None)
    if shared is not None:
        return _Wish(shared.mode, shared.sharers, cuts)
    return _Wish("exclusive", 1, cuts)


def _changed(situation: Situation, offered: Supply, node: NodeAfter, wish: _Wish, mig_name: str) -> NodeLayout:
    install, raw, gpus = situation.install, situation.nodes[node.name], situation.gpus[node.name]
    was_cut = gpus.sharing in ("mig-mixed", "mig-single")
    made = _given(situation, offered.hosts[node.name], wish, was_cut=was_cut)
    configured = made.config is not None and _needs_config(gpus, wish, by_file=install.kind != "operator")
    wanted = {POOL_LABEL: situation.service}
    key = f"{situation.service}-{made.config_key}" if configured else None
    if key is not None:
        wanted[CONFIG_LABEL] = key
    mig: dict[int, Mapping[str, int]] | None = None
    layout_name = None
    if was_cut or any(wish.cuts):
        mig = dict(enumerate(wish.cuts))
        layout_name = _known_layout(install, made) or mig_name
        if install.kind == "operator":
            wanted[LAYOUT_LABEL] = layout_name
    labels_after = {**_visible(raw.labels), **made.after.labels, **wanted}
    gone = {key for key in _visible(raw.labels) if key.startswith(VENDOR) and key not in made.after.labels}
    labels_after = {key: value for key, value in labels_after.items() if key not in gone or key in wanted}
    if LAYOUT_LABEL in wanted:
        labels_after[_MIG_STATE] = "success"
    return NodeLayout(
        node=node.name,
        sharing=wish.sharing,
        changes=_words(wish, gpus, was_cut=was_cut, pool=situation.service),
        disturbs=offered.disturbs.get(node.name, ()),
        plugin_config=dict(made.config) if configured and made.config is not None else None,
        plugin_config_key=key,
        mig=mig,
        mig_layout=layout_name,
        labels=dict(sorted(wanted.items())),
        labels_before={key: raw.labels[key] for key in sorted(wanted) if key in raw.labels},
        labels_after=dict(sorted(labels_after.items())),
        resources_after=dict(sorted(made.after.resources.items())),
    )


def _given(situation: Situation, host: Host, wish: _Wish, *, was_cut: bool) -> Given:
    """What `sharing` says of the node afterwards.

    Raises:
        RuntimeError: it refuses what it allowed when the supply was made (a bug).
    """
    facts = situation.facts
    made: Given | Reason
    if any(wish.cuts):
        strategy = "single" if wish.sharing == "mig-single" else "mixed"
        # Under the operator the strategy is a setting of the whole cluster, which the plan changes with it.
        able = replace(host, env={**host.env, "MIG_STRATEGY": strategy}) if "MIG_STRATEGY" in host.env else host
        made = migmode.mig(able, [cut or None for cut in wish.cuts], facts, strategy=strategy)
    else:
        uncut = replace(host, cuts=()) if was_cut else host
        if wish.sharing == "time-slicing":
            made = modes.time_slicing(uncut, wish.shares, facts)
        elif wish.sharing == "mps":
            made = modes.mps(uncut, wish.shares, facts)
        else:
            made = modes.exclusive(uncut, facts)
    if isinstance(made, Reason):
        raise RuntimeError(f"{host.name}: {made}")
    return made


def _needs_config(gpus: NodeGpus, wish: _Wish, *, by_file: bool) -> bool:
    """Whether the plugin needs another file: for shares, to undo shares, and for a MIG strategy that no environment sets."""
    return wish.shares > 1 or gpus.sharing in ("time-slicing", "mps") or (by_file and any(wish.cuts))


def _known_layout(install: PluginInstall, made: Given) -> str | None:
    """The name under which the MIG manager already knows this layout."""
    name = made.labels_to_set.get(LAYOUT_LABEL)
    if not any(made.cuts):
        return name or _OFF
    return name if name is not None and f"{name}:" in install.mig_config_data.get("config.yaml", "") else None


def _words(wish: _Wish, gpus: NodeGpus, *, was_cut: bool, pool: str) -> tuple[str, ...]:
    changes: list[str] = []
    if any(wish.cuts):
        groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
        for index, cut in enumerate(wish.cuts):
            groups.setdefault(tuple(cut.items()), []).append(index)
        changes += [
            f"card {_range(cards)}: {cut_name(dict(cut))}"
            if len(cards) == 1
            else f"cards {_range(cards)}: {cut_name(dict(cut))}"
            for cut, cards in groups.items()
            if cut
        ]
    elif was_cut:
        changes.append("MIG: off on all cards")
    if wish.shares > 1:
        how = "time-slicing" if wish.sharing == "time-slicing" else "MPS"
        changes.append(f"{how}: {wish.shares} shares of each card, renamed nvidia.com/gpu.shared")
    elif gpus.sharing in ("time-slicing", "mps"):
        changes.append("sharing: off, cards are whole again")
    return (*changes, f"label {POOL_LABEL}={pool}")


def _range(cards: list[int]) -> str:
    return (
        f"{cards[0]}-{cards[-1]}"
        if len(cards) > 2 and cards == list(range(cards[0], cards[-1] + 1))
        else ", ".join(map(str, cards))
    )


def unchanged(node: NodeAfter) -> bool:
    """Whether the design leaves a node as it is."""
    return node.config == KEEP


def with_changes(node: Node, layout: NodeLayout) -> dict[str, Any]:
    """The raw node with the labels and GPU resources of its layout, for simulating what comes after."""
    raw = dict(node.raw)
    meta, status = dict(raw.get("metadata") or {}), dict(raw.get("status") or {})
    labels = {key: value for key, value in node.labels.items() if not key.startswith((VENDOR, OURS))}
    meta["labels"] = {**labels, **layout.labels_after}
    for part in ("capacity", "allocatable"):
        kept = {key: value for key, value in (status.get(part) or {}).items() if key not in layout.resources_after}
        status[part] = {**kept, **{key: str(count) for key, count in layout.resources_after.items()}}
    raw["metadata"], raw["status"] = meta, status
    return raw
