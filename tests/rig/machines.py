"""The cards of all simulated nodes and who holds them: one file that `nvidia_smi` reads, written anew at every change.

Tests change it to break things: memory taken by nobody's pod, another driver, a dead card.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ragstow.facts import Facts
from ragstow.sharing.host import Cut, Host


@dataclass
class Slice:
    """A MIG device."""

    uuid: str
    profile: str
    gi: int
    total_mib: int
    multiprocessors: int
    stolen_mib: int = 0


@dataclass
class Card:
    """A card; `idle_mib` is what the driver itself keeps, `stolen_mib` what somebody outside of any pod uses."""

    index: int
    uuid: str
    name: str
    total_mib: int
    compute_capability: str
    mig_capable: bool
    idle_mib: int = 1
    stolen_mib: int = 0
    healthy: bool = True
    mig: list[Slice] | None = None


@dataclass
class Machine:
    """A node: `driver` is the kernel module, `libraries` the user-space part that containers get."""

    driver: str
    libraries: str
    cuda: str
    cards: list[Card]


@dataclass
class Guest:
    """A pod: the uuids of the cards and slices it holds and what it uses of each; `all`: it sees every card."""

    node: str
    devices: list[str] = field(default_factory=list)
    all: bool = False
    used_mib: int = 0


class World:
    """All machines and their guests; changes are made inside `changed`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: dict[str, Machine] = {}
        self.pods: dict[str, Guest] = {}
        self._lock = threading.RLock()
        self._write()

    @contextmanager
    def changed(self) -> Iterator[World]:
        """Change machines or guests; what was changed is in the file at the end of the block."""
        with self._lock:
            yield self
            self._write()

    def _write(self) -> None:
        shown: dict[str, Any] = {
            "nodes": {name: asdict(item) for name, item in self.nodes.items()},
            "pods": {name: asdict(item) for name, item in self.pods.items()},
        }
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(shown))
        new.replace(self.path)

    def card(self, node: str, index: int) -> Card:
        """One card."""
        return self.nodes[node].cards[index]

    def held(self, node: str) -> dict[str, int]:
        """Uuid of a card or slice -> how many pods of the node hold it."""
        counted: dict[str, int] = {}
        for guest in self.pods.values():
            if guest.node == node:
                for uuid in guest.devices:
                    counted[uuid] = counted.get(uuid, 0) + 1
        return counted


def machine(host: Host, facts: Facts, uuids: Mapping[int, str] | None = None) -> Machine:
    """The machine of a node, cut as the host says.

    Args:
        host: the node.
        facts: names and sizes of cards and slices.
        uuids: index -> uuid where the cluster says it (DRA); others are made up from node and index.
    """
    cards = []
    for index, gpu in enumerate(host.gpus):
        uuid = (uuids or {}).get(index) or made_up("GPU", host.name, index)
        name = driver_name(gpu.product)
        total = host.label_mib or facts.gpus.memory(gpu).mib
        cards.append(Card(index, uuid, name, total, f"{gpu.cc[0]}.{gpu.cc[1]}", gpu.mig_capable))
    driver = host.driver or "580.95.05"
    made = Machine(driver, driver, host.cuda or "13.0", cards)
    cut(made, host, host.layout, facts)
    return made


def driver_name(product: str) -> str:
    """What the driver calls a card whose label is `product`: blanks for dashes, but not before SXM, PCIE and what follows."""
    return re.sub(r"-(?!(SXM[0-9]*|PCIE)\b)(?<!SXM[0-9]-)(?<!PCIE-)", " ", product)


def cut(of: Machine, host: Host, cuts: Sequence[Cut], facts: Facts) -> None:
    """Cut the cards anew; slices of a card whose cut stays the same keep their uuids."""
    for card, gpu, wanted in zip(of.cards, host.gpus, cuts, strict=True):
        now = None if card.mig is None else [item.profile for item in card.mig]
        names = None if wanted is None else [name for name, count in wanted.items() for _ in range(count)]
        if now == names:
            continue
        card.mig = None
        geometry = facts.mig.of(gpu)
        if names is None or geometry is None:
            continue
        card.mig = []
        for number, name in enumerate(names):
            profile = geometry.profile(name)
            assert profile is not None, f"{gpu.product} has no {name}"
            uuid = made_up("MIG", host.name, card.index * 16 + number)
            sms = profile.multiprocessors or 0
            card.mig.append(Slice(uuid, name, 7 + number, profile.memory.mib, sms))


def made_up(kind: str, node: str, number: int) -> str:
    """A uuid that is always the same for the same thing."""
    import uuid

    return f"{kind}-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{kind}.{number}.{node}')}"


Uses = Callable[[Mapping[str, Any]], int]
"""A pod -> MiB that it uses of each device it holds."""
