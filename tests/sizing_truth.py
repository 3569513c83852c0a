"""Public logs of engines beside what ragstow computes for the same run. Used by tests and by benchmarks/sizing_error.py.

Rows are chosen by what they are (engine, version, modality, what is printed), never by how well they agree.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from components import component
from ragstow.facts import Facts
from ragstow.facts.models import Model
from ragstow.facts.vllm import VllmRange, version_key
from ragstow.sizing.kv import kv_layout
from ragstow.sizing.model import Term
from ragstow.sizing.resolve import Resolved, resolve
from ragstow.sizing.units import GIB
from ragstow.sizing.vllm import terms_of
from support import DATA

_SCHEMES = {"fp8": "fp8", "mxfp4": "mxfp4"}
_SMALL_CARD_GIB = 70


@dataclass(frozen=True)
class Run:
    """One logged run that the facts can describe, and what ragstow makes of it (bytes on one card)."""

    id: str
    row: dict[str, str]
    model: Model
    case: Resolved
    behaviour: VllmRange
    terms: tuple[Term, ...]
    batch_tokens: int

    def logged(self, column: str) -> float | None:
        """A number of the log, None where it shows none."""
        return float(self.row[column]) if self.row[column] else None

    def term(self, name: str) -> float:
        """GiB of one of our terms."""
        return next(item.bytes for item in self.terms if item.name == name) / GIB

    @property
    def kv_gib(self) -> float | None:
        """What the chain of our terms leaves for the cache."""
        memory, share = self.logged("gpu_mem_gib"), self.logged("util")
        if memory is None or share is None:
            return None
        return memory * share - sum(item.bytes for item in self.terms if item.inside_budget) / GIB

    def tokens(self, kv_gib: float) -> int:
        """Cache tokens of a pool of so many GiB."""
        layout = kv_layout(self.model, self.case.kv_element_bytes, self.case.cards)
        assert layout is not None
        return layout.tokens(int(kv_gib * GIB), self.case.context, self.batch_tokens, self.behaviour)


def runs(facts: Facts, keep: Callable[[Run], bool] = lambda _: True) -> Iterator[Run]:
    """The vLLM rows on NVIDIA cards, without pipeline parallelism, LoRA or drafts, whose model and version the facts know."""
    with (DATA / "sizing_truth.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            run = _run(row, facts)
            if run is not None and keep(run):
                yield run


def _run(row: dict[str, str], facts: Facts) -> Run | None:
    other = re.search(r"ROCm|fork|MI\d|AMD", row["version"] + row["gpu"])
    if row["engine"] != "vllm" or row["pp"] not in ("", "1") or other:
        return None
    name = row["model"].removesuffix(" (inferred)")
    model = facts.models.find(name) or facts.models.find(f"Qwen/{name}")
    version = row["version"].lstrip(">=")
    if model is None or model.unsizable is not None or not re.fullmatch(r"\d+(\.\d+)+", version):
        return None
    wide = "dtype float32" in row["notes"]
    limits = re.search(r"max_num_batched_tokens (\d+) max_num_seqs (\d+)", row["notes"])
    memory = float(row["gpu_mem_gib"] or 0)
    tokens, sequences = (2048, 256) if memory < _SMALL_CARD_GIB else (8192, 1024)
    if limits:
        tokens, sequences = int(limits[1]), int(limits[2])
    asked = component(
        model=model.id,
        version=version,
        quantization=_SCHEMES.get(row["quant"]),
        kv_cache_dtype="fp8" if row["kv_dtype"] == "fp8" else None,
        dtype="float32" if wide else None,
        tensor_parallel=int(row["tp"] or 1),
        context=int(row["max_model_len"] or 8192),
    )
    case = resolve(asked, facts)
    behaviour = facts.vllm.at(version)
    if not behaviour.chunked_prefill:
        tokens = max(tokens, case.context)
    terms = tuple(terms_of(case, behaviour, sequences, tokens))
    return Run(row["id"], row, model, case, behaviour, terms, tokens)


def is_text(run: Run) -> bool:
    """Whether the model takes text only."""
    return run.model.modality == "text"


def since(run: Run, version: str) -> bool:
    """Whether the run's engine is of that version or newer."""
    return version_key(run.case.version) >= version_key(version)


def weight_error(run: Run) -> float | None:
    """Relative error of the weights, where the log prints weights alone."""
    logged = run.logged("weights_gib_per_gpu")
    return None if logged is None or "weights column = consumed" in run.row["notes"] else run.term("weights") / logged - 1


def kv_error(run: Run) -> float | None:
    """Relative error of the cache bytes that the whole chain predicts."""
    logged, ours = run.logged("kv_gib_per_gpu"), run.kv_gib
    return None if logged is None or ours is None or logged <= 0 else ours / logged - 1


def token_error(run: Run) -> float | None:
    """Relative error of the cache tokens, given the logged cache bytes."""
    bytes_, logged = run.logged("kv_gib_per_gpu"), run.logged("kv_tokens")
    return None if not bytes_ or not logged or bytes_ <= 0 else run.tokens(bytes_) / logged - 1
