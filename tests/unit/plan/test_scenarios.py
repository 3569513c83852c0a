"""What a person would decide on a small cluster, worked out by hand from the rules of sharing."""

from __future__ import annotations

from makers import gfd, node, pod, thing
from plan_clusters import (
    A100,
    H100,
    HOSTNAME,
    L4,
    MIB,
    T4,
    chart,
    cluster,
    codes,
    gpu_node,
    holder,
    modes,
    operator,
    planned,
    service,
)


def test_mps_where_two_fit_a_card_and_memory_must_be_kept_apart() -> None:
    made = planned(service("a 9000\nb 8000"), cluster(gpu_node("n", L4, 1), chart()))
    assert modes(made) == {"a": "mps x2", "b": "mps x2"}
    assert made.cards == 1
    (layout,) = made.layouts
    assert layout.sharing == "mps"
    assert layout.plugin_config is not None
    assert layout.plugin_config["sharing"]["mps"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 2}]
    assert layout.plugin_config["sharing"]["mps"]["renameByDefault"] is True
    assert layout.resources_after == {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 2}
    assert layout.labels_after["nvidia.com/mps.capable"] == "true"
    assert all(item.pool for item in made.components)


def test_time_slicing_only_where_the_worst_neighbours_fit() -> None:
    snapshot = cluster(gpu_node("n", L4, 1), chart())
    fits = planned(service("a 12000\nb 9000", "  isolation: none\n"), snapshot)
    assert modes(fits) == {"a": "time-slicing x2", "b": "time-slicing x2"}
    assert fits.components[1].start_after == ("a",)  # the larger one first
    too_large = planned(service("a 13000\nb 11000", "  isolation: none\n"), snapshot)
    assert not too_large.feasible
    assert "card-may-overflow" in codes(too_large)


def test_two_cards_shared_by_two_must_hold_any_pair() -> None:
    snapshot = cluster(gpu_node("n", L4, 2), chart())
    # a + b fit, b + c fit, a + c do not: which pair meets is the kubelet's choice.
    made = planned(service("a 14000\nb 6000\nc 10000", "  isolation: none\n"), snapshot)
    assert not made.feasible
    made = planned(service("a 14000\nb 6000\nc 7000", "  isolation: none\n"), snapshot)
    assert modes(made) == dict.fromkeys("abc", "time-slicing x2")
    assert made.cards == 2


def test_whole_cards_where_sharing_would_save_none() -> None:
    # Two pods on shares of two cards may be spread by the kubelet: no card saved, so the simplest mode.
    made = planned(service("a 2000\nb 2000", "  isolation: none\n"), cluster(gpu_node("n", L4, 2), chart()))
    assert modes(made) == {"a": "exclusive", "b": "exclusive"}
    assert made.cards == 2
    assert made.optimal


def test_free_slices_are_used_as_they_are() -> None:
    labels = {HOSTNAME: "n", **gfd(A100, 1, MIB[A100], {"gpu.replicas": "0", "mig.strategy": "mixed", "mig.capable": "true"})}
    cut = node("n", {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 7}, labels)
    held = holder("x", "n", resource="nvidia.com/mig-1g.5gb")
    made = planned(service("a 4000 2"), cluster(cut, held, *operator()))
    assert modes(made) == {"a": "mig 1g.5gb"}
    assert made.cards == 1
    assert made.layouts[0].changes == ()
    assert not made.components[0].pool


def test_a_held_node_is_not_cut_unless_it_may_be_disturbed() -> None:
    snapshot = cluster(gpu_node("n", A100, 2), holder("x", "n"), *operator())
    wanted = service("a 4000 3", "  isolation: fault\n")
    kept = planned(wanted, snapshot)
    assert not kept.feasible
    disturbed = planned(wanted, snapshot, allow_disturb=True)
    assert disturbed.feasible
    assert disturbed.layouts[0].disturbs == ("others/x",)
    assert {"allowDisturb": True} in [dict(way.changes) for way in kept.alternatives]


def test_nobody_is_disturbed_where_another_node_does() -> None:
    snapshot = cluster(gpu_node("a", A100, 1), holder("x", "a"), gpu_node("b", A100, 1), *operator())
    made = planned(service("s 4000 3"), snapshot, allow_disturb=True)
    assert [(layout.node, layout.disturbs) for layout in made.layouts] == [("b", ())]


