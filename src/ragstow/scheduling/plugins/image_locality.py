"""ImageLocality: nodes that already hold the pod's images score higher (plugins/imagelocality)."""

from __future__ import annotations

from ragstow.scheduling.behaviours import IMAGE_VOLUMES
from ragstow.scheduling.framework import MAX_NODE_SCORE, CycleState, ScorePlugin
from ragstow.scheduling.images import normalized
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo

_MIB = 1024 * 1024
_MIN_THRESHOLD = 23 * _MIB
_MAX_CONTAINER_THRESHOLD = 1000 * _MIB


class ImageLocality(ScorePlugin):
    """See the module."""

    name = "ImageLocality"

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Bytes on the node, each scaled by how many nodes have the image, between two thresholds."""
        images, containers = self.images_of(pod)
        total = sum(self.scaled(image) for image in images if node.name in self.handle.world.images.nodes(image))
        return self.points(total, containers)

    def images_of(self, pod: PodInfo) -> tuple[list[str], int]:
        """Normalised image names that count for the pod, and the number of containers that sets the upper threshold."""
        rule = IMAGE_VOLUMES.at(self.handle.release)
        raw = [*pod.pod.init_containers, *pod.pod.containers]
        images = [normalized(container.image) for container in raw]
        count = len(raw)
        if rule != "none":
            for volume in pod.pod.spec.get("volumes") or ():
                if volume.get("image") is not None:
                    images.append(normalized(str(volume["image"].get("reference") or "")))
                    count += rule == "size-and-clamp"
        return images, count

    def scaled(self, image: str) -> int:
        """An image's bytes times the share of nodes that have it."""
        table = self.handle.world.images
        return int(float(table.size_bytes(image)) * (len(table.nodes(image)) / len(self.handle.world.nodes)))

    @staticmethod
    def points(total_bytes: int, containers: int) -> int:
        """The sum on the scale between 23 MiB and 1000 MiB per container."""
        most = _MAX_CONTAINER_THRESHOLD * containers
        clamped = max(_MIN_THRESHOLD, min(total_bytes, most))
        return MAX_NODE_SCORE * (clamped - _MIN_THRESHOLD) // (most - _MIN_THRESHOLD)
