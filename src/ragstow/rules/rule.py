"""The shape of a rule. A rule is one module in `catalog`: a docstring that is its page, and one class.

The module name is the rule's id with underscores; it names what is flagged, never the remedy. A rule may look at everything in
the context, and reports only through `Finding`. It must not import scheduling, sizing or simulate: their answers come through
the context.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal

from ragstow.rules.model import Confidence, Evidence, Finding, Fix, ObjectRef, Severity, Unknown

if TYPE_CHECKING:
    from ragstow.rules.context import Context
    from ragstow.rules.manifests import LintContext

Need = Literal["manifest", "snapshot", "events", "logs", "files", "probe"]


class Rule(ABC):
    """One rule.

    Attributes:
        cause: slug of the cause vocabulary.
        severity: of its findings, unless a finding says otherwise.
        since: version of ragstow that brought it.
        needs: the kinds of data it reads.
        asks_cluster: whether its lint says more when it is given the cluster.
    """

    cause: ClassVar[str]
    severity: ClassVar[Severity]
    since: ClassVar[str] = "0.1.0"
    needs: ClassVar[frozenset[Need]]
    asks_cluster: ClassVar[bool] = False

    @property
    def id(self) -> str:
        """The rule's name, from its module: `missing-toleration`."""
        return type(self).__module__.rpartition(".")[2].replace("_", "-")

    def diagnose(self, context: Context) -> Iterable[Finding | Unknown]:  # noqa: ARG002 - a rule overrides what it can do
        """What is wrong in a cluster. A symptom is required: what merely looks unwise belongs to `lint`."""
        return ()

    def lint(self, context: LintContext) -> Iterable[Finding | Unknown]:  # noqa: ARG002 - a rule overrides what it can do
        """What is wrong in manifests, alone or against a cluster."""
        return ()

    def finding(
        self,
        headline: str,
        explanation: str,
        fix: Fix,
        objects: Iterable[ObjectRef],
        *,
        evidence: Iterable[Evidence] = (),
        held: Iterable[str] = (),
        confidence: Confidence = "certain",
        severity: Severity | None = None,
        since: str | None = None,
        changed: Iterable[str] = (),
        file: str | None = None,
        line: int | None = None,
    ) -> Finding:
        """A finding of this rule; objects and held pods each once, in the order given."""
        return Finding(
            rule=self.id,
            cause=self.cause,
            severity=severity or self.severity,
            confidence=confidence,
            headline=headline,
            explanation=explanation,
            fix=fix,
            objects=tuple(dict.fromkeys(objects)),
            evidence=tuple(dict.fromkeys(evidence)),
            held=tuple(dict.fromkeys(held)),
            since=since,
            changed=tuple(changed),
            file=file,
            line=line,
        )
