"""Which DRA behaviours a release has with its default feature gates.

`DraRules` is all that the other modules of this room ask about the release; it is read from the one table, `behaviours`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.scheduling import behaviours
from ragstow.scheduling.release import Release


@dataclass(frozen=True, slots=True)
class DraRules:
    """What differs between releases.

    Gates: `partitionable` shared counters and per-device node selection, `consumable` shareable devices and capacity requests,
    `taints` of devices, `taint_rules` DeviceTaintRule objects, `extended` extended resources backed by classes, `binding`
    devices with binding conditions.

    Search: `pools_sorted` pools are tried in order (else at random), `whole_pool` completeness counts the slices of all nodes,
    `incomplete_used` devices of an incomplete pool are taken for counts, `invalid_is_error` an invalid pool fails the search
    when it is reached, `first_alternative_only` alternatives that ask for All lose their index, `limit_by_request` the limit of
    32 devices is checked and worded for each request, `counters_by_driver` counters of equally named pools are apart,
    `counters_everywhere` slices of counters count on all nodes, `any_share` a device with any share in use pays no counters
    again, `all_static` All means devices that could ever hold the request, `step_format` rounded amounts keep the step's
    format.

    `distinct`: distinctAttribute asks that the attribute "exists", that the value differs from the "latest" of each request,
    that all values differ ("honoured"), or is "dropped" by the API server.
    `scorer`: "none", "new" (the i-th new allocation for the i-th claim), "all" (also those allocated before).
    """

    partitionable: bool = True
    consumable: bool = True
    taints: bool = True
    taint_rules: bool = True
    extended: bool = True
    binding: bool = True
    pools_sorted: bool = True
    whole_pool: bool = True
    incomplete_used: bool = False
    invalid_is_error: bool = False
    first_alternative_only: bool = False
    limit_by_request: bool = True
    device_in_error: bool = True
    counters_by_driver: bool = True
    counters_everywhere: bool = False
    any_share: bool = True
    all_static: bool = True
    step_format: bool = True
    timeout_is_error: bool = True
    distinct: str = "honoured"
    scorer: str = "all"


def rules_for(release: Release) -> DraRules:
    """The rules of a release."""
    partitions = behaviours.DRA_PARTITIONS.at(release)
    whole = behaviours.DRA_POOLS_WHOLE.at(release)
    return DraRules(
        partitionable=partitions,
        consumable=partitions,
        taints=partitions,
        taint_rules=behaviours.DEVICE_TAINT_RULES.at(release),
        extended=behaviours.EXTENDED_CLAIMS.at(release),
        binding=partitions,
        pools_sorted=behaviours.DRA_POOLS_SORTED.at(release),
        whole_pool=whole,
        incomplete_used=not whole,
        invalid_is_error=not behaviours.DRA_INVALID_POOL_SKIPPED.at(release),
        first_alternative_only=not behaviours.DRA_ALTERNATIVE_INDEX.at(release),
        limit_by_request=behaviours.DRA_LIMIT_TEXT_REQUEST.at(release),
        device_in_error=behaviours.DRA_CEL_ERROR_DEVICE.at(release),
        timeout_is_error=behaviours.DRA_TIMEOUT_ERROR.at(release),
        counters_by_driver=behaviours.DRA_COUNTERS_BY_DRIVER.at(release),
        counters_everywhere=behaviours.DRA_COUNTERS_EVERYWHERE.at(release),
        any_share=behaviours.DRA_ANY_SHARE.at(release),
        all_static=behaviours.DRA_ALL_STATIC.at(release),
        step_format=behaviours.DRA_STEP_FORMAT.at(release),
        distinct=behaviours.DRA_DISTINCT.at(release),
        scorer=behaviours.CLAIM_SCORE.at(release),
    )
