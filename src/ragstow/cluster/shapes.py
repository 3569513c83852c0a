"""The shapes of the kinds that rooms read: which fields are mappings, lists, texts and numbers, where they are present.

An API server sends nothing else; a file that somebody edited may. What does not have its shape is left out of a snapshot with a
word about it, so that nobody below has to ask what kind of thing a field is. Only shapes are checked, never values; fields that
nobody reads are not mentioned, nor are kinds that are not known. Source: the API reference of the kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ragstow import quantity
from ragstow.errors import InputError

Map = dict[str, Any] | None
Maps = list[dict[str, Any]] | None
Text = str | None
Texts = list[str] | None
Number = int | None
_Truth = bool | None
_Truths = list[bool] | None
_Numbers = list[int] | None
NumberOrPercent = int | str | None


class Amount:
    """A Kubernetes quantity."""


Amounts = dict[str, Amount] | None
Scalars = dict[str, str | int | float] | None
"""Amounts whose values others check."""


class _Shape(msgspec.Struct, rename="camel", gc=False):
    """Fields not named are passed over; null is as good as absent, as for the API server."""


class _Requirement(_Shape):
    key: Text = None
    operator: Text = None
    values: list[str | int | float | bool] | None = None


class _Selector(_Shape):
    match_labels: Map = None
    match_expressions: list[_Requirement] | None = None


class _NodeTerm(_Shape):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _NodeTerms(_Shape):
    node_selector_terms: list[_NodeTerm] | None = None


class _PodTerm(_Shape):
    label_selector: _Selector | None = None
    namespace_selector: _Selector | None = None
    topology_key: Text = None
    namespaces: Texts = None
    match_label_keys: Texts = None
    mismatch_label_keys: Texts = None


class _Preferred(_Shape):
    weight: Number = None
    preference: _NodeTerm | None = None
    pod_affinity_term: _PodTerm | None = None


class _NodeAffinity(_Shape):
    required_during_scheduling_ignored_during_execution: _NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: list[_Preferred] | None = None


class _PodAffinity(_Shape):
    required_during_scheduling_ignored_during_execution: list[_PodTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[_Preferred] | None = None


class _Affinity(_Shape):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Resources(_Shape):
    requests: Scalars = None
    limits: Scalars = None
    claims: Maps = None


class _Variable(_Shape):
    name: str | int | float | bool | None = None
    value_from: Map = None


class _Probe(_Shape):
    initial_delay_seconds: Number = None
    period_seconds: Number = None
    failure_threshold: Number = None
    timeout_seconds: Number = None


class _Port(_Shape):
    container_port: Number = None
    host_port: Number = None
    host_ip: Text = msgspec.field(default=None, name="hostIP")
    protocol: Text = None


class _Mount(_Shape):
    name: Text = None
    mount_path: Text = None
    sub_path: Text = None


class _EnvSource(_Shape):
    config_map_ref: Map = None
    secret_ref: Map = None


class _Container(_Shape):
    command: list[Any] | None = None
    args: list[Any] | None = None
    env: list[_Variable] | None = None
    env_from: list[_EnvSource] | None = None
    resources: _Resources | None = None
    ports: list[_Port] | None = None
    volume_mounts: list[_Mount] | None = None
    startup_probe: _Probe | None = None
    liveness_probe: _Probe | None = None
    readiness_probe: _Probe | None = None
    security_context: Map = None
    restart_policy_rules: Maps = None


class _EmptyDir(_Shape):
    medium: Text = None
    size_limit: Amount | None = None


class _ProjectedSource(_Shape):
    config_map: Map = None


class _Projected(_Shape):
    sources: list[_ProjectedSource] | None = None


class _ClaimResources(_Shape):
    requests: Amounts = None
    limits: Amounts = None


class _VolumeClaimSpec(_Shape):
    access_modes: Texts = None
    resources: _ClaimResources | None = None
    selector: _Selector | None = None
    storage_class_name: Text = None
    volume_name: Text = None


class _VolumeClaimTemplate(_Shape):
    metadata: Map = None
    spec: _VolumeClaimSpec | None = None


class _Ephemeral(_Shape):
    volume_claim_template: _VolumeClaimTemplate | None = None


class _Volume(_Shape):
    name: Text = None
    config_map: Map = None
    csi: Map = None
    empty_dir: _EmptyDir | None = None
    ephemeral: _Ephemeral | None = None
    gce_persistent_disk: Map = None
    aws_elastic_block_store: Map = None
    host_path: Map = None
    iscsi: Map = None
    persistent_volume_claim: Map = None
    projected: _Projected | None = None
    rbd: Map = None


class _Spread(_Shape):
    max_skew: Number = None
    min_domains: Number = None
    topology_key: Text = None
    when_unsatisfiable: Text = None
    label_selector: _Selector | None = None
    match_label_keys: Texts = None


class _PodClaim(_Shape):
    name: Text = None
    resource_claim_name: Text = None
    resource_claim_template_name: Text = None


class _PodSpec(_Shape):
    affinity: _Affinity | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    node_selector: Map = None
    overhead: Scalars = None
    resource_claims: list[_PodClaim] | None = None
    resources: _Resources | None = None
    scheduling_gates: Maps = None
    security_context: Map = None
    tolerations: Maps = None
    topology_spread_constraints: list[_Spread] | None = None
    volumes: list[_Volume] | None = None


class _Condition(_Shape):
    type: Text = None
    status: Text = None
    reason: Text = None
    message: Text = None
    last_transition_time: Text = None


class _Waiting(_Shape):
    reason: Text = None
    message: Text = None
    exit_code: Number = None


class _ContainerState(_Shape):
    waiting: _Waiting | None = None
    running: Map = None
    terminated: _Waiting | None = None


class _ContainerStatus(_Shape):
    name: Text = None
    restart_count: Number = None
    state: _ContainerState | None = None
    last_state: _ContainerState | None = None
    resources: _Resources | None = None
    allocated_resources: Scalars = None
    allocated_resources_status: Maps = None


class _ExtendedClaim(_Shape):
    resource_claim_name: Text = None
    request_mappings: Maps = None


class _PodStatus(_Shape):
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    phase: Text = None
    reason: Text = None
    message: Text = None
    nominated_node_name: Text = None
    resource_claim_statuses: Maps = None
    extended_resource_claim_status: _ExtendedClaim | None = None
    resources: _Resources | None = None
    allocated_resources: Scalars = None


class _Metadata(_Shape):
    managed_fields: Maps = None


class _Pod(_Shape):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Image(_Shape):
    names: Texts = None
    size_bytes: Number = None


class _NodeStatus(_Shape):
    conditions: list[_Condition] | None = None
    images: list[_Image] | None = None
    node_info: Map = None
    runtime_handlers: Maps = None
    declared_features: Texts = None


class _NodeSpec(_Shape):
    provider_id: Text = msgspec.field(default=None, name="providerID")
    taints: Maps = None


class _Node(_Shape):
    metadata: _Metadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _TemplateMetadata(_Shape):
    labels: Map = None
    annotations: Map = None


class _Template(_Shape):
    metadata: _TemplateMetadata | None = None
    spec: _PodSpec | None = None


class _RollingUpdate(_Shape):
    max_surge: NumberOrPercent = None
    max_unavailable: NumberOrPercent = None
    partition: NumberOrPercent = None


class _Strategy(_Shape):
    type: Text = None
    rolling_update: _RollingUpdate | None = None


class _JobTemplateSpec(_Shape):
    template: _Template | None = None
    parallelism: Number = None
    completions: Number = None


class _JobTemplate(_Shape):
    spec: _JobTemplateSpec | None = None


class _WorkloadSpec(_Shape):
    selector: _Selector | None = None
    template: _Template | None = None
    job_template: _JobTemplate | None = None
    replicas: Number = None
    parallelism: Number = None
    completions: Number = None
    strategy: _Strategy | None = None
    update_strategy: _Strategy | None = None
    volume_claim_templates: list[_VolumeClaimTemplate] | None = None


class _WorkloadStatus(_Shape):
    conditions: list[_Condition] | None = None
    replicas: Number = None
    ready_replicas: Number = None
    updated_replicas: Number = None
    available_replicas: Number = None
    desired_number_scheduled: Number = None
    current_number_scheduled: Number = None
    number_ready: Number = None
    active: Number | list[Any] = None
    succeeded: Number = None
    failed: Number = None


class _Workload(_Shape):
    metadata: _Metadata | None = None
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


class _ControllerSpec(_Shape):
    selector: Map = None
    template: _Template | None = None
    replicas: Number = None


class _Controller(_Shape):
    spec: _ControllerSpec | None = None
    status: _WorkloadStatus | None = None


class _RevisionData(_Shape):
    spec: _WorkloadSpec | None = None


class _Revision(_Shape):
    data: _RevisionData | None = None
    revision: Number = None


class _Series(_Shape):
    count: Number = None
    last_observed_time: Text = None


class _Event(_Shape):
    involved_object: Map = None
    regarding: Map = None
    source: Map = None
    deprecated_source: Map = None
    series: _Series | None = None
    count: Number = None
    deprecated_count: Number = None
    reason: Text = None
    message: Text = None
    note: Text = None
    event_time: Text = None
    first_timestamp: Text = None
    last_timestamp: Text = None
    deprecated_first_timestamp: Text = None
    deprecated_last_timestamp: Text = None


class _ConfigMap(_Shape):
    metadata: _Metadata | None = None
    data: Map = None


class _Service(_Shape):
    spec: _ServiceSpec | None = None


class _ServiceSpec(_Shape):
    selector: Map = None
    ports: Maps = None


class _RuntimeScheduling(_Shape):
    node_selector: Map = None
    tolerations: Maps = None


class _RuntimeOverhead(_Shape):
    pod_fixed: Amounts = None


class _RuntimeClass(_Shape):
    handler: Text = None
    overhead: _RuntimeOverhead | None = None
    scheduling: _RuntimeScheduling | None = None


class _VolumeClaimStatus(_Shape):
    phase: Text = None
    capacity: Amounts = None


class _VolumeClaim(_Shape):
    spec: _VolumeClaimSpec | None = None
    status: _VolumeClaimStatus | None = None


class _VolumeAffinity(_Shape):
    required: _NodeTerms | None = None


class _PersistentVolumeSpec(_Shape):
    access_modes: Texts = None
    capacity: Amounts = None
    claim_ref: Map = None
    csi: Map = None
    gce_persistent_disk: Map = None
    aws_elastic_block_store: Map = None
    node_affinity: _VolumeAffinity | None = None
    storage_class_name: Text = None


class _PersistentVolume(_Shape):
    spec: _PersistentVolumeSpec | None = None
    status: Map = None


class _TopologyExpression(_Shape):
    key: Text = None
    values: Texts = None


class _TopologyTerm(_Shape):
    match_label_expressions: list[_TopologyExpression] | None = None


class _StorageClass(_Shape):
    allowed_topologies: list[_TopologyTerm] | None = None
    parameters: Map = None
    provisioner: Text = None
    volume_binding_mode: Text = None


class _DriverRoom(_Shape):
    count: Number = None


class _NodeDriver(_Shape):
    name: Text = None
    topology_keys: Texts = None
    allocatable: _DriverRoom | None = None


class _NodeDrivers(_Shape):
    drivers: list[_NodeDriver] | None = None


class _CsiNode(_Shape):
    spec: _NodeDrivers | None = None


class _StorageCapacity(_Shape):
    node_topology: _Selector | None = None
    storage_class_name: Text = None
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None


class _AttachmentSpec(_Shape):
    attacher: Text = None
    node_name: Text = None
    source: Map = None


class _Attachment(_Shape):
    spec: _AttachmentSpec | None = None
    status: Map = None


class _SpecAndStatus(_Shape):
    """Kinds of which little is read, or which have many versions."""

    metadata: _Metadata | None = None
    spec: Map = None
    status: Map = None


class _Cel(_Shape):
    expression: Text = None


class _DeviceSelector(_Shape):
    cel: _Cel | None = None


class _RequestedCapacity(_Shape):
    requests: Amounts = None


class _DeviceRequest(_Shape):
    name: Text = None
    device_class_name: Text = None
    selectors: list[_DeviceSelector] | None = None
    count: Number = None
    allocation_mode: Text = None
    tolerations: Maps = None
    capacity: _RequestedCapacity | None = None
    exactly: _DeviceRequest | None = None
    first_available: list[_DeviceRequest] | None = None


class _DeviceConstraint(_Shape):
    requests: Texts = None
    match_attribute: Text = None
    distinct_attribute: Text = None


class _Opaque(_Shape):
    driver: Text = None
    parameters: Map = None


class _DeviceConfig(_Shape):
    requests: Texts = None
    opaque: _Opaque | None = None


class _Devices(_Shape):
    requests: list[_DeviceRequest] | None = None
    constraints: list[_DeviceConstraint] | None = None
    config: list[_DeviceConfig] | None = None


class _ClaimSpec(_Shape):
    devices: _Devices | None = None


class _DeviceResult(_Shape):
    consumed_capacity: Amounts = None
    tolerations: Maps = None


class _AllocatedDevices(_Shape):
    results: list[_DeviceResult] | None = None
    config: list[_DeviceConfig] | None = None


class _Allocation(_Shape):
    devices: _AllocatedDevices | None = None
    node_selector: _NodeTerms | None = None


class _ClaimStatus(_Shape):
    allocation: _Allocation | None = None
    reserved_for: Maps = None


class _Claim(_Shape):
    spec: _ClaimSpec | None = None
    status: _ClaimStatus | None = None


class _ClaimTemplateSpec(_Shape):
    metadata: Map = None
    spec: _ClaimSpec | None = None


class _ClaimTemplate(_Shape):
    spec: _ClaimTemplateSpec | None = None


class _DeviceClassSpec(_Shape):
    selectors: list[_DeviceSelector] | None = None
    config: list[_DeviceConfig] | None = None
    extended_resource_name: Text = None


class _DeviceClass(_Shape):
    spec: _DeviceClassSpec | None = None


class _Range(_Shape):
    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class _RequestPolicy(_Shape):
    default: Amount | None = None
    valid_values: list[Amount] | None = None
    valid_range: _Range | None = None


class _Capacity(_Shape):
    value: Amount | None = None
    request_policy: _RequestPolicy | None = None


class _Counter(_Shape):
    value: Amount | None = None


class _CounterSet(_Shape):
    name: Text = None
    counter_set: Text = None
    counters: dict[str, _Counter] | None = None


class _Attribute(_Shape):
    int: Number = None
    bool: _Truth = None
    string: Text = None
    version: Text = None
    ints: _Numbers = None
    bools: _Truths = None
    strings: Texts = None
    versions: Texts = None


class _DeviceBody(_Shape):
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, _Capacity | str | int] | None = None
    consumes_counters: list[_CounterSet] | None = None
    taints: Maps = None
    node_name: Text = None
    node_selector: _NodeTerms | None = None


class _Device(_DeviceBody):
    name: Text = None
    basic: _DeviceBody | None = None


class _Pool(_Shape):
    name: Text = None
    generation: Number = None
    resource_slice_count: Number = None


class _SliceSpec(_Shape):
    driver: Text = None
    pool: _Pool | None = None
    node_name: Text = None
    node_selector: _NodeTerms | None = None
    devices: list[_Device] | None = None
    shared_counters: list[_CounterSet] | None = None


class _Slice(_Shape):
    spec: _SliceSpec | None = None


class _QuotaScope(_Shape):
    match_expressions: Maps = None


class _QuotaSpec(_Shape):
    hard: Amounts = None
    scopes: Texts = None
    scope_selector: _QuotaScope | None = None


class _QuotaStatus(_Shape):
    hard: Amounts = None
    used: Amounts = None


class _Quota(_Shape):
    spec: _QuotaSpec | None = None
    status: _QuotaStatus | None = None


class _Limit(_Shape):
    type: Text = None
    default: Amounts = None
    default_request: Amounts = None
    min: Amounts = None
    max: Amounts = None
    max_limit_request_ratio: Amounts = None


class _Limits(_Shape):
    limits: list[_Limit] | None = None


class _LimitRange(_Shape):
    spec: _Limits | None = None


class _BudgetSpec(_Shape):
    selector: _Selector | None = None
    min_available: NumberOrPercent = None
    max_unavailable: NumberOrPercent = None


class _BudgetStatus(_Shape):
    disruptions_allowed: Number = None
    current_healthy: Number = None
    desired_healthy: Number = None
    expected_pods: Number = None
    disrupted_pods: Map = None


class _Budget(_Shape):
    spec: _BudgetSpec | None = None
    status: _BudgetStatus | None = None


class _PriorityClass(_Shape):
    value: Number = None


class _PluginConfig(_Shape):
    name: Text = None
    default: Text = None


class _Operand(_Shape):
    config: _PluginConfig | None = None
    env: Maps = None


class _MigSpec(_Shape):
    strategy: Text = None


class _PolicySpec(_Shape):
    device_plugin: _Operand | None = None
    mig_manager: _Operand | None = None
    mig: _MigSpec | None = None
    driver: Map = None
    toolkit: Map = None
    operator: Map = None


class _Policy(_Shape):
    spec: _PolicySpec | None = None
    status: Map = None


_WORKLOADS = {("apps", kind): _Workload for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")}
_OTHERS = (
    ("scheduling.run.ai", "Queue"),
    ("scheduling.volcano.sh", "Queue"),
    ("kueue.x-k8s.io", "ClusterQueue"),
    ("kueue.x-k8s.io", "LocalQueue"),
    ("kueue.x-k8s.io", "Workload"),
    ("karpenter.sh", "NodePool"),
    ("karpenter.sh", "NodeClaim"),
    ("storage.k8s.io", "CSIDriver"),
    ("resource.k8s.io", "DeviceTaintRule"),
)
SHAPES: Mapping[tuple[str, str], type[_Shape]] = {
    ("", "Pod"): _Pod,
    ("", "Node"): _Node,
    ("", "Event"): _Event,
    ("events.k8s.io", "Event"): _Event,
    ("", "ConfigMap"): _ConfigMap,
    ("", "Service"): _Service,
    ("", "PersistentVolumeClaim"): _VolumeClaim,
    ("", "PersistentVolume"): _PersistentVolume,
    ("", "ResourceQuota"): _Quota,
    ("", "LimitRange"): _LimitRange,
    ("", "ReplicationController"): _Controller,
    **_WORKLOADS,
    ("apps", "ControllerRevision"): _Revision,
    ("batch", "Job"): _Workload,
    ("batch", "CronJob"): _Workload,
    ("node.k8s.io", "RuntimeClass"): _RuntimeClass,
    ("policy", "PodDisruptionBudget"): _Budget,
    ("scheduling.k8s.io", "PriorityClass"): _PriorityClass,
    ("storage.k8s.io", "StorageClass"): _StorageClass,
    ("storage.k8s.io", "CSINode"): _CsiNode,
    ("storage.k8s.io", "CSIStorageCapacity"): _StorageCapacity,
    ("storage.k8s.io", "VolumeAttachment"): _Attachment,
    ("resource.k8s.io", "ResourceClaim"): _Claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): _ClaimTemplate,
    ("resource.k8s.io", "ResourceSlice"): _Slice,
    ("resource.k8s.io", "DeviceClass"): _DeviceClass,
    ("nvidia.com", "ClusterPolicy"): _Policy,
    **dict.fromkeys(_OTHERS, _SpecAndStatus),
}
"""(API group, kind) -> its shape."""

_SAID = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`(?: - at `\$\.?(?P<where>[^`]*)`)?")
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


def misfit(group: str, kind: str, value: Mapping[str, Any]) -> tuple[str, str] | None:
    """(field, what is wrong with it) of the first field that does not have its shape; None where all have."""
    shape = SHAPES.get((group, kind))
    if shape is None:
        return None
    try:
        msgspec.convert(value, shape, dec_hook=_amount)
    except msgspec.ValidationError as error:
        return _told(str(error))
    return None


def _amount(wanted: type, value: Any) -> Any:
    if wanted is not Amount:
        raise NotImplementedError(f"no hook for {wanted}")
    try:
        quantity.parse(value)
    except InputError as error:
        raise ValueError(error.message) from None
    return Amount()


def _told(text: str) -> tuple[str, str]:
    found = _SAID.search(text)
    if found is None:
        said, _, where = text.partition(" - at `$")
        field = where.rstrip("`").lstrip(".")
        return field, f"{field}: {said}"
    field = found["where"] or ""
    kinds = [_WORDS.get(kind, kind) for kind in found["wanted"].split(" | ") if kind != "null"]
    return field, f"{field} is {_WORDS.get(found['got'], found['got'])}, not {' or '.join(dict.fromkeys(kinds))}"
