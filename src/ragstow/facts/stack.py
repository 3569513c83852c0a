"""The programs of the GPU stack and how their pods are recognised; and what known failures look like in logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ragstow.facts.literals import required
from ragstow.facts.table import Date, Table, Text


@dataclass(frozen=True, slots=True)
class StackProgram:
    """A program of the GPU stack.

    Recognised by a container's name (`containers`; `name@image` where the name alone is too common), which wins, or by the
    last path segment of its image (`images`); the device plugin, GFD and the MPS daemon share one image and one set of pod
    labels, so that the container decides. `foreign` are earlier segments of an image that make it another vendor's
    (docker.io/rocm/k8s-device-plugin).
    """

    role: Text
    title: Text
    containers: tuple[str, ...]
    images: tuple[str, ...]
    source: Text
    checked: Date
    foreign: tuple[str, ...] = ()


def _segments(image: str) -> list[str]:
    """The path of an image, the last segment without tag and digest."""
    *path, last = image.split("@", 1)[0].split("/")
    return [*path, last.split(":", 1)[0]]


@dataclass(frozen=True, slots=True)
class Signature:
    """A line that a program prints when something specific is wrong.

    `pattern` is a Python regular expression; named groups carry numbers. `cause` is the slug it speaks for ("none": nothing is
    wrong, but rules want to know), `strong` whether the line alone proves it. `versions`: those of `software` that print it.
    `without_driver`: it comes as well where the container has no driver; `free_memory`: the program looks at the memory that is
    free, so that a neighbour's share counts; `passing`: programs that work without a GPU say it too, and go on.
    """

    id: Text
    software: Text
    pattern: Text
    cause: Text
    source: Text
    checked: Date
    strong: bool = True
    versions: str = ""
    meaning: str = ""
    without_driver: bool = False
    free_memory: bool = False
    passing: bool = False


def _check_signature(row: Signature) -> Iterable[str]:
    try:
        re.compile(row.pattern)
    except re.error as error:
        yield f"pattern is no regular expression: {error}"


PROGRAMS = Table("gpu_stack.yaml", StackProgram, ("role",))
SIGNATURES = Table("log_signatures.yaml", Signature, ("id",), _check_signature)


@dataclass(frozen=True)
class Stack:
    """Programs by container and image."""

    programs: tuple[StackProgram, ...]

    def role(self, name: str) -> StackProgram | None:
        """The program with this role."""
        return next((program for program in self.programs if program.role == name), None)

    @cached_property
    def _by_container(self) -> Mapping[str, StackProgram]:
        return {name: program for program in self.programs for name in program.containers}

    @cached_property
    def _by_image(self) -> Mapping[str, StackProgram]:
        return {name: program for program in reversed(self.programs) for name in program.images}

    def program(self, container: str, image: str) -> StackProgram | None:
        """The program that a container runs, or None."""
        *path, last = _segments(image)
        found = self._by_image.get(last)
        return self._named(container, image) or (
            found if found is not None and not set(found.foreign).intersection(path) else None
        )

    def _named(self, container: str, image: str) -> StackProgram | None:
        return self._by_container.get(f"{container}@{_segments(image)[-1]}") or self._by_container.get(container)

    def programs_of(self, containers: Iterable[tuple[str, str]]) -> tuple[StackProgram, ...]:
        """The programs of a pod's containers, given as (name, image): images count only where no container's name is known,
        since helpers of one program (an init container of the MPS daemon) run the image of another."""
        listed = tuple(containers)
        named = [program for name, image in listed if (program := self._named(name, image)) is not None]
        found = named or [program for name, image in listed if (program := self.program(name, image)) is not None]
        return tuple({program.role: program for program in found}.values())


@dataclass(frozen=True)
class Signatures:
    """Signatures by id and cause, compiled once."""

    rows: tuple[Signature, ...]

    @cached_property
    def compiled(self) -> tuple[tuple[Signature, re.Pattern[str]], ...]:
        """Each with its compiled pattern."""
        return tuple((row, re.compile(row.pattern)) for row in self.rows)

    @cached_property
    def _by_literal(self) -> Mapping[str, tuple[int, ...]]:
        """Literal -> the signatures that may match in a text that holds it; "" for those that may match anywhere."""
        table: dict[str, list[int]] = {}
        for index, row in enumerate(self.rows):
            for literal in sorted(required(row.pattern)) or ("",):
                table.setdefault(literal, []).append(index)
        return {literal: tuple(found) for literal, found in table.items()}

    def search(self, text: str) -> Iterator[tuple[Signature, re.Match[str]]]:
        """Every signature found in a text with its first match, in the order of the table."""
        lower = text.lower()
        candidates = {index for literal, found in self._by_literal.items() if literal in lower for index in found}
        for index in sorted(candidates):
            row, pattern = self.compiled[index]
            match = pattern.search(text)
            if match:
                yield row, match

    def for_cause(self, *causes: str) -> tuple[tuple[Signature, re.Pattern[str]], ...]:
        """Those that speak for one of these causes."""
        return tuple(pair for pair in self.compiled if pair[0].cause in causes)
