"""A verification as JUnit XML: a suite for each check, a case for each object; what could not be seen is skipped or, if it is
needed, an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

from ragstow.report.words import verdict
from ragstow.verification.model import Check, Unknown, Verification

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(found: Verification) -> str:
    """The XML text."""
    subject = found.subject
    names = list(dict.fromkeys([check.name for check in found.checks] + [item.check for item in found.unknown]))
    nothing = int(not names)
    heading = {
        "name": f"ragstow verify {subject.namespace}/{subject.service}",
        "tests": str(len(found.checks) + len(found.unknown) + nothing),
        "failures": str(len(found.failed)),
        "errors": str(len(found.missing) + nothing),
        "skipped": str(len(found.unknown) - len(found.missing)),
        "timestamp": subject.started_at.removesuffix("Z"),
    }
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {_attributes(heading)}>"]
    for name in names:
        checks = [check for check in found.checks if check.name == name]
        unknown = [item for item in found.unknown if item.check == name]
        suite = {
            "name": name,
            "tests": str(len(checks) + len(unknown)),
            "failures": str(sum(not check.passed for check in checks)),
            "errors": str(sum(item.needed for item in unknown)),
            "skipped": str(sum(not item.needed for item in unknown)),
        }
        lines.append(f"  <testsuite {_attributes(suite)}>")
        if name == names[0]:
            lines += _properties(found)
        lines += [line for check in checks for line in _check(check)]
        lines += [line for item in unknown for line in _unknown(item)]
        lines.append("  </testsuite>")
    if nothing:
        # An empty file would pass in a pipeline.
        lines += [
            '  <testsuite name="verification" tests="1" failures="0" errors="1" skipped="0">',
            *_properties(found),
            f'    <testcase classname="verification" name="verdict"><error message={_attribute(verdict(found))}/></testcase>',
            "  </testsuite>",
        ]
    return "\n".join([*lines, "</testsuites>", ""])


def _properties(found: Verification) -> list[str]:
    subject = found.subject
    pairs = {
        "verdict": verdict(found),
        "cluster": subject.cluster,
        "kubernetes": subject.kubernetes,
        "basis": subject.basis,
        "planDigest": subject.plan_digest or "",
    }
    listed = [f"      <property name={_attribute(name)} value={_attribute(value)}/>" for name, value in pairs.items()]
    return ["    <properties>", *listed, "    </properties>"]


def _check(item: Check) -> list[str]:
    seen = "".join(f"\n$ {entry.source}\n{entry.value}" for entry in item.evidence)
    body = f"expected: {item.expected}\nfound: {item.found}{seen}"
    lines = [f"    <testcase classname={_attribute(item.name)} name={_attribute(_name(item))}>"]
    if item.passed:
        lines.append(f"      <system-out>{_text(body)}</system-out>")
    else:
        message = f"{item.found}, expected {item.expected}"
        do = f"\ndo: {item.hint}" if item.hint else ""
        lines.append(f"      <failure type={_attribute(item.name)} message={_attribute(message)}>{_text(body + do)}</failure>")
    return [*lines, "    </testcase>"]


def _unknown(item: Unknown) -> list[str]:
    tag = "error" if item.needed else "skipped"
    kind = f" type={_attribute('forbidden' if item.forbidden else 'unknown')}" if item.needed else ""
    return [
        f"    <testcase classname={_attribute(item.check)} name={_attribute(str(item.object))}>",
        f"      <{tag}{kind} message={_attribute(item.missing)}>{_text(item.command)}</{tag}>",
        "    </testcase>",
    ]


def _name(item: Check) -> str:
    # Several checks of one name on one object (a check for each device) need names of their own.
    return f"{item.object}: {item.expected}"


def _attributes(pairs: Mapping[str, str]) -> str:
    return " ".join(f"{name}={_attribute(value)}" for name, value in pairs.items())


def _text(value: str) -> str:
    return escape(_NOT_XML.sub("?", value))


def _attribute(value: str) -> str:
    return quoteattr(_NOT_XML.sub("?", value), {"\n": " "})
