"""Node configuration: each kind of plugin installation gets what the plan says, and leaves everything else as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstow import facts, kubeyaml
from ragstow.errors import InputError, InputErrors
from ragstow.plan.model import PluginInstall
from ragstow.render import render
from render_plans import MIG_LAYOUT, SCENARIOS, SLICED, Scenario, component, dra, exclusive, mig_operator, time_slicing_chart

FACTS = facts.load()


def files(scenario: Scenario) -> dict[str, str]:
    return {file.path: file.text for file in render(scenario.service, scenario.plan, FACTS).files}


def read(scenario: Scenario, path: str) -> Any:
    return kubeyaml.load_all(files(scenario)[path])[0].value


def steps(scenario: Scenario) -> str:
    return files(scenario)["STEPS.md"]


def with_plugin(scenario: Scenario, **changes: Any) -> Scenario:
    cluster = scenario.plan.cluster
    plugin: PluginInstall = replace(cluster.plugin, **changes)
    return Scenario(scenario.service, replace(scenario.plan, cluster=replace(cluster, plugin=plugin)))


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


@pytest.mark.parametrize("name", ["exclusive", "dra", "dra-mig", "cloud"])
def test_without_a_change_there_is_no_node_configuration(name: str) -> None:
    assert not [path for path in files(SCENARIOS[name]()) if path.startswith("nodes/")]
    assert "## Nodes" not in steps(SCENARIOS[name]())


def test_chart_values_hold_the_plans_configuration_and_a_default_that_changes_nothing() -> None:
    values = read(time_slicing_chart(), "nodes/device-plugin-values.yaml")
    assert kubeyaml.load_all(values["config"]["map"]["notes-shared-2"])[0].value == SLICED
    assert kubeyaml.load_all(values["config"]["map"]["default"])[0].value == {"version": "v1"}
    assert values["config"]["default"] == "default"


def test_chart_values_keep_the_configurations_that_are_there() -> None:
    scenario = with_plugin(
        time_slicing_chart(),
        config_map="nvdp-nvidia-device-plugin-configs",
        config_keys=("team",),
        config_data={"team": "version: v1\nflags:\n  migStrategy: none\n"},
        config_default="team",
    )
    values = read(scenario, "nodes/device-plugin-values.yaml")
    assert list(values["config"]["map"]) == ["team", "notes-shared-2"]
    assert values["config"]["default"] == "team"


def test_a_strategy_in_the_charts_values_would_beat_the_file_and_moves_into_the_default() -> None:
    values = read(with_plugin(SCENARIOS["mig-by-hand"](), mig_strategy="none"), "nodes/device-plugin-values.yaml")
    assert values["migStrategy"] is None
    assert kubeyaml.load_all(values["config"]["map"]["default"])[0].value["flags"] == {"migStrategy": "none"}
    assert "migStrategy" not in read(with_plugin(SCENARIOS["mig-by-hand"]()), "nodes/device-plugin-values.yaml")


def test_an_external_config_map_is_patched_and_the_plugin_restarted_before_a_node_is_labelled() -> None:
    scenario = SCENARIOS["mps-external"]()
    patch = read(scenario, "nodes/device-plugin-config-patch.yaml")
    assert list(patch["data"]) == ["notes-shared-2"]
    assert in_order(steps(scenario), "patch configmap sharing", "rollout restart daemonset", "nvidia.com/device-plugin.config=")


def test_mps_needs_gfd() -> None:
    scenario = SCENARIOS["mps-external"]()
    values = read(with_plugin(scenario, config_map=None, config_data={}, gfd=False), "nodes/device-plugin-values.yaml")
    assert values["gfd"] == {"enabled": True}
    assert "gfd" not in read(with_plugin(scenario, config_map=None, config_data={}), "nodes/device-plugin-values.yaml")


def test_the_operator_gets_a_config_map_and_no_default() -> None:
    scenario = SCENARIOS["time-slicing-operator"]()
    config = read(scenario, "nodes/device-plugin-config.yaml")
    patch = read(scenario, "nodes/clusterpolicy-device-plugin-patch.yaml")
    assert config["metadata"]["namespace"] == "gpu-operator"
    assert patch["spec"]["devicePlugin"]["config"] == {"name": config["metadata"]["name"], "default": ""}


def test_beside_a_configuration_of_the_operator_only_keys_are_added() -> None:
    made = files(SCENARIOS["time-slicing-operator-added"]())
    assert not any("clusterpolicy" in path for path in made)
    assert list(kubeyaml.load_all(made["nodes/device-plugin-config-patch.yaml"])[0].value["data"]) == ["notes-shared-2"]


def test_two_static_plugins_never_meet_on_a_node() -> None:
    scenario = SCENARIOS["time-slicing-static"]()
    ours = read(scenario, "nodes/device-plugin-notes-shared-2.yaml")
    patch = read(scenario, "nodes/device-plugin-patch.yaml")
    selector = ours["spec"]["template"]["spec"]["nodeSelector"]
    affinity = patch["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [expression] = affinity["nodeSelectorTerms"][0]["matchExpressions"]
    assert expression["operator"] == "NotIn"
    assert selector == {expression["key"]: expression["values"][0]}


def test_the_operators_layouts_are_kept_beside_ours() -> None:
    config = read(mig_operator(), "nodes/mig-parted-config.yaml")
    assert list(config["data"]) == ["config.yaml"]
    layouts = kubeyaml.load_all(config["data"]["config.yaml"])[0].value["mig-configs"]
    assert list(layouts) == ["all-disabled", "all-1g.10gb", "ragstow-research"]
    assert layouts["ragstow-research"] == [
        {"devices": [0], "mig-enabled": True, "mig-devices": {"1g.10gb": 4, "3g.40gb": 1}},
        {"devices": [1, 2, 3, 4, 5, 6, 7], "mig-enabled": False},
    ]
    patch = read(mig_operator(), "nodes/clusterpolicy-mig-patch.yaml")
    assert patch == {"spec": {"migManager": {"config": {"name": config["metadata"]["name"]}}}}


def test_where_the_default_layouts_are_not_known_the_page_says_so() -> None:
    scenario = with_plugin(mig_operator(), mig_config_data={})
    assert "default layouts" in steps(scenario)
    config = read(scenario, "nodes/mig-parted-config.yaml")
    assert list(kubeyaml.load_all(config["data"]["config.yaml"])[0].value["mig-configs"]) == [
        "all-disabled", "all-enabled", "ragstow-research",
    ]  # fmt: skip


def test_a_layout_that_exists_needs_nothing_but_the_label() -> None:
    before = mig_operator()
    layout = replace(
        MIG_LAYOUT, mig_layout="all-1g.10gb", labels={"nvidia.com/mig.config": "all-1g.10gb", "ragstow.dev/pool": "research"}
    )
    made = files(Scenario(before.service, replace(before.plan, layouts=(layout,))))
    assert [path for path in made if path.startswith("nodes/")] == ["nodes/node-labels.yaml"]
    assert "nvidia.com/mig.config=all-1g.10gb" in made["STEPS.md"]


def test_another_strategy_is_said_to_reach_all_nodes() -> None:
    scenario = SCENARIOS["mig-operator-custom"]()
    assert read(scenario, "nodes/clusterpolicy-mig-patch.yaml") == {"spec": {"mig": {"strategy": "mixed"}}}
    assert "on all nodes of the operator (it was single)" in steps(scenario)
    layouts = read(scenario, "nodes/mig-parted-config-patch.yaml")["data"]["config.yaml"]
    assert list(kubeyaml.load_all(layouts)[0].value["mig-configs"]) == ["ours", "ragstow-research"]


def test_who_is_disturbed_is_named_before_the_cut() -> None:
    text = steps(SCENARIOS["mig-operator-custom"]())
    assert in_order(
        text, "Disturbs: research/notebook-0", "must be gone first: research/notebook-0", "kubectl cordon gpu-h100-1"
    )


def test_steps_by_hand_teach_the_strategy_then_cut_then_open_the_node() -> None:
    text = steps(SCENARIOS["mig-by-hand"]())
    assert in_order(
        text,
        "helm upgrade nvdp nvidia-device-plugin",
        "--overwrite nvidia.com/device-plugin.config=research-mig",
        "nvidia-mig-parted apply",
        # 3g.40gb at 0 would leave room for three 1g.10gb only.
        "-cgi 1g.10gb:0,1g.10gb:1,1g.10gb:2,1g.10gb:3,3g.40gb:4 -C",
        "rollout restart daemonset/nvdp-nvidia-device-plugin",
        "--overwrite ragstow.dev/pool=research",
        "kubectl apply -k workloads/\n",
    )


def test_a_card_that_the_facts_do_not_know_is_cut_largest_first() -> None:
    before = SCENARIOS["mig-by-hand"]()
    layout = replace(before.plan.layouts[0], labels_after={"nvidia.com/gpu.product": "Acme-X1"})
    text = steps(Scenario(before.service, replace(before.plan, layouts=(layout,))))
    assert "-cgi 3g.40gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb -C" in text


def test_switching_mig_off_needs_no_layout_and_no_other_strategy() -> None:
    off = replace(
        MIG_LAYOUT,
        sharing="exclusive",
        changes=("MIG: off on all cards",),
        mig={card: {} for card in range(8)},
        mig_layout="all-disabled",
        labels={"nvidia.com/mig.config": "all-disabled", "ragstow.dev/pool": "research"},
        labels_before={"nvidia.com/mig.config": "all-1g.10gb"},
    )
    for scenario in (mig_operator(), with_plugin(mig_operator(), mig_config_data={}, mig_strategy="mixed")):
        made = files(Scenario(scenario.service, replace(scenario.plan, layouts=(off,))))
        assert [path for path in made if path.startswith("nodes/")] == ["nodes/node-labels.yaml"]
    hand = SCENARIOS["mig-by-hand"]()
    text = steps(Scenario(hand.service, replace(hand.plan, layouts=(replace(off, plugin_config=None),))))
    assert "nvidia-smi -i 7 -mig 0" in text


def test_undoing_goes_backwards() -> None:
    undo = steps(SCENARIOS["mig-by-hand"]()).partition("## Undo")[2]
    assert in_order(
        undo,
        "kubectl delete -k workloads/",
        "ragstow.dev/pool-",
        "-dgi",
        "nvidia.com/device-plugin.config-",
        "helm rollback",
    )


def test_undoing_gives_a_label_its_former_value() -> None:
    undo = steps(mig_operator()).partition("## Undo")[2]
    assert "nvidia.com/mig.config=all-disabled" in undo


def test_labels_as_partial_nodes() -> None:
    node = read(mig_operator(), "nodes/node-labels.yaml")
    assert node["metadata"]["labels"] == {"nvidia.com/mig.config": "ragstow-research", "ragstow.dev/pool": "research"}


def test_what_the_stream_lacks_is_said() -> None:
    scenario = SCENARIOS["time-slicing-operator"]()
    made = render(scenario.service, scenario.plan, FACTS)
    assert [line.partition(" ")[0] for line in made.by_hand] == [
        "nodes/clusterpolicy-device-plugin-patch.yaml", "nodes/node-labels.yaml",
    ]  # fmt: skip
    assert [manifest["kind"] for manifest in made.objects[:1]] == ["ConfigMap"]
    assert not render(exclusive().service, exclusive().plan, FACTS).by_hand


def test_an_infeasible_plan_is_refused() -> None:
    with pytest.raises(InputError, match="does not fit"):
        render(exclusive().service, replace(exclusive().plan, feasible=False), FACTS)


def test_a_plan_of_another_service_is_refused() -> None:
    with pytest.raises(InputError, match="the service is rag/other"):
        render(replace(exclusive().service, name="other"), exclusive().plan, FACTS)


def test_every_component_without_an_image_is_named_at_once() -> None:
    bare = tuple(component(name, "gateway") for name in ("one", "two"))
    with pytest.raises(InputErrors) as caught:
        render(replace(dra().service, components=(*dra().service.components, *bare)), dra().plan, FACTS)
    assert "component one has no image" in str(caught.value)
    assert "component two has no image" in str(caught.value)


def test_a_component_that_needs_a_gpu_and_is_not_planned_is_refused() -> None:
    plan = exclusive().plan
    with pytest.raises(InputErrors, match="says nothing of component llm"):
        render(exclusive().service, replace(plan, components=plan.components[1:]), FACTS)


def test_a_clouds_plugin_takes_no_configuration() -> None:
    with pytest.raises(InputError, match="takes no configuration"):
        files(with_plugin(time_slicing_chart(), kind="cloud"))
