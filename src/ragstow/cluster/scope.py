"""Which kinds live in a namespace, so that an object that does not say one is where kubectl would put it: in "default".

Kinds are those of Kubernetes' own API groups and of the controllers whose objects matter for GPUs; for any other kind a
CustomResourceDefinition in the same snapshot says it, else what is written counts.
"""

from __future__ import annotations

DEFAULT_NAMESPACE = "default"

_KINDS: dict[str, str] = {
    "": "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret "
    "Service ServiceAccount",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling": "HorizontalPodAutoscaler",
    "batch": "CronJob Job",
    "coordination.k8s.io": "Lease LeaseCandidate",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    "gateway.networking.k8s.io": "Gateway HTTPRoute GRPCRoute",
    "networking.k8s.io": "Ingress NetworkPolicy",
    "policy": "PodDisruptionBudget",
    "rbac.authorization.k8s.io": "Role RoleBinding",
    "resource.k8s.io": "ResourceClaim ResourceClaimTemplate",
    "scheduling.k8s.io": "PodGroup Workload",
    "storage.k8s.io": "CSIStorageCapacity",
    "apps.nvidia.com": "NIMCache NIMService NIMPipeline",
    "argoproj.io": "Application Rollout",
    "autoscaling.k8s.io": "VerticalPodAutoscaler",
    "inference.networking.k8s.io": "InferencePool",
    "jobset.x-k8s.io": "JobSet",
    "keda.sh": "ScaledObject ScaledJob",
    "kueue.x-k8s.io": "LocalQueue Workload",
    "leaderworkerset.x-k8s.io": "LeaderWorkerSet",
    "monitoring.coreos.com": "PodMonitor PrometheusRule ServiceMonitor",
    "nfd.k8s-sigs.io": "NodeFeature",
    "ragstow.dev": "RagService",
    "ray.io": "RayCluster RayJob RayService",
    "resource.nvidia.com": "ComputeDomain",
    "scheduling.run.ai": "BindRequest PodGroup",
    "scheduling.volcano.sh": "PodGroup",
    "serving.kserve.io": "InferenceService",
}
_NAMESPACED = frozenset((group, kind) for group, kinds in _KINDS.items() for kind in kinds.split())


def namespaced(group: str, kind: str) -> bool:
    """Whether objects of this kind are known to live in a namespace."""
    return (group, kind) in _NAMESPACED
