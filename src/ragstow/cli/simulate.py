"""`ragstow simulate`: what kube-scheduler and the kubelets will do with these pods."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragstow.cli.options import cluster_options, facts_option, output_option
from ragstow.errors import InputError, Place, UsageError

if TYPE_CHECKING:
    from ragstow.cli.cluster import Cluster
    from ragstow.cli.simulateplan import Planned
    from ragstow.cluster.objects import KubeObject
    from ragstow.simulate.kubelets import KubeletFacts
    from ragstow.simulate.model import Simulation
    from ragstow.simulate.run import NewNodes, Request

_LARGEST_PLAN_BYTES = 4 << 20

EXAMPLES = """\b
Examples:
  ragstow simulate -f manifests/ --from cluster/             where every pod lands, or why not
  ragstow simulate -f out/ --from cluster/                   a folder of `ragstow render`, its changes of nodes done
  ragstow simulate --from cluster/                           what is Pending there, and what would help
  ragstow simulate -f service.yaml --from c/ --fail gpu-1    plan a service, place it, lose a node
  ragstow simulate -f llm.yaml --from c/ --rollout           does a rolling update go through?
  ragstow simulate -f llm.yaml --from c/ --fail gpu-a100-1   and when that node is lost?
  ragstow simulate -f llm.yaml --from c/ --add-nodes gpu-a100-1=2 --without rag/old-llm-0
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="PATH",
    help="Manifests, a plan or a service: file, folder or -; may be repeated.",
)
@cluster_options
@facts_option
@output_option()
@click.option("--only-files", is_flag=True, help="Leave pods that are Pending in the cluster out.")
@click.option(
    "--order", type=click.Choice(["queue", "list"]), default="queue", help="Queue: priority, then time. List: as given."
)
@click.option("--preemption", type=click.Choice(["on", "off"]), default="on", help="Whether pods may be evicted for others.")
@click.option(
    "--sampling",
    type=click.Choice(["all", "adaptive"]),
    default="all",
    help="Look at all nodes, or stop early as the scheduler does.",
)
@click.option("--ties", default="name", metavar="name|SEED", help="How equal nodes are told apart (default: name).")
@click.option("--policy", metavar="FILE", help="KubeSchedulerConfiguration to decide with (default: the release's profile).")
@click.option("--kubelet", "kubelet_file", metavar="FILE", help="KubeletConfiguration, NUMA nodes and devices of the nodes.")
@click.option("--scores", is_flag=True, help="Also scores and refusals node by node (JSON and YAML).")
@click.option("--rollout", is_flag=True, help="Then play a rolling update of every workload given, step by step.")
@click.option("--drain", multiple=True, metavar="NODE", help="Then drain this node within disruption budgets.")
@click.option("--fail", multiple=True, metavar="NODE", help="Then lose this node.")
@click.option("--without", multiple=True, metavar="POD", help="As if this pod (NAMESPACE/NAME) were not there.")
@click.option("--scale", multiple=True, metavar="KIND/NAME=N", help="As if this workload had N replicas.")
@click.option(
    "--add-nodes",
    multiple=True,
    metavar="SHAPE=N",
    help="As if there were N more nodes: like a node, of an instance type, from a file.",
)
def command(
    files: tuple[str, ...],
    from_: str | None,
    namespace: str | None,
    all_namespaces: bool,
    release: str | None,
    assumed: tuple[str, ...],
    facts: str | None,
    output: str,
    kubelet_file: str | None,
    **flags: Any,
) -> int:
    """Says where every pod will land, or why not, and what would help.

    Pods are those of the files (Deployments and the like make theirs) and those Pending in the cluster. Exit code 0: all
    placed, 1: not.
    """
    from ragstow.simulate.run import simulate

    only = None if all_namespaces else namespace
    inputs = _read(files, from_, facts=facts, assumed=assumed, release=release, as_listed=flags["order"] == "list")
    request = _request(flags, inputs.cluster, kubelet_file, only)
    answer = simulate(inputs.cluster.snapshot, inputs.given, request, inputs.cluster.facts)
    answer = replace(answer, assumptions=(*inputs.assumptions, *answer.assumptions))
    if only is not None:
        answer = of_namespace(answer, only)
    if output in ("json", "yaml"):
        from ragstow.cli.output import emit

        emit(document(answer, request, inputs.cluster), output)
    else:
        from ragstow.cli.simulatetext import lines

        for line in lines(answer, wide=output == "wide"):
            click.echo(line)
    return 0 if answer.ok else 1


