"""All facts of one run: loaded when first asked for, kept as long as the store."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragstow.errors import FactsError, InputError, Place
from ragstow.facts import (
    charts,
    clouds,
    dra_api,
    drivers,
    endpoints,
    engines,
    gpus,
    instances,
    mig,
    models,
    quantization,
    serving,
    vllm,
)
from ragstow.facts.sharing_modes import SHARING_MODES, SharingMode
from ragstow.facts.stack import PROGRAMS, SIGNATURES, Signatures, Stack
from ragstow.facts.table import Sourced, Table, read

R = TypeVar("R", bound=Sourced)


def load(overlay: Path | None = None) -> Facts:
    """The facts, with a user's folder laid over ours; nothing is read yet.

    Raises:
        InputError: the folder does not exist.
        FactsError: it holds a CSV or YAML file that is none of ours by name.
    """
    if overlay is not None:
        if not overlay.is_dir():
            raise InputError(
                "facts-folder",
                f"{overlay} is not a folder",
                hint="--facts takes a folder with files named as in docs/facts.md",
            )
        known = {table.file for table in Facts.TABLES}
        for path in sorted(overlay.iterdir()):
            if path.suffix in (".csv", ".yaml", ".yml") and path.name not in known:
                raise FactsError(
                    "facts-unknown-file",
                    "no facts file has this name",
                    place=Place(str(path)),
                    hint=f"one of {', '.join(sorted(known))}",
                )
    return Facts(overlay)


class Facts:
    """The facts tables. To add one: a module with a row dataclass and a `Table`, its file in `data/`, a line in `TABLES` and a
    property below (see the package's docstring)."""

    TABLES: tuple[Table[Any], ...] = (
        gpus.TABLE,
        mig.SHAPES,
        mig.CARDS,
        mig.PROFILES,
        drivers.TOOLKITS,
        drivers.BRANCHES,
        drivers.ARCHITECTURES,
        drivers.FAULTS,
        clouds.CLOUDS,
        clouds.CLOUD_GPUS,
        instances.TABLE,
        serving.TABLE,
        endpoints.TABLE,
        charts.TABLE,
        PROGRAMS,
        SIGNATURES,
        dra_api.TABLE,
        SHARING_MODES,
        models.TABLE,
        models.VARIANTS,
        quantization.TABLE,
        quantization.KV_TABLE,
        engines.TABLE,
        engines.ROLES,
        vllm.TABLE,
    )

    def __init__(self, overlay: Path | None = None) -> None:
        self._overlay = overlay

    def _rows(self, table: Table[R]) -> tuple[R, ...]:
        return read(table, self._overlay)

    def check(self) -> None:
        """Read every table, so that all faults of a user's folder show at once per file.

        Raises:
            FactsError: a table breaks its schema.
        """
        for table in self.TABLES:
            self._rows(table)

    @cached_property
    def gpus(self) -> gpus.Gpus:
        """Cards by product label."""
        return gpus.Gpus(self._rows(gpus.TABLE))

    @cached_property
    def stack(self) -> Stack:
        """The programs of the GPU stack."""
        return Stack(self._rows(PROGRAMS))

    @cached_property
    def dra_apis(self) -> dra_api.DraApis:
        """What of the DRA API a release serves."""
        return dra_api.DraApis(self._rows(dra_api.TABLE))

    @cached_property
    def signatures(self) -> Signatures:
        """What known failures look like in logs."""
        return Signatures(self._rows(SIGNATURES))

    @cached_property
    def sharing_modes(self) -> tuple[SharingMode, ...]:
        """The modes of sharing in words."""
        return self._rows(SHARING_MODES)

    @cached_property
    def mig(self) -> mig.Mig:
        """MIG geometry by card."""
        return mig.Mig(self._rows(mig.SHAPES), self._rows(mig.CARDS), self._rows(mig.PROFILES))

    @cached_property
    def drivers(self) -> drivers.Drivers:
        """Driver, CUDA and architecture minimums."""
        return drivers.Drivers(
            self._rows(drivers.TOOLKITS),
            self._rows(drivers.BRANCHES),
            self._rows(drivers.ARCHITECTURES),
            self._rows(drivers.FAULTS),
        )

    @cached_property
    def clouds(self) -> clouds.Clouds:
        """Habits of clouds and distributions."""
        return clouds.Clouds(self._rows(clouds.CLOUDS), self._rows(clouds.CLOUD_GPUS))

    @cached_property
    def instances(self) -> instances.Instances:
        """Cloud instances with GPUs."""
        return instances.Instances(self._rows(instances.TABLE))

    @cached_property
    def serving(self) -> serving.Servings:
        """How engines run in a pod."""
        return serving.Servings(self._rows(serving.TABLE))

    @cached_property
    def endpoints(self) -> endpoints.EndpointTable:
        """What engines answer."""
        return endpoints.EndpointTable(self._rows(endpoints.TABLE))

    @cached_property
    def charts(self) -> charts.Charts:
        """The vendor's programs that manifests refer to."""
        return charts.Charts(self._rows(charts.TABLE))

    @cached_property
    def models(self) -> models.Models:
        """Models by hub name."""
        return models.Models(self._rows(models.TABLE), self._rows(models.VARIANTS))

    @cached_property
    def quantizations(self) -> quantization.Quantizations:
        """Precisions of weights and cache."""
        return quantization.Quantizations(self._rows(quantization.TABLE), self._rows(quantization.KV_TABLE))

    @cached_property
    def engines(self) -> engines.Engines:
        """Engines, and the defaults by role."""
        return engines.Engines(self._rows(engines.TABLE), self._rows(engines.ROLES))

    @cached_property
    def vllm(self) -> vllm.Vllm:
        """How vLLM uses memory, by version."""
        return vllm.Vllm(self._rows(vllm.TABLE))
