"""Single values as nvidia-smi prints them, and the words with which it gives up."""

from __future__ import annotations

import re

from ragstow.verification.smi.model import Failure, FailureKind

_MIB = re.compile(r"^\s*(\d+)\s*MiB\s*$")
_UNKNOWN = re.compile(r"^\[?(?:N/A|Not Supported|Not Available|Requested functionality has been deprecated)\]?$", re.IGNORECASE)
_FAULT = re.compile(r"^\[?(ERR!|Unknown Error|GPU is lost|GPU requires reset|Not Found)\]?$", re.IGNORECASE)

_FAILURES: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    ("version-mismatch", re.compile(r"Driver/library version mismatch", re.IGNORECASE)),
    ("driver-not-loaded", re.compile(r"Failed to initialize NVML: Driver Not Loaded", re.IGNORECASE)),
    ("driver-unreachable", re.compile(r"NVIDIA-SMI has failed because it couldn.t communicate with the NVIDIA driver")),
    (
        "library-missing",
        re.compile(r"couldn.t find libnvidia-ml\.so|libnvidia-ml\.so\S*: cannot open shared object", re.IGNORECASE),
    ),
    ("permissions", re.compile(r"Failed to initialize NVML: Insufficient Permissions", re.IGNORECASE)),
    ("nvml-unknown", re.compile(r"Failed to initialize NVML: \S", re.IGNORECASE)),
    ("no-devices", re.compile(r"^\s*No devices were found", re.MULTILINE)),
    ("device-lost", re.compile(r"Unable to determine the device handle for |GPU is lost", re.IGNORECASE)),
    ("program-missing", re.compile(r"nvidia-smi\S*: (?:command )?not found|nvidia-smi[^\n]*(?:not found|[Nn]o such file)")),
)

_LOST = re.compile(
    r"^.*(?:Unable to determine the device handle for|GPU is lost|has fallen off the bus).*$", re.IGNORECASE | re.MULTILINE
)


def mib(text: str) -> int | None:
    """A number of MiB, with or without its unit; None for anything else."""
    match = _MIB.match(text)
    if match:
        return int(match[1])
    return int(text) if text.strip().isdecimal() else None


def known(text: str) -> str | None:
    """A text value; None where nvidia-smi says that it has none, may not say it, or cannot."""
    value = text.strip()
    if not value or _UNKNOWN.match(value) or _FAULT.match(value) or "insufficient permissions" in value.lower():
        return None
    return value


def fault(text: str) -> str | None:
    """The word that marks a broken card ("ERR!", "GPU is lost"), or None."""
    match = _FAULT.match(text.strip())
    return match[1] if match else None


def number(text: str) -> int | None:
    """A whole number; None for N/A and the like."""
    return int(text) if text.strip().isdecimal() else None


def version(text: str) -> str | None:
    """A version; None where the word in its place is none."""
    value = text.strip()
    return value if re.match(r"^\d+(\.\d+)*$", value) else None


def lost(text: str) -> tuple[str, ...]:
    """The lines that say that a card does not answer; the others are listed nevertheless."""
    return tuple(dict.fromkeys(match[0].strip() for match in _LOST.finditer(text)))


def failure(text: str) -> Failure | None:
    """Why there is no list of devices, from what was printed; None where no known words are in it."""
    for kind, pattern in _FAILURES:
        match = pattern.search(text)
        if match:
            line = text[text.rfind("\n", 0, match.start()) + 1 :].split("\n", 1)[0]
            return Failure(kind, line.strip())
    return None
