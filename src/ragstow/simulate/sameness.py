"""Whether a manifest changes a live object: does everything that is written already stand there?

The API server fills in defaults and controllers add fields, so a live template is larger than the manifest it came from. A
manifest that is contained in it changes nothing, as `kubectl apply` would find. A field that was taken out of a manifest is
not seen: the manifest that was applied before is not in the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow import quantity
from ragstow.errors import InputError


def contained(written: Any, live: Any) -> bool:
    """Whether every field of `written` has that value in `live`; quantities are compared by amount."""
    if isinstance(written, Mapping):
        if not written:
            return True
        return isinstance(live, Mapping) and all(
            contained(value, live.get(key)) for key, value in written.items() if value is not None
        )
    if isinstance(written, list):
        if not written:
            return not live
        if not isinstance(live, list):
            return False
        if all(isinstance(item, Mapping) and "name" in item for item in written):
            return _by_name(written, live)
        # The API server appends (tolerations, for one) and never reorders.
        rest = iter(live)
        return all(any(contained(item, other) for other in rest) for item in written)
    return bool(written == live) or _same_amount(written, live)


def _by_name(written: list[Any], live: list[Any]) -> bool:
    named = {item.get("name"): item for item in live if isinstance(item, Mapping)}
    return all(item["name"] in named and contained(item, named[item["name"]]) for item in written)


def _same_amount(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return False
    try:
        return quantity.parse(one).nano == quantity.parse(other).nano
    except InputError:
        return False
