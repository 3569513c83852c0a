"""Which Kubernetes release to decide as, and from which of the sources that is known (INTERFACE 1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import UsageError

_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?:[-+].*)?")


@dataclass(frozen=True, slots=True)
class Release:
    """A release: `version` as "1.37.2" or "1.37" where no patch is known; `origin` says for people where it was read."""

    version: str
    origin: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """(1, 37, 2); two numbers where no patch is known."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def minor(self) -> str:
        """ "1.37"."""
        return ".".join(self.version.split(".")[:2])


def parse(text: str) -> str | None:
    """ "1.34.3" of "v1.34.3-gke.1318000"; None where the text is no version."""
    match = _VERSION.fullmatch(text.strip())
    return ".".join(part for part in match.groups() if part is not None) if match else None


def detect(snapshot: Snapshot, *, newest_recorded: str, asked: str | None = None) -> Release:
    """The release of this cluster.

    In this order: `asked` (--release), the live server's, `kubectl version -o json` in the saved folder, the image of a
    kube-apiserver pod, the newest kubelet, the newest release that was recorded.

    Raises:
        UsageError: `asked` is no release.
    """
    if asked is not None:
        version = parse(asked)
        if version is None:
            raise UsageError(
                "release-invalid", f"--release {asked}: not a Kubernetes release", hint="X.Y or X.Y.Z, such as 1.37"
            )
        return Release(version, "--release")
    if snapshot.version is not None and (version := parse(snapshot.version)) is not None:
        return Release(version, "the API server")
    if (version := _newest(_api_server_tags(snapshot))) is not None:
        return Release(version, "the image of the kube-apiserver pod")
    if (version := _newest([node.kubelet_version for node in snapshot.nodes if node.kubelet_version])) is not None:
        return Release(version, "the newest kubelet")
    return Release(newest_recorded, "the newest recorded release, since the cluster does not say its own")


def _api_server_tags(snapshot: Snapshot) -> list[str]:
    return [
        container.image.partition("@")[0].rpartition(":")[2]
        for pod in snapshot.pods
        if pod.namespace == "kube-system" and not pod.finished and _is_api_server(pod.labels, pod.name)
        for container in pod.containers
        if container.name == "kube-apiserver"
    ]


def _is_api_server(labels: Mapping[str, str], name: str) -> bool:
    return labels.get("component") == "kube-apiserver" or name.startswith("kube-apiserver-")


def _newest(texts: list[str]) -> str | None:
    versions = [version for text in texts if (version := parse(text)) is not None]
    return max(versions, key=lambda version: tuple(int(part) for part in version.split(".")), default=None)
