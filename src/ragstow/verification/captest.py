"""The cap test: a throw-away pod that takes GPU memory beyond its cap and tells whether it was stopped.

MIG slices and MPS shares have a cap that hardware or the MPS server holds; a whole card is its own cap; time-slicing has none,
which is said without a test. The pod takes at most a twentieth (or 128 MiB) more than the cap, so that where nothing holds it
no neighbour loses much, and is gone after five minutes whatever happens to whom started it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.facts import Facts
from ragstow.render.model import Manifest
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome, Unknown
from ragstow.verification.targets import MIB, Target

LABEL = "ragstow.dev/cap-test"
DEADLINE_SECONDS = 300
_MARK = "ragstow-cap-test "
_ENGINE = "app.kubernetes.io/name"
_GIB = 2**30
_NOT_LESS = 0.8
_CONTEXT_BYTES = 512 * MIB
"""A CUDA context takes part of the cap before the first allocation."""

PROBE = """\
import ctypes, json, sys
cap, step, taken = int(sys.argv[1]), 64 << 20, 0
def told(**found):
    sys.stdout.write("ragstow-cap-test " + json.dumps(found) + "\\n")
    sys.stdout.flush()
    sys.exit(0)
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    told(error=str(error))
def named(code):
    text = ctypes.c_char_p()
    cuda.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"error %d" % code).decode()
def must(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        told(error=name + ": " + named(code))
device, context, free, total = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
must("cuInit", 0)
must("cuDeviceGet", ctypes.byref(device), 0)
must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
must("cuCtxSetCurrent", context)
must("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
while taken < cap + max(cap // 20, 2 * step):
    code = cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(step))
    if code:
        told(allocated=taken, stopped=named(code), free=free.value, total=total.value)
    taken += step
told(allocated=taken, stopped=None, free=free.value, total=total.value)
"""
"""Python that needs nothing but the driver's library; one line of JSON behind a mark is its answer."""


@dataclass(frozen=True, slots=True)
class CapTest:
    """One test: of which component, the pod to make, the cap in bytes."""

    component: str
    mode: str
    manifest: Manifest
    cap_bytes: int

    @property
    def ref(self) -> ObjectRef:
        """The throw-away pod."""
        meta = self.manifest["metadata"]
        return ObjectRef("Pod", str(meta["namespace"]), str(meta["name"]))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a test ended: the pod's log, or why there is none; `command` shows it again."""

    test: CapTest
    command: str
    log: str = ""
    missing: str = ""
    forbidden: bool = False


def cap_tests(
    targets: Sequence[Target], service: str, facts: Facts, suffix: str, image: str | None = None
) -> tuple[tuple[CapTest, ...], Outcome]:
    """A test for each component with a cap; and what can be said of the others.

    Args:
        targets: the service's GPU pods.
        service: its name.
        facts: which engine's image has an interpreter.
        suffix: that makes the names of the pods unique.
        image: an image with `python3`; default: that of a component of the service which has one.
    """
    found: list[CapTest] = []
    remarks: list[str] = []
    unknown: list[Unknown] = []
    command = _interpreter(targets, facts) if image is None else (image, ("python3", "-c"))
    for target in {item.component: item for item in reversed(targets)}.values():
        mode = target.expected.mode
        cap = _cap(target)
        if mode == "time-slicing":
            remarks.append(f"{target.component}: nothing caps GPU memory under time-slicing: each pod can take the whole card")
        elif mode == "exclusive":
            remarks.append(f"{target.component}: has whole cards, so its cap is the card")
        elif cap is None or target.resource is None:
            unknown.append(_unknown(target, service, f"no test for a GPU that comes by a claim ({mode})"))
        elif command is None:
            missing = "no image of the service has an interpreter; name one that has python3: --cap-image"
            unknown.append(_unknown(target, service, missing))
        else:
            found.append(CapTest(target.component, mode, _pod(target, service, cap, suffix, command), cap))
    return tuple(sorted(found, key=lambda test: test.component)), Outcome(
        unknown=tuple(unknown), remarks=tuple(sorted(remarks))
    )


def _cap(target: Target) -> int | None:
    """The slice's memory, or the card's divided by its shares (MPS pins total / replicas for each client)."""
    span = target.expected.total_mib
    if span is None:
        return None
    whole = (span[0] + span[1]) // 2 * MIB
    if target.expected.profile is not None:
        return whole
    return whole // target.expected.sharers if target.expected.mode == "mps" else None


def _interpreter(targets: Sequence[Target], facts: Facts) -> tuple[str, tuple[str, ...]] | None:
    for target in targets:
        serving = facts.serving.get(target.pod.labels.get(_ENGINE))
        if serving is not None and serving.wait:
            return target.container.image, serving.wait
    return None


def _pod(target: Target, service: str, cap: int, suffix: str, command: tuple[str, tuple[str, ...]]) -> Manifest:
    """On the node of a pod of the component, since the cap is that node's; it waits where no slot is free there."""
    image, words = command
    spec: Mapping[str, Any] = target.pod.spec
    name = f"ragstow-cap-{target.component}"[:50].rstrip("-.") + f"-{suffix}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": target.pod.namespace,
            "labels": {"app.kubernetes.io/managed-by": "ragstow", LABEL: service},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "terminationGracePeriodSeconds": 0,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "nodeSelector": {"kubernetes.io/hostname": target.pod.node},
            **{key: spec[key] for key in ("runtimeClassName", "tolerations", "imagePullSecrets") if spec.get(key)},
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "probe",
                    "image": image,
                    "command": list(words),
                    "args": [PROBE, str(cap)],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "256Mi"},
                        "limits": {target.resource: 1, "memory": "1Gi"},
                    },
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def answered(log: str) -> bool:
    """Whether a log holds the probe's answer."""
    return _MARK in log


