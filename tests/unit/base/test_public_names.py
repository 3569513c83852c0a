"""The library's public names: one sorted list, every name there, `import ragstow` loads nothing, the verbs work together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ragstow
from support import ENVIRONMENT, ROOT


def test_the_list_is_sorted_and_complete() -> None:
    assert ragstow.__all__ == sorted(ragstow.__all__)
    assert set(ragstow.__all__) - {"__version__"} == set(ragstow._WHERE)
    for name in ragstow.__all__:
        assert getattr(ragstow, name) is not None


def test_importing_the_package_loads_none_of_its_rooms() -> None:
    code = "import sys, ragstow; print([m for m in sys.modules if m.startswith('ragstow.')])"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_verbs_work_together() -> None:
    example = ROOT / "examples" / "h100-operator"
    facts = ragstow.load_facts()
    cluster = ragstow.read_cluster(str(example / "cluster"))
    service = ragstow.load_service(Path(example / "service.yaml"), facts)
    plan = ragstow.plan_service(service, cluster, facts, document=ragstow.service_document(service))
    assert plan.feasible
    assert plan.cards == plan.lower_bound
    assert "STEPS.md" in [file.path for file in ragstow.render_plan(service, plan, facts).files]
    assert ragstow.inspect_cluster(cluster, facts).totals
    assert ragstow.diagnose_cluster(cluster, facts).findings == ()