def test_large_requests_start_before_small_ones_that_could_split_them() -> None:
    # Two nodes of two cards: a two-card pod finds none if two small ones take a card on each node first.
    made = planned(service("big 20000 1 2\nsmall 20000 2"), cluster(gpu_node("a", L4, 2), gpu_node("b", L4, 2), chart()))
    assert made.feasible
    waits = {item.name: item.start_after for item in made.components}
    assert waits == {"big": (), "small": ("big",)}


def test_apart_without_telling_cards_needs_two_nodes() -> None:
    two = "  placement: {apart: [[a, b]], sharing: [time-slicing]}\n  isolation: none\n"
    one = planned(service("a 4000\nb 4000", two), cluster(gpu_node("n", L4, 1), chart()))
    assert not one.feasible
    made = planned(service("a 4000\nb 4000", two), cluster(gpu_node("n", L4, 1), gpu_node("m", L4, 1), chart()))
    assert made.feasible
    assert {item.name: item.not_beside for item in made.components} == {"a": ("b",), "b": ("a",)}


def test_together_on_a_node_whose_only_card_they_share() -> None:
    wish = "  placement: {together: [[a, b]], sharing: [exclusive, time-slicing]}\n  isolation: none\n"
    made = planned(service("a 4000\nb 4000\nbig 20000", wish), cluster(gpu_node("n", L4, 1), gpu_node("m", L4, 2), chart()))
    assert made.feasible
    assert modes(made) == {"a": "time-slicing x2", "b": "time-slicing x2", "big": "exclusive"}
    assert {item.node for item in made.placements if item.component in "ab"} == {"n"}
    assert [item.card for item in made.placements if item.component in ("a", "b")] == [0, 0]


def test_survive_needs_a_second_node() -> None:
    wanted = service("a 9000", "  placement: {survive: node}\n")
    assert not planned(wanted, cluster(gpu_node("n", L4, 2), chart())).feasible
    assert planned(wanted, cluster(gpu_node("n", L4, 2), gpu_node("m", L4, 1), chart())).feasible


def test_replicas_are_spread_so_that_one_survives() -> None:
    wanted = service("a 9000 2", "  placement: {survive: node}\n")
    made = planned(wanted, cluster(gpu_node("n", L4, 2), gpu_node("m", L4, 1), chart()))
    assert made.components[0].spread_nodes
    assert {item.node for item in made.placements} == {"m", "n"}


def test_taints_of_gpus_are_tolerated_and_others_are_the_users() -> None:
    plain = cluster(gpu_node("n", L4, 1, taints=("nvidia.com/gpu=present:NoSchedule",)), chart())
    made = planned(service("a 9000"), plain)
    assert [(item.key, item.operator) for item in made.components[0].tolerations] == [("nvidia.com/gpu", "Exists")]
    reserved = cluster(gpu_node("n", L4, 1, taints=("team=vision:NoSchedule",)), chart())
    refused = planned(service("a 9000"), reserved)
    assert not refused.feasible
    assert "node-taint" in codes(refused)
    assert any("tolerate the taint team=vision" in way.text for way in refused.alternatives)
    allowed = "  placement: {tolerations: [{key: team, operator: Exists}]}\n"
    assert planned(service("a 9000", allowed), reserved).feasible


def test_cordoned_and_unready_nodes_are_left_out() -> None:
    snapshot = cluster(gpu_node("n", L4, 1, cordoned=True), gpu_node("m", L4, 1, ready=False), chart())
    made = planned(service("a 9000"), snapshot)
    assert not made.feasible
    assert {"node-cordoned", "node-not-ready"} <= codes(made)


def test_products_and_node_selector_are_obeyed() -> None:
    snapshot = cluster(gpu_node("n", L4, 1), gpu_node("m", T4, 1, {"zone": "a"}), chart())
    by_product = planned(service("a 9000", f"  placement: {{products: [{L4}]}}\n"), snapshot)
    assert by_product.placements[0].node == "n"
    by_selector = planned(service("a 9000", "  placement: {nodeSelector: {zone: a}}\n"), snapshot)
    assert by_selector.placements[0].node == "m"
    # Without a wish the smaller card does.
    assert planned(service("a 9000"), snapshot).placements[0].node == "m"


def test_max_cards_binds() -> None:
    snapshot = cluster(gpu_node("n", L4, 2), chart())
    made = planned(service("a 9000 2", "  placement: {maxCards: 1, sharing: [exclusive]}\n"), snapshot)
    assert not made.feasible
    assert "max-cards" in codes(made)


