"""Asking all nodes at once gives the same attempts as asking every plugin about every node, on random clusters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstow.cluster.build import build
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Attempt, Engine, Options
from random_clusters import Maker, Raw

_MOST = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 20,
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu", "weight": 5}],
                        }
                    },
                },
                {
                    "name": "NodeResourcesBalancedAllocation",
                    "args": {"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": "nvidia.com/gpu"}]},
                },
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 10}},
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gen", "operator": "Exists"}]}]
                            }
                        }
                    },
                },
            ]
        }
    ],
}
_RATIO = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "score": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "TaintToleration", "weight": 7}]}
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "cpu", "weight": 2}, {"name": "nvidia.com/gpu", "weight": 3}],
                            "requestedToCapacityRatio": {
                                "shape": [
                                    {"utilization": 0, "score": 10},
                                    {"utilization": 40, "score": 3},
                                    {"utilization": 100, "score": 7},
                                ]
                            },
                        }
                    },
                },
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
                            {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
                        ],
                    },
                },
            ],
        }
    ],
}
_POLICIES: dict[str, dict[str, Any] | None] = {"default": None, "most": _MOST, "ratio": _RATIO}


def attempts(cluster: Snapshot, options: Options) -> list[Attempt]:
    arrivals = [pod for pod in cluster.pods if pod.node is None]
    return list(Engine(cluster, arrivals, options).run())


def seen(attempt: Attempt, *, detail: bool) -> dict[str, Any]:
    decision = attempt.decision
    shown: dict[str, Any] = {
        "pod": attempt.pod.key,
        "node": attempt.node,
        "ties": decision.ties,
        "feasible": decision.feasible,
        "evaluated": decision.evaluated,
        "message": attempt.message,
        "victims": [victim.key for victim in attempt.victims],
        "nominated": (attempt.nominated_node, attempt.nominated_ties),
    }
    if detail:
        shown["scores"] = {name: list(values) for name, values in sorted(decision.scores.items())}
        shown["sample"] = list(decision.sample)
        shown["rejected"] = dict(decision.rejected)
        shown["reasons"] = dict(decision.reasons)
        shown["total"] = decision.total
    if attempt.node is None:
        shown["statuses"] = dict(decision.statuses)
        shown["explained"] = dict(decision.explained)
    return shown


def compare(objects: list[Raw], release: str, **how: Any) -> None:
    cluster = build(objects)
    assert not cluster.problems
    options = {"order": "list", "explain": True, **how}
    fast = attempts(cluster, Options(Release.parse(release), **options))
    slow = attempts(cluster, Options(Release.parse(release), one_by_one=True, **options))
    assert len(fast) == len(slow)
    for one, other in zip(fast, slow, strict=True):
        assert seen(one, detail=how["detail"]) == seen(other, detail=how["detail"])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**9),
    release=st.sampled_from(("1.33.13", "1.34.1", "1.35.4", "1.36.3", "1.37.2")),
    policy=st.sampled_from(sorted(_POLICIES)),
    detail=st.booleans(),
    preemption=st.booleans(),
)
def test_all_nodes_scored(seed: int, release: str, policy: str, detail: bool, preemption: bool) -> None:
    objects = Maker(seed).cluster(nodes=10, running=25, arrivals=20)
    compare(objects, release, detail=detail, preemption=preemption, policy=_POLICIES[policy])


@settings(max_examples=6)
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(sorted(_POLICIES)), ties=st.sampled_from(("name", 1, 2**40)))
def test_adaptive_sampling(seed: int, policy: str, ties: Any) -> None:
    objects = Maker(seed).cluster(nodes=130, running=150, arrivals=15)
    compare(objects, "1.37.2", detail=True, preemption=True, policy=_POLICIES[policy], sampling="adaptive", ties=ties)


@pytest.mark.parametrize("order", ["list", "queue"])
def test_no_nodes_at_all(order: Any) -> None:
    cluster = build(Maker(1).cluster(nodes=0, running=0, arrivals=2))
    for one_by_one in (False, True):
        made = attempts(cluster, Options(Release.parse("1.37.2"), order=order, one_by_one=one_by_one))
        assert [attempt.message for attempt in made] == ["no nodes available to schedule pods"] * 2
