"""Recorded decisions of unmodified kube-schedulers: reading them, playing them, comparing every field.

A recording is an input (nodes, pods, objects) and, per release and profile, one line a pod. A folder holds only the outputs
that cannot be had from another release; its `same_as.json` names the folder that holds the same lines, and small rewritings.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ragstow.cluster.build import build
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.framework import Code
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import GATED, Attempt, Engine, Options
from support import DATA

Line = dict[str, Any]

GOLDEN = DATA / "golden"
RELEASES = ("1.33.13", "1.34.1", "1.34.4", "1.35.4", "1.36.3", "1.37.2")
_INPUTS = ("1.34.1", "1.37.2")
_SHORT_TAINT = "node(s) had untolerated taint(s)"


@dataclass(frozen=True, slots=True)
class Recording:
    """One output: the input's name, the release, and the profile ("" where there is only the default one)."""

    name: str
    release: str
    profile: str = ""

    def __str__(self) -> str:
        return "-".join(part for part in (self.name, self.profile, self.release) if part)

    @property
    def family(self) -> str:
        """The letters of the name."""
        return self.name.rstrip("0123456789")

    @property
    def file(self) -> str:
        """The output's file name without .gz."""
        return f"{self.name}{'.' if self.profile else ''}{self.profile}.out.jsonl"


def recordings(*families: str, root: Path = GOLDEN) -> list[Recording]:
    """All recordings of these families that are there, by name, profile and release."""
    found = []
    for name in sorted({path.name.removesuffix(".json.gz") for r in _INPUTS for path in _folder(r, root).glob("*.json.gz")}):
        for profile in ("", "default", "most", "rtcr"):
            for release in RELEASES:
                made = Recording(name, release, profile)
                if made.family in families and _available(made.file, release, root):
                    found.append(made)
    return found


def _folder(release: str, root: Path) -> Path:
    return root / f"kube-scheduler-{release}"


@cache
def _same_as(folder: Path) -> Mapping[str, Any]:
    path = folder / "same_as.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _available(file: str, release: str, root: Path) -> bool:
    folder = _folder(release, root)
    return (folder / f"{file}.gz").exists() or file in _same_as(folder)


@cache
def snapshot(name: str, root: Path = GOLDEN) -> Snapshot:
    """The input as a snapshot; its pods without a node are the arrivals."""
    for release in _INPUTS:
        path = _folder(release, root) / f"{name}.json.gz"
        if path.exists():
            raw = json.loads(gzip.decompress(path.read_bytes()))
            return build([*raw["nodes"], *raw["pods"], *raw.get("objects", [])])
    raise FileNotFoundError(name)


@cache
def policy(family: str, profile: str, root: Path = GOLDEN) -> Mapping[str, Any] | None:
    """The KubeSchedulerConfiguration of a profile, None for the default one."""
    if profile in ("", "default"):
        return None
    return yaml.safe_load((_folder("1.37.2", root) / f"{family}-{profile}.yaml").read_text())  # type: ignore[no-any-return]


# --- lines kept by reference --------------------------------------------------------------------------------------------


def lines(recording: Recording, root: Path = GOLDEN) -> list[Line]:
    """The recorded lines, also where they are kept as another release's lines with rewritings."""
    return _lines(recording.file, recording.release, root)


def _lines(file: str, release: str, root: Path) -> list[Line]:
    folder = _folder(release, root)
    path = folder / f"{file}.gz"
    if path.exists():
        return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    entry = _same_as(folder)[file]
    other, rules = (entry, []) if isinstance(entry, str) else (entry["of"], entry["with"])
    found = _lines(file, other.removeprefix("kube-scheduler-"), root)
    for line in found:
        for rule in rules:
            _REWRITINGS[rule](line)
    return found


def _scores(line: Line) -> Iterator[dict[str, int]]:
    if line.get("plugins"):
        yield line["plugins"]
    yield from (line.get("scores") or {}).values()


def _taint_text(line: Line) -> None:
    """The taint is not named any more: texts that only differed in it fall together."""
    reasons: dict[str, int] = {}
    for text, count in (line.get("reasons") or {}).items():
        short = _SHORT_TAINT if text.startswith("node(s) had untolerated taint {") else text
        reasons[short] = reasons.get(short, 0) + count
    if "reasons" in line:
        line["reasons"] = reasons
    match = re.fullmatch(r"(0/\d+ nodes are available: )(.*)\.", line.get("err", ""), re.DOTALL)
    if match is None or "untolerated taint {" not in match[2]:
        return
    tainted, rest = 0, []
    for part in re.split(r", (?=\d+ )", match[2]):
        count, _, text = part.partition(" ")
        if text.startswith("node(s) had untolerated taint {"):
            tainted += int(count)
        else:
            rest.append(part)
    line["err"] = f"{match[1]}{', '.join(sorted([*rest, f'{tainted} {_SHORT_TAINT}']))}."


def _dynamicresources_zero(line: Line) -> None:
    for scores in _scores(line):
        scores["DynamicResources"] = 0


def _volumebinding_none(line: Line) -> None:
    for scores in _scores(line):
        assert scores.pop("VolumeBinding") == 0


