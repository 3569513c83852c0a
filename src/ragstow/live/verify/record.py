"""The plan of a service from the record of its last apply: the ConfigMaps `ragstow.<service>.<n>` beside it."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.errors import InputError, InputErrors
from ragstow.live.client import Client
from ragstow.live.failures import Forbidden
from ragstow.plan.load import load_plan
from ragstow.plan.model import Plan
from ragstow.render.names import SERVICE


@dataclass(frozen=True, slots=True)
class Recorded:
    """The plan of the newest record, and the record's name; or why there is none."""

    plan: Plan | None = None
    name: str = ""
    why: str = ""


def recorded_plan(client: Client, service: str, namespace: str) -> Recorded:
    """The plan with which a service was applied last."""
    resource = client.resources().plural("", "configmaps")
    if resource is None:
        return Recorded(why="the server has no ConfigMaps")
    try:
        listed = list(client.list(resource, namespace, labels=f"{SERVICE}={service}"))
    except Forbidden as error:
        return Recorded(why=error.message)
    pattern = re.compile(rf"^ragstow\.{re.escape(service)}\.(\d+)$")
    numbered = [(int(match[1]), item) for item in listed if (match := pattern.match(str(item["metadata"]["name"])))]
    if not numbered:
        return Recorded(why=f"namespace {namespace} has no record of an apply of {service}")
    _, newest = max(numbered, key=lambda pair: pair[0])
    name = str(newest["metadata"]["name"])
    try:
        return Recorded(load_plan(_plan(newest), file=f"ConfigMap {namespace}/{name}"), name)
    except (InputError, InputErrors) as error:
        return Recorded(name=name, why=f"the record {namespace}/{name} holds no plan that can be read: {error}")


def _plan(item: Mapping[str, Any]) -> Mapping[str, Any]:
    packed = (item.get("binaryData") or {}).get("plan")
    if not packed:
        raise InputError("record-no-plan", "it was applied from a folder")
    try:
        found = json.loads(gzip.decompress(base64.b64decode(packed)))
    except (binascii.Error, OSError, EOFError, ValueError) as error:
        raise InputError("record-unreadable", f"{type(error).__name__}") from None
    if not isinstance(found, Mapping):
        raise InputError("record-unreadable", "no mapping")
    return found
