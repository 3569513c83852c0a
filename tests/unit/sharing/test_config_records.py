"""Every recorded configuration file gets the verdict that the device plugin and GPU feature discovery gave it."""

from __future__ import annotations

from typing import Any

import pytest

from golden_plugin import records
from ragstow.sharing import goduration, verdict

START = "error starting plugins: "


def said(record: dict[str, Any]) -> dict[str, Any]:
    """Our answer in the shape of a record."""
    env, args = record.get("env"), record.get("args", ())
    ours = verdict.plugin(record["config"], env=env, args=args)
    gfd = verdict.gfd(record["config"], env=env, args=args)
    answer: dict[str, Any] = {"accepted": ours.accepted}
    error = ""
    if ours.failure is not None:
        error = ours.failure.text
        answer |= {"stage": ours.failure.stage, "error": error}
    # A file that flags refuse was parsed all the same; the recording keeps what it parsed.
    if ours.config is not None and ours.effective is not None:
        answer["parsed"] = ours.config.to_json()
        parsed, effective = ours.config, ours.effective
        if parsed.resources.to_json() != effective.resources.to_json():
            answer["effective_resources"] = effective.resources.to_json()
        if parsed.sharing.to_json() != effective.sharing.to_json():
            answer["effective_sharing"] = effective.sharing.to_json()
        if ours.warnings:
            answer["log"] = list(ours.warnings)
    if gfd.failure is None:
        answer["gfd"] = "accepted"
        interval = gfd.config.gfd.get("sleepInterval") if gfd.config is not None else None
        if interval is not None:
            answer["gfd_sleep_interval"] = goduration.show(interval)
    else:
        same = error and gfd.failure.text == error.removeprefix(START)
        answer["gfd"] = "same error" if same else {"error": gfd.failure.text}
    return answer


@pytest.mark.parametrize("record", records("config"), ids=lambda record: record["id"])
def test_config(record: dict[str, Any]) -> None:
    ours = said(record)
    expected = {key: value for key, value in record.items() if key not in ("id", "topic", "config", "env", "args")}
    if "gfd_sleep_interval" not in expected:
        ours.pop("gfd_sleep_interval", None)
    failure = verdict.plugin(record["config"], env=record.get("env"), args=record.get("args", ())).failure
    if failure is not None and failure.source == "yaml":
        # The YAML library's own words are compared by class.
        assert "error converting YAML to JSON" in expected.pop("error")
        ours.pop("error")
    assert ours == expected
