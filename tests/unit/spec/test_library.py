"""The room's own functions stay functions, whatever was called before."""

from __future__ import annotations

import ragstow.spec
from ragstow import facts
from support import ROOT


def test_a_service_normalises_to_itself_through_the_library() -> None:
    known = facts.load()
    service = ragstow.spec.load(ROOT / "examples" / "h100-operator" / "service.yaml", known)
    assert ragstow.spec.normalise(ragstow.spec.to_document(service), known) == service
