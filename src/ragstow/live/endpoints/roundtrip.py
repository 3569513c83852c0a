"""The whole way of a question: embed two documents, keep them, find them, rank them, and ask the language model.

Every stage is a check. A stage whose component the service lacks, or that failed, is left out (a remark says so) and the next
one goes on with what there is: vectors are then compared here, texts stay in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstow.cluster.objects import Pod
from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.endpoints import ask, storecheck
from ragstow.live.endpoints.engines import Replica, ranked
from ragstow.live.endpoints.http import Failed, Server
from ragstow.live.endpoints.notes import Found, Notes, took
from ragstow.live.endpoints.stores import Kept
from ragstow.live.endpoints.targets import Target, Wanted
from ragstow.verification import answers, passages, vectors
from ragstow.verification.answers import Vector
from ragstow.verification.passages import PASSAGES, QUESTION, RIGHT

if TYPE_CHECKING:
    from ragstow.live.endpoints.check import Reach

_ANSWER_TOKENS = 512
"""Room for a model that thinks before it answers."""
_TEXTS = tuple(passage.text for passage in PASSAGES)
_STAGES = (("embedder", "embed"), ("vector-store", "store"), ("reranker", "rerank"), ("llm", "answer"))


@dataclass(frozen=True, slots=True)
class _Stop:
    """A component and the replica of it that is asked."""

    target: Target
    pod: Pod
    model: str | None


def check(reach: Reach, wanted: Wanted, working: Mapping[str, Replica], notes: Notes) -> None:
    """Send a question all the way.

    Args:
        reach: how pods are reached.
        wanted: the service.
        working: component -> the replica to ask.
        notes: where outcomes go.
    """
    stops = {role: [stop for target in wanted.of(role) if (stop := _stop(target, working))] for role, _ in _STAGES}
    if not reach.options.store:
        stops["vector-store"] = []
    asked = [role for role, _ in _STAGES if stops[role]]
    if len(asked) < 2:
        # One stage alone is what the checks of its replicas have shown.
        notes.remark(
            f"no round trip: of embedder, vector store, reranker and LLM there is only {asked[0] if asked else 'none'}"
        )
        return
    left = [f"{stage} ({_why(wanted, role, reach)})" for role, stage in _STAGES if not stops[role]]
    if left:
        notes.remark(f"round trip without {', '.join(left)}")
    trip = _Trip(reach, notes)
    order = tuple(range(len(_TEXTS)))
    found = trip.embed(stops["embedder"][0]) if stops["embedder"] else None
    if found is not None:
        order = (trip.store(stops["vector-store"][0], found) if stops["vector-store"] else None) or trip.compare(
            stops["embedder"][0], found
        )
    if stops["reranker"]:
        order = trip.rerank(stops["reranker"][0], order) or order
    for stop in stops["llm"]:
        trip.answer(stop, order)


def _why(wanted: Wanted, role: str, reach: Reach) -> str:
    """Why no component of a role is asked."""
    there = ", ".join(target.component for target in wanted.of(role))
    if not there:
        return f"there is no {role}"
    return (
        "nothing is to be kept" if role == "vector-store" and not reach.options.store else f"no replica of {there} can be asked"
    )


def _stop(target: Target, working: Mapping[str, Replica]) -> _Stop | None:
    """Where to stop for a component; None where no pod of it can be asked, or the facts do not know how."""
    replica = working.get(target.component)
    if replica is None or not replica.works or target.paths is None:
        return None
    asks = {"embedder": target.paths.embed, "vector-store": target.paths.store, "reranker": target.paths.rerank}
    if asks.get(target.role, target.paths.chat) is None:
        return None
    pod = next(pod for pod in target.pods if pod.name == replica.pod.name)
    return _Stop(target, pod, replica.model)


class _Trip:
    def __init__(self, reach: Reach, notes: Notes) -> None:
        self.reach = reach
        self.notes = notes

    def embed(self, stop: _Stop) -> tuple[tuple[Vector, ...], Vector] | None:
        """The vectors of the documents, and of the question."""
        paths = stop.target.paths
        assert paths is not None
        made: list[tuple[tuple[Vector, ...], Vector]] = []

        def look(server: Server) -> Found:
            texts = ask.embed(server, paths, stop.model, _TEXTS)
            question = ask.embed(server, paths, stop.model, (QUESTION,), query=True)
            every = (*texts.vectors, *question.vectors)
            seen = (texts.evidence, question.evidence)
            if any(map(vectors.broken, every)) or len({len(vector) for vector in every}) != 1:
                return Found("vectors that cannot be compared", False, seen)
            made.append((texts.vectors, question.vectors[0]))
            seconds = texts.seconds + question.seconds
            return Found(f"3 vectors of {len(every[0])} numbers in {took(seconds)}", True, seen)

        self._stage("rag-embed", stop, "vectors of two documents and a question", look)
        return made[0] if made else None

    def store(self, stop: _Stop, found: tuple[tuple[Vector, ...], Vector]) -> tuple[int, ...] | None:
        """The documents in the order in which the store finds them."""
        texts, question = found
        kept: list[Kept] = []
        target, ref = stop.target, stop.target.ref(stop.pod)

        def look() -> Found:
            kept.append(storecheck.keep_and_find(self.reach, target, stop.pod, texts, question))
            return storecheck.judged(kept[0], RIGHT)

        expected = f"both documents kept, passage {RIGHT + 1} nearest to the question"
        try:
            passed = self.notes.attempt("rag-store", target.component, ref, expected, look)
        except (ClusterError, TimeoutReached) as error:
            storecheck.not_asked("rag-store", target, ref, error, self.notes)
            return None
        for done in kept:
            storecheck.forgotten(done, target, ref, self.notes)
        if not kept or not passed:
            return None
        known = [at for at, _ in dict(kept[0].nearest).items() if 0 <= at < len(_TEXTS)]
        return (*known, *(at for at in range(len(_TEXTS)) if at not in known))

    def compare(self, stop: _Stop, found: tuple[tuple[Vector, ...], Vector]) -> tuple[int, ...]:
        """The documents in the order of their cosine with the question, without a store."""
        texts, question = found
        scores = [vectors.cosine(vector, question) for vector in texts]
        order = tuple(sorted(range(len(texts)), key=lambda at: (-scores[at], at)))
        text = ", ".join(f"passage {at + 1} ({scores[at]:.4f})" for at in order)
        self.notes.check(
            "rag-nearest",
            stop.target.component,
            stop.target.ref(stop.pod),
            f"passage {RIGHT + 1} nearest to the question",
            Found(text, order[0] == RIGHT, hint="the vectors say little about the texts: is it an embedding model?"),
        )
        return order

    def rerank(self, stop: _Stop, order: tuple[int, ...]) -> tuple[int, ...] | None:
        """The documents as the reranker orders them."""
        paths = stop.target.paths
        assert paths is not None
        made: list[tuple[int, ...]] = []

        def look(server: Server) -> Found:
            got = ask.rerank(server, paths, stop.model, QUESTION, [_TEXTS[at] for at in order])
            # Back from places in the order that was sent to numbers of passages.
            ranking = tuple((order[at], score) for at, score in got.ranking)
            made.append(tuple(at for at, _ in ranking))
            return ranked(ask.Ranked(ranking, got.seconds, got.evidence))

        self._stage("rag-rerank", stop, f"passage {RIGHT + 1} before the other", look)
        return made[0] if made else None

    def answer(self, stop: _Stop, order: tuple[int, ...]) -> None:
        """What the language model says to the question with the texts."""
        paths = stop.target.paths
        assert paths is not None
        prompt = passages.prompt([_TEXTS[at] for at in order])

        def look(server: Server) -> Found:
            assert paths.chat is not None
            try:
                said = ask.chat(server, paths.chat, stop.model, prompt, _ANSWER_TOKENS)
            except Failed as failure:
                if paths.completion is None or not ask.without_chat(failure):
                    raise
                said = ask.complete(server, paths.completion, stop.model, prompt, _ANSWER_TOKENS)
            text = answers.shown(said.reply.text) or "nothing"
            hint = "the model does not use the passages: is it instruction tuned, and is its chat template right?"
            if said.reply.finish == "length":
                hint = f"it did not come to an end in {_ANSWER_TOKENS} tokens"
            return Found(f"{text} in {took(said.seconds)}", passages.cites(said.reply.text), (said.evidence,), hint)

        word = PASSAGES[RIGHT].word
        self._stage("rag-answer", stop, f"{word}, which only passage {RIGHT + 1} says", look)

    def _stage(self, name: str, stop: _Stop, expected: str, look: Callable[[Server], Found]) -> None:
        ref = stop.target.ref(stop.pod)
        try:
            with self.reach.server(stop.target, stop.pod) as server:
                self.notes.attempt(name, stop.target.component, ref, expected, lambda: look(server))
        except ClusterError as error:
            self.notes.refused(name, stop.target.component, ref, error)
