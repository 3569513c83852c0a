"""STEPS.md: everything a person types to bring a plan to life, in order, with the check after each step, and how to undo it."""

from __future__ import annotations

from collections.abc import Iterable

from ragstow.render import claims, names
from ragstow.render.container import port_name, start_seconds
from ragstow.render.model import Context, Item, NodePart, Step
from ragstow.render.nodes.common import KUBELET_LOG
from ragstow.render.podspec import WAIT_SECONDS, health_url, wait_container
from ragstow.render.rehearsalwords import rehearsed
from ragstow.render.units import units

_MODES = {
    "exclusive": "whole card",
    "mig": "MIG slice",
    "mps": "MPS share",
    "time-slicing": "time-slicing share",
    "dra": "claim",
    "none": "no GPU",
}


def steps_page(context: Context, parts: tuple[NodePart, ...], workload_files: tuple[str, ...]) -> str:
    """The page as Markdown."""
    plan = context.plan
    numbered = _Numbers()
    lines = [
        f"# {plan.service} in namespace {plan.namespace}: step by step",
        "",
        f"Rendered by ragstow from plan {plan.digest[:16]}. Run the commands in this folder, in this order.",
        "",
        *_summary(context),
        *_rehearsal(context),
        "## Before",
        "",
        *numbered.steps(_before(context, parts)),
    ]
    node_steps = [step for part in parts for step in part.steps]
    if node_steps:
        lines += ["## Nodes", "", *_disturbed(context), *numbered.steps(node_steps)]
    lines += ["## Workloads", "", *numbered.steps(_workloads(context, workload_files))]
    lines += ["## Does it work?", "", *numbered.steps(_acceptance(context))]
    lines += ["## Undo", "", *numbered.steps(_undo(context, parts))]
    return "\n".join(lines).rstrip("\n") + "\n"


class _Numbers:
    def __init__(self) -> None:
        self._last = 0

    def steps(self, steps: Iterable[Step]) -> list[str]:
        lines: list[str] = []
        for step in steps:
            self._last += 1
            lines += [f"### {self._last}. {step.title}", ""]
            if step.text:
                lines += [step.text, ""]
            if step.commands:
                lines += ["```sh", *step.commands, "```", ""]
            if step.checks:
                lines += [f"Check{f' (expect: {step.expect})' if step.expect else ''}:", "", "```sh", *step.checks, "```", ""]
        return lines


def _summary(context: Context) -> list[str]:
    lines = ["| component | replicas | GPU | resource | starts after |", "|---|---|---|---|---|"]
    for item in context.items:
        slot = item.slot
        what = _MODES.get(slot.mode, slot.mode) + (f" {slot.profile}" if slot.profile else "")
        resource = f"{slot.count} x {slot.resource}" if slot.resource else ("ResourceClaim" if slot.mode == "dra" else "-")
        after = ", ".join(item.planned.start_after) or "-"
        lines.append(f"| {item.name} | {item.component.replicas} | {what} | {resource} | {after} |")
    return [*lines, ""]


def _rehearsal(context: Context) -> list[str]:
    """What the simulation of these manifests says of updates and of lost nodes; nothing for a plan that was not rehearsed."""
    told = rehearsed(context.plan)
    if not told:
        return []
    rows = [f"- {about}: {text}" for about, text in told]
    return ["## What the scheduler will do", "", "Played on the cluster that the plan was made for.", "", *rows, ""]


def _before(context: Context, parts: tuple[NodePart, ...]) -> list[Step]:
    plan, service = context.plan, context.service
    namespace = plan.namespace
    made = [
        Step(
            "Look at where you are",
            "The plan was made for one state of one cluster. When GPUs, their holders or the plugin's configuration have "
            "changed since, plan again.",
            ("kubectl config current-context", f"kubectl get namespace {namespace} || kubectl create namespace {namespace}"),
        )
    ]
    secrets = [*service.image_pull_secrets, *([service.model_token_secret.name] if service.model_token_secret else [])]
    if secrets:
        made.append(
            Step(
                "Make sure that the Secrets exist",
                "ragstow knows them by name only.",
                tuple(f"kubectl -n {namespace} get secret {name}" for name in dict.fromkeys(secrets)),
            )
        )
    classes = list(dict.fromkeys(item.planned.runtime_class for item in context.items if item.planned.runtime_class))
    if classes:
        made.append(
            Step(
                "Make sure that the RuntimeClass exists",
                "On these nodes the NVIDIA runtime is not the default one.",
                tuple(f"kubectl get runtimeclass {name}" for name in classes),
            )
        )
    if any(item.slot.mode == "dra" for item in context.items):
        device_classes = list(
            dict.fromkeys(claims.kind_of(item).device_class for item in context.items if item.slot.mode == "dra")
        )
        made.append(
            Step(
                "Make sure that the DRA driver offers the cards",
                "",
                tuple(f"kubectl get deviceclass {name}" for name in device_classes),
                ("kubectl get resourceslices",),
                "a slice of driver gpu.nvidia.com for every node",
            )
        )
    objects = [path for part in parts for path in part.objects]
    made.append(
        Step(
            "Let the API server try it",
            "Nothing is stored; admission, quotas and names are checked.",
            (
                "kubectl apply -k workloads/ --dry-run=server",
                *(f"kubectl apply -f {path} --dry-run=server" for path in objects),
            ),
        )
    )
    return made


