"""Which rule of kube-scheduler holds since which release: the one table, with sources.

Default feature gates and the default profile are meant. The releases in RECORDED were run unmodified and compared decision by
decision; a rule that changed between two recorded releases of different minors is taken to have changed with the minor.
`assumptions` says what that means for any other release. Other modules ask `NAME.at(release)`; nobody else compares versions.
"""

from __future__ import annotations

from ragstow.scheduling.release import Behaviour, Release

RECORDED = tuple(Release.parse(text) for text in ("1.33.13", "1.34.1", "1.34.4", "1.35.4", "1.36.3", "1.37.2"))
"""The releases whose decisions were recorded and are reproduced without a difference."""

NEWEST = RECORDED[-1]


def _flag(name: str, what: str, source: str, *since: tuple[int, int, int], first: bool = False) -> Behaviour[bool]:
    steps: list[tuple[tuple[int, int, int], bool]] = [((0, 0, 0), first)]
    for number, release in enumerate(since):
        steps.append((release, first ^ (number % 2 == 0)))
    return Behaviour(name, what, source, tuple(steps))


NODE_NAME_FIRST = _flag(
    "node-name-first",
    "the filter order starts with NodeName, not NodeUnschedulable",
    "apis/config/v1/default_plugins.go",
    (1, 37, 0),
)
DYNAMIC_RESOURCES = _flag(
    "dynamic-resources",
    "DynamicResources is part of the default profile",
    "KEP-4381; apis/config/v1/default_plugins.go",
    (1, 34, 0),
)
DECLARED_FEATURES = _flag("node-declared-features", "NodeDeclaredFeatures filters, last of all", "KEP-5328", (1, 36, 0))
FIT_UNRESOLVABLE = _flag(
    "fit-unresolvable",
    "a request above the node's whole allocatable is UnschedulableAndUnresolvable, so no preemption is tried there",
    "plugins/noderesources/fit.go",
    (1, 34, 0),
)
POD_LEVEL_RESOURCES = _flag("pod-level-resources", "spec.resources of a pod counts", "KEP-2837", (1, 34, 0))
RESIZE_THREE_SUMS = _flag(
    "resize-three-sums",
    "a pod on a node counts with the largest of its spec, allocated and actuated sums instead of the largest per container",
    "KEP-5419; component-helpers/resource/helpers.go",
    (1, 37, 0),
)
POD_LEVEL_RESIZE = _flag("pod-level-resize", "pod-level status.resources and allocatedResources count", "KEP-5419", (1, 36, 0))
GATED_NOMINATIONS = _flag(
    "gated-nominations", "nominations of pods held by scheduling gates count", "backend/queue/nominator.go", (1, 37, 0)
)
CSI_DRIVER_CHECK = _flag(
    "csi-driver-check",
    "a node without a CSI driver that says preventPodSchedulingIfMissing is refused",
    "KEP-5030; plugins/nodevolumelimits/csi.go",
    (1, 37, 0),
)
BALANCED_DELTA = _flag(
    "balanced-delta",
    "BalancedAllocation scores what the pod changes: 50 + (50 + s(with) - s(without)) div 2, before that s(with)",
    "PR 135573; plugins/noderesources/balanced_allocation.go",
    (1, 36, 0),
)
CLAIM_SCORE = Behaviour(
    "claim-score",
    "DynamicResources scores prioritised lists: not at all, from new allocations only (an Error where there are fewer than "
    "claims), or from all allocations",
    "KEP-4816; plugins/dynamicresources",
    (((0, 0, 0), "none"), ((1, 35, 0), "new"), ((1, 36, 0), "all")),
)
VOLUME_SCORE = _flag(
    "volume-score", "VolumeBinding scores storage capacity", "KEP-4049; plugins/volumebinding/scorer.go", (1, 37, 0)
)
IMAGE_VOLUMES = Behaviour(
    "image-volumes",
    "ImageLocality and image volumes: not counted, size counted, or size and upper clamp counted",
    "KEP-4639; plugins/imagelocality",
    (((0, 0, 0), "none"), ((1, 36, 0), "size"), ((1, 37, 0), "size-and-clamp")),
)
PORTWORX_MIGRATED = _flag(
    "portworx-migrated",
    "Portworx volumes count under their CSI driver wherever a CSINode exists; before, where it lists the plugin as migrated",
    "plugins/nodevolumelimits (read, not recorded)",
    (1, 36, 0),
)
EXTENDED_CLAIMS = _flag(
    "extended-claims",
    "extended resources may be backed by device classes",
    "KEP-5004; plugins/noderesources, dynamicresources",
    (1, 36, 0),
)
TAINT_TEXT_SHORT = _flag(
    "taint-text-short", "the refusal of a tainted node names no taint any more", "PR 134740, cherry-pick 135023", (1, 34, 2)
)
RWOP_TEXT_LONG = _flag("rwop-text-long", "text of a ReadWriteOncePod claim in use", "plugins/volumerestrictions", (1, 34, 0))
PREEMPTION_TEXT = _flag(
    "preemption-text",
    "a successful preemption says node and number of victims",
    "framework/preemption/preemption.go",
    (1, 37, 0),
)
NO_CLAIMS_TEXT = _flag(
    "no-claims-text",
    "DynamicResources adds 'no new claims to deallocate' to the text of every failed preemption",
    "plugins/dynamicresources",
    (1, 34, 0),
    (1, 37, 0),
)
BUDGETS_STOP = _flag(
    "budgets-stop",
    "of overlapping disruption budgets those after the first exhausted one are not charged for a pod",
    "plugins/defaultpreemption",
    (1, 37, 0),
)
DRA_PARTITIONS = _flag(
    "dra-partitions",
    "partitionable and shareable devices, device taints in slices, binding conditions",
    "KEP-4815, KEP-5075, KEP-5055, KEP-5007",
    (1, 36, 0),
)
DEVICE_TAINT_RULES = _flag("device-taint-rules", "DeviceTaintRule objects taint devices", "KEP-5055", (1, 37, 0))
DRA_POOLS_SORTED = _flag(
    "dra-pools-sorted",
    "pools are searched by driver, then pool name; before in random order",
    "dynamic-resource-allocation/structured",
    (1, 36, 0),
)
DRA_POOLS_WHOLE = _flag(
    "dra-pools-whole",
    "a pool counts only when all of its slices exist; before, an incomplete one gave its devices for counts",
    "dynamic-resource-allocation/structured",
    (1, 35, 0),
)
DRA_INVALID_POOL_SKIPPED = _flag(
    "dra-invalid-pool-skipped",
    "an invalid pool is passed over with a text of its own; before, it was an Error once the search reached it",
    "dynamic-resource-allocation/structured",
    (1, 35, 0),
)
DRA_DISTINCT = Behaviour(
    "dra-distinct",
    "distinctAttribute: asks only that the attribute exists, is dropped by the API server, compares with the latest device of "
    "each request, or is honoured",
    "KEP-5075; dynamic-resource-allocation/structured",
    (((0, 0, 0), "exists"), ((1, 35, 0), "dropped"), ((1, 36, 0), "latest"), ((1, 37, 0), "honoured")),
)
DRA_LIMIT_TEXT_REQUEST = _flag(
    "dra-limit-text-request",
    "the text of more than 32 devices names the request",
    "dynamic-resource-allocation/structured",
    (1, 37, 0),
)
DRA_TIMEOUT_ERROR = _flag(
    "dra-timeout-error",
    "a filter that ran out of its 10 s is an Error, not Unschedulable",
    "plugins/dynamicresources",
    (1, 36, 0),
)
DRA_ALTERNATIVE_INDEX = _flag(
    "dra-alternative-index",
    "each alternative that asks for all devices is looked at under its own index; before, under that of its neighbour",
    "dynamic-resource-allocation/structured",
    (1, 36, 0),
)
DRA_CEL_ERROR_DEVICE = _flag(
    "dra-cel-error-device",
    "the text of a selector's run-time error names the device and gives a hint (read, not recorded)",
    "dynamic-resource-allocation/structured, cel/errors.go",
    (1, 37, 0),
)
DRA_COUNTERS_BY_DRIVER = _flag(
    "dra-counters-by-driver",
    "shared counters are kept for each driver and pool; before, for each pool name",
    "dynamic-resource-allocation/structured",
    (1, 37, 0),
)
DRA_COUNTERS_EVERYWHERE = _flag(
    "dra-counters-everywhere",
    "slices of shared counters count on every node, so an incomplete or invalid pool of counters is one everywhere",
    "dynamic-resource-allocation/structured",
    (1, 36, 0),
    (1, 37, 0),
)
DRA_ANY_SHARE = _flag(
    "dra-any-share",
    "a shareable device with any share in use pays no counters again; before, only one of whose capacity something is taken",
    "dynamic-resource-allocation/structured",
    (1, 37, 0),
)
DRA_ALL_STATIC = _flag(
    "dra-all-static",
    "All means every device that could hold the request; before, a shareable device without room was left out",
    "dynamic-resource-allocation/structured",
    (1, 37, 0),
)
DRA_STEP_FORMAT = _flag(
    "dra-step-format",
    "a capacity request rounded to a step is written in the step's format; before, always as a binary quantity",
    "dynamic-resource-allocation/structured",
    (1, 37, 0),
)

