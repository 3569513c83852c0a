"""Whatever comes and goes on a node: no device has two owners, an admitted pod has what it asked for."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstow.scheduling.kubelet.scenario import play

GPU = "nvidia.com/gpu"

devices = st.lists(st.tuples(st.sampled_from([None, [0], [1], [0, 1]]), st.booleans()), min_size=1, max_size=6).map(
    lambda rows: [{"id": f"GPU-{n}::{n % 2}", "numa": numa, "healthy": healthy} for n, (numa, healthy) in enumerate(rows)]
)
plugins = st.builds(
    lambda listed, rule: {"devices": listed, "preferred": rule},
    devices,
    st.sampled_from(["", "lowest", "highest", "spread", "short", "empty", "foreign", "error", "distributed", "packed"]),
)
asks = st.lists(st.integers(0, 3), min_size=1, max_size=2)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"op": "plugin_start", "resource": GPU, "plugin": draw(plugins)}]
    names: list[str] = []
    for number in range(draw(st.integers(1, 8))):
        op = draw(st.sampled_from(["admit", "admit", "admit", "remove", "set_devices", "plugin_start"]))
        if op == "admit":
            wanted, before = draw(asks), draw(st.lists(st.integers(0, 3), max_size=1))
            pod = {
                "name": f"p{number}",
                "init": [{"name": f"i{n}", "devices": {GPU: count}} for n, count in enumerate(before)],
                "containers": [{"name": f"c{n}", "devices": {GPU: count}} for n, count in enumerate(wanted)],
            }
            names.append(f"p{number}")
            steps.append({"op": op, "pod": pod})
        elif op == "remove" and names:
            steps.append({"op": op, "name": draw(st.sampled_from(names))})
        elif op in ("set_devices", "plugin_start"):
            steps.append({"op": op, "resource": GPU, "plugin": draw(plugins)})
    config = {
        "topologyManagerPolicy": draw(st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])),
        "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
    }
    numa = [{"id": 0, "distances": [10, 20]}, {"id": 1, "distances": [20, 10]}]
    return {"numa": numa, "kubelet": config, "plugins": {}, "steps": steps}


@settings(max_examples=150, deadline=None)
@given(scenarios())
def test_no_device_has_two_owners(scenario: dict[str, Any]) -> None:
    owners: dict[str, str] = {}
    known = {step["pod"]["name"]: step["pod"] for step in scenario["steps"] if "pod" in step}
    for step, result in zip(scenario["steps"], play(scenario, follow=False)["steps"], strict=True):
        held = set(result.get("held", ()))
        owners = {device: pod for device, pod in owners.items() if pod in held}
        if step["op"] != "admit":
            continue
        name = step["pod"]["name"]
        mine = {device for container in result.get("devices", {}).values() for device in container.get(GPU, ())}
        assert all(owners.get(device, name) == name for device in mine)
        owners |= dict.fromkeys(mine, name)
        if result["admit"]:
            got = result.get("devices", {})
            for container in [*known[name]["init"], *known[name]["containers"]]:
                assert len(got.get(container["name"], {}).get(GPU, ())) == container["devices"][GPU]
