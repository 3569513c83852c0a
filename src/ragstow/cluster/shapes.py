"""The shapes of the kinds that rooms read: which fields are mappings, lists, texts and numbers, where they are present.

A dict names fields of a mapping, a list has the shape of its items, `Each` that of a mapping's values. Fields that nobody reads
are not mentioned, nor are kinds that are not known. Source: the API reference of the kinds. Checking is `shapecheck`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Shape = Any
"""A dict of fields, a list with one shape, an `Each`, or a type."""


@dataclass(frozen=True, slots=True)
class Each:
    """A mapping whose values all have this shape."""

    shape: Shape


class Amount:
    """A Kubernetes quantity."""


MAP = dict[str, Any]
MAPS = [MAP]
TEXTS = [str]
SCALARS = Each(str | int | float)
"""Amounts whose values others check."""
AMOUNTS = Each(Amount)
NUMBER_OR_PERCENT = int | str

_REQUIREMENTS = [{"key": str, "operator": str, "values": [str | int | float | bool]}]
_SELECTOR = {"matchLabels": MAP, "matchExpressions": _REQUIREMENTS}
_NODE_TERM = {"matchExpressions": _REQUIREMENTS, "matchFields": _REQUIREMENTS}
_NODE_TERMS = {"nodeSelectorTerms": [_NODE_TERM]}
_POD_TERM = {
    "labelSelector": _SELECTOR,
    "namespaceSelector": _SELECTOR,
    "topologyKey": str,
    "namespaces": TEXTS,
    "matchLabelKeys": TEXTS,
    "mismatchLabelKeys": TEXTS,
}
_POD_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": int, "podAffinityTerm": _POD_TERM}],
}
_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": _NODE_TERMS,
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": int, "preference": _NODE_TERM}],
    },
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
}
_RESOURCES = {"requests": SCALARS, "limits": SCALARS, "claims": MAPS}
_PROBE = {"initialDelaySeconds": int, "periodSeconds": int, "failureThreshold": int, "timeoutSeconds": int}
_CONTAINER = {
    "command": [Any],
    "args": [Any],
    "env": [{"name": str | int | float | bool, "valueFrom": MAP}],
    "envFrom": [{"configMapRef": MAP, "secretRef": MAP}],
    "resources": _RESOURCES,
    "ports": [{"containerPort": int, "hostPort": int, "hostIP": str, "protocol": str}],
    "volumeMounts": [{"name": str, "mountPath": str, "subPath": str}],
    "startupProbe": _PROBE,
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "securityContext": MAP,
    "restartPolicyRules": MAPS,
}
_VOLUME_CLAIM = {
    "accessModes": TEXTS,
    "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
    "selector": _SELECTOR,
    "storageClassName": str,
    "volumeName": str,
}
_VOLUME_CLAIM_TEMPLATE = {"metadata": MAP, "spec": _VOLUME_CLAIM}
_VOLUME = {
    "name": str,
    "configMap": MAP,
    "csi": MAP,
    "emptyDir": {"medium": str, "sizeLimit": Amount},
    "ephemeral": {"volumeClaimTemplate": _VOLUME_CLAIM_TEMPLATE},
    "gcePersistentDisk": MAP,
    "awsElasticBlockStore": MAP,
    "hostPath": MAP,
    "iscsi": MAP,
    "persistentVolumeClaim": MAP,
    "projected": {"sources": [{"configMap": MAP}]},
    "rbd": MAP,
}
_POD_SPEC = {
    "affinity": _AFFINITY,
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "nodeSelector": MAP,
    "overhead": SCALARS,
    "resourceClaims": [{"name": str, "resourceClaimName": str, "resourceClaimTemplateName": str}],
    "resources": _RESOURCES,
    "schedulingGates": MAPS,
    "securityContext": MAP,
    "tolerations": MAPS,
    "topologySpreadConstraints": [
        {
            "maxSkew": int,
            "minDomains": int,
            "topologyKey": str,
            "whenUnsatisfiable": str,
            "labelSelector": _SELECTOR,
            "matchLabelKeys": TEXTS,
        }
    ],
    "volumes": [_VOLUME],
}
_CONDITIONS = [{"type": str, "status": str, "reason": str, "message": str, "lastTransitionTime": str}]
_ENDED = {"reason": str, "message": str, "exitCode": int}
_CONTAINER_STATE = {"waiting": _ENDED, "running": MAP, "terminated": _ENDED}
_CONTAINER_STATUSES = [
    {
        "name": str,
        "restartCount": int,
        "state": _CONTAINER_STATE,
        "lastState": _CONTAINER_STATE,
        "resources": _RESOURCES,
        "allocatedResources": SCALARS,
        "allocatedResourcesStatus": MAPS,
    }
]
_METADATA = {"managedFields": MAPS}
_POD = {
    "metadata": _METADATA,
    "spec": _POD_SPEC,
    "status": {
        "conditions": _CONDITIONS,
        "containerStatuses": _CONTAINER_STATUSES,
        "initContainerStatuses": _CONTAINER_STATUSES,
        "phase": str,
        "reason": str,
        "message": str,
        "nominatedNodeName": str,
        "resourceClaimStatuses": MAPS,
        "extendedResourceClaimStatus": {"resourceClaimName": str, "requestMappings": MAPS},
        "resources": _RESOURCES,
        "allocatedResources": SCALARS,
    },
}
_NODE = {
    "metadata": _METADATA,
    "spec": {"providerID": str, "taints": MAPS},
    "status": {
        "conditions": _CONDITIONS,
        "images": [{"names": TEXTS, "sizeBytes": int}],
        "nodeInfo": MAP,
        "runtimeHandlers": MAPS,
        "declaredFeatures": TEXTS,
    },
}
_TEMPLATE = {"metadata": {"labels": MAP, "annotations": MAP}, "spec": _POD_SPEC}
_STRATEGY = {"type": str, "rollingUpdate": {"maxSurge": NUMBER_OR_PERCENT, "maxUnavailable": NUMBER_OR_PERCENT}}
_WORKLOAD_SPEC = {
    "selector": _SELECTOR,
    "template": _TEMPLATE,
    "jobTemplate": {"spec": {"template": _TEMPLATE, "parallelism": int, "completions": int}},
    "replicas": int,
    "parallelism": int,
    "completions": int,
    "strategy": _STRATEGY,
    "updateStrategy": _STRATEGY,
    "volumeClaimTemplates": [_VOLUME_CLAIM_TEMPLATE],
}
_WORKLOAD_STATUS = {
    "conditions": _CONDITIONS,
    **dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "succeeded", "failed"), int),
    **dict.fromkeys(("desiredNumberScheduled", "currentNumberScheduled", "numberReady"), int),
    "active": int | list[Any],
}
_WORKLOAD = {"metadata": _METADATA, "spec": _WORKLOAD_SPEC, "status": _WORKLOAD_STATUS}
_CONTROLLER = {"spec": {"selector": MAP, "template": _TEMPLATE, "replicas": int}, "status": _WORKLOAD_STATUS}
_EVENT = {
    **dict.fromkeys(("involvedObject", "regarding", "source", "deprecatedSource"), MAP),
    **dict.fromkeys(("reason", "message", "note", "eventTime", "firstTimestamp", "lastTimestamp"), str),
    **dict.fromkeys(("deprecatedFirstTimestamp", "deprecatedLastTimestamp"), str),
    **dict.fromkeys(("count", "deprecatedCount"), int),
    "series": {"count": int, "lastObservedTime": str},
}
_SELECTORS = [{"cel": {"expression": str}}]
_REQUEST = {
    "name": str,
    "deviceClassName": str,
    "selectors": _SELECTORS,
    "count": int,
    "allocationMode": str,
    "tolerations": MAPS,
    "capacity": {"requests": AMOUNTS},
}
_CONFIG = [{"requests": TEXTS, "opaque": {"driver": str, "parameters": MAP}}]
_CLAIM_SPEC = {
    "devices": {
        "requests": [{**_REQUEST, "exactly": _REQUEST, "firstAvailable": [_REQUEST]}],
        "constraints": [{"requests": TEXTS, "matchAttribute": str, "distinctAttribute": str}],
        "config": _CONFIG,
    }
}
_CLAIM_STATUS = {
    "allocation": {
        "devices": {"results": [{"consumedCapacity": AMOUNTS, "tolerations": MAPS}], "config": _CONFIG},
        "nodeSelector": _NODE_TERMS,
    },
    "reservedFor": MAPS,
}
_POLICY = {
    "default": Amount,
    "validValues": [Amount],
    "validRange": {"min": Amount, "max": Amount, "step": Amount},
}
_COUNTERS = [{"name": str, "counterSet": str, "counters": Each({"value": Amount})}]
_ATTRIBUTE = {
    "int": int,
    "bool": bool,
    "string": str,
    "version": str,
    "ints": [int],
    "bools": [bool],
    "strings": TEXTS,
    "versions": TEXTS,
}
_DEVICE = {
    "name": str,
    "attributes": Each(_ATTRIBUTE),
    "capacity": Each(({"value": Amount, "requestPolicy": _POLICY}, str, int)),
    "consumesCounters": _COUNTERS,
    "taints": MAPS,
    "nodeName": str,
    "nodeSelector": _NODE_TERMS,
}
_SLICE = {
    "spec": {
        "driver": str,
        "pool": {"name": str, "generation": int, "resourceSliceCount": int},
        "nodeName": str,
        "nodeSelector": _NODE_TERMS,
        "devices": [{**_DEVICE, "basic": _DEVICE}],
        "sharedCounters": _COUNTERS,
    }
}
_PLAIN = {"metadata": _METADATA, "spec": MAP, "status": MAP}
"""Of kinds of which little is read, or which have many versions."""
_OPERAND = {"config": {"name": str, "default": str}, "env": MAPS}
_LIMIT = dict.fromkeys(("default", "defaultRequest", "min", "max", "maxLimitRequestRatio"), AMOUNTS)

SHAPES: Mapping[tuple[str, str], Shape] = {
    ("", "Pod"): _POD,
    ("", "Node"): _NODE,
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "ConfigMap"): {"metadata": _METADATA, "data": MAP},
    ("", "Service"): {"spec": {"selector": MAP, "ports": MAPS}},
    ("", "PersistentVolumeClaim"): {"spec": _VOLUME_CLAIM, "status": {"phase": str, "capacity": AMOUNTS}},
    ("", "PersistentVolume"): {
        "spec": {
            "accessModes": TEXTS,
            "capacity": AMOUNTS,
            "claimRef": MAP,
            "csi": MAP,
            "gcePersistentDisk": MAP,
            "awsElasticBlockStore": MAP,
            "nodeAffinity": {"required": _NODE_TERMS},
            "storageClassName": str,
        },
        "status": MAP,
    },
    ("", "ResourceQuota"): {
        "spec": {"hard": AMOUNTS, "scopes": TEXTS, "scopeSelector": {"matchExpressions": MAPS}},
        "status": {"hard": AMOUNTS, "used": AMOUNTS},
    },
    ("", "LimitRange"): {"spec": {"limits": [{"type": str, **_LIMIT}]}},
    ("", "ReplicationController"): _CONTROLLER,
    **{("apps", kind): _WORKLOAD for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    ("apps", "ControllerRevision"): {"data": {"spec": _WORKLOAD_SPEC}, "revision": int},
    ("autoscaling", "HorizontalPodAutoscaler"): {"spec": {"scaleTargetRef": MAP}},
    ("keda.sh", "ScaledObject"): {"spec": {"scaleTargetRef": MAP}},
    ("batch", "Job"): _WORKLOAD,
    ("batch", "CronJob"): _WORKLOAD,
    ("node.k8s.io", "RuntimeClass"): {
        "handler": str,
        "overhead": {"podFixed": AMOUNTS},
        "scheduling": {"nodeSelector": MAP, "tolerations": MAPS},
    },
    ("policy", "PodDisruptionBudget"): {
        "spec": {"selector": _SELECTOR, "minAvailable": NUMBER_OR_PERCENT, "maxUnavailable": NUMBER_OR_PERCENT},
        "status": {
            **dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), int),
            "disruptedPods": MAP,
        },
    },
    ("scheduling.k8s.io", "PriorityClass"): {"value": int},
    ("storage.k8s.io", "StorageClass"): {
        "allowedTopologies": [{"matchLabelExpressions": [{"key": str, "values": TEXTS}]}],
        "parameters": MAP,
        "provisioner": str,
        "volumeBindingMode": str,
    },
    ("storage.k8s.io", "CSINode"): {"spec": {"drivers": [{"name": str, "topologyKeys": TEXTS, "allocatable": {"count": int}}]}},
    ("storage.k8s.io", "CSIStorageCapacity"): {
        "nodeTopology": _SELECTOR,
        "storageClassName": str,
        "capacity": Amount,
        "maximumVolumeSize": Amount,
    },
    ("storage.k8s.io", "VolumeAttachment"): {"spec": {"attacher": str, "nodeName": str, "source": MAP}, "status": MAP},
    ("resource.k8s.io", "ResourceClaim"): {"spec": _CLAIM_SPEC, "status": _CLAIM_STATUS},
    ("resource.k8s.io", "ResourceClaimTemplate"): {"spec": {"metadata": MAP, "spec": _CLAIM_SPEC}},
    ("resource.k8s.io", "ResourceSlice"): _SLICE,
    ("resource.k8s.io", "DeviceClass"): {"spec": {"selectors": _SELECTORS, "config": _CONFIG, "extendedResourceName": str}},
    ("nvidia.com", "ClusterPolicy"): {
        "spec": {
            "devicePlugin": _OPERAND,
            "migManager": _OPERAND,
            "mig": {"strategy": str},
            **dict.fromkeys(("driver", "toolkit", "operator"), MAP),
        },
        "status": MAP,
    },
    **dict.fromkeys(
        (
            ("scheduling.run.ai", "Queue"),
            ("scheduling.volcano.sh", "Queue"),
            ("kueue.x-k8s.io", "ClusterQueue"),
            ("kueue.x-k8s.io", "LocalQueue"),
            ("kueue.x-k8s.io", "Workload"),
            ("karpenter.sh", "NodePool"),
            ("karpenter.sh", "NodeClaim"),
            ("storage.k8s.io", "CSIDriver"),
            ("resource.k8s.io", "DeviceTaintRule"),
        ),
        _PLAIN,
    ),
}
"""(API group, kind) -> its shape."""
