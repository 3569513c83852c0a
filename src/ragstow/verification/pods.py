"""The checks of one GPU pod: does its container see the devices that were planned, whole and with the right driver?

Judges what was seen; asks nobody. Memory in use and neighbours need all pods together and are judged elsewhere.
"""

from __future__ import annotations

from ragstow.facts import Facts
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome, Unknown
from ragstow.verification.seen import Device, Look, devices
from ragstow.verification.targets import Target, same_product

_HINTS = {
    "no-devices": "the container got no GPU: look at its resources.limits and runtimeClassName; `ragstow diagnose` goes on",
    "driver-unreachable": "the kernel driver of the node is not loaded: see the driver pod, or `nvidia-smi` on the node",
    "driver-not-loaded": "the kernel driver of the node is not loaded: see the driver pod, or `nvidia-smi` on the node",
    "version-mismatch": "the driver was upgraded under a loaded module: reboot the node, or unload the module",
    "library-missing": "the container toolkit did not put the driver's libraries into the container: runtimeClassName, CDI",
    "permissions": "the container may not open the device: SELinux or a read-only device cgroup",
    "device-lost": "the card does not answer any more: see the node's kernel log (Xid 79), drain it, reset or reseat the card",
    "nvml-unknown": "the container lost its device (a cgroup update): recreate the pod; CDI avoids it",
}


def check_pod(target: Target, look: Look, facts: Facts) -> Outcome:
    """Everything that one pod's own outputs decide.

    Args:
        target: the pod and what it should see.
        look: what was seen in it.
        facts: names of cards.
    """
    ref = ObjectRef.of(target.pod)
    blind = _blind(target, look, ref)
    if blind is not None:
        return blind
    found = devices(look.reading)
    checks = [_visible(target, look, ref, found)]
    if found:
        checks += [
            _product(target, look, ref, found, facts),
            *_slices(target, look, ref, found),
            *_totals(target, look, ref, found),
            _health(target, look, ref, found),
        ]
    return Outcome(tuple(checks))


def _blind(target: Target, look: Look, ref: ObjectRef) -> Outcome | None:
    """Nothing could be asked, or nothing came back."""
    command = exec_command(target, "nvidia-smi")
    if look.forbidden or look.refused:
        unknown = Unknown(
            "gpu-visible",
            ref,
            look.forbidden or look.refused,
            "ragstow rbac verify | kubectl apply -f -" if look.forbidden else command,
            needed=True,
            forbidden=bool(look.forbidden),
            component=target.component,
        )
        return Outcome(unknown=(unknown,))
    if look.hung:
        check = Check(
            "gpu-visible",
            ref,
            _wanted(target),
            look.hung,
            False,
            (Evidence(command, look.hung),),
            "a driver that does not answer is a sign of a dead card: see the kernel log of the node (Xid)",
            target.component,
        )
        return Outcome((check,))
    failure = look.reading.failure
    if failure is not None and failure.kind == "program-missing":
        missing = f"the container has no nvidia-smi ({failure.text}); NVIDIA_DRIVER_CAPABILITIES needs `utility`"
        return Outcome(unknown=(Unknown("gpu-visible", ref, missing, command, needed=True, component=target.component),))
    if failure is None and not look.reading.cards and not look.reading.faults:
        missing = "nvidia-smi printed nothing that can be read"
        return Outcome(unknown=(Unknown("gpu-visible", ref, missing, command, needed=True, component=target.component),))
    return None


def _wanted(target: Target) -> str:
    expected = target.expected
    what = f"MIG slice {expected.profile}" if expected.profile else "card"
    return f"{expected.count} {what}{'s' if expected.count > 1 else ''}"


def _visible(target: Target, look: Look, ref: ObjectRef, found: tuple[Device, ...]) -> Check:
    """The number of devices; what nvidia-smi says where there is none."""
    failure, faults = look.reading.failure, look.reading.faults
    passed = len(found) == target.expected.count and not faults
    if found:
        said = ", ".join(item.title for item in found)
        said = f"{said}; {'; '.join(faults)}" if faults else said
        evidence = look.evidence("list") or look.evidence("table", "MiB")
    elif failure is not None:
        said, evidence = failure.text, look.evidence("table")
    elif faults:
        said, evidence = "; ".join(faults), look.evidence("table", *faults)
    else:
        said, evidence = "a card in MIG mode without any slice", look.evidence("list") or look.evidence("table", "MIG")
    hint = ""
    if not passed:
        kind = failure.kind if failure is not None and not found else "device-lost" if faults else ""
        hint = _HINTS.get(kind, "")
        if not kind and len(found) < target.expected.count:
            hint = "the slice or card is gone: was MIG re-cut under the pod? recreate the pod after the node's layout is back"
        elif not kind:
            hint = "it sees more than it asked for: NVIDIA_VISIBLE_DEVICES=all or a privileged pod goes past the device plugin"
    return Check("gpu-visible", ref, _wanted(target), said, passed, evidence, hint, target.component)


