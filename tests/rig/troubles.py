"""Troubles of pods as Stages that outweigh the usual ones; tests put them into the API server and take them out again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rig.kwok import made

Trouble = Literal["crash", "unready", "reject"]
_WEIGHT = 1
"""Ordinary Stages weigh nothing: KWOK leaves them out where one with weight matches."""

_CRASH = """
{{ $now := Now }}
{{ $root := . }}
conditions:
{{ range $type := list "Ready" "ContainersReady" }}
- {type: {{ $type }}, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range $index, $item := .spec.containers }}
{{ $was := index $root.status.containerStatuses $index }}
- name: {{ $item.name | Quote }}
  image: {{ $item.image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: {{ add $was.restartCount 1 }}
  lastState: {terminated: {exitCode: EXIT_CODE, reason: REASON, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
  state: {waiting: {reason: CrashLoopBackOff, message: "back-off 10s restarting failed container"}}
{{ end }}
phase: Running
"""

_UNREADY = """
{{ $now := Now }}
conditions:
{{ range $type := list "Ready" "ContainersReady" }}
- {type: {{ $type }}, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
phase: Running
"""

_REJECT = """
{{ $now := Now }}
phase: Failed
reason: UnexpectedAdmissionError
message: "MESSAGE"
startTime: {{ $now | Quote }}
"""

_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
_WAITING = ".status.containerStatuses.[].state.waiting.reason"


def stage(
    trouble: Trouble, labels: Mapping[str, str], *, exit_code: int = 1, reason: str = "Error", message: str = ""
) -> dict[str, Any]:
    """The Stage of a trouble for pods with these labels.

    `crash`: once started they end again and again (CrashLoopBackOff). `unready`: they run and are never ready. `reject`: the
    kubelet refuses them before they start.
    """
    matches: list[dict[str, Any]] = [{"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}]
    matches += [{"key": f'.metadata.labels["{key}"]', "operator": "In", "values": [value]} for key, value in labels.items()]
    delay: dict[str, Any] = {}
    if trouble == "reject":
        matches += [
            {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
            {"key": ".status.podIP", "operator": "DoesNotExist"},
        ]
        text = _REJECT.replace("MESSAGE", message)
    elif trouble == "crash":
        matches += [
            {"key": ".status.phase", "operator": "In", "values": ["Running"]},
            {"key": _WAITING, "operator": "NotIn", "values": ["CrashLoopBackOff"]},
        ]
        text = _CRASH.replace("EXIT_CODE", str(exit_code)).replace("REASON", reason)
    else:
        matches.append({"key": ".status.phase", "operator": "In", "values": ["Running"]})
        text = _UNREADY
        # Played again and again it would be a storm of updates.
        delay = {"delay": {"durationMilliseconds": 2000}}
    name = "-".join((trouble, *labels.values())).lower()
    spec = {"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, "selector": {"matchExpressions": matches}, "weight": _WEIGHT}
    return made("Stage", name, {**spec, **delay, "next": {"statusTemplate": text}})
