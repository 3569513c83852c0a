"""What a pod counts: init containers, sidecars, overhead, pod-level resources, resizes in place."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.cluster.build import build
from ragstow.scheduling.release import Release
from ragstow.scheduling.requests import Sums, of_pod

_OLD, _MID, _NEW = Release.parse("1.33.13"), Release.parse("1.36.3"), Release.parse("1.37.2")
_MIB = 2**20


def container(name: str = "c", sidecar: bool = False, **requests: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": name,
        "resources": {"requests": {key.replace("gpu", "nvidia.com/gpu"): value for key, value in requests.items()}},
    }
    return {**made, "restartPolicy": "Always"} if sidecar else made


def sums(spec: dict[str, Any], status: dict[str, Any] | None = None, release: Release = _NEW) -> Sums:
    raw: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    if status is not None:
        raw = {**raw, "status": status, "spec": {**spec, "nodeName": "n"}}
    return of_pod(build([raw]).pods[0], release)


def test_the_largest_init_phase_counts_with_the_sidecars_before_it() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi")],
        "initContainers": [
            container("i0", cpu="3"),
            container("s1", sidecar=True, cpu="500m"),
            container("i2", cpu="2", gpu="1"),
            container("s3", sidecar=True, cpu="250m"),
        ],
        "overhead": {"cpu": "100m"},
    }
    made = sums(spec)
    assert made.plain["cpu"] == 3000 + 100  # i0 alone; main 1 + sidecars 0.75 and sidecar 0.5 + i2 2 are less
    assert made.plain["nvidia.com/gpu"] == 1
    assert made.plain["memory"] == 1024 * _MIB


def test_sums_are_rounded_once_and_unknown_names_do_not_count() -> None:
    made = sums({"containers": [container("a", cpu="0.5m", foo="1"), container("b", cpu="0.5m")]})
    assert made.plain == {"cpu": 1}


def test_missing_entries_count_a_default_in_scores_only() -> None:
    made = sums({"containers": [container("a", cpu="0"), container("b", memory="1Gi")]})
    assert made.plain == {"cpu": 0, "memory": 1024 * _MIB}
    assert (made.non_zero_cpu_milli, made.non_zero_memory_bytes) == (100, (200 + 1024) * _MIB)


def test_pod_level_requests_replace_the_sum_but_not_in_the_score_of_an_arriving_pod() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi", gpu="1")],
        "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": "5"}},
    }
    made = sums(spec)
    assert made.plain == {"cpu": 2000, "memory": 1024 * _MIB, "nvidia.com/gpu": 1}
    assert made.scored["cpu"] == 1000
    assert sums(spec, release=_OLD).plain["cpu"] == 1000


def test_pod_level_requests_leave_defaults_to_what_the_whole_pod_does_not_name() -> None:
    made = sums({"containers": [container("a"), container("b")], "resources": {"requests": {"cpu": "1"}}})
    assert made.non_zero_cpu_milli == 1000
    assert made.non_zero_memory_bytes == 400 * _MIB


def state(name: str, allocated: str | None = None, actual: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name}
    if allocated is not None:
        made["allocatedResources"] = {"cpu": allocated}
    if actual is not None:
        made["resources"] = {"requests": {"cpu": actual}}
    return made


@pytest.mark.parametrize(
    ("release", "states", "infeasible", "milli"),
    [
        # two containers that ask for 1 core each
        (_MID, [state("a", "2", "1"), state("b", "1", "2")], False, 4000),
        (_NEW, [state("a", "2", "1"), state("b", "1", "2")], False, 3000),
        (_MID, [state("a", "3")], False, 2000),  # status.resources is not set: the spec counts
        (_NEW, [state("a", "3")], False, 4000),
        (_MID, [state("a", "100m", "200m"), state("b", "100m", "100m")], True, 300),
        (_NEW, [state("a", "100m", "200m")], True, 200),  # b has no status: it counts nothing
        (_MID, [state("a", "100m", "200m")], True, 1200),
        (_NEW, [state("a", "1", "1"), state("b", "1", "1")], False, 2000),
        (_NEW, [{"name": "a", "resources": {}}], False, 2000),
    ],
)
def test_resizes_in_place(release: Release, states: list[dict[str, Any]], infeasible: bool, milli: int) -> None:
    spec = {"containers": [container("a", cpu="1"), container("b", cpu="1")]}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible" if infeasible else "Deferred"}]
    assert sums(spec, {"containerStatuses": states, "conditions": conditions}, release).plain["cpu"] == milli


@pytest.mark.parametrize(("release", "milli"), [(Release.parse("1.35.4"), 2000), (_MID, 4000), (_NEW, 4000)])
def test_the_pod_s_own_status_counts_since_it_may_be_resized(release: Release, milli: int) -> None:
    spec = {"containers": [container("a", cpu="1")], "resources": {"requests": {"cpu": "2"}}}
    status = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "4"}}
    assert sums(spec, status, release).plain["cpu"] == milli


def test_init_containers_are_resized_since_1_37_too() -> None:
    spec = {"containers": [container("a", cpu="1")], "initContainers": [container("i", cpu="1")]}
    status = {"initContainerStatuses": [state("i", "3", "3")]}
    assert sums(spec, status, _MID).plain["cpu"] == 1000
    assert sums(spec, status, _NEW).plain["cpu"] == 3000
