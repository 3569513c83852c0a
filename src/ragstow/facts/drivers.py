"""Drivers, CUDA toolkits and architectures: which needs at least which (CUDA release notes, compatibility guide)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from ragstow.facts.gpus import ComputeCapability
from ragstow.facts.table import Date, Table, Text, Version

CudaVersion = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")]
Branch = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{3}$")]


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A CUDA toolkit release: the driver that has all its features, and the one with which its major version still runs."""

    cuda: CudaVersion
    update: int
    driver: Version
    minor_compatible_driver: Version
    source: Text
    checked: Date


@dataclass(frozen=True, slots=True)
class DriverBranch:
    """A driver branch (R580 = "580"): the newest CUDA it runs (label cuda.runtime-version), kind and end of life (YYYY-MM)."""

    branch: Branch
    source: Text
    checked: Date
    cuda: CudaVersion | None = None
    kind: Literal["LTS", "production", "new feature"] | None = None
    end_of_life: Annotated[str, msgspec.Meta(pattern="^20[0-9]{2}-[01][0-9]$")] | None = None


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture: its compute capabilities, GFD's family label, first and last CUDA, driver branches, kernel modules."""

    architecture: Text
    cc_from: ComputeCapability
    cc_to: ComputeCapability
    family: Text
    first_cuda: CudaVersion
    kernel_modules: Literal["open", "proprietary", "either"]
    source: Text
    checked: Date
    last_cuda_major: int | None = None
    last_driver_branch: Branch | None = None
    min_driver_branch: Branch | None = None


@dataclass(frozen=True, slots=True)
class DriverFault:
    """A fault of a range of driver versions, and the circumstances in which it shows."""

    name: Text
    first: Version
    last: Version
    when: Literal["mig-beside-whole"]
    text: Text
    source: Text
    checked: Date


TOOLKITS = Table("cuda_toolkits.csv", Toolkit, ("cuda", "update"))
BRANCHES = Table("driver_branches.csv", DriverBranch, ("branch",))
ARCHITECTURES = Table("architectures.csv", Architecture, ("architecture",))
FAULTS = Table("driver_faults.csv", DriverFault, ("name",))


def version(text: str) -> tuple[int, ...]:
    """A version as numbers, for comparing; parts that are no number end it ("580.95.05" -> (580, 95, 5))."""
    parts: list[int] = []
    for part in text.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


class Drivers:
    """Lookups over the three tables."""

    def __init__(
        self,
        toolkits: tuple[Toolkit, ...],
        branches: tuple[DriverBranch, ...],
        architectures: tuple[Architecture, ...],
        faults: tuple[DriverFault, ...] = (),
    ) -> None:
        self.toolkits = toolkits
        self.branches = branches
        self.architectures = architectures
        self.faults = faults
        self._branches = {row.branch: row for row in branches}

    def cuda_of(self, driver: str) -> str | None:
        """The newest CUDA that a driver version runs; None where its branch is unknown."""
        row = self._branches.get(driver.partition(".")[0])
        return row.cuda if row is not None else None

    def fault(self, driver: str | None, when: str) -> DriverFault | None:
        """The fault that a driver version has in these circumstances; None where it has none or is unknown."""
        if driver is None:
            return None
        known = version(driver)
        return next((row for row in self.faults if row.when == when and version(row.first) <= known <= version(row.last)), None)

    def minimum_driver(self, cuda: str, *, all_features: bool = False) -> str | None:
        """The least driver for a CUDA version; None where that is unknown.

        Args:
            cuda: major.minor of the runtime ("12.8").
            all_features: the driver the toolkit shipped with instead of the one its major version still runs with.
        """
        for row in self.toolkits:
            if row.cuda == cuda and row.update == 0:
                return row.driver if all_features else row.minor_compatible_driver
        if not all_features:
            major = cuda.partition(".")[0]
            return next((row.minor_compatible_driver for row in self.toolkits if row.cuda.partition(".")[0] == major), None)
        return None

    def architecture(self, compute_capability: str) -> Architecture | None:
        """The architecture of a compute capability; None where unknown."""
        cc = version(compute_capability)
        for row in self.architectures:
            if version(row.cc_from) <= cc <= version(row.cc_to):
                return row
        return None
