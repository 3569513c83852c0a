"""A bundled example on its cluster: killed after every action, finished, taken back; no pod of others is lost on the way."""

from __future__ import annotations

from typing import Any

from apply_runner import runner
from apply_support import differences, state
from ragstow import facts
from ragstow.live.apply import codec
from ragstow.live.client import ApiClient
from ragstow.live.read import read
from ragstow.plan.planner import plan as make_plan
from ragstow.render import procedure
from ragstow.render.names import SERVICE
from ragstow.spec import load, to_document
from rig.cluster import gpu_cluster
from support import ROOT

EXAMPLE = ROOT / "examples" / "h100-operator"
FACTS = facts.load()


def of_others(client: ApiClient) -> dict[str, str]:
    """The pods that are neither the service's nor a DaemonSet's, by uid."""
    resource = client.resources().plural("", "pods")
    assert resource is not None
    found: dict[str, str] = {}
    for pod in client.list(resource):
        meta: dict[str, Any] = pod["metadata"]
        owners = [owner["kind"] for owner in meta.get("ownerReferences") or ()]
        if SERVICE not in (meta.get("labels") or {}) and "DaemonSet" not in owners:
            found[meta["uid"]] = f"{meta['namespace']}/{meta['name']}"
    return found


def test_killed_after_every_action_then_finished_and_taken_back() -> None:
    with gpu_cluster(EXAMPLE / "cluster", load_seconds=0.3, delay_seconds=0.3) as rig, runner() as play:
        leases = rig.client.resources().plural("coordination.k8s.io", "leases")
        assert leases is not None
        was, others = state(rig.client), of_others(rig.client)
        service = load(EXAMPLE / "service.yaml", FACTS)
        plan = make_plan(service, read(rig.client).snapshot(), FACTS, document=to_document(service))
        disturbed = {pod for layout in plan.layouts for pod in layout.disturbs}
        made = procedure(service, plan, FACTS)
        job = {"kubeconfig": rig.kubeconfig, "procedure": codec.to_document(made)}
        for number in range(len(made.actions)):
            answer = play(kill=("finished", number), **job)
            assert answer["killed"], (number, made.actions[number].title, answer)
            rig.client.delete(leases, "ragstow-apply", "kube-system")
        assert play(**job) == {"killed": False, "state": "applied"}
        lost = {name for uid, name in others.items() if uid not in of_others(rig.client)}
        assert lost <= disturbed

        back = {"kubeconfig": rig.kubeconfig, "service": service.name, "namespace": service.namespace}
        # Two steps further with each run: the one that was not marked, and the next.
        while (answer := play(kill=("finished", 1), **back))["killed"]:
            rig.client.delete(leases, "ragstow-apply", "kube-system")
        assert answer == {"killed": False, "state": "undone"}
        rig.settle()
        claims = [key for key in state(rig.client) if key.startswith("persistentvolumeclaims ") and key not in was]
        now = {key: value for key, value in state(rig.client).items() if key not in claims}
        assert differences(was, now) == []
        assert rig.programs.crash is None
