"""Which resources are read of a cluster, and what is lost without each. Secrets and service accounts are not among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Loss = Literal["cards", "placement", "detail"]
"""What an answer lacks without a resource: `cards`, GPUs or their holders would be counted wrong; `placement`, what the
scheduler would do could be wrong; `detail`, an answer only says less."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One resource to read."""

    group: str
    plural: str
    loss: Loss = "detail"

    @property
    def title(self) -> str:
        """ "pods", "resourceclaims.resource.k8s.io", as kubectl writes it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _of(group: str, plurals: str, loss: Loss = "detail") -> tuple[Wanted, ...]:
    return tuple(Wanted(group, plural, loss) for plural in plurals.split())


WANTED: tuple[Wanted, ...] = tuple(
    sorted(
        (
            *_of("", "nodes pods", "cards"),
            *_of("", "limitranges namespaces persistentvolumeclaims persistentvolumes resourcequotas services", "placement"),
            *_of("", "configmaps events replicationcontrollers"),
            *_of("apps", "replicasets statefulsets", "placement"),
            *_of("apps", "controllerrevisions daemonsets deployments"),
            *_of("autoscaling", "horizontalpodautoscalers"),
            *_of("batch", "cronjobs jobs"),
            *_of("node.k8s.io", "runtimeclasses", "placement"),
            *_of("policy", "poddisruptionbudgets", "placement"),
            *_of("resource.k8s.io", "deviceclasses resourceclaims resourceslices", "cards"),
            *_of("resource.k8s.io", "devicetaintrules resourceclaimtemplates", "placement"),
            *_of("scheduling.k8s.io", "priorityclasses", "placement"),
            *_of("storage.k8s.io", "csidrivers csinodes csistoragecapacities storageclasses volumeattachments", "placement"),
            # Vendors' and others' kinds; most clusters have only few of them.
            *_of("apps.nvidia.com", "nimcaches nimservices"),
            *_of("jobset.x-k8s.io", "jobsets"),
            *_of("karpenter.sh", "nodeclaims nodepools"),
            *_of("keda.sh", "scaledobjects"),
            *_of("kueue.x-k8s.io", "clusterqueues localqueues resourceflavors workloads"),
            *_of("leaderworkerset.x-k8s.io", "leaderworkersets"),
            *_of("nvidia.com", "clusterpolicies nvidiadrivers"),
            *_of("ragstow.dev", "ragservices"),
            *_of("ray.io", "rayclusters rayservices"),
            *_of("resource.nvidia.com", "computedomains"),
            *_of("scheduling.run.ai", "bindrequests podgroups queues"),
            *_of("scheduling.volcano.sh", "podgroups queues"),
            *_of("serving.kserve.io", "inferenceservices"),
        ),
        key=lambda item: (item.plural, item.group),
    )
)
"""In the order in which a capture's files are read again, so that live and saved list alike."""


def file_name(wanted: Wanted) -> str:
    """The file of a capture: the plural, with the group where two groups have that plural."""
    alone = sum(item.plural == wanted.plural for item in WANTED) == 1
    return f"{wanted.plural if alone else wanted.title}.json"
