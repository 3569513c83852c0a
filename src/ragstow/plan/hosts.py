"""A node in the form in which `sharing` says what each mode gives on it."""

from __future__ import annotations

from collections.abc import Mapping

from ragstow.cluster.objects import Node
from ragstow.inventory.identity import provider_id
from ragstow.inventory.model import LayoutGroup, NodeGpus
from ragstow.plan.cardfacts import CardFacts
from ragstow.plan.install import plugin_environment
from ragstow.plan.situation import Situation
from ragstow.sharing.host import Cut, Host, Install, Server

_GPU = "nvidia.com/"


def host_of(situation: Situation, node: Node, gpus: NodeGpus, card: CardFacts) -> Host | None:
    """The node as a host; None where its product is not in the facts, so that nothing is known of its cards.

    The plugin's configuration is chosen by a node label, since what the planner makes is rendered so.
    """
    if card.gpu is None:
        return None
    install = situation.install
    key = gpus.config.key if gpus.config is not None else None
    kind: Install = install.kind if install.kind in ("chart", "operator", "static", "cloud", "dra") else "none"  # type: ignore[assignment]  # the same words
    return Host(
        name=node.name,
        gpus=(card.gpu,) * max(gpus.cards, 1),
        cuts=_cuts(gpus.layout, gpus.cards),
        label_mib=gpus.memory_mib_per_card,
        driver=gpus.driver,
        cuda=gpus.cuda,
        server=_server(gpus, kind),
        install=kind,
        cloud=situation.facts.clouds.of_node(node.labels, provider_id(node), node.kubelet_version or ""),
        config=install.config_data.get(key) if key is not None else None,
        env=plugin_environment(situation.snapshot, install, situation.facts),
        named_configs=True,
        gfd=install.gfd,
        mig_manager=install.kind == "operator" and install.mig_config_map is not None,
        labels={name: value for name, value in node.labels.items() if name.startswith(_GPU)},
        resources={name: count for name, count in node.allocatable.items() if name.startswith(_GPU)},
    )


def _server(gpus: NodeGpus, kind: Install) -> Server:
    by_state: Mapping[str, Server] = {"dra": "dra", "hami": "hami", "kai": "kai", "none": "none"}
    return by_state.get(gpus.sharing) or ("cloud" if kind == "cloud" else "device-plugin" if kind != "none" else "none")


def _cuts(layout: tuple[LayoutGroup, ...], cards: int) -> tuple[Cut, ...]:
    """The cut of each card by index; empty where the data do not tell, or all are whole."""
    found: dict[int, Cut] = {}
    number = 0
    for group in layout:
        for index in group.cards if group.cards is not None else range(number, number + group.count):
            found[index] = group.mig
        number += group.count
    if not any(cut is not None for cut in found.values()) or sorted(found) != list(range(max(cards, 1))):
        return ()
    return tuple(found[index] for index in sorted(found))
