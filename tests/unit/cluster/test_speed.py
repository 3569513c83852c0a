"""Reading must stay fast: a 2 MB JSON snapshot in less than 100 ms of CPU time (it takes about a fifth of that)."""

from __future__ import annotations

import json
import time
from pathlib import Path

from ragstow.cluster.read import read
from support import DATA


def test_two_megabytes_of_json(tmp_path: Path) -> None:
    recorded = read(str(DATA / "clusters" / "01-device-plugin-bare-metal.tar.gz"))
    items: list[object] = []
    size = 0
    while size < 2_000_000:
        for pod in recorded.pods:
            copy = {**pod.raw, "metadata": {**pod.raw["metadata"], "name": f"{pod.name}-{len(items)}"}}
            items.append(copy)
            size += len(json.dumps(copy, indent=4))
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4), encoding="utf-8")
    assert path.stat().st_size > 2_000_000
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        assert len(read(str(path)).pods) == len(items)
        best = min(best, time.process_time() - start)
    assert best < 0.1
