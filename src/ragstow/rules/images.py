"""What the name of a container image says: its tag, and the CUDA that it was built with. Reads names only."""

from __future__ import annotations

import re

_CUDA = re.compile(r"(?:cuda[-_:]?|/cuda:)v?(?P<major>1[1-9])\.(?P<minor>\d{1,2})|(?<![a-z0-9])cu(?P<short>1[1-9]\d)(?!\d)")


def tag(image: str) -> str | None:
    """The tag of an image, "" where it has none; None for an image that is named by its digest."""
    if "@" in image:
        return None
    return image.rpartition("/")[2].partition(":")[2]


def cuda(image: str) -> tuple[int, int] | None:
    """The CUDA version in an image's name (`nvidia/cuda:13.0.1-base`, `…:2.8.0-cuda12.8`, `…-cu128`), where it says one."""
    found = _CUDA.search(image.lower())
    if found is None:
        return None
    if found["short"]:
        return int(found["short"][:2]), int(found["short"][2:])
    return int(found["major"]), int(found["minor"])
