"""Changes of pod specs, for workloads that are made after the pattern of another."""

from __future__ import annotations

from collections.abc import Callable

from broken.cluster import Raw

GPU = "nvidia.com/gpu"
TIME_SLICED = "nvidia.com/gpu.shared"


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
