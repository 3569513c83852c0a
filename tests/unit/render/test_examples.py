"""The bundled examples from end to end: planned, rendered, valid, simulated as rendered, and done once applied."""

from __future__ import annotations

import copy
import zlib
from dataclasses import replace
from functools import cache
from typing import Any

import kubernetes_validate
import pytest

from ragstow import facts, kubeyaml
from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.inventory.assume import parse
from ragstow.inventory.build import inventory
from ragstow.plan.arrivals import arrivals
from ragstow.plan.layouts import with_changes
from ragstow.plan.model import Plan
from ragstow.plan.planner import plan as make_plan
from ragstow.render import Rendering, procedure, render
from ragstow.render.actions import ApplyObject, Cordon, SetLabels
from ragstow.spec import load, to_document
from ragstow.spec.model import Service
from support import ROOT

EXAMPLES = ROOT / "examples"
FACTS = facts.load()
FEASIBLE = {
    "mixed-t4-a100": "service.yaml",
    "k3s-two-cards": "service-no-isolation.yaml",
    "k3s-two-cards-dra": "service.yaml",
    "h100-operator": "service.yaml",
    "cloud-l4-pool": "service.yaml",
}
ASSUMED = {"k3s-two-cards": ["ragbox=NVIDIA-GeForce-RTX-3090:2"]}
RELEASES = ("1.34", "1.35", "1.36", "1.37")


def planned_on(name: str, service: Service, snapshot: Snapshot) -> Plan:
    assumed = parse(ASSUMED.get(name, []), snapshot, FACTS)
    return make_plan(service, snapshot, FACTS, document=to_document(service), assumed=assumed)


@cache
def example(name: str) -> tuple[Service, Snapshot, Plan, Rendering]:
    service = load(EXAMPLES / name / FEASIBLE[name], FACTS)
    snapshot = read(str(EXAMPLES / name / "cluster"))
    plan = planned_on(name, service, snapshot)
    return service, snapshot, plan, render(service, plan, FACTS)


def workloads(rendering: Rendering, component: str) -> list[dict[str, Any]]:
    kinds = ("Deployment", "StatefulSet")
    return [
        made
        for made in rendering.objects
        if made["kind"] in kinds and made["metadata"]["labels"]["ragstow.dev/component"] == component
    ]


@pytest.mark.parametrize("name", FEASIBLE)
def test_procedure_applies_what_is_rendered_and_touches_only_nodes_that_change(name: str) -> None:
    service, _, plan, rendering = example(name)
    made = procedure(service, plan, FACTS)
    applied = [action.manifest for action in made.actions if isinstance(action, ApplyObject)]
    assert sorted(map(str, applied)) == sorted(map(str, rendering.objects))
    changed = [layout.node for layout in plan.layouts if layout.changes]
    assert [action.node for action in made.actions if isinstance(action, Cordon)] == changed
    assert {action.node for action in made.actions if isinstance(action, SetLabels)} == set(changed)


@pytest.mark.parametrize("name", FEASIBLE)
def test_it_fits_and_every_object_is_valid(name: str) -> None:
    *_, plan, rendering = example(name)
    assert plan.feasible
    for manifest in rendering.objects:
        for release in RELEASES:
            kubernetes_validate.validate(manifest, release, strict=True)


@pytest.mark.parametrize("name", FEASIBLE)
def test_the_pods_are_those_that_were_simulated(name: str) -> None:
    service, _, plan, rendering = example(name)
    simulated = {pod.labels["ragstow.dev/component"]: pod.spec for pod in arrivals(service, plan.components, {}).pods}
    for component in service.components:
        made = workloads(rendering, component.name)
        assert sum(workload["spec"]["replicas"] for workload in made) == component.replicas
        for workload in made:
            pod, wanted = workload["spec"]["template"]["spec"], simulated[component.name]
            for field in ("affinity", "nodeSelector", "topologySpreadConstraints"):
                assert pod.get(field) == wanted.get(field), field
            assert pod.get("tolerations", []) == wanted.get("tolerations", [])
            ours, theirs = pod["containers"][0]["resources"], wanted["containers"][0]["resources"]
            assert ours == theirs
            assert len(pod.get("resourceClaims", [])) == len(wanted.get("resourceClaims", []))


@pytest.mark.parametrize("name", FEASIBLE)
def test_engine_arguments_are_given_once(name: str) -> None:
    service, *_, rendering = example(name)
    for component in service.components:
        for workload in workloads(rendering, component.name):
            args = workload["spec"]["template"]["spec"]["containers"][0].get("args", [])
            flags = [text.partition("=")[0] for text in args if text.startswith("--")]
            assert len(flags) == len(set(flags)), flags


