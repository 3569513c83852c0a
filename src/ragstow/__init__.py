"""ragstow: RAG services on Kubernetes GPUs, from a description to a plan, manifests and acceptance.

The library gives the same verbs as the command line. Names are loaded on first use, so that `import ragstow` stays cheap.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
