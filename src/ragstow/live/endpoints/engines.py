"""One replica of an LLM server, embedder or reranker: is it healthy, does it serve its model, does its answer make sense."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ragstow.live.endpoints import ask
from ragstow.live.endpoints.http import Failed, Server
from ragstow.live.endpoints.notes import Found, Notes, took
from ragstow.live.endpoints.targets import Target
from ragstow.verification import answers, vectors
from ragstow.verification.answers import Malformed, Vector
from ragstow.verification.model import ObjectRef
from ragstow.verification.passages import PASSAGES, QUESTION, RIGHT

_GREETING = "Reply with the word ready."
_FEW_TOKENS = 32
_TEXTS = tuple(passage.text for passage in PASSAGES)


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica that was checked: whether all went well, the model name it answers to, a vector of a known text."""

    pod: ObjectRef
    works: bool
    model: str | None
    vector: Vector | None = None


def replica(server: Server, target: Target, notes: Notes) -> Replica:
    """Check one replica by its role.

    Args:
        server: its port.
        target: the component.
        notes: where outcomes go.
    """
    checks = _Checks(server, target, notes)
    if not checks.health():
        return Replica(server.pod, False, target.model)
    works, vector = checks.models(), None
    if target.role == "llm":
        works &= checks.language()
    elif target.role == "embedder":
        fine, vector = checks.embedding()
        works &= fine
    elif target.role == "reranker":
        works &= checks.order()
    return Replica(server.pod, works, checks.model, vector)


