"""Defects of clusters with MPS, with MIG under strategy single, and with HAMi."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, Raw, keys
from broken.edits import GPU, anywhere, ask, both
from kinds import hami, mig_single, shared_by_mps
from variants import Variant


def _cluster(made: Variant) -> Cluster:
    found = Cluster()
    found.objects, found.attachments = made.objects, made.attachments
    return found


@defect
def mps_shares_by_their_time_sliced_name() -> tuple[Cluster, Wanted]:
    c = _cluster(shared_by_mps(rename=False))
    pods = c.deploy("classifier", "classifier-b", ask("nvidia.com/gpu.shared"))
    return c, Wanted("wrong-resource-name", "Deployment rag/classifier-b", tuple(keys(pods)))


@defect
def two_mps_shares_for_one_pod() -> tuple[Cluster, Wanted]:
    c = _cluster(shared_by_mps(rename=True))
    (pod,) = c.deploy("classifier", "classifier-b", ask("nvidia.com/gpu.shared", 2))
    text = (
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "
        '"nvidia.com/gpu.shared": invalid request: maximum request size for shared resources is 1; found 2, which is unexpected'
    )
    c.reject(pod, "l4-1", "UnexpectedAdmissionError", text)
    return c, Wanted("sharing-request-gt-one", "Deployment rag/classifier-b", tuple(keys([pod])))


@defect
def the_mps_daemon_went_away() -> tuple[Cluster, Wanted]:
    c = _cluster(shared_by_mps(rename=True))
    c.remove(*c.pods("nvdp-nvidia-device-plugin-mps-control-daemon-l4-2"))
    c.labels("l4-2")["nvidia.com/mps.capable"] = "false"
    c.offer("l4-2", {GPU: 0, "nvidia.com/gpu.shared": 0})
    for pod in [pod for pod in c.all("Pod") if pod["metadata"]["namespace"] == "rag" and pod["spec"].get("nodeName") == "l4-2"]:
        c.remove(pod)
    pods = c.deploy("classifier", "crowd", replicas=9)
    for pod in pods[:3]:
        c.run(pod, "l4-1")
    waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]
    return c, Wanted("mps-not-ready", "Node l4-2", tuple(keys(waiting)), also=("gpu-exhausted",))


@defect
def the_mps_daemon_crashes() -> tuple[Cluster, Wanted]:
    c = _cluster(shared_by_mps(rename=True))
    (daemon,) = c.pods("nvdp-nvidia-device-plugin-mps-control-daemon-l4-2")
    c.crash(daemon)
    c.offer("l4-2", {GPU: 0, "nvidia.com/gpu.shared": 0})
    c.remove(*[p for p in c.all("Pod") if p["metadata"]["namespace"] == "rag" and p["spec"].get("nodeName") == "l4-2"])
    pods = c.deploy("classifier", "crowd", replicas=5)
    for pod in pods[:3]:
        c.run(pod, "l4-1")
    waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]
    return c, Wanted("mps-not-ready", "Node l4-2", tuple(keys(waiting)), also=("gpu-exhausted",))


@defect
def a_slice_by_its_name_under_strategy_single() -> tuple[Cluster, Wanted]:
    c = _cluster(mig_single())
    name = next(item["metadata"]["name"] for item in c.all("Deployment") if "nvidia.com/gpu" in str(item["spec"]["template"]))
    pods = c.deploy(name, "judge-b", both(anywhere, ask("nvidia.com/mig-1g.10gb")))
    return c, Wanted("wrong-resource-name", f"Deployment {keys(pods)[0].split('/')[0]}/judge-b", tuple(keys(pods)))


@defect
def a_privileged_pod_among_hamis() -> tuple[Cluster, Wanted]:
    c = _cluster(hami())
    pattern = next(item for item in c.all("Pod") if "nvidia.com/gpumem" in str(item["spec"]))
    spec: Raw = {"containers": [dict(pattern["spec"]["containers"][0]) | {"securityContext": {"privileged": True}}]}
    spec["tolerations"] = pattern["spec"].get("tolerations", [])
    made = c._pod("embedder-priv", "rag", {"app": "embedder-priv"}, spec, None)
    return c, Wanted(
        "scheduler-bypass", "Pod rag/embedder-priv", ("rag/embedder-priv",), mentions=(made["metadata"]["name"][:0],)
    )