def _disturbed(context: Context) -> list[str]:
    lines: list[str] = []
    for layout in context.changed:
        lines.append(f"- **{layout.node}**: {'; '.join(layout.changes)}.")
        if layout.disturbs:
            lines.append(f"  Disturbs: {', '.join(layout.disturbs)}.")
    return [*lines, ""]


def start_order(context: Context) -> list[list[Item]]:
    """The components in waves: each wave starts when those before it are ready."""
    waves: list[list[Item]] = []
    done: set[str] = set()
    left = list(context.items)
    while left:
        wave = [item for item in left if all(name in done for name in item.planned.start_after)] or left
        waves.append(wave)
        done.update(item.name for item in wave)
        left = [item for item in left if item.name not in done]
    return waves


def _workloads(context: Context, workload_files: tuple[str, ...]) -> list[Step]:
    namespace = context.plan.namespace
    waves = start_order(context)
    shared = [path for path in workload_files if path == "workloads/claims.yaml"]
    if len(waves) == 1:
        rollouts = [line for item in context.items for line in _rollouts(context, item)]
        return [
            Step(
                "Apply the workloads",
                "The first start loads the models; the start-up probes allow for a slow line.",
                ("kubectl apply -k workloads/", *rollouts),
                (f"kubectl -n {namespace} get pods -l {names.SERVICE}={context.service.name} -o wide",),
                "every pod Running and ready",
            )
        ]
    made: list[Step] = []
    for number, wave in enumerate(waves):
        listed = ", ".join(item.name for item in wave)
        waits = [item for item in wave if wait_container(context, item) is not None]
        text = (
            "Components that share cards start one after the other: an engine that checks free memory at its start must not "
            "meet one that is still loading."
            if number == 0
            else f"Only when {', '.join(dict.fromkeys(name for item in wave for name in item.planned.start_after))} is ready."
        )
        if waits:
            text += f" The pods of {', '.join(item.name for item in waits)} also wait for that by themselves (init container, "
            text += f"at most {WAIT_SECONDS // 60} minutes)."
        made.append(
            Step(
                f"Apply {listed}",
                text,
                (
                    *(f"kubectl apply -f {path}" for path in (shared if number == 0 else ())),
                    *(f"kubectl apply -f workloads/{item.name}.yaml" for item in wave),
                    *(line for item in wave for line in _rollouts(context, item)),
                ),
            )
        )
    return made


def _rollouts(context: Context, item: Item) -> list[str]:
    minutes = start_seconds(item) // 60 + 10
    return [
        f"kubectl -n {context.plan.namespace} rollout status {'statefulset' if unit.stateful else 'deployment'}/{unit.name} "
        f"--timeout={minutes}m"
        for unit in units(context, item)
    ]


def _acceptance(context: Context) -> list[Step]:
    namespace = context.plan.namespace
    made: list[Step] = []
    with_gpu = [item for item in context.items if item.has_gpu]
    if with_gpu:
        commands: list[str] = []
        for item in with_gpu:
            selector = f"{names.SERVICE}={context.service.name},{names.COMPONENT}={item.name}"
            commands.append(
                f"for pod in $(kubectl -n {namespace} get pods -l {selector} -o name); do "
                f"kubectl -n {namespace} exec $pod -c {item.name} -- nvidia-smi -L; done"
            )
        expect = "; ".join(f"{item.name}: {_devices(item)}" for item in with_gpu)
        made.append(Step("nvidia-smi in every pod", f"Expect {expect}.", tuple(commands)))
        log = f"{KUBELET_LOG} | grep -iE 'nvidia.com|UnexpectedAdmission'"
        made.append(
            Step(
                "What the kubelet says",
                "On each node that runs a pod of the service: no device was refused.",
                (f'ssh NODE "{log}"',),
                (f"kubectl -n {namespace} get pods --field-selector status.phase=Failed",),
                "none of the service",
            )
        )
    answers = [item for item in context.items if health_url(item) is not None]
    if answers:
        made.append(
            Step(
                "Every endpoint answers",
                "",
                tuple(
                    f"kubectl get --raw /api/v1/namespaces/{namespace}/services/{names.of(item)}:http/proxy"
                    f"{item.serving.ready or item.serving.health if item.serving else ''}"
                    for item in answers
                ),
                (),
            )
        )
    served = [item for item in context.items if item.port is not None]
    if served:
        lines = "; ".join(f"{item.name}: {port_name(item)}://{names.of(item)}.{namespace}.svc:{item.port}" for item in served)
        made.append(Step("Where clients find it", f"{lines}."))
    return made


def _devices(item: Item) -> str:
    cards = max(item.slot.count, claims.kind_of(item).count if item.slot.mode == "dra" else 1)
    if item.slot.profile:
        return f"one card with {cards} MIG {item.slot.profile} device{'s' if cards > 1 else ''}"
    return f"{cards} GPU{'s' if cards > 1 else ''}" + (f" ({item.slot.product})" if item.slot.product else "")


def _undo(context: Context, parts: tuple[NodePart, ...]) -> list[Step]:
    namespace, selector = context.plan.namespace, f"{names.SERVICE}={context.service.name}"
    made = [
        Step(
            "Remove the workloads",
            "A model cache goes with them; claims that a StatefulSet made stay with their data, and the check shows them.",
            ("kubectl delete -k workloads/",),
            (f"kubectl -n {namespace} get pods,persistentvolumeclaims -l {selector}",),
            "no pods",
        )
    ]
    for part in reversed(parts):
        made += part.undo
    return made
