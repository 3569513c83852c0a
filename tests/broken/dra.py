"""Claims: classes, selectors, drivers."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, Raw, keys


@defect
def device_class_misspelt() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus.nvidia.com"}}]}}
    version = c.get("ResourceClaimTemplate", "one-l40s")["apiVersion"]
    c.add(
        {
            "apiVersion": version,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one-gpu", "namespace": "rag"},
            "spec": {"spec": spec},
        }
    )
    pods = c.deploy("rewriter", "rewriter-b", lambda pod: pod["resourceClaims"][0].update(resourceClaimTemplateName="one-gpu"))
    return c, Wanted("dra-driver-not-ready", "Deployment rag/rewriter-b", tuple(keys(pods)), mentions=("gpus.nvidia.com",))


def _claim(c: Cluster, name: str, expression: str, count: int = 1) -> list[Raw]:
    version = c.get("ResourceClaimTemplate", "one-l40s")["apiVersion"]
    spec = {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu.nvidia.com",
                        "allocationMode": "ExactCount",
                        "count": count,
                        "selectors": [{"cel": {"expression": expression}}],
                    },
                }
            ]
        }
    }
    c.add(
        {
            "apiVersion": version,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"{name}-gpu", "namespace": "rag"},
            "spec": {"spec": spec},
        }
    )
    return c.deploy("rewriter", name, lambda pod: pod["resourceClaims"][0].update(resourceClaimTemplateName=f"{name}-gpu"))


@defect
def selector_that_no_device_meets() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    pods = _claim(c, "big", "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'")
    return c, Wanted("dra-selector-mismatch", "Deployment rag/big", tuple(keys(pods)))


@defect
def more_memory_than_any_device_has() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    pods = _claim(c, "big", "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('90Gi')) >= 0")
    return c, Wanted("dra-selector-mismatch", "Deployment rag/big", tuple(keys(pods)))


@defect
def attribute_in_the_wrong_domain() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    pods = _claim(c, "big", "device.attributes['nvidia.com'].productName == 'NVIDIA L40S'")
    return c, Wanted("dra-selector-mismatch", "Deployment rag/big", tuple(keys(pods)))


@defect
def more_devices_than_a_node_has() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    pods = _claim(c, "big", "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-80GB'", 8)
    return c, Wanted("dra-selector-mismatch", "Deployment rag/big", tuple(keys(pods)))


@defect
def driver_kept_off_all_nodes() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    driver = c.get("DaemonSet", "dra-driver-nvidia-gpu-kubelet-plugin")
    driver["status"] |= {"desiredNumberScheduled": 0, "currentNumberScheduled": 0, "numberReady": 0}
    driver["spec"]["template"]["spec"]["tolerations"] = []
    c.remove(*c.pods("dra-driver-nvidia-gpu-kubelet-plugin-"), *list(c.all("ResourceSlice")))
    pods = _claim(c, "rewriter-b", "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA L40S'")
    return c, Wanted("dra-driver-not-ready", "Deployment rag/rewriter-b", tuple(keys(pods)))


@defect
def a_new_node_that_the_driver_does_not_reach() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    new = c.like_node("dra-3", "dra-4")
    for key in [k for k in new["metadata"]["labels"] if k.startswith(("nvidia.com/", "feature.node.kubernetes.io/"))]:
        del new["metadata"]["labels"][key]
    new["metadata"]["labels"] |= {"node.kubernetes.io/instance-type": "g6e.12xlarge", "pool": "new"}
    pods = c.deploy("rewriter", "rewriter-b", lambda spec: spec.update(nodeSelector={"pool": "new"}), kind="StatefulSet")
    return c, Wanted("dra-driver-not-ready", "StatefulSet rag/rewriter-b", tuple(keys(pods)), mentions=("dra-4",))
