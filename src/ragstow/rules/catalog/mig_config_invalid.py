"""A MIG layout does not parse, is not in the configuration, or asks for what the card does not have.

What
    `nvidia.com/mig.config` names a layout that the MIG manager's configuration lacks, the configuration is refused by its
    parser, or it names a profile that the card cannot be cut into; `nvidia.com/mig.config.state` is `failed`.

Why
    The cards keep their old cut, and pods that ask for the new slices wait: for the scheduler their resource does not exist.

Fix
    Mend the configuration (`devices: all` or a list, profiles of this card), add the layout, or set the label to one that exists.

References
    - mig-parted: configuration file
    - NVIDIA GPU Operator: MIG manager, mig.config.state

Fires: the label names a layout that is not there
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/mig.config: rag-20gb, nvidia.com/mig.config.state: failed, nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
    status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 8}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator, uid: c}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-disabled: [{devices: all, mig-enabled: false}]

Fires: the file does not parse
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/mig.config: all-1g.5gb, nvidia.com/mig.config.state: failed, nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB}}
    status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 8}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator, uid: c}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-1g.5gb: [{devices: 7, mig-enabled: true, mig-devices: {1g.5gb: 7}}]

Fires: an event of the MIG manager's pod is all there is
    apiVersion: v1
    kind: Event
    metadata: {name: mig.1, namespace: gpu-operator, uid: e}
    involvedObject: {kind: Pod, name: nvidia-mig-manager-7c, namespace: gpu-operator, uid: a}
    reason: FailedMount
    message: 'MountVolume.SetUp failed for volume "mig-parted-config" : configmap references non-existent config key: config.yaml'

Quiet: the layout exists and was applied
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/mig.config: all-disabled, nvidia.com/mig.config.state: success, nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
    status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 8}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator, uid: c}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-disabled: [{devices: all, mig-enabled: false}]

Fires (lint): a bare number
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          one: [{devices: 0, mig-enabled: true, mig-devices: {1g.5gb: 7}}]

Quiet (lint): a list
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          one: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}]
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from ragstow.cluster.objects import KubeObject, Node
from ragstow.rules.configs import ConfigText, config_texts, layouts, trouble
from ragstow.rules.context import Context
from ragstow.rules.engines import is_device
from ragstow.rules.grouping import by_workload, evidence, said_by
from ragstow.rules.manifests import LintContext
from ragstow.rules.mig_changes import CONFIG, STATE, is_stuck
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import waiting


class MigConfigInvalid(Rule):
    """See the page above."""

    cause = "mig-config-invalid"
    severity = "high"
    needs = frozenset({"snapshot", "logs", "manifest"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each layout that failed, with its nodes and what waits for its slices."""
        configs = [config for config in config_texts(context.snapshot.of("ConfigMap")) if config.kind == "mig"]
        failed: dict[str, list[Node]] = {}
        for node in context.snapshot.nodes:
            if node.labels.get(STATE) == "failed" and not is_stuck(context, node):
                failed.setdefault(node.labels.get(CONFIG, ""), []).append(node)
        for name, nodes in failed.items():
            yield self._failed(context, name, nodes, configs)
        hits = [hit for hit in context.texts.of_cause(self.cause, strong=True) if hit.signature.software == "mig-parted"]
        broken = [config for config in configs if trouble(config)]
        stuck = any(is_stuck(context, node) for node in context.snapshot.nodes)
        yield from self._wrong_key(context)
        if not failed and not stuck and (hits or broken):
            refs = [ObjectRef.of(config.map) for config in broken]
            text = trouble(broken[0])[0] if broken else hits[0].text.value.strip()
            pods = [
                hit.text.pod for hit in hits if hit.text.pod is not None and "mig-manager" in context.stack.roles(hit.text.pod)
            ]
            nameless = [hit for hit in hits if hit.text.pod is None and "mig" in (hit.text.evidence.file or "").lower()]
            if broken or pods or nameless:
                yield self.finding(
                    f"the MIG configuration is refused: {text}",
                    "The MIG manager cannot read it, so that no layout is applied.",
                    _fix(None),
                    (*refs, *map(ObjectRef.of, pods)),
                    evidence=(
                        *evidence(hits),
                        *(Evidence(trouble(c)[0], ObjectRef.of(c.map), f"data[{c.key}]") for c in broken),
                    ),
                    severity="medium",
                )

    def _wrong_key(self, context: Context) -> Iterator[Finding]:
        """A MIG manager that cannot start, since its ConfigMap has the file under another key."""
        hits = [
            hit
            for hit in context.texts.of_cause(self.cause)
            if hit.signature.software == "kubelet" and said_by(context, hit, "mig-manager")
        ]
        for site, members in by_workload(context, hits):
            key = members[0].match["key"]
            maps = [c.map for c in config_texts(context.snapshot.of("ConfigMap")) if c.kind == "mig" and c.key != key]
            yield self.finding(
                f"{site.words} cannot start: its ConfigMap has no key {key}"
                + (f" ({ObjectRef.of(maps[0])} has {', '.join(sorted(maps[0].raw['data']))})" if maps else ""),
                "The MIG manager mounts the file under that name only; until it is there no layout is applied.",
                Fix(
                    f"Put the configuration under the key {key}.",
                    command=f"kubectl -n {maps[0].namespace} edit configmap {maps[0].name}" if maps else "",
                    check="the MIG manager's pod starts by itself",
                ),
                (*site.objects, *map(ObjectRef.of, maps[:1])),
                evidence=evidence(members),
                held=site.pods,
                confidence="certain",
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each configuration that mig-parted refuses."""
        for manifest in context.of("ConfigMap"):
            for config in config_texts((manifest.object,)):
                wrong = trouble(config) if config.kind == "mig" else ()
                if wrong:
                    ref = ObjectRef.of(manifest.object)
                    yield self.finding(
                        f"{ref} key {config.key}: mig-parted refuses it: {wrong[0]}",
                        "The MIG manager reads the file strictly and applies nothing of it.",
                        _fix(None),
                        (ref,),
                        evidence=(Evidence(wrong[0], ref, f"data[{config.key}]"),),
                        severity="medium",
                        file=manifest.file,
                        line=manifest.line("data", config.key),
                    )

    def _failed(self, context: Context, name: str, nodes: list[Node], configs: list[ConfigText]) -> Finding:
        broken = [config for config in configs if trouble(config)]
        known = sorted({layout for config in configs for layout in layouts(config.text)})
        missing = bool(configs) and not broken and name not in known
        hits = [hit for hit in context.texts.of_cause(self.cause) if hit.signature.software == "mig-parted"]
        groups = [
            group
            for group in waiting(context)
            if any(is_device(r) and "/mig-" in r and not _offered(context, r) for r in group.wants)
        ]
        why = (
            f"no configuration has a layout of that name ({', '.join(known[:8])}{', …' if len(known) > 8 else ''})"
            if missing
            else f"its file is refused: {trouble(broken[0])[0]}"
            if broken
            else "the MIG manager could not apply it"
        )
        return self.finding(
            f"MIG layout {name} failed on {', '.join(node.name for node in nodes)}: {why}",
            "The cards keep their old cut."
            + (
                f" {sum(len(group.pods) for group in groups)} pod(s) wait for slices that are offered nowhere."
                if groups
                else ""
            ),
            _fix(nodes[0].name, name, known, next((config.map for config in (broken or configs)), None)),
            (
                *map(ObjectRef.of, nodes),
                *(group.workload for group in groups),
                *(ObjectRef.of(config.map) for config in (broken or configs)),
            ),
            evidence=(
                *(
                    Evidence(node.labels[key], ObjectRef.of(node), f"metadata.labels[{key}]")
                    for node in nodes[:2]
                    for key in (CONFIG, STATE)
                    if key in node.labels
                ),
                *(Evidence(trouble(config)[0], ObjectRef.of(config.map), f"data[{config.key}]") for config in broken),
                *evidence(hits),
                *(entry for group in groups for entry in group.evidence[:1]),
            ),
            held=[key for group in groups for key in group.held],
            severity="high" if groups else "medium",
        )


def _offered(context: Context, resource: str) -> bool:
    return any(node.resources[resource].capacity for node in context.inventory.nodes if resource in node.resources)


def _fix(node: str | None, name: str = "", known: Sequence[str] = (), config: KubeObject | None = None) -> Fix:
    # Any other layout would cut the cards in a way that nobody asked for: only one of nearly the same name is offered.
    layout = next(iter(difflib.get_close_matches(name, [other for other in known if other != name], 1)), "")
    edit = f"kubectl -n {config.namespace} edit configmap {config.name}" if config is not None else ""
    return Fix(
        "Mend or add the layout in the MIG manager's ConfigMap (devices: all or a list; profiles of this card), or set the label to a "
        "layout that exists; then set the label again.",
        command=f"kubectl label node {node or '<node>'} {CONFIG}={layout} --overwrite"
        if layout and name not in known
        else edit,
        disruption="cards must be idle to be cut",
        check=f"kubectl get node {node or '<node>'} -L {CONFIG} -L {STATE}   # success",
    )
