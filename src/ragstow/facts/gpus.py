"""Cards: product labels, memory as the label and as CUDA sees it, architecture, and what is not verified about them.

Lookups take a label value as a node carries it, with the suffixes that sharing adds. Memory of a MIG slice and the geometry
are in `mig`; what a mode gives is `sharing`'s work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from ragstow.facts.table import Count, Date, Mib, Table, Text, Version

ComputeCapability = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]$")]

# sizing reference 1.7: visible = label/1024 - 0.45 GiB below 40 GB, - 0.6 GiB from there on; measured gaps lie in these bands.
_GAP_SMALL_MIB, _GAP_LARGE_MIB, _LARGE_MIB = 461, 615, 40 * 1024
_GAP_BAND_SMALL_MIB, _GAP_BAND_LARGE_MIB = (225, 560), (461, 880)
# A label value above this counts bytes (seen in one distribution's documentation), not MiB.
_BYTES_FROM = 1_000_000


@dataclass(frozen=True, slots=True)
class Gpu:
    """One row: a card, a vGPU profile, a slice that single-strategy nodes show as a product, or a display adapter that the
    device plugin passes over.

    `product` is the value of nvidia.com/gpu.product without suffixes. `memory_mib` is what nvidia-smi and the label say (None:
    never seen), `nominal_mib` the size it is sold with, `cuda_visible_gib` what CUDA reports where that was measured,
    `older_labels_mib` label values of older drivers or of the other ECC setting. `mig` names the geometry in the MIG tables.
    `mps` is "limited" where clients cannot be limited one by one (before Volta). `unverified` lists columns seen in no source.
    """

    product: Text
    kind: Literal["card", "vgpu", "slice", "display"]
    name: Text
    architecture: Text
    family: Text
    compute_capability: ComputeCapability
    nominal_mib: Mib
    label_confidence: Literal["seen", "rule", "assumed"]
    mps: Literal["yes", "limited", "no"]
    source: Text
    checked: Date
    aliases: tuple[str, ...] = ()
    memory_mib: Mib | None = None
    older_labels_mib: tuple[Mib, ...] = ()
    cuda_visible_gib: Annotated[float, msgspec.Meta(gt=0)] | None = None
    unified_memory: bool = False
    memory_bandwidth_gb_s: Count | None = None
    dense_bf16_tflops: float | None = None
    dense_fp8_tflops: float | None = None
    dense_fp4_tflops: float | None = None
    tdp_w: Count | None = None
    nvlink: str | None = None
    mig: str | None = None
    min_driver: Version | None = None
    cloud_instances: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    notes: str = ""

    @property
    def cc(self) -> tuple[int, int]:
        """Compute capability as (major, minor)."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major), int(minor)

    @property
    def mig_capable(self) -> bool:
        """Whether the card can be cut into MIG instances."""
        return self.kind == "card" and self.mig is not None


@dataclass(frozen=True, slots=True)
class Memory:
    """An amount of card memory in MiB: the value to reckon with, [low, high], and whether it was measured."""

    mib: int
    band_mib: tuple[int, int]
    measured: bool
    source: str


def _check(row: Gpu) -> Iterable[str]:
    if row.memory_mib is not None and not row.unified_memory and row.memory_mib > row.nominal_mib * 1.02:
        yield f"memory_mib {row.memory_mib} is more than the nominal {row.nominal_mib}"
    # Logs print one or two decimals of a GiB.
    if row.cuda_visible_gib is not None and row.memory_mib is not None and row.cuda_visible_gib * 1024 > row.memory_mib + 52:
        yield f"cuda_visible_gib {row.cuda_visible_gib} is more than memory_mib {row.memory_mib}"
    columns = Gpu.__dataclass_fields__
    yield from (f"unverified names {name!r}, which is no column" for name in row.unverified if name not in columns)


TABLE = Table("gpus.csv", Gpu, ("product",), _check)


@dataclass(frozen=True, slots=True)
class Product:
    """A product label taken apart: the bare product, the MIG profile as the label spells it (`.` for `+`), the sharing mark."""

    base: str
    profile: str | None = None
    shared: bool = False


