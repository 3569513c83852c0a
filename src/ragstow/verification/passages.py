"""The texts of the round trip: two documents with an invented fact each, a question about one, and the prompt.

The facts are in no training data, so the answer can come from nowhere but the retrieved text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A document and the code word that only it has."""

    text: str
    word: str


PASSAGES = (
    Passage("The greenhouse of Kestrin is watered on Thursdays. The code word of the greenhouse is SILVERPIKE.", "SILVERPIKE"),
    Passage(
        "The pumping station of Tulvaro runs at night. The code word of the pumping station at Tulvaro is AMBERFOX.", "AMBERFOX"
    ),
)
RIGHT = 1
"""The index of the passage that answers the question; not the first, so that an order nobody made does not look right."""
QUESTION = "What is the code word of the pumping station at Tulvaro?"


def prompt(texts: Sequence[str]) -> str:
    """What the language model is asked, with the retrieved texts in their order."""
    numbered = "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))
    return (
        f"Answer the question from these passages only.\n\n{numbered}\n\nQuestion: {QUESTION}\n"
        "Reply with the code word and nothing else.\nAnswer:"
    )


def cites(answer: str) -> bool:
    """Whether an answer names the code word of the right passage and that of no other."""
    said = set(re.findall(r"[A-Z]+", answer.upper()))
    return {passage.word for passage in PASSAGES} & said == {PASSAGES[RIGHT].word}
