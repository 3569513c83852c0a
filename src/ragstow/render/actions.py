"""What `apply` does, as data: one frozen action for each thing that is changed or waited for.

An action says what shall be, not how to get there: carrying one out twice changes nothing the second time, so an interrupted
run can begin the one it was at again. Every action has a `title` for people. Nothing here talks to a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragstow.render.model import Manifest


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Server-side apply of an object of ours."""

    manifest: Manifest

    @property
    def title(self) -> str:
        """For people."""
        meta = self.manifest.get("metadata") or {}
        return f"apply {_named(str(self.manifest.get('kind')), str(meta.get('namespace') or ''), str(meta.get('name')))}"


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object of an earlier plan that the present one does not have; what it owns goes first."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        """For people."""
        return f"delete {_named(self.kind, self.namespace, self.name)}"


@dataclass(frozen=True, slots=True)
class MergePatch:
    """A JSON merge patch (RFC 7396) of an object that is not ours. `what` says what it is for."""

    api_version: str
    kind: str
    namespace: str
    """"" for cluster-scoped kinds."""
    name: str
    patch: Mapping[str, Any]
    what: str

    @property
    def title(self) -> str:
        """For people."""
        return f"patch {_named(self.kind, self.namespace, self.name)}: {self.what}"


@dataclass(frozen=True, slots=True)
class HelmUpgrade:
    """`helm upgrade --reuse-values` of a release with a file of values, through the `helm` on PATH.

    It is already so where the ConfigMap `config_map` of the release holds the keys of `data` with these texts.
    """

    namespace: str
    release: str
    chart: str
    repository: str
    version: str
    values: Mapping[str, Any]
    file: str
    """Where `render` writes those values, below the output folder; for the command that is shown."""
    config_map: str
    data: Mapping[str, str]

    @property
    def title(self) -> str:
        """For people."""
        return f"helm upgrade {self.namespace}/{self.release}: the device plugin's configurations"

    @property
    def command(self) -> str:
        """The command for a person."""
        return (
            f"helm upgrade {self.release} {self.chart} --repo {self.repository} --namespace {self.namespace} "
            f"--version {self.version} --reuse-values --values {self.file}"
        )


@dataclass(frozen=True, slots=True)
class ByHand:
    """Something that needs a person on the node itself; `apply` refuses it before anything is touched.

    It is already so where the node offers exactly these GPU resources.
    """

    node: str
    resources: Mapping[str, int]
    what: str
    text: str
    commands: tuple[str, ...]

    @property
    def title(self) -> str:
        """For people."""
        return f"by hand: {self.what}"


@dataclass(frozen=True, slots=True)
class RestartDaemonSet:
    """`kubectl rollout restart`, and wait until the new pods are ready."""

    namespace: str
    name: str
    why: str

    @property
    def title(self) -> str:
        """For people."""
        return f"restart {_named('DaemonSet', self.namespace, self.name)}: {self.why}"


@dataclass(frozen=True, slots=True)
class WaitReady:
    """Wait until a workload (Deployment, StatefulSet, DaemonSet) is rolled out, or a ClusterPolicy says `ready`.

    `replicas` is None where the object itself says how many (a DaemonSet). `mentions` is a text that the pods of a DaemonSet
    must have (a ConfigMap's name, a MIG strategy), where an operator has to write it there first.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    replicas: int | None
    timeout_seconds: int
    mentions: str = ""

    @property
    def title(self) -> str:
        """For people."""
        return f"wait for {_named(self.kind, self.namespace, self.name)}"


@dataclass(frozen=True, slots=True)
class Cordon:
    """Keep new pods off a node; one that is cordoned already stays so after the end."""

    node: str

    @property
    def title(self) -> str:
        """For people."""
        return f"cordon {self.node}"


@dataclass(frozen=True, slots=True)
class EvictGpuPods:
    """Evict the pods that hold a GPU of a node, within their disruption budgets, and wait until they are gone.

    `expected` ("namespace/name") are the pods that the plan disturbs; pods of the service itself may go too. Where another
    pod holds a GPU there, nothing is evicted and the run stops.
    """

    node: str
    expected: tuple[str, ...]
    service: str
    namespace: str

    @property
    def title(self) -> str:
        """For people."""
        return f"evict the GPU pods of {self.node}"


@dataclass(frozen=True, slots=True)
class SetLabels:
    """Set labels of a node, and take some away."""

    node: str
    labels: Mapping[str, str]
    gone: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """For people."""
        said = [*(f"{key}={value}" for key, value in self.labels.items()), *(f"{key}-" for key in self.gone)]
        return f"label {self.node}: {' '.join(said)}"


@dataclass(frozen=True, slots=True)
class WaitMigState:
    """Wait until the MIG manager says `success` for the layout that a node is labelled with; `failed` ends the run."""

    node: str
    layout: str

    @property
    def title(self) -> str:
        """For people."""
        return f"wait for the MIG manager on {self.node}: {self.layout}"


@dataclass(frozen=True, slots=True)
class RestartPluginPod:
    """Delete the device plugin's pod of one node; its DaemonSet brings it back, and the new one looks for slices anew."""

    node: str
    namespace: str
    daemonset: str

    @property
    def title(self) -> str:
        """For people."""
        return f"restart the device plugin on {self.node}"


@dataclass(frozen=True, slots=True)
class WaitNodeOffers:
    """Wait until a node's allocatable shows exactly these GPU resources, and its labels these values."""

    node: str
    resources: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """For people."""
        listed = ", ".join(f"{count} x {name}" for name, count in sorted(self.resources.items())) or "no GPU resource"
        return f"wait until {self.node} offers {listed}"


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Let pods onto a node again, if it was this procedure that cordoned it."""

    node: str

    @property
    def title(self) -> str:
        """For people."""
        return f"uncordon {self.node}"


Action = (
    ApplyObject
    | DeleteObject
    | MergePatch
    | HelmUpgrade
    | ByHand
    | RestartDaemonSet
    | WaitReady
    | Cordon
    | EvictGpuPods
    | SetLabels
    | WaitMigState
    | RestartPluginPod
    | WaitNodeOffers
    | Uncordon
)


@dataclass(frozen=True, slots=True)
class Procedure:
    """Everything that `apply` does for one plan, in order."""

    service: str
    namespace: str
    digest: str
    """The plan's."""
    actions: tuple[Action, ...]
    configuration: int = 0
    """How many actions at the start are configuration: objects and patches that change no node by themselves."""
    workloads: int = 0
    """Where the service's own objects begin; between the two are the nodes."""

    @property
    def by_hand(self) -> tuple[ByHand, ...]:
        """What keeps it from being carried out without a person on a node."""
        return tuple(action for action in self.actions if isinstance(action, ByHand))


def _named(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