def applied(snapshot: Snapshot, plan: Plan, rendering: Rendering) -> Snapshot:
    """The cluster after the plan was applied: nodes as laid out, pods where they were placed, claims allocated."""
    nodes = [with_changes(next(node for node in snapshot.nodes if node.name == layout.node), layout) for layout in plan.layouts]
    put: list[KubeObject] = [make(RawObject(raw)) for raw in nodes]
    claims = {row["metadata"]["name"]: row for row in copy.deepcopy(rendering.objects) if row["kind"] == "ResourceClaim"}
    templates = {row["metadata"]["name"]: row for row in rendering.objects if row["kind"] == "ResourceClaimTemplate"}
    for component in dict.fromkeys(placement.component for placement in plan.placements):
        placements = [placement for placement in plan.placements if placement.component == component]
        replicas = [row for row in workloads(rendering, component) for _ in range(row["spec"]["replicas"])]
        for number, (placement, workload) in enumerate(zip(placements, replicas, strict=True)):
            template = workload["spec"]["template"]
            name = f"{workload['metadata']['name']}-{number}"
            uid = f"00000000-0000-0000-0000-{zlib.crc32(name.encode()):012d}"
            status: dict[str, Any] = {"phase": "Running"}
            for reference in template["spec"].get("resourceClaims", []):
                claim_name = reference.get("resourceClaimName") or f"{name}-gpu"
                if claim_name not in claims:
                    spec = templates[reference["resourceClaimTemplateName"]]["spec"]["spec"]
                    claims[claim_name] = {
                        "apiVersion": "resource.k8s.io/v1",
                        "kind": "ResourceClaim",
                        "metadata": {
                            "name": claim_name,
                            "namespace": plan.namespace,
                            "ownerReferences": [
                                {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
                            ],
                        },
                        "spec": spec,
                    }
                    status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": claim_name}]
                # Any free card will do: the cards of this example are alike.
                index = sum("status" in claim for claim in claims.values() if claim["metadata"]["name"] != claim_name)
                device = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": placement.node, "device": f"gpu-{index}"}
                found = claims[claim_name].setdefault("status", {"reservedFor": []})
                found.setdefault("allocation", {"devices": {"results": [device]}})
                found["reservedFor"].append({"resource": "pods", "name": name, "uid": uid})
            metadata = {"name": name, "namespace": plan.namespace, "uid": uid, **template["metadata"]}
            spec = {**template["spec"], "nodeName": placement.node}
            put.append(
                make(RawObject({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}))
            )
    put += [make(RawObject(claim)) for claim in claims.values()]
    return snapshot.replace([*put, *upgraded(snapshot, plan, rendering)])


def upgraded(snapshot: Snapshot, plan: Plan, rendering: Rendering) -> list[KubeObject]:
    """What the plugin's chart makes of our values: the ConfigMap, and a DaemonSet whose config-manager chooses from it."""
    text = next((file.text for file in rendering.files if file.path == "nodes/device-plugin-values.yaml"), None)
    if text is None:
        return []
    config = kubeyaml.load_all(text)[0].value["config"]
    plugin = plan.cluster.plugin
    name, namespace = f"{plugin.daemonset}-configs", plugin.namespace or ""
    found = snapshot.get("DaemonSet", plugin.daemonset or "", namespace, "apps")
    assert found is not None
    daemonset = copy.deepcopy(dict(found.raw))
    made: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": config["map"]},
        daemonset,
    ]
    specs = [daemonset["spec"]["template"]["spec"]]
    for pod in snapshot.pods:
        if pod.controller is not None and pod.controller.uid == found.uid:
            made.append(copy.deepcopy(dict(pod.raw)))
            specs.append(made[-1]["spec"])
    manager = {
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": config["default"],
        "FALLBACK_STRATEGIES": "named,single",
    }
    mounts = [{"name": "available-configs", "mountPath": "/available-configs"}, {"name": "config", "mountPath": "/config"}]
    for spec in specs:
        spec["containers"][0].setdefault("env", []).append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
        spec["containers"][0]["volumeMounts"] += mounts
        sidecar = {
            "name": "nvidia-device-plugin-sidecar",
            "image": spec["containers"][0]["image"],
            "command": ["config-manager"],
            "env": [{"name": key, "value": value} for key, value in manager.items()],
            "volumeMounts": mounts,
        }
        spec["containers"].append(sidecar)
        spec["volumes"] += [{"name": "available-configs", "configMap": {"name": name}}, {"name": "config", "emptyDir": {}}]
    return [make(RawObject(raw)) for raw in made]


@pytest.mark.parametrize("name", FEASIBLE)
def test_planning_again_after_it_was_applied_changes_nothing(name: str) -> None:
    service, snapshot, plan, rendering = example(name)
    again = planned_on(name, service, applied(snapshot, plan, rendering))
    assert again.feasible
    assert [layout.node for layout in again.layouts if layout.changes] == []
    assert [replace(row, sizing=None, reasons=()) for row in again.components] == [
        replace(row, sizing=None, reasons=()) for row in plan.components
    ]
    after = render(service, replace(again, digest=plan.digest), FACTS)
    assert after.objects[-len(after.objects) :] == tuple(
        manifest for manifest in rendering.objects if manifest["metadata"].get("namespace") == service.namespace
    )


@pytest.mark.parametrize("name", FEASIBLE)
def test_inspect_shows_the_pods_as_planned(name: str) -> None:
    _, snapshot, plan, rendering = example(name)
    found = inventory(applied(snapshot, plan, rendering), FACTS)
    held = 0
    for node in found.nodes:
        ours = [pod for use in node.resources.values() for pod in use.holders if f"/{plan.service}-" in pod]
        ours += [pod for claim in node.claims for pod in claim.pods if f"/{plan.service}-" in pod]
        held += len(ours)
        for layout in plan.layouts:
            if layout.node == node.name and layout.changes:
                assert node.sharing == layout.sharing
    assert held == sum(row.replicas for row in plan.components if row.slot.mode != "none")
