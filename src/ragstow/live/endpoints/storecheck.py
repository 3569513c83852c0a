"""A vector store by itself: it keeps vectors of the described length, finds the nearest, and forgets them again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ragstow.cluster.objects import Pod
from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.endpoints import postgres, qdrant
from ragstow.live.endpoints.http import Failed
from ragstow.live.endpoints.notes import Found, Notes, took
from ragstow.live.endpoints.stores import NEAREST, Kept, made_up
from ragstow.live.endpoints.targets import Target
from ragstow.live.failures import Forbidden
from ragstow.verification.model import ObjectRef

if TYPE_CHECKING:
    from ragstow.live.endpoints.check import Reach

_SIZE = 8
"""The length of made-up vectors where the description names none."""


def check(reach: Reach, target: Target, pods: Sequence[Pod], notes: Notes) -> None:
    """Check the store of a component through each of its pods that answer."""
    size = target.dimensions or _SIZE
    vectors, query = made_up(size)
    expected = f"vectors of {size} numbers kept, the nearest found"
    for pod in pods:
        ref = target.ref(pod)
        try:
            kept: list[Kept] = []

            def look(pod: Pod = pod, kept: list[Kept] = kept) -> Found:
                kept.append(keep_and_find(reach, target, pod, vectors, query))
                return judged(kept[0], NEAREST)

            notes.attempt("store", target.component, ref, expected, look)
            for done in kept:
                forgotten(done, target, ref, notes)
        except (ClusterError, TimeoutReached) as error:
            not_asked("store", target, ref, error, notes)
    if target.paths is not None and target.paths.store == "qdrant" and len(pods) > 1:
        _one_store(reach, target, pods, size, notes)


def keep_and_find(
    reach: Reach, target: Target, pod: Pod, vectors: Sequence[tuple[float, ...]], query: tuple[float, ...]
) -> Kept:
    """Store, search, forget, in the store's own language.

    Raises:
        Failed, Malformed: the store has no usable answer.
        ClusterError, TimeoutReached: it cannot be reached.
    """
    if target.paths is not None and target.paths.store == "postgres":
        container = target.container(pod)
        name = container.name if container is not None else ""
        return postgres.keep_and_find(reach.client, pod, name, vectors, query, reach.options.timeout_seconds)
    with reach.server(target, pod) as server:
        qdrant.sweep(server)
        return qdrant.keep_and_find(server, vectors, query)


def judged(kept: Kept, nearest: int) -> Found:
    """Whether the right vector came first."""
    if not kept.nearest:
        return Found(f"{kept.about}: nothing found", False, kept.evidence, "it took the vectors and does not find them")
    order = ", ".join(f"{at + 1} ({score:.4f})" for at, score in kept.nearest)
    text = f"{kept.about}: found {order} in {took(kept.seconds)}"
    return Found(text, kept.nearest[0][0] == nearest, kept.evidence, "its distances are not those of the vectors")


def forgotten(kept: Kept, target: Target, ref: ObjectRef, notes: Notes) -> None:
    """Say where something could not be taken away again."""
    if kept.left is not None:
        hint = f"delete it: curl -X DELETE localhost:{target.port}/collections/{kept.left}"
        notes.check(
            "store-clean", target.component, ref, "nothing left behind", Found(f"{kept.left} is left", False, hint=hint)
        )


def not_asked(name: str, target: Target, ref: ObjectRef, error: ClusterError | TimeoutReached, notes: Notes) -> None:
    """A store whose pod cannot be asked. Where only a program is missing in it, its open port has to do."""
    if isinstance(error, Forbidden):
        notes.refused(name, target.component, ref, error)
        return
    optional = isinstance(error, ClusterError)
    notes.unseen(
        name,
        target.component,
        ref,
        str(error.message),
        f"kubectl -n {ref.namespace} exec {ref.name} -- psql --version",
        needed=not optional,
    )


def _one_store(reach: Reach, target: Target, pods: Sequence[Pod], size: int, notes: Notes) -> None:
    """Replicas behind one Service must be one store: what one keeps, all find."""
    vectors, query = made_up(size)
    first, name = target.ref(pods[0]), "store-replicas-agree"
    for pod in pods[1:]:
        ref = target.ref(pod)

        def look(pod: Pod = pod) -> Found:
            with ExitStack() as stack:
                one = stack.enter_context(reach.server(target, pods[0]))
                other = stack.enter_context(reach.server(target, pod))
                with qdrant.collection(one, size) as made:
                    made.keep(vectors)
                    hint = "the replicas are no cluster: each keeps its own vectors, and the Service mixes them"
                    try:
                        found = qdrant.seen_through(made, other, query)
                    except Failed as failure:
                        return Found(failure.text, False, tuple(made.seen), hint)
                    passed = bool(found) and found[0][0] == NEAREST
                    return Found("the same nearest" if passed else f"{found}", passed, tuple(made.seen), hint)

        try:
            notes.attempt(name, target.component, ref, f"finds what {first.name} keeps", look)
        except ClusterError as error:
            notes.refused(name, target.component, ref, error)
