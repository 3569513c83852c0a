"""A claim's or class's selectors, counts or constraints match no device that a driver publishes.

What
    Pods wait with "cannot allocate all claims" although the driver runs and has published devices: no free combination satisfies what the claim asks for.

Why
    A CEL expression with a wrong attribute, product or version, more devices than one node has, or constraints that exclude each
    other never match; nothing says which part fails. Versions lose leading zeros in ResourceSlices (595.91.07 is 595.91.7).

Fix
    Compare the claim's selectors with the attributes of the published devices; relax what none of them satisfies.

References
    - Kubernetes: dynamic resource allocation, CEL selectors
    - NVIDIA DRA driver: device attributes

Fires: no card of that product
    apiVersion: v1
    kind: Node
    metadata: {name: dra-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: s, uid: s}
    spec: {driver: gpu.nvidia.com, nodeName: dra-1, pool: {name: dra-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {productName: {string: NVIDIA L4}}}]}
    ---
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com, uid: c}
    spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: big, namespace: rag, uid: r}
    spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'"}}]}}]}}
    status: {}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {resourceClaims: [{name: gpu, resourceClaimName: big}], containers: [{name: vllm, image: i, resources: {claims: [{name: gpu}]}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available: 1 cannot allocate all claims."}]}

Quiet: the card is there, and held by a pod of its own
    apiVersion: v1
    kind: Node
    metadata: {name: dra-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {nodeName: dra-1, resourceClaims: [{name: gpu, resourceClaimName: big}], containers: [{name: vllm, image: i, resources: {claims: [{name: gpu}]}}]}
    status: {phase: Running}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragstow.cluster.dra import PublishedDevice, claims, devices
from ragstow.rules.claims import ClaimGroup, claim_groups, missing_classes, unclaimed
from ragstow.rules.context import Context, PendingVerdict
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_ATTRIBUTE = re.compile(r"""attributes\[['"][^'"]+['"]\]\.(?:\?\.?)?(\w+)""")
_ERROR = "CEL runtime error"
_FEW = 4


class DraSelectorMismatch(Rule):
    """See the page above."""

    cause = "dra-selector-mismatch"
    severity = "high"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload whose claim no published device satisfies although some are free."""
        explained: set[str] = set()
        held = {device for claim in claims(context.snapshot) for device in claim.devices}
        for group in claim_groups(context):
            if group.waiting.verdict.feasible or missing_classes(context, group):
                continue
            published = [device for driver in sorted(group.drivers) for device in devices(context.snapshot, driver)]
            free = [device for device in published if device.id not in held]
            plugins = {r.plugin for items in group.waiting.verdict.refused.values() for r in items}
            if not published or "DynamicResources" not in plugins:
                continue
            empty = unclaimed(context, group.waiting)
            if _satisfied(empty, {device.node for device in published}) or (empty is None and not free):
                continue  # devices that satisfy it exist: others hold them, or something else keeps the pod off their nodes
            explained.update(group.waiting.held)
            products = sorted({str(device.attributes.get("productName", device.id.device)) for device in published})
            yield self.finding(
                f"{group.waiting.workload}: no published device satisfies its claim; {len(free)} of {len(published)} are free",
                f"Published: {', '.join(products[:6])}. The claim's selectors, count or constraints leave none of them, even if all were free."
                + "".join(f" {sentence}." for sentence in _why(group, published)),
                Fix(
                    "Compare the selectors of claim and class with the attributes of the devices, and relax what none satisfies.",
                    command="kubectl get resourceslices -o yaml   # attributes and capacity of every device",
                    check="the claim is allocated, the pod gets a node",
                ),
                (*group.waiting.objects, *group.refs, *(ObjectRef("DeviceClass", "", name) for name in group.classes)),
                evidence=(
                    *group.waiting.evidence,
                    *(Evidence(text, group.refs[0] if group.refs else None, "spec.devices") for text in group.expressions[:3]),
                ),
                held=group.waiting.held,
                since=group.waiting.since,
                confidence="likely" if empty is None else "certain",
            )
        for site, hits in by_workload(context, _told(context, explained)):
            yield self.finding(
                f"{site.words}: a selector of its claim fails on the published devices",
                f"The scheduler says: {hits[0].text.value.strip()[:300]}",
                Fix(
                    "Name attributes that the driver publishes, or ask for them first ('x' in device.attributes['domain'], or .?x.orValue('')).",
                    command="kubectl get resourceslices -o yaml   # attributes and capacity of every device",
                    check="the claim is allocated, the pod gets a node",
                ),
                site.objects,
                evidence=evidence(hits),
                held=site.pods,
                confidence=sure(hits),
            )


def _told(context: Context, held: set[str]) -> list[Hit]:
    """The scheduler's own word on a selector that fails, about pods that nothing here has explained."""
    hits = []
    for hit in context.texts.of_cause(DraSelectorMismatch.cause):
        pod, about = hit.text.pod, hit.text.about
        key = pod.key if pod is not None else f"{about.namespace}/{about.name}" if about is not None else ""
        if key not in held and (pod is None or pod.node is None):
            hits.append(hit)
    return hits


def _why(group: ClaimGroup, published: Sequence[PublishedDevice]) -> Iterator[str]:
    """What can be seen without evaluating expressions: errors that the scheduler tells, attributes and numbers."""
    told = (text for items in group.waiting.verdict.refused.values() for item in items for text in item.texts if _ERROR in text)
    yield from dict.fromkeys(text[:300] for text in told)
    for name in dict.fromkeys(name for text in group.expressions for name in _ATTRIBUTE.findall(text)):
        values = sorted({str(device.attributes[name]) for device in published if name in device.attributes})
        if not values:
            yield f"No published device has the attribute {name}"
        elif len(values) <= _FEW:
            yield f"{name} is {', '.join(values)} on them"
    per_node: dict[str | None, int] = {}
    for device in published:
        per_node[device.node] = per_node.get(device.node, 0) + 1
    if group.count > max(per_node.values(), default=0):
        yield f"It asks for {group.count} devices; no node has more than {max(per_node.values(), default=0)}"


def _satisfied(empty: PendingVerdict | None, publishing: set[str | None]) -> bool:
    """Whether some publishing node has devices for the claim once all are free."""
    if empty is None:
        return False
    refusing = {node for node, items in empty.refused.items() if any(item.plugin == "DynamicResources" for item in items)}
    return bool((publishing & {*empty.refused, *empty.feasible}) - refusing)
