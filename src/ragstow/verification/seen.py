"""What was seen inside one container: the devices that it can use, and the evidence for each statement.

Whoever asked the cluster fills a `Look`; the devices are worked out here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragstow.verification.model import Evidence
from ragstow.verification.smi.model import Card, Reading


@dataclass(frozen=True, slots=True)
class Answer:
    """One command in a container: how to run it again, its exit code (None: it did not end in time), what it printed."""

    command: str
    code: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Look:
    """What asking one container gave.

    `reading` merges all outputs of nvidia-smi; `answers` are the outputs by name (table, list, rows, details); `hung` says that
    nvidia-smi did not end, `refused` why the container could not be asked at all, `forbidden` that a right is missing.
    `cuda` is the CUDA version that the image says it was built with.
    """

    reading: Reading = field(default_factory=Reading)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    hung: str = ""
    refused: str = ""
    forbidden: str = ""
    cuda: str | None = None

    def evidence(self, name: str, *words: str) -> tuple[Evidence, ...]:
        """The lines of an output that hold one of these words, or all its first lines where none is given."""
        answer = self.answers.get(name)
        if answer is None:
            return ()
        lines = [line.strip() for line in answer.text.splitlines() if line.strip()]
        wanted = [line for line in lines if any(word and word in line for word in words)] if words else lines[:3]
        return tuple(Evidence(answer.command, line) for line in wanted[:4])


@dataclass(frozen=True, slots=True)
class Device:
    """A card or slice that a container can use; `card_uuid` is that of the card under a slice."""

    slice: bool
    index: int
    name: str | None
    cut: bool
    uuid: str | None
    card_uuid: str | None
    profile: str | None
    used_mib: int | None
    total_mib: int | None
    faults: tuple[str, ...]

    @property
    def title(self) -> str:
        """For people."""
        what = f"slice {self.profile or ''}".rstrip() if self.slice else "card"
        return f"{what} {self.name or 'of unknown name'} ({self.uuid or f'index {self.index}'})"


def devices(reading: Reading) -> tuple[Device, ...]:
    """The devices of a container: its slices, and the cards that are not cut. A cut card without a slice is no device."""
    found: list[Device] = []
    for card in reading.cards:
        if card.mig:
            found += _slices(card)
        else:
            found.append(
                Device(
                    slice=False,
                    index=card.index,
                    name=card.name,
                    cut=card.cut,
                    uuid=card.uuid,
                    card_uuid=card.uuid,
                    profile=None,
                    used_mib=card.used_mib,
                    total_mib=card.total_mib,
                    faults=card.faults,
                )
            )
    return tuple(found)


def _slices(card: Card) -> list[Device]:
    return [
        Device(
            slice=True,
            index=card.index,
            name=card.name,
            cut=card.cut,
            uuid=item.uuid,
            card_uuid=card.uuid,
            profile=item.profile,
            used_mib=item.used_mib,
            total_mib=item.total_mib,
            faults=card.faults,
        )
        for item in card.slices
    ]