class _Checks:
    def __init__(self, server: Server, target: Target, notes: Notes) -> None:
        self.server = server
        self.target = target
        self.notes = notes
        self.model = target.model

    def health(self) -> bool:
        path = self.target.health
        if path is None:
            return True

        def look() -> Found:
            answer = self.server.get(path)
            said = f"HTTP {answer.status} in {took(answer.seconds)}"
            return Found(said, True, (self.server.evidence("GET", path, None, said),))

        return self._attempt("endpoint-health", f"HTTP 200 on {path}", look)

    def models(self) -> bool:
        call = self.target.paths.models if self.target.paths else None
        if call is None:
            return True
        expected = self.target.model

        def look() -> Found:
            answer = self.server.get(call.path)
            if answer.data is None:
                raise Failed("not-json", f"GET {call.path}: no JSON: {answers.shown(answer.text)}")
            served = answers.models(answer.data, call.style)
            same = expected is None or expected in served
            any_name = self.target.paths is not None and self.target.paths.any_model
            if not same or expected is None:
                # Whatever it serves can still be asked; the other checks say more when they are made.
                self.model = served[0]
            seen = self.server.evidence("GET", call.path, None, answers.shown(answer.text))
            hint = "another model is loaded than was described, or it is served under another name"
            return Found(", ".join(served), same or any_name, (seen,), hint)

        return self._attempt("endpoint-models", expected or "a model is loaded", look)

    def language(self) -> bool:
        """Whether it replies through both of its calls; one of them may be absent."""
        paths = self.target.paths
        if paths is None or paths.chat is None or paths.completion is None:
            return True
        chat, completion = paths.chat, paths.completion
        results = [
            self._speaks(
                "endpoint-chat",
                lambda: ask.chat(self.server, chat, self.model, _GREETING, _FEW_TOKENS),
                lambda failure: ask.without_chat(failure) and not _unknown_model(failure),
            ),
            self._speaks(
                "endpoint-completion",
                lambda: ask.complete(self.server, completion, self.model, _GREETING, _FEW_TOKENS),
                ask.no_path,
            ),
        ]
        if results == [None, None]:
            found = Found(f"neither {chat} nor {completion} is served", False, hint="it was not started as a language model")
            return self._check("endpoint-chat", "a reply", found)
        return all(result is not False for result in results)

    def _speaks(self, name: str, call: Callable[[], ask.Said], absent: Callable[[Failed], bool]) -> bool | None:
        """Whether a call gives a reply; None, with a remark, where the model has no such call."""
        said: ask.Said | None = None
        error: Exception | None = None
        try:
            said = call()
        except (Failed, Malformed) as failure:
            if isinstance(failure, Failed) and absent(failure):
                self.notes.remark(f"{self.target.component}: not asked through this call: {failure.text}")
                return None
            error = failure

        def look() -> Found:
            if said is None:
                assert error is not None
                raise error
            return _replied(said)

        return self._attempt(name, "a reply", look)

    def embedding(self) -> tuple[bool, Vector | None]:
        """Whether the vectors are as they should be; the one of the first text."""
        paths, size = self.target.paths, self.target.dimensions
        if paths is None or paths.embed is None:
            return True, None
        first: list[Vector] = []
        expected = f"{len(_TEXTS)} vectors of finite numbers"

        def look() -> Found:
            got = ask.embed(self.server, paths, self.model, _TEXTS)
            bad = [vectors.broken(vector) for vector in got.vectors]
            sizes = sorted({len(vector) for vector in got.vectors})
            text = f"{len(got.vectors)} vectors of {' and '.join(map(str, sizes))} numbers in {took(got.seconds)}"
            if any(bad):
                hint = "half precision overflows in some models: try dtype bfloat16 or float32"
                return Found(f"{text}, {sum(bad)} of them not finite", False, (got.evidence,), hint)
            if not all(any(vector) for vector in got.vectors):
                return Found(f"{text}, all zero", False, (got.evidence,))
            first.extend(got.vectors)
            return Found(text, True, (got.evidence,))

        if not self._attempt("endpoint-embedding", expected, look):
            return False, None
        one, other = first[0], first[1]
        fine = True
        if size is not None:
            hint = f"{self.target.dimensions_from}: describe what the model gives, or load the model that was meant"
            found = Found(f"{len(one)} numbers", len(one) == len(other) == size, hint=hint)
            fine &= self._check("embedding-dimension", f"{size} numbers ({self.target.dimensions_from})", found)
        if paths.normalised:
            lengths = [vectors.length(vector) for vector in (one, other)]
            text = " and ".join(f"{number:.4f}" for number in lengths)
            found = Found(text, all(map(vectors.normalised, (one, other))), hint="search by inner product would rank wrongly")
            fine &= self._check("embedding-length", "length 1", found)
        alike = vectors.cosine(one, other)
        found = Found(
            f"cosine {alike:.4f}",
            alike < vectors.DIFFERENT,
            hint="every text gets the same vector: the model's weights are wrong",
        )
        fine &= self._check("embedding-distinct", f"two texts differ: cosine below {vectors.DIFFERENT}", found)
        return self._again(one) and fine, one

    def _again(self, before: Vector) -> bool:
        paths = self.target.paths
        assert paths is not None

        def look() -> Found:
            got = ask.embed(self.server, paths, self.model, _TEXTS[:1])
            alike = vectors.cosine(got.vectors[0], before)
            return Found(f"cosine {alike:.4f}", alike >= vectors.SAME, (got.evidence,), "its answers depend on chance")

        return self._attempt("embedding-repeatable", f"one text twice: cosine {vectors.SAME} or more", look)

    def order(self) -> bool:
        paths = self.target.paths
        if paths is None or paths.rerank is None:
            return True

        def look() -> Found:
            return ranked(ask.rerank(self.server, paths, self.model, QUESTION, _TEXTS))

        return self._attempt("endpoint-rerank", f"passage {RIGHT + 1} before the other", look)

    def _attempt(self, name: str, expected: str, look: Callable[[], Found]) -> bool:
        return self.notes.attempt(name, self.target.component, self.server.pod, expected, look)

    def _check(self, name: str, expected: str, found: Found) -> bool:
        return self.notes.check(name, self.target.component, self.server.pod, expected, found)


def ranked(got: ask.Ranked) -> Found:
    """Whether the passage that answers the question came first, and how far before the other."""
    scores = [score for _, score in got.ranking]
    if not all(map(math.isfinite, scores)):
        return Found(f"scores that are not finite: {scores}", False, (got.evidence,))
    best = got.ranking[0][0]
    text = f"passage {best + 1} first, scores {', '.join(f'{score:.4g}' for score in scores)}, in {took(got.seconds)}"
    hint = "the model is no reranker, or its scores are read the wrong way round"
    return Found(text, best == RIGHT and scores[0] > scores[1], (got.evidence,), hint)


def _replied(said: ask.Said) -> Found:
    reply = said.reply
    if not reply.text and not reply.tokens:
        return Found(
            "an empty reply", False, (said.evidence,), "the model says nothing: look at its chat template and stop words"
        )
    tokens = f"{reply.tokens} tokens" if reply.tokens is not None else f"{len(reply.text)} letters"
    return Found(f"{tokens} in {took(said.seconds)}: {answers.shown(reply.text)}", True, (said.evidence,))


def _unknown_model(failure: Failed) -> bool:
    return failure.status == 404 and "model" in failure.text.lower()