@dataclass(frozen=True, slots=True)
class _Inputs:
    cluster: Cluster
    given: tuple[KubeObject, ...]
    assumptions: tuple[str, ...] = ()


def _read(
    files: Sequence[str],
    from_: str | None,
    *,
    facts: str | None,
    assumed: Sequence[str],
    release: str | None,
    as_listed: bool,
) -> _Inputs:
    from ragstow.cli import live
    from ragstow.cli.cluster import Cluster, open_cluster, warn
    from ragstow.cli.simulateplan import found as found_plan
    from ragstow.cli.simulateplan import found_folder
    from ragstow.cluster.read import read_manifests
    from ragstow.simulate.overlay import overlaid

    if [*files, from_].count("-") > 1:
        raise UsageError("stdin-twice", "standard input can be read once only: give - to -f or to --from")
    given: list[KubeObject] = []
    plans: list[Planned] = []
    for file in files:
        data = sys.stdin.buffer.read() if file == "-" else _small_text(file)
        planned = found_plan(data.decode("utf-8", "replace"), file) if data is not None else found_folder(file, facts)
        if planned is not None:
            plans.append(planned)
            continue
        listed, problems = read_manifests(file, stdin=BytesIO(data) if file == "-" and data is not None else None)
        warn(problems)
        given += listed
    if from_ is not None or live.given() or not any(item.kind == "Node" for item in given):
        cluster = open_cluster(from_, facts=facts, assumed=assumed, release=release, scheduling=True, as_listed=as_listed)
        given = [overlaid(cluster.snapshot, item) for item in given]
        return _with_plans(cluster, given, plans, tuple(assumed))
    # The files may hold the whole cluster.
    from ragstow.cluster.build import build
    from ragstow.cluster.objects import Pod
    from ragstow.cluster.release import detect
    from ragstow.cluster.snapshot import Source
    from ragstow.facts import load
    from ragstow.inventory.assume import parse
    from ragstow.inventory.build import inventory
    from ragstow.scheduling.behaviours import NEWEST
    from ragstow.simulate.arrivals import arrives, running

    empty = build([], source=Source("file", ", ".join(files)))
    whole = empty.replace(put=given)
    known = load(Path(facts) if facts is not None else None)
    found_release = detect(whole, newest_recorded=str(NEWEST), asked=release)
    # Where the files say what nodes there are, pods with a node are what runs there.
    placed = [running(item) for item in given if isinstance(item, Pod) and item.node is not None]
    standing = empty.replace(put=[*(item for item in given if not arrives(item)), *placed])
    given = [item for item in given if not (isinstance(item, Pod) and item.node is not None)]
    opened = Cluster(standing, inventory(whole, known, assumed=parse(assumed, whole, known)), found_release, known)
    return _with_plans(opened, given, plans, tuple(assumed))


def _small_text(file: str) -> bytes | None:
    """The content of a file that may be a plan or a service; None for folders, archives and what is too large for one."""
    path = Path(file)
    if not path.is_file() or path.suffix not in (".yaml", ".yml", ".json") or path.stat().st_size > _LARGEST_PLAN_BYTES:
        return None
    return path.read_bytes()


