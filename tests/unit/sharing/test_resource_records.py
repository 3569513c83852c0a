"""On every recorded machine the plugin's model advertises, allocates and fails as the device plugin did."""

from __future__ import annotations

from typing import Any

import pytest

from golden_plugin import machine, records
from ragstow.errors import Reason
from ragstow.sharing import allocate, devices, mpsdaemon, verdict
from ragstow.sharing.devices import Device, Offer


def full_id(short: str, found: dict[str, Device]) -> str:
    """The device id behind a short one ("2::1" = share 1 of card 2, "0:3" = MIG device 3 of card 0)."""
    index, shares, number = short.partition("::")
    (base,) = {device.uuid for device in found.values() if device.index == index} or {
        device.uuid for device in found.values() if device.index in ("all", "0")
    }
    return f"{base}::{number}" if shares else base


def listed(found: dict[str, Device]) -> list[list[Any]]:
    """Ids as the recording groups them: [device id, number of shares], 0 where the id is the device itself."""
    by_uuid: dict[str, int] = {}
    for device in found.values():
        by_uuid[device.uuid] = by_uuid.get(device.uuid, 0) + ("::" in device.id)
    return [[uuid, by_uuid[uuid]] for uuid in sorted(by_uuid)]


def answers(config: Any, resource: str, found: dict[str, Device], recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our answers to the recorded requests."""
    made = []
    for request in recorded:
        response = allocate.allocate(config, resource, found, [full_id(short, found) for short in request["ids"]])
        answer: dict[str, Any] = {"ids": request["ids"]}
        if isinstance(response, Reason):
            answer["error"] = response.text
        else:
            answer["env"] = dict(response.env)
            if response.mounts:
                answer["mounts"] = [f"{host}:{container}" for host, container in response.mounts]
        made.append(answer)
    return made


def ordered(answer: dict[str, Any]) -> dict[str, Any]:
    """With devices chosen by index the order is that of a Go map."""
    return answer | ({"mounts": sorted(answer["mounts"])} if "mounts" in answer else {})


def said(record: dict[str, Any], made: Offer, config: Any) -> dict[str, Any]:
    """Our answer in the shape of a record."""
    if made.failure is not None:
        return {"stage": made.failure.stage, "error": made.failure.text}
    recorded = record.get("resources", {})
    return {
        "resources": {
            name: {
                "count": len(found),
                "ids": listed(dict(found)),
                "allocate": answers(config, name, dict(found), recorded.get(name, {}).get("allocate", [])),
            }
            for name, found in made.resources.items()
        }
    }


def daemons(record: dict[str, Any]) -> dict[str, Any] | None:
    """What the MPS control daemon does, in the shape of a record; None where MPS is not configured."""
    read = verdict.daemon(record["config"], env=record.get("env"))
    if read.effective is None or read.effective.sharing.strategy != "mps":
        return None
    made = mpsdaemon.daemons(read, machine(record["node"]))
    if isinstance(made, str):
        return {"error": made}
    return {
        "daemons": [
            {
                "resource": item.resource,
                "active_thread_percentage": str(item.active_thread_percentage),
                "pinned_mem_limit": {index: f"{limit}M" for index, limit in item.pinned_memory_mib.items()},
            }
            for item in made
        ]
    }


@pytest.mark.parametrize("record", records("resources"), ids=lambda record: record["id"])
def test_resources(record: dict[str, Any]) -> None:
    here = machine(record["node"])
    read = verdict.plugin(record["config"], env=record.get("env"), args=record.get("args", ()), nvml=here.nvml)
    made = devices.offer(read, here)
    ours = said(record, made, read.effective)
    found = daemons(record)
    if found is not None:
        ours["mps_control_daemon"] = found
    if made.log:
        ours["log"] = list(made.log)
    expected = {key: value for key, value in record.items() if key not in ("id", "node", "config", "env", "args")}
    for side in (ours, expected):
        for resource in side.get("resources", {}).values():
            resource["allocate"] = [ordered(answer) for answer in resource["allocate"]]
    assert ours == expected
