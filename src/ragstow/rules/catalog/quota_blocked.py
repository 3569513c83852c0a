"""Pods of a workload never come to exist: a quota, a limit range or another admission check refuses them.

What
    A ReplicaSet, StatefulSet, DaemonSet or Job reports FailedCreate with "exceeded quota", "insufficient quota to match these
    scopes", "must specify limits" or a denial by an admission webhook or a pod security level; the workload lacks replicas.

Why
    There is no pod to look at: `kubectl get pods` is empty and no FailedScheduling event exists. GPUs count in a quota only as
    `requests.nvidia.com/gpu`; managed clusters allow system priority classes only in namespaces with a quota for that scope.

Fix
    Raise or free the quota, ask for less, or (for a priority class) create a ResourceQuota with a matching scopeSelector.

References
    - Kubernetes: resource quotas, quota per PriorityClass
    - Kubernetes: quota for extended resources

Fires: the quota for GPUs is used up
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: llm-1, namespace: rag, uid: r}
    spec: {replicas: 1}
    status: {replicas: 0}
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e, namespace: rag, uid: e}
    involvedObject: {kind: ReplicaSet, namespace: rag, name: llm-1}
    reason: FailedCreate
    type: Warning
    message: 'Error creating: pods "llm-1-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4'

Quiet: the replicas exist by now
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: llm-1, namespace: rag, uid: r}
    spec: {replicas: 1}
    status: {replicas: 1, readyReplicas: 1}
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e, namespace: rag, uid: e}
    involvedObject: {kind: ReplicaSet, namespace: rag, name: llm-1}
    reason: FailedCreate
    type: Warning
    message: 'Error creating: pods "llm-1-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.creation import refused
from ragstow.rules.model import Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_REFUSED = re.compile(
    r"(?i)exceeded quota|insufficient quota|forbidden|must specify (?:limits|requests)|maximum .* usage per|minimum .* usage per"
    r"|admission webhook .* denied|violates PodSecurity|no PriorityClass with name"
)
_TRANSIENT = re.compile(r'serviceaccount "[^"]*" not found|object has been modified|context deadline exceeded')
_QUOTA = re.compile(r"exceeded quota: (?P<name>[^,]+),")


class QuotaBlocked(Rule):
    """See the page above."""

    cause = "quota-blocked"
    severity = "high"
    needs = frozenset({"events", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload whose pods are refused at creation."""
        for workload, evidence in refused(context, _counts).items():
            message = evidence[0].value
            named = _QUOTA.search(message)
            quotas = [ObjectRef("ResourceQuota", workload.namespace, named["name"].strip())] if named else []
            yield self.finding(
                f"{workload}: its pods are refused at creation" + (f" by ResourceQuota {quotas[0].name}" if quotas else ""),
                f"The API server says: {message.removeprefix('Error creating: ')}. No pod object exists, so nothing is Pending.",
                Fix(
                    _words(message),
                    command=f"kubectl -n {workload.namespace} describe resourcequota,limitrange",
                    check=f"kubectl -n {workload.namespace} get events --field-selector reason=FailedCreate   # no new one",
                ),
                (workload, *quotas),
                evidence=evidence[:3],
            )


def _counts(message: str) -> bool:
    return bool(_REFUSED.search(message)) and not _TRANSIENT.search(message)


def _words(message: str) -> str:
    if "match these scopes" in message:
        return "Create a ResourceQuota in the namespace whose scopeSelector matches the priority class, or use another priority class."
    if "exceeded quota" in message:
        return "Raise the quota, free what it counts, or ask for less."
    if "must specify" in message:
        return "Give every container the limits and requests that the quota counts, or set defaults with a LimitRange."
    return "Change the pod template, or the policy that refuses it."
