"""What the API server does to a pod before the scheduler sees it: defaults, classes, limits, quotas, refusals in its words."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.cluster.build import build
from ragstow.simulate.admission import Admission
from ragstow.simulate.defaulting import is_new, with_defaults
from ragstow.simulate.quota import pod_usage
from simulations import GPU, Json, cluster, node, play, running


def bare(asks: Json | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "i", **({"resources": asks} if asks else {})}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "rag"},
        "spec": {"containers": [container], **spec},
    }


def requests_of(pod: Json) -> Json:
    found: Json = pod["spec"]["containers"][0]["resources"]["requests"]
    return found


def test_a_limit_is_the_request_where_none_is_written() -> None:
    made = with_defaults(bare({"limits": {GPU: "1", "cpu": "2"}, "requests": {"cpu": "1"}}))
    assert requests_of(made) == {GPU: "1", "cpu": "1"}


def test_pod_level_limits_become_requests_only_where_containers_ask_for_nothing() -> None:
    pod = bare({"requests": {"cpu": "300m"}}, resources={"limits": {"cpu": "2", "memory": "4Gi"}})
    assert with_defaults(pod, (1, 34))["spec"]["resources"]["requests"] == {"cpu": "300m", "memory": "4Gi"}
    assert "requests" not in with_defaults(pod, (1, 33))["spec"]["resources"]


def test_host_network_takes_its_ports_on_the_host() -> None:
    pod = bare(hostNetwork=True)
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 8000}]
    assert with_defaults(pod)["spec"]["containers"][0]["ports"] == [{"containerPort": 8000, "hostPort": 8000}]


def test_match_label_keys_become_part_of_the_selector() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "llm"}},
        "topologyKey": "z",
        "matchLabelKeys": ["rev"],
        "mismatchLabelKeys": ["t"],
    }
    pod = bare(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    pod["metadata"]["labels"] = {"rev": "7", "t": "a"}
    made = with_defaults(pod)["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert made["labelSelector"]["matchExpressions"] == [
        {"key": "rev", "operator": "In", "values": ["7"]},
        {"key": "t", "operator": "NotIn", "values": ["a"]},
    ]


def test_every_pod_tolerates_a_node_that_is_away_for_five_minutes() -> None:
    added = with_defaults(bare())["spec"]["tolerations"]
    assert [(item["key"], item["tolerationSeconds"]) for item in added] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    assert with_defaults(bare(tolerations=[{"operator": "Exists"}]))["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("raw", "new"),
    [
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}, True),
        ({"kind": "Pod", "metadata": {"name": "p", "uid": "1"}, "spec": {}}, False),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": 0}}, False),
        ({"kind": "Deployment", "metadata": {"name": "d", "resourceVersion": "7"}}, False),
    ],
)
def test_saved_objects_are_told_from_written_ones(raw: Json, new: bool) -> None:
    assert is_new(raw) is new


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ({"limits": {GPU: "0.5"}}, "must be an integer"),
        ({"limits": {GPU: "500m"}}, "must be an integer"),
        (
            {"requests": {GPU: "1"}},
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        ({"requests": {GPU: "1"}, "limits": {GPU: "2"}}, "must be equal to nvidia.com/gpu limit of 2"),
        (
            {"requests": {"memory": "1.5Gi"}, "limits": {"memory": "1Gi"}},
            'spec.containers[0].resources.requests: Invalid value: "1536Mi": must be less than or equal to memory limit of 1Gi',
        ),
    ],
)
def test_refused_by_validation(resources: Json, text: str) -> None:
    admitted = Admission(build([]), (1, 37, 2)).admit(bare(resources))
    assert admitted.refusal is not None
    assert text in admitted.refusal.text


def test_a_thousand_milli_gpus_are_one() -> None:
    admitted = Admission(build([]), (1, 37, 2)).admit(bare({"limits": {GPU: "1000m"}}))
    assert admitted.refusal is None
    assert admitted.pod.containers[0].requests[GPU] == 1


def priority_class(name: str, value: int, **more: Any) -> Json:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, **more}


def test_priority_comes_from_its_class_or_the_default_one() -> None:
    classes = build([priority_class("high", 1000, preemptionPolicy="Never"), priority_class("usual", 5, globalDefault=True)])
    admission = Admission(classes, (1, 37, 2))
    assert admission.admit(bare(priorityClassName="high")).pod.priority == 1000
    assert admission.admit(bare(priorityClassName="high")).pod.spec["preemptionPolicy"] == "Never"
    assert admission.admit(bare()).pod.priority == 5
    assert admission.admit(bare(priorityClassName="system-node-critical")).pod.priority == 2_000_001_000
    refused = admission.admit(bare(priorityClassName="none")).refusal
    assert refused is not None
    assert refused.text == 'pods "p" is forbidden: no PriorityClass with name none was found'


def test_a_class_that_cannot_be_seen_is_an_assumption() -> None:
    admission = Admission(build([]), (1, 37, 2))
    assert admission.admit(bare(priorityClassName="high")).refusal is None
    assert any("PriorityClass high is not in the data" in text for text in admission.assumptions)


def test_a_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"gpu": "yes"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
    }
    pod = Admission(build([runtime]), (1, 37, 2)).admit(bare(runtimeClassName="nvidia")).pod
    assert pod.overhead == {"cpu": 250}
    assert pod.node_selector == {"gpu": "yes"}
    assert any(item.key == "t" for item in pod.tolerations)
    refused = Admission(build([runtime]), (1, 37, 2)).admit(bare(runtimeClassName="kata")).refusal
    assert refused is not None
    assert 'RuntimeClass "kata" not found' in refused.text


def test_extended_resource_toleration() -> None:
    pod = Admission(build([]), (1, 37, 2), extended_toleration=True).admit(bare({"limits": {GPU: "1"}})).pod
    assert [(item.key, item.operator, item.effect) for item in pod.tolerations if item.key == GPU] == [
        (GPU, "Exists", "NoSchedule")
    ]


def limit_range(**item: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "rag"},
        "spec": {"limits": [{"type": "Container", **item}]},
    }


def test_limit_range_defaults_and_bounds() -> None:
    given = build([limit_range(default={"memory": "2Gi"}, defaultRequest={"cpu": "100m"}, max={"memory": "4Gi"})])
    pod = Admission(given, (1, 37, 2)).admit(bare()).pod
    assert pod.containers[0].requests == {"cpu": 100, "memory": 2 << 30}
    assert pod.containers[0].limits == {"memory": 2 << 30}
    refused = Admission(given, (1, 37, 2)).admit(bare({"limits": {"memory": "8Gi"}})).refusal
    assert refused is not None
    assert refused.text == 'pods "p" is forbidden: maximum memory usage per Container is 4Gi, but limit is 8Gi'


def test_a_limit_that_a_limit_range_adds_may_be_below_the_request() -> None:
    """The texts here are those of an API server 1.37.2."""
    given = build([limit_range(default={"cpu": "1"})])
    refused = Admission(given, (1, 37, 2)).admit(bare({"requests": {"cpu": "1500m"}})).refusal
    assert refused is not None
    assert '"1500m": must be less than or equal to cpu limit of 1' in refused.text


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ({"requests": {"cpu": "50m"}, "limits": {"cpu": "1"}}, "provided ratio is 20.000000"),
        ({"requests": {"cpu": "300m"}, "limits": {"cpu": "800m"}}, "provided ratio is 2.666667"),
        ({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}, None),
    ],
)
def test_a_limit_range_bounds_the_ratio(resources: Json, text: str | None) -> None:
    refused = Admission(build([limit_range(maxLimitRequestRatio={"cpu": "2"})]), (1, 37, 2)).admit(bare(resources)).refusal
    said = refused.text if refused is not None else None
    assert said == (text and f'pods "p" is forbidden: cpu max limit to request ratio per Container is 2, but {text}')


@pytest.mark.parametrize(
    ("whole", "container", "text"),
    [
        ({"requests": {"cpu": "6"}}, {}, "maximum cpu usage per Pod is 4.  No limit is specified"),
        ({"requests": {"cpu": "6"}}, {"limits": {"cpu": "500m"}}, "maximum cpu usage per Pod is 4, but limit is 6"),
        ({"limits": {"cpu": "6"}}, {}, "maximum cpu usage per Pod is 4, but limit is 6"),
        ({"limits": {"cpu": "6"}}, {"limits": {"cpu": "500m"}}, "maximum cpu usage per Pod is 4, but limit is 6"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}, {}, None),
        ({"requests": {"cpu": "3"}}, {"limits": {"cpu": "500m"}}, None),
    ],
)
def test_a_limit_range_bounds_what_the_whole_pod_asks_for(whole: Json, container: Json, text: str | None) -> None:
    given = limit_range(max={"cpu": "4"})
    given["spec"]["limits"][0]["type"] = "Pod"
    pod = bare(container)
    pod["spec"]["resources"] = whole
    refused = Admission(build([given]), (1, 37, 2)).admit(pod).refusal
    assert (refused.text if refused is not None else None) == (text and f'pods "p" is forbidden: {text}')


def test_a_container_without_a_limit_leaves_the_whole_pod_without_more() -> None:
    given = limit_range(max={"cpu": "4"})
    given["spec"]["limits"][0]["type"] = "Pod"
    pod = bare({"limits": {"cpu": "500m"}})
    pod["spec"]["containers"].append({"name": "d", "image": "i"})
    pod["spec"]["resources"] = {"requests": {"cpu": "6"}}
    refused = Admission(build([given]), (1, 37, 2)).admit(pod).refusal
    assert refused is not None
    assert refused.text == 'pods "p" is forbidden: maximum cpu usage per Pod is 4, but request is 6'


def test_a_quota_counts_what_the_whole_pod_asks_for() -> None:
    pod = bare({"requests": {"memory": "1Gi"}})
    pod["spec"]["resources"] = {"requests": {"memory": "9Gi"}}
    refused = Admission(build([quota(requests__memory="6Gi")]), (1, 37, 2)).admit(pod).refusal
    assert refused is not None
    assert refused.text == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.memory=9Gi, used: requests.memory=0, '
        "limited: requests.memory=6Gi"
    )


def test_a_quota_on_limits_counts_the_overhead_of_a_pod_that_has_some() -> None:
    admission = Admission(build([quota(limits__cpu="4")]), (1, 37, 2))
    pod = bare({"limits": {"cpu": "4"}})
    pod["spec"]["overhead"] = {"cpu": "250m"}
    assert pod_usage(build([pod]).pods[0])["limits.cpu"] == 4250
    assert (
        pod_usage(build([{**pod, "spec": {**pod["spec"], "containers": [{"name": "main"}]}}]).pods[0]).get("limits.cpu", 0) == 0
    )
    assert admission.admit(bare({"limits": {"cpu": "4"}})).refusal is None


def quota(status: Json | None = None, scopes: list[str] | None = None, **hard: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "rag"},
        "spec": {
            "hard": {name.replace("__", "."): value for name, value in hard.items()},
            **({"scopes": scopes} if scopes else {}),
        },
        **({"status": {"used": status}} if status else {}),
    }


def test_quota_counts_what_runs_and_what_comes() -> None:
    gpus = {"requests.nvidia.com/gpu": "3"}
    cluster_ = build([node("n", 8), {**quota(), "spec": {"hard": gpus}}, running("old", "n", 1)])
    admission = Admission(cluster_, (1, 37, 2))
    assert admission.admit(bare({"limits": {GPU: "1"}})).refusal is None
    refused = admission.admit({**bare({"limits": {GPU: "2"}}), "metadata": {"name": "p2", "namespace": "rag"}}).refusal
    assert refused is not None
    assert refused.text == (
        'pods "p2" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=2, '
        "limited: requests.nvidia.com/gpu=3"
    )


def test_quota_on_memory_wants_every_container_to_say_it() -> None:
    refused = Admission(build([quota(requests__memory="8Gi")]), (1, 37, 2)).admit(bare({"requests": {"cpu": "1"}})).refusal
    assert refused is not None
    assert refused.text == 'pods "p" is forbidden: failed quota: q: must specify requests.memory for: main'


def test_a_quota_s_own_count_is_believed() -> None:
    admission = Admission(build([quota(status={"pods": "4"}, pods="4")]), (1, 37, 2))
    refused = admission.admit(bare()).refusal
    assert refused is not None
    assert "used: pods=4, limited: pods=4" in refused.text


def test_scopes_decide_whom_a_quota_counts() -> None:
    admission = Admission(build([quota(scopes=["BestEffort"], pods="0")]), (1, 37, 2))
    assert admission.admit(bare({"requests": {"cpu": "1"}})).refusal is None
    assert admission.admit({**bare(), "metadata": {"name": "b", "namespace": "rag"}}).refusal is not None


def test_a_refused_pod_is_not_placed_and_told() -> None:
    answer = play(cluster(node("n", 4)), bare({"limits": {GPU: "0.5"}}))
    (entry,) = answer.pods
    assert (entry.number, entry.node) == (0, None)
    assert entry.refusal is not None
    assert answer.unplaced == ("rag/p",)
    assert not answer.ok