_SUFFIX = re.compile(r"^(?P<base>.+?)(?:-MIG-(?P<profile>[^\s]+?))?(?P<shared>-SHARED)?$", re.IGNORECASE)


def split_product(label: str) -> Product:
    """Take `<product>[-MIG-<profile>][-SHARED]` apart (GFD internal/lm/resource.go: suffix order)."""
    match = _SUFFIX.match(label.strip())
    if match is None:
        return Product(label)
    return Product(match["base"], match["profile"], match["shared"] is not None)


def _tail(product: str) -> str:
    text = re.sub(r"[\s]+", "-", product.strip()).casefold()
    # Drivers before R470 lack the vendor prefix, and some labels have it in the place of the older brand.
    return re.sub(r"^(?:nvidia-|tesla-)+", "", text)


class Gpus:
    """The rows, found by label."""

    def __init__(self, rows: tuple[Gpu, ...]) -> None:
        self.rows = rows
        self._by_product = {row.product: row for row in rows}
        self._by_tail: dict[str, Gpu] = {}
        for row in rows:
            for name in (row.product, *row.aliases):
                self._by_tail.setdefault(_tail(name), row)

    @property
    def cards(self) -> tuple[Gpu, ...]:
        """Only physical cards, in the order of the table."""
        return tuple(row for row in self.rows if row.kind == "card")

    def find(self, label: str) -> Gpu | None:
        """The card that a product label (or an NVML name, or a name without vendor prefix) means; None where unknown.

        Suffixes of sharing and MIG are ignored, so is case.
        """
        row = self._by_product.get(label)
        if row is not None and row.kind != "slice":
            return row
        return self._by_tail.get(_tail(split_product(label).base))

    def label_mib(self, value: str) -> int | None:
        """The MiB that a memory label says; a number of bytes is turned into MiB; None where it is no number or zero."""
        if not value.isdigit() or int(value) == 0:
            return None
        return int(value) // 2**20 if int(value) > _BYTES_FROM else int(value)

    def memory(self, gpu: Gpu) -> Memory:
        """What the label of this card says or, where that was never seen, what its nominal size lets expect."""
        if gpu.memory_mib is not None:
            measured = "memory_mib" not in gpu.unverified
            low = gpu.memory_mib if measured else gpu.memory_mib * 15 // 16
            return Memory(gpu.memory_mib, (low, gpu.memory_mib), measured, gpu.source)
        low = gpu.nominal_mib * 15 // 16
        # ECC kept in GDDR memory takes a sixteenth, as on every such card that was seen.
        return Memory(low, (low, gpu.nominal_mib), False, "nominal size less a sixteenth for ECC (estimated)")

    def visible(self, gpu: Gpu, label_mib: int | None = None) -> Memory:
        """The memory that CUDA reports for a whole card, on which engines base their fractions.

        Args:
            gpu: the card.
            label_mib: what the node's label or driver says, where known; else the table's value is taken.
        """
        return self.visible_of_label(self.memory(gpu).mib if label_mib is None else label_mib, gpu)

    def visible_of_label(self, label_mib: int, gpu: Gpu | None = None) -> Memory:
        """As `visible`, for a card that may be unknown to the table (the rule of the sizing reference, 1.7)."""
        if gpu is not None and gpu.cuda_visible_gib is not None:
            seen = gpu.memory_mib is None or gpu.memory_mib == label_mib
            visible = int(gpu.cuda_visible_gib * 1024)
            mib = visible if seen else label_mib - max((gpu.memory_mib or visible) - visible, 0)
            mib = min(mib, gpu.memory_mib or mib)
            doubtful = "cuda_visible_gib" in gpu.unverified or not seen
            # Printed with one or two decimals; another driver may keep a little more for itself.
            return Memory(mib, (mib - (256 if doubtful else 103), mib + 6), not doubtful, gpu.source)
        large = label_mib >= _LARGE_MIB
        gap = _GAP_LARGE_MIB if large else _GAP_SMALL_MIB
        least, most = _GAP_BAND_LARGE_MIB if large else _GAP_BAND_SMALL_MIB
        band = (label_mib - most, label_mib - least)
        return Memory(label_mib - gap, band, False, "label less what CUDA keeps (rule, estimated)")
