"""Which container images lie on which nodes, as the scheduler's cache counts them.

Source: pkg/scheduler/backend/cache/cache.go (addNodeImageStates) and plugins/imagelocality. The size of an image is the one
reported by the first node on which the cache saw the name.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragstow.cluster.objects import Node


class ImageTable:
    """Image name -> size in bytes and the names of the nodes that have it."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._size_bytes: dict[str, int] = {}
        self._nodes: dict[str, set[str]] = {}
        for node in nodes:
            for image in node.status.get("images") or ():
                size = image.get("sizeBytes")
                for name in image.get("names") or ():
                    self._size_bytes.setdefault(str(name), size if isinstance(size, int) else 0)
                    self._nodes.setdefault(str(name), set()).add(node.name)

    def size_bytes(self, image: str) -> int:
        """The size of a normalised image name, 0 where no node has it."""
        return self._size_bytes.get(image, 0)

    def nodes(self, image: str) -> frozenset[str] | set[str]:
        """Names of the nodes that have a normalised image name."""
        return self._nodes.get(image, frozenset())


def normalized(image: str) -> str:
    """The name with ":latest" where it has no tag (a digest counts as one)."""
    return f"{image}:latest" if image.rfind(":") <= image.rfind("/") else image
