"""From a proved design to what each node's layout is and what must change for it.

The plugin's configuration is the one in force with only the sharing replaced; shares are renamed, so nothing lands on them by
mistake. Leftover slices of a cut card are filled up with profiles that nobody of the service reaches, or of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.objects import Node
from ragstow.inventory.inforce import CONFIG_LABEL
from ragstow.inventory.model import NodeGpus
from ragstow.plan.after import After, NodeAfter
from ragstow.plan.afterlabels import OURS, VENDOR, afterwards
from ragstow.plan.change import cut_name
from ragstow.plan.kinds import FULL_GPU
from ragstow.plan.model import NodeLayout, PluginInstall
from ragstow.plan.problem import KEEP, NodeState
from ragstow.plan.situation import POOL_LABEL, Situation
from ragstow.plan.supply import Supply
from ragstow.sharing import miglayout

_MIG_CONFIG, _MIG_STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
_OFF = "all-disabled"
_SHARING_KEY = {"time-slicing": "timeSlicing", "mps": "mps"}


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
    wishes = {name: _wish(offered, name, changed) for name, changed in state.design.changed.items()}
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


def _wish(offered: Supply, name: str, state: NodeState) -> _Wish:
    kinds = [[(offered.kinds[key], count) for key, count in cut.slots] for cut in state.cuts]
    used = {kind.profile for cut in kinds for kind, _ in cut if kind.mode == "mig" and kind.profile}
    cuts = tuple(
        _filled(offered, name, {kind.profile: count for kind, count in cut if kind.mode == "mig" and kind.profile}, used)
        for cut in kinds
    )
    if any(cuts):
        single = any(kind.mode == "mig" and kind.resource == FULL_GPU for cut in kinds for kind, _ in cut)
        return _Wish("mig-single" if single else "mig-mixed", 1, cuts)
    shared = next((kind for cut in kinds for kind, _ in cut if kind.sharers > 1), None)
    if shared is not None:
        return _Wish(shared.mode, shared.sharers, cuts)
    return _Wish("exclusive", 1, cuts)


def _filled(offered: Supply, name: str, cut: Mapping[str, int], used: set[str]) -> Mapping[str, int]:
    """A cut with its leftover room given to profiles that no component uses: few profiles, then few slices, then names."""
    geometry = offered.cards[name].geometry
    if not cut or geometry is None:
        return dict(cut)
    kinds = miglayout.kinds_of(geometry, driver=offered.cards[name].driver)
    plain = {profile: kind for profile, kind in kinds.items() if "+" not in profile and "-me" not in profile}
    fitting = [
        layout
        for layout in miglayout.layouts(plain).legal
        if all(layout.get(profile, 0) == cut.get(profile, 0) for profile in used | set(cut))
    ]
    full = [layout for layout in fitting if not any(_inside(layout, other) for other in fitting)]
    best = min(full, key=lambda layout: (len(layout), sum(layout.values()), sorted(layout.items())), default=cut)
    order = list(plain)
    return {profile: best[profile] for profile in sorted(best, key=order.index)}


def _inside(layout: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return layout != other and all(other.get(profile, 0) >= count for profile, count in layout.items())


def _changed(situation: Situation, offered: Supply, node: NodeAfter, wish: _Wish, mig_name: str) -> NodeLayout:
    install, raw, gpus = situation.install, situation.nodes[node.name], situation.gpus[node.name]
    was_cut = gpus.sharing in ("mig-mixed", "mig-single")
    cutting = was_cut or any(wish.cuts)
    strategy = _strategy(install, wish)
    config = _plugin_config(gpus, wish, strategy, by_file=install.kind != "operator")
    configured = _needs_config(gpus, wish, by_file=install.kind != "operator")
    wanted = {POOL_LABEL: situation.service}
    key = f"{situation.service}-{wish.sharing}{f'-{wish.shares}' if wish.shares > 1 else ''}" if configured else None
    if key is not None:
        wanted[CONFIG_LABEL] = key
    mig: dict[int, Mapping[str, int]] | None = None
    layout_name = None
    if cutting:
        mig = dict(enumerate(wish.cuts))
        layout_name = _known_layout(install, offered, node.name, wish) or mig_name
        if install.kind == "operator":
            wanted[_MIG_CONFIG] = layout_name
    end = afterwards(raw, offered.cards[node.name], wish.cuts, config, strategy if install.kind == "operator" else None)
    labels_after = {**_visible(raw.labels), **end.labels, **wanted}
    labels_after = {
        key: value for key, value in labels_after.items() if key in end.labels or not key.startswith("nvidia.com/mig-")
    }
    if _MIG_CONFIG in wanted:
        labels_after[_MIG_STATE] = "success"
    return NodeLayout(
        node=node.name,
        sharing=wish.sharing,
        changes=_words(wish, gpus, was_cut=was_cut, pool=situation.service),
        disturbs=offered.disturbs.get(node.name, ()),
        plugin_config=config if configured else None,
        plugin_config_key=key,
        mig=mig,
        mig_layout=layout_name,
        labels=dict(sorted(wanted.items())),
        labels_before={key: raw.labels[key] for key in sorted(wanted) if key in raw.labels},
        labels_after=dict(sorted(labels_after.items())),
        resources_after=end.resources,
    )


def _strategy(install: PluginInstall, wish: _Wish) -> str | None:
    if any(wish.cuts):
        return "single" if wish.sharing == "mig-single" else "mixed"
    return install.mig_strategy


def _needs_config(gpus: NodeGpus, wish: _Wish, *, by_file: bool) -> bool:
    """Whether the plugin needs another file: for shares, to undo shares, and for a MIG strategy that no environment sets."""
    return wish.shares > 1 or gpus.sharing in ("time-slicing", "mps") or (by_file and any(wish.cuts))


def _plugin_config(gpus: NodeGpus, wish: _Wish, strategy: str | None, *, by_file: bool) -> dict[str, Any]:
    current = dict(gpus.config.config) if gpus.config is not None and gpus.config.config is not None else {}
    config: dict[str, Any] = {
        "version": "v1",
        **{key: value for key, value in current.items() if key not in ("version", "sharing")},
    }
    if by_file and any(wish.cuts):
        flags = current.get("flags")
        config["flags"] = {**(flags if isinstance(flags, Mapping) else {}), "migStrategy": strategy}
    if wish.shares > 1:
        config["sharing"] = {
            _SHARING_KEY[wish.sharing]: {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": FULL_GPU, "replicas": wish.shares}],
            }
        }
    return config


def _known_layout(install: PluginInstall, offered: Supply, name: str, wish: _Wish) -> str | None:
    """The name under which the MIG manager already knows this layout, where all cards are cut alike."""
    if not any(wish.cuts):
        return _OFF
    geometry = offered.cards[name].geometry
    if install.kind != "operator" or geometry is None or len({_frozen(cut) for cut in wish.cuts}) > 1:
        return None
    known = install.mig_config_data.get("config.yaml", "")
    for layout, profiles in geometry.default_layouts.items():
        if _frozen(profiles) == _frozen(wish.cuts[0]) and f"{layout}:" in known:
            return layout
    return None


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
