"""What nvidia-smi said: cards, slices, processes, and what it could not say. Data only.

A value that nvidia-smi does not give ([N/A], Not Supported, ERR!, Insufficient Permissions) is None; where that is a sign of a
broken card it is a fault as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FailureKind = Literal[
    "no-devices",
    "driver-unreachable",
    "driver-not-loaded",
    "version-mismatch",
    "library-missing",
    "permissions",
    "device-lost",
    "nvml-unknown",
    "program-missing",
    "unreadable",
]


@dataclass(frozen=True, slots=True)
class Failure:
    """nvidia-smi (or what should start it) gave no device list: the kind of failure and its own words."""

    kind: FailureKind
    text: str


@dataclass(frozen=True, slots=True)
class Slice:
    """A MIG device: `number` as nvidia-smi counts them on its card, GPU and compute instance ids, memory in MiB."""

    number: int | None = None
    profile: str | None = None
    uuid: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    used_mib: int | None = None
    total_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """A card: `name` as NVML says it, or the beginning of it where `cut`; `mig` None where the card has no MIG mode.

    `faults` are signs that the card is broken, in nvidia-smi's words ("ERR! in the table", "GPU is lost").
    """

    index: int
    name: str | None = None
    cut: bool = False
    uuid: str | None = None
    bus_id: str | None = None
    used_mib: int | None = None
    total_mib: int | None = None
    mig: bool | None = None
    mig_pending: bool = False
    compute_mode: str | None = None
    slices: tuple[Slice, ...] = ()
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a card; `kind` is C, G, C+G or M+C (a client of MPS). A container without hostPID sees none but its own."""

    card: int
    pid: int | None
    kind: str
    name: str
    used_mib: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One output, or several merged.

    `driver` is the kernel driver's version, `program` the version of nvidia-smi and its library (they differ under WSL), `cuda`
    the newest CUDA that the driver runs. `processes` is None where the output says nothing of processes.
    """

    driver: str | None = None
    program: str | None = None
    cuda: str | None = None
    cards: tuple[Card, ...] = ()
    processes: tuple[Process, ...] | None = None
    faults: tuple[str, ...] = ()
    failure: Failure | None = None
