"""What applying would change: a server-side dry run of every object, compared with what is there. Nothing is kept."""

from ragstow.live.preview.model import FieldChange, ObjectPreview
from ragstow.live.preview.server import preview

__all__ = ["FieldChange", "ObjectPreview", "preview"]
