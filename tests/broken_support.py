"""What the tests of defects share: what must come out, changes of pod specs, and the check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broken_clusters import Cluster, Raw

GPU = "nvidia.com/gpu"
TIME_SLICED = "nvidia.com/gpu.shared"


@dataclass(frozen=True)
class Wanted:
    """What must come out: the cause, an object that its finding names, the pods held, causes that may stand beside it,
    and words that its headline, explanation or evidence must have."""

    cause: str
    object: str
    held: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()


Defect = Callable[[], tuple[Cluster, Wanted]]


def check(made: Defect) -> None:
    """The cause comes first, names its object and lists what it holds; nothing else is found."""
    cluster, wanted = made()
    report = cluster.report()
    found = [(f.cause, [str(ref) for ref in f.objects[:3]], f.held, f.headline) for f in report.findings]
    assert found, report.unknown
    first = report.findings[0]
    assert first.cause == wanted.cause, found
    assert {finding.cause for finding in report.findings} <= {wanted.cause, *wanted.also}, found
    assert wanted.object in [str(ref) for ref in first.objects], found
    assert sorted(first.held) == sorted(wanted.held), found
    said = " ".join([first.headline, first.explanation, *(entry.value for entry in first.evidence)])
    for text in wanted.mentions:
        assert text in said
    assert [item.missing for item in report.unknown if item.rule != "unexplained"] == []


def limits(**amounts: str) -> Callable[[Raw], None]:
    """The first container asks for these GPU resources and no others (`gpu_shared` stands for nvidia.com/gpu.shared)."""

    def change(spec: Raw) -> None:
        for amount in spec["containers"][0]["resources"].values():
            for name in [name for name in amount if name.startswith("nvidia.com/")]:
                del amount[name]
        spec["containers"][0]["resources"]["limits"] |= amounts

    return change


def ask(name: str, count: int = 1) -> Callable[[Raw], None]:
    return limits(**{name: str(count)})


def both(*changes: Callable[[Raw], None]) -> Callable[[Raw], None]:
    def change(spec: Raw) -> None:
        for one in changes:
            one(spec)

    return change


def tolerate(*tolerations: dict[str, str]) -> Callable[[Raw], None]:
    return lambda spec: spec.update(tolerations=list(tolerations))


def anywhere(spec: Raw) -> None:
    spec.pop("affinity", None)
    spec.pop("nodeSelector", None)


def select(**labels: str) -> Callable[[Raw], None]:
    def change(spec: Raw) -> None:
        anywhere(spec)
        spec["nodeSelector"] = labels

    return change
