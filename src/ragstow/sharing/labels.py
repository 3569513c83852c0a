"""The node labels that GPU feature discovery makes of a machine and a configuration, or the words with which it ends.

k8s-device-plugin internal/lm. Of labels that depend on the order of a Go map, all possible sets are given.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragstow.sharing.machine import Card, Instance, Machine
from ragstow.sharing.pluginconfig import FULL_GPU, Config, SharedResource
from ragstow.sharing.verdict import Failure, Verdict

_MOST_ORDERS = 5
"""Beyond so many models on one node only the last one is varied, not every order."""


@dataclass(frozen=True, slots=True)
class Labels:
    """All labels but the timestamp. `fixed` are the same in every run; of `one_of` each entry is one possible rest.

    `refused` are labels that the API server would not take ("value of KEY: VALUE"). `known` is False where the driver's
    answers would be needed that are not in the machine (CUDA on integrated GPUs).
    """

    fixed: Mapping[str, str] = field(default_factory=dict)
    one_of: tuple[Mapping[str, str], ...] = ()
    refused: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    failure: Failure | None = None
    known: bool = True

    def possible(self) -> tuple[dict[str, str], ...]:
        """Every set of labels the node may get."""
        return tuple({**self.fixed, **rest} for rest in self.one_of) if self.one_of else (dict(self.fixed),)


class _Ended(Exception):
    pass


def labels(verdict: Verdict, machine: Machine) -> Labels:
    """The labels of a node.

    Args:
        verdict: GPU feature discovery's verdict on the configuration (`verdict.gfd`).
        machine: the node.
    """
    log = list(verdict.warnings)
    config = verdict.effective
    if verdict.failure is not None or config is None:
        return Labels(log=tuple(log), failure=verdict.failure)
    cards = tuple(card for _, card in machine.served)
    way = _discovery(config, machine)
    if way in ("tegra", "vfio"):
        return Labels(log=tuple(log), known=False)
    if not machine.nvml:
        if way == "auto" and config.fail_on_init_error:
            return Labels(
                log=tuple(log), failure=Failure("manager", "failed to create resource manager: unsupported strategy auto")
            )
        if config.fail_on_init_error:
            text = "error creating labeler: failed to initialize resource manager: ERROR_LIBRARY_NOT_FOUND"
            return Labels(log=tuple(log), failure=Failure("labels", text))
        if way == "auto":
            log.append('E "using empty manager" err="unsupported strategy auto"')
        else:
            log.append("W Failed to initialize resource manager: ERROR_LIBRARY_NOT_FOUND")
        cards = ()
    try:
        sets = _all(config, machine, cards, log) if cards else [{}]
    except _Ended as error:
        return Labels(log=tuple(log), failure=Failure("labels", f"error creating labeler: {error}"))
    for made in sets:
        made["nvidia.com/vgpu.present"] = "false"
    if not cards:
        log.append("W No labels generated from any source")
    fixed, one_of = _apart(sets)
    refused = tuple(
        sorted({f"value of {key}: {value}" for made in sets for key, value in made.items() if not valid_value(value)})
    )
    return Labels(fixed, one_of, refused, tuple(log))


def _discovery(config: Config, machine: Machine) -> str:
    wished = config.flags.get("deviceDiscoveryStrategy")
    if isinstance(wished, str) and wished not in ("", "auto"):
        return wished
    if machine.platform == "tegra":
        return "tegra"
    return "nvml" if machine.nvml or machine.platform == "wsl" else "auto"


def _all(config: Config, machine: Machine, cards: Sequence[Card], log: list[str]) -> list[dict[str, str]]:
    base = {"nvidia.com/gpu.machine": sanitise(machine.product.strip() if machine.product is not None else "unknown")}
    base.update(_versions(machine))
    base["nvidia.com/mig.capable"] = _flag(any(card.mig_capable for card in cards))
    if config.sharing.strategy == "mps":
        if any(card.mig_enabled for card in cards):
            raise _Ended(
                "error creating sharing labeler: failed to check MPS-capable: MPS sharing is not supported for mig devices"
            )
        base["nvidia.com/mps.capable"] = "true"
    else:
        base["nvidia.com/mps.capable"] = "false"
    last = {"nvidia.com/gpu.mode": _mode(cards), **_clique(cards)}
    sets = _whole(config, cards, log)
    cut = _mig(config, cards, log) if config.mig_strategy != "none" else {}
    made: list[dict[str, str]] = []
    for whole in sets:
        # What differs between models may all be overlaid by the labels of MIG devices.
        if (merged := {**base, **whole, **cut, **last}) not in made:
            made.append(merged)
    return made


def _versions(machine: Machine) -> dict[str, str]:
    parts = machine.driver.split(".")
    if not 2 <= len(parts) <= 3:
        raise _Ended(
            "failed to construct version labeler: error getting driver version: "
            f'Version "{machine.driver}" does not match format "X.Y[.Z]"'
        )
    major, minor, revision = (*parts, "")[:3]
    cuda_major, cuda_minor = str(machine.cuda // 1000), str(machine.cuda % 1000 // 10)
    driver, runtime = "nvidia.com/cuda.driver-version", "nvidia.com/cuda.runtime-version"
    return {
        "nvidia.com/cuda.driver.major": major,
        "nvidia.com/cuda.driver.minor": minor,
        "nvidia.com/cuda.driver.rev": revision,
        f"{driver}.major": major,
        f"{driver}.minor": minor,
        f"{driver}.revision": revision,
        f"{driver}.full": machine.driver,
        "nvidia.com/cuda.runtime.major": cuda_major,
        "nvidia.com/cuda.runtime.minor": cuda_minor,
        f"{runtime}.major": cuda_major,
        f"{runtime}.minor": cuda_minor,
        f"{runtime}.full": f"{cuda_major}.{cuda_minor}",
    }


def _whole(config: Config, cards: Sequence[Card], log: list[str]) -> list[dict[str, str]]:
    counts: dict[str, int] = {}
    cut: dict[str, Card] = {}
    whole: dict[str, Card] = {}
    # MIG-enabled cards are looked at first, and of one model the last card stands for all.
    for card in (*(card for card in cards if card.mig_enabled), *(card for card in cards if not card.mig_enabled)):
        counts[card.name] = counts.get(card.name, 0) + 1
        (cut if card.mig_enabled else whole)[card.name] = card
        if (
            card.memory_mib is None
            and (text := "W Ignoring error getting memory info for device: ERROR_NOT_SUPPORTED") not in log
        ):
            log.append(text)
    if len(counts) > 1:
        log.append(f"W Multiple device types detected: [{' '.join(counts)}]")
    unshared = {name: _card(None, card, counts[name]) for name, card in cut.items()}
    shared = {name: _card(config, card, counts[name]) for name, card in whole.items()}
    made: list[dict[str, str]] = []
    for first in _orders(unshared):
        for second in _orders(shared):
            labels: dict[str, str] = {}
            for name in first:
                labels.update(unshared[name])
            for name in second:
                labels.update(shared[name])
            if labels not in made:
                made.append(labels)
    return made


def _orders(names: Mapping[str, object]) -> list[tuple[str, ...]]:
    if len(names) <= _MOST_ORDERS:
        return list(itertools.permutations(names))
    return [(*(other for other in names if other != last), last) for last in names]


def _card(config: Config | None, card: Card, count: int) -> dict[str, str]:
    made = _base(config, FULL_GPU, count, card.name)
    if card.memory_mib:
        made[f"{FULL_GPU}.memory"] = str(card.memory_mib)
    major, minor = card.compute_capability
    if major:
        made[f"{FULL_GPU}.family"] = family(major, minor)
        made[f"{FULL_GPU}.compute.major"] = str(major)
        made[f"{FULL_GPU}.compute.minor"] = str(minor)
    return made


def _base(config: Config | None, resource: str, count: int, *parts: str) -> dict[str, str]:
    shared = _shared(config, resource) if config is not None else None
    replicas = 0 if config is None else shared.replicas if shared is not None and shared.replicas > 0 else 1
    strategy = config.sharing.strategy if config is not None and replicas > 1 else "none"
    product = "-".join(sanitise(part) for part in parts if part)
    if product and shared is not None and shared.replicas > 1 and not shared.rename:
        product += "-SHARED"
    return {
        f"{resource}.product": product,
        f"{resource}.count": str(count),
        f"{resource}.replicas": str(replicas),
        f"{resource}.sharing-strategy": strategy,
    }


def _shared(config: Config, resource: str) -> SharedResource | None:
    return next((item for item in config.sharing.active.resources if item.name == resource), None)


def _mig(config: Config, cards: Sequence[Card], log: list[str]) -> dict[str, str]:
    strategy = config.mig_strategy
    if strategy not in ("single", "mixed"):
        raise _Ended(f"error creating resource labeler: failed to construct MIG resource labeler: unknown strategy: {strategy}")
    made = {"nvidia.com/mig.strategy": strategy}
    cut = [card for card in cards if card.mig_enabled]
    groups: dict[str, list[tuple[Card, Instance]]] = {}
    for card in cut:
        for instance in card.instances or ():
            groups.setdefault(card.instance_name(instance).label, []).append((card, instance))
    if strategy == "mixed":
        for name, members in groups.items():
            made.update(_group(config, f"nvidia.com/mig-{name}", name, members))
        return made
    if not cut:
        return made
    if any(not card.instances for card in cut):
        return made | _invalid(cut[0], "at least one MIG device is enabled but empty", log)
    if len(cut) < len(cards):
        return made | _invalid(cut[0], "devices with MIG enabled and disable detected", log)
    if len(groups) != 1:
        return made | _invalid(cut[0], "more than one MIG device type present on node", log)
    ((name, members),) = groups.items()
    return made | _group(config, FULL_GPU, name, members)


def _invalid(card: Card, why: str, log: list[str]) -> dict[str, str]:
    log.append(f"W Invalid configuration detected for mig-strategy=single: {why}")
    product = "-".join(part for part in (sanitise(card.name), "MIG", "INVALID") if part)
    return {
        f"{FULL_GPU}.product": product,
        f"{FULL_GPU}.count": "0",
        f"{FULL_GPU}.replicas": "0",
        f"{FULL_GPU}.sharing-strategy": "",
        f"{FULL_GPU}.memory": "0",
    }


def _group(config: Config, resource: str, name: str, members: Sequence[tuple[Card, Instance]]) -> dict[str, str]:
    card, instance = members[0]
    engines = instance.profile.engines
    made = _base(config, resource, len(members), card.name, "MIG", name)
    for suffix, value in (
        ("memory", instance.profile.memory_mib),
        ("multiprocessors", instance.multiprocessors),
        ("slices.gi", instance.profile.slices),
        ("slices.ci", instance.compute),
        ("engines.copy", engines.copy),
        ("engines.decoder", engines.decoder),
        ("engines.encoder", engines.encoder),
        ("engines.jpeg", engines.jpeg),
        ("engines.ofa", engines.ofa),
    ):
        made[f"{resource}.{suffix}"] = str(value)
    return made


def _mode(cards: Sequence[Card]) -> str:
    classes = {card.pci_class for card in cards}
    if len(classes) != 1:
        return "unknown"
    return {"vga": "graphics", "3d": "compute"}.get(str(classes.pop()), "unknown")


def _clique(cards: Sequence[Card]) -> dict[str, str]:
    clusters = {card.fabric[0] for card in cards if card.fabric is not None}
    cliques = {card.fabric[1] for card in cards if card.fabric is not None}
    if len(clusters) != 1 or len(cliques) != 1:
        return {}
    return {"nvidia.com/gpu.clique": f"{clusters.pop()}.{cliques.pop()}"}


def family(major: int, minor: int) -> str:
    """GFD's family of a compute capability."""
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ampere" if minor < 9 else "ada-lovelace"
    known = {
        1: "tesla",
        2: "fermi",
        3: "kepler",
        5: "maxwell",
        6: "pascal",
        9: "hopper",
        10: "blackwell",
        12: "blackwell",
        13: "rubin",
    }
    return known.get(major, "undefined")


def sanitise(text: str) -> str:
    """A name as a label value: odd characters dropped, blanks to single dashes (not every result is valid)."""
    return "-".join(part for part in re.sub(r"[^A-Za-z0-9\-_. ]", "", text).split(" ") if part)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def valid_value(value: str) -> bool:
    """Whether the API server takes this as the value of a label."""
    return len(value) <= 63 and re.fullmatch(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?", value) is not None


def _apart(sets: Sequence[Mapping[str, str]]) -> tuple[dict[str, str], tuple[dict[str, str], ...]]:
    if len(sets) == 1:
        return dict(sorted(sets[0].items())), ()
    fixed = {key: value for key, value in sorted(sets[0].items()) if all(made.get(key) == value for made in sets)}
    return fixed, tuple({key: value for key, value in sorted(made.items()) if key not in fixed} for made in sets)