def test_quota_of_the_namespace_binds() -> None:
    quota = thing(
        "ResourceQuota",
        "gpus",
        namespace="rag",
        spec={"hard": {"requests.nvidia.com/gpu": "1"}},
        status={"hard": {"requests.nvidia.com/gpu": "1"}, "used": {"requests.nvidia.com/gpu": "0"}},
    )
    snapshot = cluster(gpu_node("n", L4, 2), chart(), quota)
    assert planned(service("a 9000"), snapshot).feasible
    refused = planned(service("a 20000 2"), snapshot)
    assert not refused.feasible
    assert "quota" in codes(refused)


def test_pods_of_the_service_itself_count_as_free() -> None:
    own = pod("demo-a-0", "n", {"nvidia.com/gpu": 1}, labels={"ragstow.dev/service": "demo", "ragstow.dev/component": "a"})
    assert planned(service("a 20000"), cluster(gpu_node("n", L4, 1), chart(), own)).feasible
    others = pod("demo-a-0", "n", {"nvidia.com/gpu": 1}, labels={"ragstow.dev/service": "other"})
    assert not planned(service("a 20000"), cluster(gpu_node("n", L4, 1), chart(), others)).feasible


def test_shares_that_others_hold_are_no_proof() -> None:
    labels = {HOSTNAME: "n", **gfd(L4, 1, MIB[L4], replicas=4, strategy="time-slicing")}
    shared = node("n", {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 4}, labels)
    wanted = service("a 2000", "  isolation: none\n")
    assert planned(wanted, cluster(shared, chart())).feasible
    refused = planned(wanted, cluster(shared, chart(), holder("x", "n", resource="nvidia.com/gpu.shared")))
    assert not refused.feasible
    assert "card-may-overflow" in codes(refused)


def test_strategy_single_of_other_nodes_is_respected() -> None:
    labels = {
        HOSTNAME: "used",
        **gfd(f"{A100}-MIG-3g.20gb", 2, 20096, {"mig.strategy": "single", "mig.capable": "true"}),
    }
    used = node("used", {"nvidia.com/gpu": 2}, labels)
    held = holder("x", "used", 2)
    idle = gpu_node("idle", A100, 1, {"nvidia.com/mig.capable": "true"})
    made = planned(service("a 4000 3", "  isolation: fault\n"), cluster(used, held, idle, *operator("single")))
    assert modes(made) == {"a": "mig 1g.5gb"}
    assert made.components[0].slot.resource == "nvidia.com/gpu"
    (layout,) = made.layouts
    assert layout.sharing == "mig-single"
    assert layout.mig == {0: {"1g.5gb": 7}}
    assert layout.labels_after["nvidia.com/gpu.product"] == f"{A100}-MIG-1g.5gb"
    assert made.components[0].node_labels == {"nvidia.com/gpu.product": (f"{A100}-MIG-1g.5gb",)}


def test_mig_of_two_sizes_on_one_card() -> None:
    made = planned(service("large 15000\nsmall 4000 3", "  isolation: fault\n"), cluster(gpu_node("n", A100, 1), *operator()))
    assert made.cards == 1
    assert modes(made) == {"large": "mig 3g.20gb", "small": "mig 1g.5gb"}
    (layout,) = made.layouts
    assert layout.mig == {0: {"1g.5gb": 4, "3g.20gb": 1}}  # a 3g and four 1g fill the card
    assert layout.labels["nvidia.com/mig.config"] == layout.mig_layout
    assert layout.labels_after["nvidia.com/mig.config.state"] == "success"


def test_the_blueprint_takes_fewer_cards_than_its_vendor_gives_it() -> None:
    """RAG Blueprint 2.6 (sizing reference 1.6): the vendor's own layouts take 8 H100 by Helm, 5 with MIG.

    Footprints are upper bounds that its pages imply: slices of its MIG layout (1g.10gb and 1g.20gb), and less than an A10G for
    what it documents as living together on one.
    """
    components = """
        llm 75000 1 2
        embedding 19900
        ranking 19900
        ocr 19900
        graphic 9700
        page 9700
        table 9700
    """
    snapshot = cluster(gpu_node("n", H100, 8), *operator())
    made = planned(service(components, "  isolation: fault\n"), snapshot)
    assert made.feasible
    assert made.optimal
    assert made.cards == 4
    assert planned(service(components, "  placement: {sharing: [exclusive]}\n"), snapshot).cards == 8