def _preempt_text(line: Line) -> None:
    if line.get("postfilter", "").startswith("Success "):
        line["postfilter"] = "Success "


def _fit_code(line: Line) -> None:
    for node, said in (line.get("rejected_by") or {}).items():
        if said == "NodeResourcesFit:UnschedulableAndUnresolvable":
            line["rejected_by"][node] = "NodeResourcesFit:Unschedulable"


def _no_dra_text(line: Line) -> None:
    line["postfilter"] = line.get("postfilter", "").replace("no new claims to deallocate, ", "")


_REWRITINGS: Mapping[str, Callable[[Line], None]] = {
    "taint-text": _taint_text,
    "dynamicresources-zero": _dynamicresources_zero,
    "volumebinding-none": _volumebinding_none,
    "preempt-text": _preempt_text,
    "fit-code": _fit_code,
    "no-dra-text": _no_dra_text,
}


# --- playing and comparing ----------------------------------------------------------------------------------------------


def options(recording: Recording, **changes: Any) -> Options:
    """How a family was recorded: in list order, preemption only where it is the subject, sampling only in `samp`."""
    family = recording.family
    return Options(
        Release.parse(recording.release),
        **{
            "order": "list",
            "preemption": family in ("preempt", "pdb"),
            "sampling": "adaptive" if family == "samp" else "all",
            "policy": policy(family, recording.profile),
            "detail": True,
            **changes,
        },
    )


def play(recording: Recording, engine: type[Engine] = Engine, **changes: Any) -> list[Attempt]:
    """The first attempts of all arrivals."""
    cluster = snapshot(recording.name)
    arrivals = [pod for pod in cluster.pods if pod.node is None]
    return [attempt for attempt in engine(cluster, arrivals, options(recording, **changes)).run() if attempt.number == 1]


def observed(attempt: Attempt, recorded: Line, *, sampled: bool) -> Line:
    """An attempt in the words of a recorded line; `recorded` only tells which of the free fields were noted."""
    decision = attempt.decision
    line: Line = {"pod": attempt.pod.name, "host": attempt.node or ""}
    if attempt.pre_enqueue is not None:
        line["preenqueue"] = f"{attempt.pre_enqueue.plugin}: {attempt.pre_enqueue.message}"
        if attempt.pre_enqueue.plugin == GATED:
            return line
    line.update(feasible=decision.feasible, evaluated=decision.evaluated)
    if not sampled:
        line.update(feasible_all=decision.feasible_seen, reasons=dict(decision.reasons))
        line["rejected_by"] = {node: f"{status.plugin}:{status.code}" for node, status in decision.rejected.items()}
    if decision.message:
        # Of several nodes whose filters failed, any one's text may have become the pod's.
        failed = {status.message for status in decision.rejected.values() if status.code is Code.ERROR}
        line["err"] = recorded["err"] if recorded.get("err") in failed else decision.message
    if decision.pre_filter is not None:
        line["prefilter"] = f"{decision.pre_filter.plugin}:{decision.pre_filter.code}"
    if decision.error is not None and decision.score_error is None and decision.feasible_seen:
        line["aborted"] = True
    if decision.score_error is not None:
        line["score_failed"] = decision.score_error.message
    if attempt.post_filter is not None:
        line["postfilter"] = f"{attempt.post_filter.code} {attempt.post_filter.message}"
        line["victims"] = [victim.name for victim in attempt.victims] or None
        if attempt.nominated_node:
            line["nominated"] = attempt.nominated_node
    if decision.by_nomination:
        line["nominated_first"] = True
    elif attempt.node is not None and decision.score_error is None and (len(decision.sample) > 1 or not sampled):
        line.update(plugins=decision.scores_of(attempt.node), score=decision.total, ties=len(decision.ties))
        if not sampled:
            of_node = {node: decision.scores_of(node) for node in decision.sample}
            line["scores"] = {node: {**scores, "total": sum(scores.values())} for node, scores in of_node.items()}
        else:
            line.update(first=decision.sample[0], last=decision.sample[-1])
            if "sample" in recorded:
                line["sample"] = list(decision.sample)
    line.update(attempt.booked)
    return line


def differences(recording: Recording, attempts: list[Attempt]) -> list[str]:
    """Every field in which the attempts differ from the recorded lines."""
    recorded = lines(recording)
    found: list[str] = []
    if recording.family in ("mix", "preempt", "gpu", "pdb", "edge", "samp", "vol"):
        assert len(recorded) == len(attempts)
    for line, attempt in zip(recorded, attempts, strict=False):
        seen = observed(attempt, line, sampled=recording.family == "samp")
        if attempt.decision.error is not None and line.get("err") in attempt.decision.reasons:
            seen["err"] = line["err"]  # several nodes failed; the original reports the error of any one of them
        found.extend(
            f"{recording} {attempt.pod.name} {key}: recorded {line.get(key)!r}, found {seen.get(key)!r}"
            for key in sorted((set(line) | set(seen)) - {"i"})
            if line.get(key) != seen.get(key)
        )
    return found
