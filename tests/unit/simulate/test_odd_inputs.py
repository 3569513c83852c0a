"""Inputs that nobody expects: numbers that cannot be, kinds with a clock, the same object twice, nothing at all."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstow.cli.main import run
from ragstow.cli.simulatetext import lines
from simulations import GPU, Json, cluster, node, play, running, template, workload


def bare(name: str, **spec: Any) -> Json:
    body = {**template("x")["spec"], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "rag"}, "spec": body}


def cron(**spec: Any) -> Json:
    job = {"spec": {"parallelism": 2, "completions": 5, "template": template("x", 1)}}
    meta = {"name": "nightly", "namespace": "rag"}
    body = {"schedule": "0 1 * * *", "jobTemplate": job, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": body}


def test_one_run_of_a_cron_job_is_played() -> None:
    answer = play(cluster(node("n1", 1)), cron())
    assert answer.final == {"rag/nightly-run-0": "n1"}
    assert answer.unplaced == ("rag/nightly-run-1",)
    assert "CronJob rag/nightly: one run of it is played, as Job rag/nightly-run" in answer.assumptions
    suspended = play(cluster(node("n1", 1)), cron(suspend=True))
    assert suspended.pods == ()
    assert "CronJob rag/nightly is suspended: it makes no pods" in suspended.assumptions


@pytest.mark.parametrize(
    ("kind", "number", "text"),
    [
        ("Deployment", -3, "spec.replicas: Invalid value: -3: must be greater than or equal to 0"),
        ("StatefulSet", "two", "spec.replicas: Invalid value: 'two': must be an integer"),
        ("Deployment", True, "spec.replicas: Invalid value: True: must be an integer"),
        ("ReplicaSet", 10**9, "1000000000 pods at once: more than 50000 of one workload are not played"),
        ("Job", -1, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
    ],
)
def test_numbers_of_pods_that_cannot_be(kind: str, number: Any, text: str) -> None:
    given = workload(kind, "odd", 1)
    given["spec"]["parallelism" if kind == "Job" else "replicas"] = number
    answer = play(cluster(node("n1")), given)
    assert not answer.ok
    assert text in answer.pods[0].message


def test_amounts_beyond_any_machine_are_refused_like_others() -> None:
    given = [workload("Deployment", "a", 2, 10**30), workload("Deployment", "b", 2, cpu="1e40")]
    given.append(workload("Deployment", "c", 1, cpu="9999999999Ei"))
    answer = play(cluster(node("n1", 8)), *given)
    assert len(answer.unplaced) == 5
    assert answer.pods[0].message.startswith(f"0/1 nodes are available: 1 Insufficient {GPU}.")
    assert answer.near_misses["rag/b-0"].text.startswith("no node is that large")


def test_a_pod_without_containers_is_not_created() -> None:
    answer = play(cluster(node("n1")), bare("none", containers=[]))
    assert answer.pods[0].message == 'pods "none" is forbidden: spec.containers: Required value'


def test_the_same_object_twice_is_one() -> None:
    answer = play(cluster(node("n1", 8)), workload("Deployment", "llm", 1, 1), workload("Deployment", "llm", 2, 1))
    assert answer.final == {"rag/llm-0": "n1", "rag/llm-1": "n1"}
    assert play(cluster(node("n1")), bare("p"), bare("p")).final == {"rag/p": "n1"}


def test_daemons_on_new_nodes() -> None:
    answer = play(cluster(node("n1", 1)), workload("DaemonSet", "ds", 0, 1), add_nodes=())
    assert answer.final == {"rag/ds-n1": "n1"}


def test_a_daemon_that_its_node_cannot_hold_is_told_about_that_node() -> None:
    answer = play(cluster(node("n1"), node("n2", 1)), workload("DaemonSet", "ds", 0, 1))
    assert answer.unplaced == ("rag/ds-n1",)
    assert answer.near_misses["rag/ds-n1"].text == f"n1 has no {GPU}"


def test_gates_classes_and_other_schedulers() -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "known"}, "value": 1},
    ]
    answer = play(
        cluster(node("n1"), *classes),
        bare("gated", schedulingGates=[{"name": "a/b"}]),
        bare("unknown", priorityClassName="nope"),
        bare("theirs", schedulerName="volcano"),
    )
    said = {entry.name: entry for entry in answer.pods}
    assert said["gated"].preenqueue == "SchedulingGates: waiting for scheduling gates: [a/b]"
    assert said["unknown"].message == 'pods "unknown" is forbidden: no PriorityClass with name nope was found'
    assert said["theirs"].message.startswith("no profile is called volcano")
    assert not answer.ok


@pytest.mark.parametrize("release", ["1.33", "1.38", "1.20", "2.0"])
def test_releases_that_were_not_recorded_say_so(release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1"), bare("p")]}))
    assert run(["simulate", "-f", str(path), "--release", release, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kubernetes"] == {"version": release, "origin": "--release"}
    told = next(text for text in document["assumptions"] if text.startswith(f"kube-scheduler {release} "))
    assert "was not recorded" in told or "older than all recorded releases" in told


@pytest.mark.parametrize("text", ["", "# nothing\n---\n", "null\n", "- a\n- b\n", "a: [b\n"])
def test_a_file_with_nothing_to_place(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    assert run(["simulate", "-f", str(path)]) == 2
    said = capsys.readouterr().err
    assert "no Kubernetes object in it" in said
    assert "-f takes a manifest" in said


def test_a_pod_that_the_server_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = bare("x")
    pod["metadata"] = {"generateName": "gen-", "namespace": "rag"}
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1"), pod]}))
    assert run(["simulate", "-f", str(path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["final"] == {"rag/gen-": "n1"}


def test_ten_thousand_pods_with_one_answer() -> None:
    answer = play(cluster(node("n1", cpu="100"), running("x", "n1")), workload("Deployment", "m", 10_000), preemption=False)
    assert len(answer.final) == 99
    assert len(answer.unplaced) == 9_901


# --- manifests of wrong shapes ---

ZONE = "topology.kubernetes.io/zone"
ODD: tuple[Any, ...] = (
    *(None, 0, -1, 1.5, True, "x", "", [], {}, [None], ["x"], {"a": None}, [[]], "9" * 40, {"matchLabels": None}),
    *([{"key": None}], [{"topologyKey": []}]),
)


def everything(rng: random.Random) -> Json:
    """A workload that fits nowhere, with some of the fields that the filters and the changes read."""
    term = {"labelSelector": {"matchLabels": {"app": "q"}}, "topologyKey": ZONE}
    names = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    expression = {"key": "gpu", "operator": "In", "values": ["x"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression], "matchFields": [names]}]}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2, "labelSelector": {}}
    fields: Json = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [dict(term)]},
        },
        "topologySpreadConstraints": [spread],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}],
        "resourceClaims": [{"name": "g", "resourceClaimName": "rc"}],
        "overhead": {"cpu": "1"},
    }
    kept = {name: fields[name] for name in rng.sample(list(fields), rng.randint(0, 4))}
    kind = rng.choice(["Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet"])
    made = workload(kind, "llm", 2, rng.choice([0, 1, 3]), **copy.deepcopy(kept))
    made["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return made


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for number in range(len(value)):
            yield from places(value[number], (*path, number))


@pytest.mark.parametrize("seed", range(6))
def test_any_shape_of_a_manifest_has_an_answer(seed: int) -> None:
    rng = random.Random(seed)
    near = {"labelSelector": {}, "topologyKey": ZONE}
    against = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    live = cluster(
        node("n1", 2, labels={ZONE: "a", "gpu": "y"}, taints=[{"key": "t", "value": "v", "effect": "NoSchedule"}]),
        *(node("n2", 1, labels={ZONE: "b"}), running("x", "n2", 1, app="llm"), running("y", "n1", 1, affinity=against)),
    )
    for _ in range(40):
        given = everything(rng)
        for _ in range(rng.choice([0, 1, 1, 2])):
            path = rng.choice([item for item in places(given) if len(item) >= 2 and item[0] == "spec"])
            target = given
            for step in path[:-1]:
                target = target[step]
            target[path[-1]] = copy.deepcopy(rng.choice(ODD))
        answer = play(live, given, rollout=rng.random() < 0.3, preemption=rng.random() < 0.3)
        assert lines(answer, wide=True)