def judge(ended: Sequence[Ended]) -> Outcome:
    """What the probes said."""
    checks: list[Check] = []
    unknown: list[Unknown] = []
    for item in ended:
        said = _answer(item.log)
        missing = item.missing or ("" if said is not None else "the probe gave no answer")
        if said is not None and not missing and said.get("error"):
            missing = f"the probe could not use the GPU: {said['error']}"
        if missing or said is None:
            unknown.append(
                Unknown(
                    "gpu-cap", item.test.ref, missing, item.command, forbidden=item.forbidden, component=item.test.component
                )
            )
            continue
        checks.append(_check(item, said))
    return Outcome(tuple(checks), tuple(unknown))


def _answer(log: str) -> Mapping[str, Any] | None:
    for line in reversed(log.splitlines()):
        match = re.search(re.escape(_MARK) + r"(\{.*\})\s*$", line)
        if match is None:
            continue
        try:
            found = json.loads(match[1])
        except ValueError:
            continue
        if isinstance(found, Mapping) and ("error" in found or isinstance(found.get("allocated"), int)):
            return found
    return None


def _check(item: Ended, said: Mapping[str, Any]) -> Check:
    cap, taken, stopped = item.test.cap_bytes, int(said["allocated"]), said.get("stopped")
    holder = "the slice" if item.test.mode == "mig" else "the MPS server"
    least = min(int(cap * _NOT_LESS), cap) - _CONTEXT_BYTES
    held = stopped is not None and taken <= cap
    right = held and taken >= least
    found = f"stopped at {_gib(taken)} ({stopped})" if stopped is not None else f"took {_gib(taken)} and was not stopped"
    hint = ""
    if not held:
        hint = "nothing holds the cap: " + (
            "is the MPS daemon of the node in use (CUDA_MPS_PIPE_DIRECTORY in the pod) and is the plugin's sharing `mps`?"
            if item.test.mode == "mps"
            else "the pod did not get a slice; compare `gpu-slice`"
        )
    elif not right:
        hint = "the cap holds, but less than it is free: somebody else uses memory of this card or slice"
    return Check(
        "gpu-cap",
        item.test.ref,
        f"{holder} stops it at {_gib(cap)}",
        found,
        right,
        (Evidence(item.command, json.dumps(dict(said))),),
        hint,
        item.test.component,
    )


def _unknown(target: Target, service: str, missing: str) -> Unknown:
    ref = ObjectRef("RagService", target.pod.namespace, service)
    return Unknown("gpu-cap", ref, missing, "ragstow verify --cap-test --cap-image IMAGE", component=target.component)


def _gib(value: int) -> str:
    return f"{value / _GIB:.2f} GiB"
