"""KubeSchedulerConfiguration documents: merging, weights, arguments, mistakes, what cannot be followed."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.errors import InputErrors
from ragstow.scheduling.profile import configuration, default_profile
from ragstow.scheduling.release import Release

_V = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
_NOW = Release.parse("1.37.2")


def document(**profile: Any) -> dict[str, Any]:
    return {**_V, "profiles": [profile]}


def test_filter_order_and_weights_of_the_default_profile() -> None:
    new, old = default_profile(_NOW), default_profile(Release.parse("1.33.13"))
    assert new.enabled["filter"][:3] == ("SchedulingGates", "NodeName", "NodeUnschedulable")
    assert old.enabled["filter"][:3] == ("SchedulingGates", "NodeUnschedulable", "NodeName")
    assert "DynamicResources" not in old.enabled["filter"]
    assert "NodeDeclaredFeatures" not in default_profile(Release.parse("1.35.4")).enabled["filter"]
    assert new.enabled["filter"].index("NodeDeclaredFeatures") > new.enabled["filter"].index("DynamicResources")
    assert (new.weights["TaintToleration"], new.weights["NodeAffinity"], new.weights["ImageLocality"]) == (3, 2, 1)


def test_a_scorer_that_is_enabled_again_gets_its_weight_and_comes_first() -> None:
    made = configuration(document(plugins={"score": {"enabled": [{"name": "ImageLocality", "weight": 9}]}}), _NOW)
    profile = made.profiles["default-scheduler"]
    assert profile.weights["ImageLocality"] == 9
    assert profile.enabled["score"][0] == "ImageLocality"
    assert profile.enabled["filter"] == default_profile(_NOW).enabled["filter"]


def test_disabling_at_one_point_and_everywhere() -> None:
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 2}]}}
    assert configuration(document(plugins=plugins), _NOW).profiles["default-scheduler"].enabled["score"] == (
        "NodeResourcesFit",
    )
    everywhere = {
        "multiPoint": {"disabled": [{"name": "PodTopologySpread"}], "enabled": [{"name": "NodeAffinity", "weight": 5}]}
    }
    profile = configuration(document(plugins=everywhere), _NOW).profiles["default-scheduler"]
    assert all("PodTopologySpread" not in names for names in profile.enabled.values())
    assert profile.weights["NodeAffinity"] == 5


def test_several_profiles_and_percentages() -> None:
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 70}]
    made = configuration({**_V, "percentageOfNodesToScore": 30, "profiles": profiles}, _NOW)
    assert {name: profile.percentage for name, profile in made.profiles.items()} == {"a": 30, "b": 70}


def test_what_cannot_be_simulated_is_said() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}, "score": {"enabled": [{"name": "Coscheduling"}]}}
    raw = {**document(plugins=plugins), "extenders": [{"urlPrefix": "http://extender.example/"}]}
    said = configuration(raw, _NOW).assumptions
    assert len(said) == 2
    assert "http://extender.example/" in said[0]
    assert "Coscheduling" in said[1]


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ({"kind": "Deployment", "apiVersion": "apps/v1"}, ["kind"]),
        ({**_V, "profiles": {"schedulerName": "x"}}, ["profiles"]),
        ({**_V, "percentageOfNodesToScore": 130}, ["percentageOfNodesToScore"]),
        ({**_V, "profiles": [{}, {}]}, ["profiles[1].schedulerName"]),
        (document(plugins=["x"]), ["profiles[0].plugins"]),
        (document(plugins={"score": {"enabled": ["NodeName"]}}), ["profiles[0].plugins.score.enabled[0]"]),
        (document(plugins={"score": {"enabled": [{"weight": 1}]}}), ["profiles[0].plugins.score.enabled[0].name"]),
        (
            document(
                pluginConfig=[
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"type": "Random", "resources": [{"weight": "x"}]}},
                    }
                ]
            ),
            [
                "profiles[0].pluginConfig[0].args.scoringStrategy.type",
                "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].name",
                "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight",
            ],
        ),
        (
            document(
                pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}}]
            ),
            ["profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape"],
        ),
    ],
)
def test_every_mistake_is_named_with_its_field(raw: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(InputErrors) as caught:
        configuration(raw, _NOW)
    assert [error.place.field for error in caught.value.errors] == fields
