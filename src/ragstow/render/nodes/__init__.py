"""Node configuration of a plan: the device plugin's sharing, MIG layouts and labels, each as files, steps and their undoing.

How it is done depends on who runs the plugin: the chart, the GPU Operator, a static manifest or a cloud. Nothing here decides
what a node becomes; that is the plan's layout.
"""

from ragstow.render.nodes.parts import node_parts

__all__ = ["node_parts"]
