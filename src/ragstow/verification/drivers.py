"""Driver and CUDA: the container must see what the host has and the node's label says, and it must be enough for the image."""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.cluster.objects import Node
from ragstow.facts import Facts
from ragstow.facts.drivers import version
from ragstow.inventory.identity import driver as label_driver
from ragstow.rules import images
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome, Unknown
from ragstow.verification.pods import exec_command
from ragstow.verification.seen import Look
from ragstow.verification.targets import Target


@dataclass(frozen=True, slots=True)
class HostDriver:
    """The driver as the host has it: from the driver pod or the plugin pod of the node. `where` names it for people, `command`
    shows it again; without a version `why` says what kept it from being read."""

    version: str | None
    where: str
    command: str
    why: str = ""


def check_driver(target: Target, look: Look, node: Node | None, host: HostDriver | None) -> Outcome:
    """The driver of a container against host and label; the check says which of the two it was compared with."""
    inside = look.reading.driver
    if inside is None:
        return Outcome()
    ref = ObjectRef.of(target.pod)
    label = label_driver(node.labels) if node is not None else None
    seen = host.version if host is not None else None
    evidence = [*look.evidence("table", "NVIDIA-SMI"), *(() if look.answers.get("table") else look.evidence("rows", inside))]
    if host is not None and seen is not None:
        evidence.append(Evidence(host.command, seen))
    if node is not None and label is not None:
        evidence.append(Evidence(f"kubectl get node {node.name} --show-labels", f"driver label {label}"))
    if seen is None and label is None:
        why = host.why if host is not None and host.why else "no driver or plugin pod on the node, and no label"
        command = f"kubectl get node {target.pod.node} --show-labels"
        return Outcome(
            unknown=(Unknown("gpu-driver", ref, f"nothing to compare with: {why}", command, component=target.component),)
        )
    wanted = [f"{seen} ({host.where})"] if host is not None and seen is not None else []
    wanted += [f"{label} (label of node {node.name})"] if node is not None and label is not None else []
    others = [value for value in (seen, label) if value is not None]
    right = all(version(value) == version(inside) for value in others)
    hint = ""
    if not right and seen is not None and version(seen) != version(inside):
        hint = "the image carries another driver than the host, or the host's was upgraded under the pod; recreate the pod"
    elif not right:
        hint = "the label is old: GPU feature discovery has not run since the driver changed; restart its pod on the node"
    check = Check("gpu-driver", ref, " and ".join(wanted), inside, right, tuple(evidence), hint, target.component)
    return Outcome((check,))


def check_cuda(target: Target, look: Look, facts: Facts) -> Outcome:
    """Whether the driver runs the CUDA that the image was built with.

    A driver runs every CUDA up to the version it shows, and later minor versions of that major from the driver on with which
    the major began (CUDA compatibility guide, minor version compatibility).
    """
    ref = ObjectRef.of(target.pod)
    named = images.cuda(target.container.image)
    need = look.cuda or (f"{named[0]}.{named[1]}" if named else None)
    shown, inside = look.reading.cuda, look.reading.driver
    if shown is None and inside is not None:
        shown = facts.drivers.cuda_of(inside)
    if shown is None:
        return Outcome()
    if need is None:
        missing = f"which CUDA the image {target.container.image} was built with: neither its name nor CUDA_VERSION says it"
        command = exec_command(target, "printenv CUDA_VERSION")
        return Outcome(unknown=(Unknown("gpu-cuda", ref, missing, command, component=target.component),))
    minimum = facts.drivers.minimum_driver(need)
    right = version(shown) >= version(need)
    how = ""
    if not right and minimum is not None and inside is not None and version(inside) >= version(minimum):
        right, how = True, f", by minor version compatibility (driver {inside} >= {minimum})"
    source = exec_command(target, "printenv CUDA_VERSION") if look.cuda else f"image {target.container.image}"
    evidence = (*look.evidence("table", "CUDA"), Evidence(source, f"CUDA {need}"))
    hint = (
        ""
        if right
        else f"a newer driver ({minimum or 'see the CUDA release notes'} or later), or an image for CUDA {shown} or older"
    )
    check = Check("gpu-cuda", ref, f"CUDA {need} or newer", f"CUDA {shown}{how}", right, evidence, hint, target.component)
    return Outcome((check,))