BATCHING = _flag(
    "batching",
    "consecutive pods of one kind may reuse scores (inert with default spreading)",
    "KEP-5598; framework/runtime/batch.go",
    (1, 35, 0),
)

TABLE: tuple[Behaviour[bool] | Behaviour[str], ...] = (
    NODE_NAME_FIRST, DYNAMIC_RESOURCES, DECLARED_FEATURES, FIT_UNRESOLVABLE, POD_LEVEL_RESOURCES, RESIZE_THREE_SUMS,
    POD_LEVEL_RESIZE, GATED_NOMINATIONS, CSI_DRIVER_CHECK, BALANCED_DELTA, CLAIM_SCORE, VOLUME_SCORE, IMAGE_VOLUMES,
    EXTENDED_CLAIMS, TAINT_TEXT_SHORT, RWOP_TEXT_LONG, PREEMPTION_TEXT, NO_CLAIMS_TEXT, BUDGETS_STOP, PORTWORX_MIGRATED,
    DRA_PARTITIONS,
    DEVICE_TAINT_RULES, DRA_POOLS_SORTED, DRA_POOLS_WHOLE, DRA_INVALID_POOL_SKIPPED, DRA_DISTINCT, DRA_LIMIT_TEXT_REQUEST,
    DRA_TIMEOUT_ERROR, BATCHING, DRA_ALTERNATIVE_INDEX, DRA_CEL_ERROR_DEVICE,
    DRA_COUNTERS_BY_DRIVER, DRA_COUNTERS_EVERYWHERE, DRA_ANY_SHARE, DRA_ALL_STATIC, DRA_STEP_FORMAT,
)  # fmt: skip
"""Every behaviour that depends on the release, in the order of this file."""


def assumptions(release: Release) -> tuple[str, ...]:
    """What is assumed when deciding as a release that was not recorded; empty for a recorded one.

    A release between two recorded ones follows the table; the rules in which its neighbours differ are named. One that is
    newer or older than all recorded ones is decided as the nearest.
    """
    if release in RECORDED:
        return ()
    older = [known for known in RECORDED if known < release]
    newer = [known for known in RECORDED if known > release]
    if not newer:
        same_minor = older[-1].minor == release.minor
        known = "its newest recorded patch" if same_minor else "the newest recorded release"
        return (f"kube-scheduler {release} was not recorded: decided as {older[-1]}, {known}",)
    if not older:
        return (f"kube-scheduler {release} is older than all recorded releases: decided as {newer[0]}",)
    below, above = older[-1], newer[0]
    lines = [f"kube-scheduler {release} was not recorded: it lies between {below} and {above}"]
    for behaviour in TABLE:
        before, after, here = behaviour.at(below), behaviour.at(above), behaviour.at(release)
        if before != after:
            lines.append(f"{behaviour.name} as in {above if here == after else below}: {behaviour.what}")
    return tuple(lines)
