"""An annotation that suppresses a rule has no reason, names no rule, or suppresses nothing.

What
    `ignore.ragstow.dev/<rule>` on an object or its pod template without a text that says why, with the name of a rule that does not
    exist, or of a rule that finds nothing on this object (any more).

Why
    A suppression that outlives its cause hides the next mistake of the same kind; one without a reason cannot be judged by anybody.

Fix
    Write the reason as the annotation's value, mend the name, or remove the annotation.

References
    - ragstow lint: suppression by annotation

Fires (lint): nothing to suppress
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, annotations: {ignore.ragstow.dev/gpu-limit-missing: runs on the processor}}
    spec: {containers: [{name: c, image: i, args: [--port, "8000"]}]}

Fires (lint): no reason
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, annotations: {ignore.ragstow.dev/gpu-limit-missing: ""}}
    spec: {containers: [{name: c, image: i, args: [--tensor-parallel-size, "2"]}]}

Fires (lint): no such rule
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, annotations: {ignore.ragstow.dev/gpu-limits-missing: runs on the processor}}
    spec: {containers: [{name: c, image: i}]}

Quiet (lint): it suppresses a finding and says why
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, annotations: {ignore.ragstow.dev/gpu-limit-missing: the cards come from a wrapper}}
    spec: {containers: [{name: c, image: i, args: [--tensor-parallel-size, "2"]}]}
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.registry import get, names
from ragstow.rules.rule import Rule
from ragstow.rules.suppression import PREFIX, Suppression, suppressions


class UselessSuppression(Rule):
    """See the page above."""

    cause = "useless-suppression"
    severity = "low"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each such annotation."""
        for item in suppressions(context):
            wrong = self._wrong(context, item)
            if wrong:
                ref = ObjectRef.of(item.manifest.object)
                yield self.finding(
                    f"{PREFIX}{item.rule} on {ref} {wrong}",
                    "A suppression is honoured only for a rule that exists, on an object that the rule speaks of, with a reason.",
                    Fix("Write the reason as the annotation's value, mend the name, or remove the annotation."),
                    (ref,),
                    evidence=(Evidence(item.reason, ref, ".".join(map(str, item.path[:-1])) + f"[{item.path[-1]}]"),),
                    file=item.manifest.file,
                    line=item.line,
                )

    def _wrong(self, context: LintContext, item: Suppression) -> str:
        if item.rule not in names() or item.rule == self.id:
            near = difflib.get_close_matches(item.rule, names(), 1, 0.6)
            return "names no rule" + (f": did you mean {near[0]}?" if near else "")
        if not item.reason:
            return "gives no reason, so it does not count"
        rule = get(item.rule)
        if context.cluster is None and rule.asks_cluster:
            return ""  # what the rule says against a cluster cannot be known here
        found = (answer for answer in rule.lint(context) if isinstance(answer, Finding))
        return "" if any(item.covers(finding) for finding in found) else "suppresses nothing"
