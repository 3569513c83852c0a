"""Why a pod fits nowhere: what pods share of the work changes no answer, and the event's text is the API server's."""

from __future__ import annotations

import pytest

from broken.everything import DEFECTS
from ragstow.cluster.objects import Pod
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.release import Release
from ragstow.simulate.why import Explainer, Verdict
from support import DATA

RELEASE = Release.parse("1.37.2")
BROKEN = sorted((DATA / "clusters-broken").glob("*.tar.gz"))


def pending(snapshot: Snapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if pod.node is None and pod.phase == "Pending"]


def said(verdict: Verdict) -> object:
    obstacles = {
        node: [(one.plugin, one.texts, one.words, one.resolvable) for one in listed]
        for node, listed in verdict.obstacles.items()
    }
    return verdict.feasible, verdict.message, verdict.before, obstacles, dict(verdict.plugins)


@pytest.mark.parametrize("name", sorted(name for name in DEFECTS if not name.startswith("reports"))[::2])
def test_sharing_the_work_changes_no_answer(name: str) -> None:
    snapshot = DEFECTS[name]()[0].snapshot()
    shared = Explainer(snapshot, RELEASE)
    for pod in pending(snapshot):
        alone = Explainer(snapshot, RELEASE).explain(pod)
        assert said(shared.explain(pod)) == said(alone)
        assert said(shared.explain(pod)) == said(alone)
        for node, listed in alone.obstacles.items():
            assert alone.plugins[node] == {one.plugin for one in listed}


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.name)
def test_the_events_text_is_the_servers(path: object) -> None:
    snapshot = read(str(path))
    explainer = Explainer(snapshot, RELEASE)
    for pod in pending(snapshot):
        (condition,) = [item for item in pod.status["conditions"] if item.get("reason") == "Unschedulable"]
        assert condition["message"].startswith(explainer.explain(pod).message)
