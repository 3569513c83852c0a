"""Quotas on device classes bind a plan that claims devices, counted as the API server's admission counts claims."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from makers import thing
from plan_clusters import FACTS, L4, chart, codes, gpu_node, planned, service
from ragstow.cluster.build import RawObject, build, make
from ragstow.cluster.snapshot import Snapshot
from ragstow.plan.claimquota import charged, counted_as, extended_names
from ragstow.plan.quotas import gpu_quota
from ragstow.plan.situation import situation
from ragstow.plan.whatif import with_dra
from ragstow.spec.model import Service

Raw = dict[str, Any]
GPU = "gpu.nvidia.com"
DEVICES = f"{GPU}.deviceclass.resource.k8s.io/devices"
IMPLICIT = f"deviceclass.resource.kubernetes.io/{GPU}"


def dra_cluster(*objects: Raw, cards: int = 4, extended: str | None = None, version: str = "v1.34.1") -> Snapshot:
    """One node whose cards the DRA driver hands out."""
    before = situation(
        build([chart(), gpu_node("n1", L4, cards), *objects], version=version), FACTS, service="demo", namespace="rag"
    )
    made = with_dra(before)
    assert made is not None
    if extended is None:
        return made.snapshot
    raw = copy.deepcopy(dict(next(item for item in made.snapshot.of("DeviceClass", "resource.k8s.io") if item.name == GPU).raw))
    raw["spec"]["extendedResourceName"] = extended
    return made.snapshot.replace(put=[make(RawObject(raw))])


def quota(hard: Raw, used: Raw | None = None, **spec: Any) -> Raw:
    made = thing("ResourceQuota", "limits", namespace="rag", spec={"hard": hard, **spec})
    return made if used is None else {**made, "status": {"used": used}}


def claim(name: str, *requests: Raw, labels: Raw | None = None, namespace: str = "rag", annotations: Raw | None = None) -> Raw:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"devices": {"requests": list(requests)}},
    }


def exactly(number: int | None = None, device_class: str = GPU, mode: str | None = None) -> Raw:
    body: Raw = {"deviceClassName": device_class}
    if number is not None:
        body["count"] = number
    if mode is not None:
        body["allocationMode"] = mode
    return {"name": "r", "exactly": body}


def claiming(replicas: int = 2, spec: str = "") -> Service:
    return service(f"a 20000 {replicas}", f"{spec}  placement: {{sharing: [dra]}}\n")


KEYS = [
    DEVICES,
    "count/resourceclaims.resource.k8s.io",
    f"requests.{IMPLICIT}",
    "requests.nvidia.com/gpu",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_quota_binds_claims(key: str) -> None:
    fits = planned(claiming(), dra_cluster(quota({key: "2"}), extended="nvidia.com/gpu"))
    assert fits.feasible
    made = planned(claiming(), dra_cluster(quota({key: "1"}), extended="nvidia.com/gpu"))
    assert not made.feasible
    assert "quota" in codes(made)
    raised = {"cluster.quota": {"limits": {key: "2"}}}
    assert raised in [dict(way.changes) for way in made.alternatives]
    assert not planned(claiming(), dra_cluster(quota({key: "1"}), extended="nvidia.com/gpu"), solver="greedy").feasible


def test_the_name_of_an_extended_resource_counts_only_where_a_class_stands_behind_it() -> None:
    assert planned(claiming(), dra_cluster(quota({"requests.nvidia.com/gpu": "1"}))).feasible
    assert planned(claiming(), dra_cluster(quota({"requests.nvidia.com/gpu": "1"}), extended="example.com/gpu")).feasible


def test_quotas_of_other_classes_scopes_and_namespaces_do_not_bind() -> None:
    other = quota({DEVICES: "0"})
    other["metadata"]["namespace"] = "others"
    scoped = quota({DEVICES: "0"}, scopes=["Terminating"])
    for free in (other, scoped, quota({"mig.nvidia.com.deviceclass.resource.k8s.io/devices": "0"})):
        assert planned(claiming(), dra_cluster(free)).feasible


def test_implicit_names_since_the_feature_is_on_by_default() -> None:
    hard = {f"requests.{IMPLICIT}": "1"}
    assert planned(claiming(), dra_cluster(quota(hard), version="v1.35.0")).feasible
    assert not planned(claiming(), dra_cluster(quota(hard), version="v1.36.0"), alternatives=False).feasible
    assert extended_names(dra_cluster(version="v1.35.0"), FACTS) is None
    assert extended_names(dra_cluster(version="v1.36.0"), FACTS) == {}
    assert counted_as(GPU, None) == (DEVICES,)


def left(limits: Raw, *claims: Raw) -> int:
    snapshot = dra_cluster(limits).replace(put=[make(RawObject(item)) for item in claims])
    return gpu_quota(situation(snapshot, FACTS, service="demo", namespace="rag"))[DEVICES]


def test_what_is_left_counts_claims_of_others_and_frees_the_service_s_own() -> None:
    own = {"ragstow.dev/service": "demo"}
    claims = [claim("x", exactly(2)), claim("y", exactly(1), labels=own), claim("z", exactly(5), namespace="others")]
    assert left(quota({DEVICES: "6"}), *claims) == 4
    assert left(quota({DEVICES: "6"}, {DEVICES: "3"}), *claims) == 4


def test_what_one_claim_counts() -> None:
    def count(*requests: Raw, extended: Raw | None = None, annotations: Raw | None = None) -> Raw:
        return charged(make(RawObject(claim("c", *requests, annotations=annotations))), extended)

    every = "count/resourceclaims.resource.k8s.io"
    assert count(exactly()) == {every: 1, DEVICES: 1}
    assert count(exactly(2), exactly(3)) == {every: 1, DEVICES: 5}
    assert count(exactly(mode="All")) == {every: 1, DEVICES: 32}
    assert count(exactly(4, mode="Unheard")) == {every: 1, DEVICES: 0}
    first = {"name": "r", "firstAvailable": [exactly(1)["exactly"], exactly(3)["exactly"], exactly(2, "mig")["exactly"]]}
    assert count(first) == {every: 1, DEVICES: 3, "mig.deviceclass.resource.k8s.io/devices": 2}
    assert count({"name": "r", **exactly(2)["exactly"]}) == {every: 1, DEVICES: 2}  # v1beta1
    backed = {GPU: "nvidia.com/gpu"}
    assert count(exactly(2), extended=backed) == {every: 1, DEVICES: 2, IMPLICIT: 2, "nvidia.com/gpu": 2}
    made_for_a_pod = {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert count(exactly(2), extended=backed, annotations=made_for_a_pod) == {every: 1, DEVICES: 2, IMPLICIT: 2}


def test_components_that_share_a_claim_count_once() -> None:
    wanted = service("a 4000 2\nb 4000 2", "  isolation: none\n  placement: {sharing: [dra], together: [[a, b]]}\n")
    assert planned(wanted, dra_cluster(quota({DEVICES: "2"}))).feasible
    assert not planned(wanted, dra_cluster(quota({DEVICES: "1"})), alternatives=False).feasible
