"""ImageLocality: nodes that already hold the pod's images score higher (plugins/imagelocality)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.scheduling.behaviours import IMAGE_VOLUMES
from ragstow.scheduling.framework import MAX_NODE_SCORE, CycleState, Handle, ScorePlugin
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo

_MIB = 1024 * 1024
_MIN_THRESHOLD = 23 * _MIB
_MAX_CONTAINER_THRESHOLD = 1000 * _MIB


class ImageLocality(ScorePlugin):
    """See the module."""

    name = "ImageLocality"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self.rule = IMAGE_VOLUMES.at(handle.release)
        self._scaled: dict[str, int] = {}

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Bytes on the node, each scaled by how many nodes have the image, between two thresholds."""
        images, containers = self.images_of(pod)
        table = self.handle.world.images
        total = sum(self.scaled(image) for image in images if node.name in table.nodes(image))
        return self.points(total, containers)

    def images_of(self, pod: PodInfo) -> tuple[tuple[str, ...], int]:
        """Image names that count for the pod, and the number of containers that sets the upper threshold."""
        images = pod.images
        if self.rule == "none" or not pod.image_volumes:
            return images, len(images)
        counted = len(images) + (len(pod.image_volumes) if self.rule == "size-and-clamp" else 0)
        return images + pod.image_volumes, counted

    def scaled(self, image: str) -> int:
        """An image's bytes times the share of nodes that have it."""
        known = self._scaled.get(image)
        if known is None:
            table = self.handle.world.images
            share = len(table.nodes(image)) / len(self.handle.world.nodes)
            known = self._scaled[image] = int(float(table.size_bytes(image)) * share)
        return known

    @staticmethod
    def points(total_bytes: int, containers: int) -> int:
        """The sum on the scale between 23 MiB and 1000 MiB per container."""
        most = _MAX_CONTAINER_THRESHOLD * containers
        clamped = max(_MIN_THRESHOLD, min(total_bytes, most))
        return MAX_NODE_SCORE * (clamped - _MIN_THRESHOLD) // (most - _MIN_THRESHOLD)
