"""Manifests from (service, plan): pure functions built from small typed builders, no templates, no cluster, no clock.

The plan decided everything; this room writes it down as Kubernetes objects, node configuration and steps for a person. It
reads facts about how engines run (facts.serving) and never sizes, places or chooses.
"""

from ragstow.render.actions import Procedure
from ragstow.render.layout import render
from ragstow.render.model import RenderedFile, Rendering
from ragstow.render.procedure import procedure

__all__ = ["Procedure", "RenderedFile", "Rendering", "procedure", "render"]