def _with_plans(cluster: Cluster, given: Sequence[KubeObject], plans: Sequence[Planned], assumed: tuple[str, ...]) -> _Inputs:
    from ragstow.cli.simulateplan import applied

    notes: list[str] = []
    objects = list(given)
    for planned in plans:
        cluster, rendered, taken = applied(planned, cluster, assumed)
        objects += rendered
        notes += taken
    return _Inputs(cluster, tuple(objects), tuple(notes))


def _request(flags: dict[str, Any], cluster: Cluster, kubelet_file: str | None, namespace: str | None) -> Request:
    from ragstow.simulate.run import Request

    ties: Any = flags["ties"]
    if ties != "name":
        try:
            ties = int(ties)
        except ValueError:
            raise UsageError("ties", f"--ties {ties}: neither `name` nor a whole number") from None
    return Request(
        release=cluster.release,
        order=flags["order"],
        preemption=flags["preemption"] == "on",
        sampling=flags["sampling"],
        ties=ties,
        policy=_policy(flags["policy"]),
        scores=flags["scores"],
        only_files=flags["only_files"],
        kubelets=_kubelets(kubelet_file),
        inventory=cluster.inventory,
        rollout=flags["rollout"],
        drain=flags["drain"],
        fail=flags["fail"],
        without=flags["without"],
        scale=tuple(_count(text, "--scale") for text in flags["scale"]),
        add_nodes=tuple(_new_nodes(text, cluster) for text in flags["add_nodes"]),
        namespace=namespace,
    )


def _count(text: str, flag: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isdigit():
        raise UsageError("count", f"{flag} {text}: not NAME=NUMBER")
    return name, int(number)


def _new_nodes(text: str, cluster: Cluster) -> NewNodes:
    """The shape may be a file: only then it is read, after the names of nodes and instance types."""
    from ragstow.cluster.read import read_manifests
    from ragstow.simulate.run import NewNodes

    shape, count = _count(text, "--add-nodes")
    known = cluster.snapshot.get("Node", shape) is not None or cluster.facts.instances.find(shape) is not None
    objects: tuple[KubeObject, ...] = ()
    if not known and Path(shape).exists():
        objects, _ = read_manifests(shape)
    return NewNodes(shape, count, objects)


def _documents(file: str) -> list[Any]:
    from ragstow import kubeyaml

    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError("unreadable", f"cannot be read: {reason}", place=Place(file)) from None
    return [document.value for document in kubeyaml.load_all(text, file=file)]


def _policy(file: str | None) -> dict[str, Any] | None:
    if file is None:
        return None
    documents = _documents(file)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError("policy-kind", "expected one KubeSchedulerConfiguration", place=Place(file))
    return documents[0]


def _kubelets(file: str | None) -> KubeletFacts | None:
    from ragstow.simulate.kubelets import kubelet_facts

    return kubelet_facts(_documents(file), file) if file is not None else None


def of_namespace(answer: Simulation, namespace: str) -> Simulation:
    """What is shown with -n: pods of one namespace, and what concerns them."""

    def own(key: str) -> bool:
        return key.startswith(f"{namespace}/")

    return replace(
        answer,
        pods=tuple(entry for entry in answer.pods if entry.namespace == namespace),
        final={key: node for key, node in answer.final.items() if own(key)},
        near_misses={key: miss for key, miss in answer.near_misses.items() if own(key)},
        displaced=tuple(item for item in answer.displaced if own(item.pod) or own(item.by)),
        loops=tuple(loop for loop in answer.loops if own(loop.workload.rpartition(" ")[2])),
        rollouts=tuple(item for item in answer.rollouts if own(item.workload.rpartition(" ")[2])),
        warnings=tuple(item for item in answer.warnings if own(item.text) or item.code != "event-differs"),
    )


def document(answer: Simulation, request: Request, cluster: Cluster) -> dict[str, Any]:
    """The `Simulation` document."""
    from ragstow.cli import output
    from ragstow.simulate.document import body

    return output.document("Simulation", body(answer, request), source=cluster.snapshot.source)
