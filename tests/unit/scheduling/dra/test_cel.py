"""Device selectors: what a selector sees, the Kubernetes functions, errors, and what is said when one cannot be evaluated."""

from __future__ import annotations

import pytest

from ragstow.quantity import parse
from ragstow.scheduling.dra import cel
from ragstow.scheduling.dra.model import Capacity, Device, DeviceId

pytestmark = pytest.mark.usefixtures("with_cel")

DOMAIN = "gpu.example.com"
DEVICE = Device(
    DeviceId(DOMAIN, "node-1", "gpu-0"),
    {
        "type": ("string", "gpu"),
        "driverVersion": ("version", "570.86.15"),
        "index": ("int", 3),
        "healthy": ("bool", True),
        "resource.kubernetes.io/pcieRoot": ("string", "pci0000:01"),
    },
    {"memory": Capacity(parse("40Gi"))},
)


def verdict(expression: str) -> bool | str:
    return cel.Selectors().verdict(expression, DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        f"device.driver == '{DOMAIN}'",
        f'device.attributes["{DOMAIN}"].type == "gpu"',
        'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:01"',
        f'device.attributes["{DOMAIN}"].index == 3 && device.attributes["{DOMAIN}"].healthy',
        'device.attributes[device.driver].type in ["gpu", "mig"]',
        f'device.capacity["{DOMAIN}"].memory.compareTo(quantity("40Gi")) == 0',
        f'device.capacity["{DOMAIN}"].memory.isGreaterThan(quantity("40G"))',
        f'device.capacity["{DOMAIN}"].memory == quantity("40960Mi")',
        f'device.capacity["{DOMAIN}"].memory.sub(quantity("39Gi")).asInteger() == 1073741824',
        f'device.attributes["{DOMAIN}"].driverVersion.isGreaterThan(semver("570.9.0"))',
        f'device.attributes["{DOMAIN}"].driverVersion.major() == 570',
        f'device.attributes["{DOMAIN}"].driverVersion.compareTo(semver("v571", true)) < 0',
        f'device.attributes["{DOMAIN}"].type.upperAscii().matches("^G.*")',
        f'cel.bind(own, device.attributes["{DOMAIN}"], own.type == "gpu" && own.index < 4)',
        f'device.attributes["{DOMAIN}"].?model.orValue("none") == "none"',
        '!has(device.attributes["other.example.com"].model)',
        '!("other.example.com" in device.attributes)',
        "device.allowMultipleAllocations == false",
        """device.driver != "device.attributes['x']" """,
        'sets.contains(["a", "b"], ["a"]) && [1, 2].sum() == 3',
    ],
)
def test_true(expression: str) -> None:
    assert verdict(expression) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (f'device.attributes["{DOMAIN}"].model == "x"', "no such key: model"),
        ('device.attributes["other.example.com"].model == "x"', "no such key: model"),
        (f'device.attributes["{DOMAIN}"].type > 3', "no such overload"),
        (f'device.attributes["{DOMAIN}"].type.compareTo(quantity("1")) > 0', "no such overload"),
        ('semver("1.2") == semver("1.2")', "No Major.Minor.Patch elements found"),
        ("1 / 0 == 1", "division by zero"),
        ("[1][5] == 1", "index out of bounds: 5"),
    ],
)
def test_errors_in_the_words_of_cel_go(expression: str, text: str) -> None:
    assert verdict(expression) == text


def test_what_is_no_truth_is_an_error() -> None:
    assert verdict(f'device.attributes["{DOMAIN}"].type') == (
        "CEL result of type string could not be converted to bool: type conversion error"
    )


def test_unknown_function_is_not_evaluated() -> None:
    with pytest.raises(cel.NotEvaluated) as caught:
        verdict('ip("10.0.0.1") == ip("10.0.0.2")')
    assert caught.value.reason.code == "cel-not-evaluated"
    assert "ip" in caught.value.reason.text


def test_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cel._module.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "cel_expr_python", None)
    try:
        assert not cel.available()
        with pytest.raises(cel.NotEvaluated) as caught:
            verdict("true")
        assert "ragstow[cel]" in caught.value.reason.hint
    finally:
        cel._module.cache_clear()