def _product(target: Target, look: Look, ref: ObjectRef, found: tuple[Device, ...], facts: Facts) -> Check:
    expected = target.expected.product
    names = list(dict.fromkeys(item.name or "no name" for item in found))
    right = expected is None or all(
        item.name is not None and same_product(expected, item.name, item.cut, facts) for item in found
    )
    return Check(
        "gpu-product",
        ref,
        expected or "any card",
        ", ".join(names),
        right,
        look.evidence("list", *names) or look.evidence("table", *names),
        "" if right else "the pod landed on another card than planned: compare node labels with the pod's node affinity",
        target.component,
    )


def _slices(target: Target, look: Look, ref: ObjectRef, found: tuple[Device, ...]) -> list[Check]:
    """A slice of the profile where one is expected, a whole card where none is; and the UUID of each slice."""
    expected = target.expected
    if expected.profile is None and not any(item.slice for item in found):
        return []
    if expected.profile is None and expected.mode in ("unknown", "dra"):
        return []
    wanted = expected.profile
    right = all(item.slice == (wanted is not None) for item in found) and all(
        item.profile is None or wanted is None or _profile(item.profile) == _profile(wanted) for item in found
    )
    said = ", ".join(
        f"{item.profile or 'a slice'} {item.uuid or ''}".strip() if item.slice else "a whole card" for item in found
    )
    hint = "" if right else "the device plugin handed out another device than the plan's resource: compare its MIG strategy"
    evidence = look.evidence("list", "MIG") or look.evidence("list")
    return [Check("gpu-slice", ref, wanted or "a whole card", said, right, evidence, hint, target.component)]


def _totals(target: Target, look: Look, ref: ObjectRef, found: tuple[Device, ...]) -> list[Check]:
    """The memory of each device, as the card or slice should have it."""
    span = target.expected.total_mib
    known = [item for item in found if item.total_mib is not None]
    if span is None or not known or len(known) < len(found):
        return []
    right = all(span[0] <= (item.total_mib or 0) <= span[1] for item in known)
    said = ", ".join(f"{item.total_mib} MiB" for item in known)
    words = [f"{item.total_mib}" for item in known]
    return [
        Check(
            "gpu-memory-total",
            ref,
            f"{span[0]} to {span[1]} MiB ({target.expected.total_source})",
            said,
            right,
            look.evidence("rows", *words) or look.evidence("table", *words) or look.evidence("details", *words),
            "" if right else "another card or another slice than planned: compare product, MIG layout and node labels",
            target.component,
        )
    ]


def _health(target: Target, look: Look, ref: ObjectRef, found: tuple[Device, ...]) -> Check:
    faults = list(dict.fromkeys(fault for item in found for fault in item.faults))
    evidence = look.evidence("table", "ERR!") or look.evidence("details", "Remap", "Reset Required", "Unknown Error")
    if not faults:
        evidence = tuple(Evidence(answer.command, "no ERR!, no lost card") for answer in list(look.answers.values())[:1])
    return Check(
        "gpu-health",
        ref,
        "no fault",
        "; ".join(faults) or "no fault",
        not faults,
        evidence,
        "drain the node and reset the card; `nvidia-smi -q` on the node and the kernel log (Xid) say more" if faults else "",
        target.component,
    )


def _profile(name: str) -> str:
    """A profile without its compute instance, in the spelling of labels ("1c.3g.20gb+me" -> "3g.20gb.me")."""
    text = name.casefold().replace("+", ".")
    return text.partition(".")[2] if text[1:3] == "c." else text


def exec_command(target: Target, command: str) -> str:
    """The kubectl command that shows the same."""
    pod = target.pod
    return f"kubectl exec -n {pod.namespace} {pod.name} -c {target.container.name} -- {command}"
