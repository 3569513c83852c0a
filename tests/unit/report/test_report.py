"""The same verification in every format: the verdict first, nothing lost, nothing that a page or a parser could mistake."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import jsonschema
import pytest

from ragstow.cli.output import document
from ragstow.cluster.snapshot import Source
from ragstow.report.html import html
from ragstow.report.junit import junit
from ragstow.report.text import text
from ragstow.report.words import TITLES, verdict
from ragstow.verification.document import body
from ragstow.verification.model import Check, Evidence, Memory, ObjectRef, Subject, Unknown, Verification
from support import ROOT

POD, OTHER, NODE = ObjectRef("Pod", "rag", "llm-0"), ObjectRef("Pod", "rag", "llm-1"), ObjectRef("Node", "", "n1")
SUBJECT = Subject(
    "support", "rag", "plan file plan.json", "ab" * 32, "context prod (https://x)", "1.37.2", "2026-12-01T03:00:00Z"
)
NASTY = "</pre><script>alert('x')</script> & \"quotes\" \x01 ü"


def good(name: str = "gpu-product", ref: ObjectRef = POD) -> Check:
    return Check(name, ref, "NVIDIA-L40S", "NVIDIA L40S", True, (Evidence("kubectl exec x -- nvidia-smi -L", "GPU 0: ..."),))


BAD = Check(
    "gpu-memory-used",
    POD,
    "at most 4.4 GiB",
    NASTY,
    False,
    (Evidence("kubectl exec -- nvidia-smi", NASTY),),
    "look at the node",
    "llm",
)
NEEDED = Unknown("gpu-visible", POD, "not allowed", "ragstow rbac verify", needed=True, forbidden=True)
EXTRA = Unknown("kubelet-log", NODE, "the node log query is off", "kubectl get --raw x")
ROW = Memory("llm", POD, 4 << 30, (3 << 30, 5 << 30), 6 << 30, 44 << 30, 1)
FULL = Verification(
    SUBJECT, (good(), BAD, good("gpu-driver")), (NEEDED, replace(NEEDED, object=OTHER), EXTRA), (ROW,), ("something to know",)
)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Verification(SUBJECT, (good(),)), "passed: 1 check"),
        (Verification(SUBJECT, (good(),), (EXTRA,)), "passed: 1 check (1 more could not be made)"),
        (Verification(SUBJECT, (good(), BAD)), "FAILED: 1 of 2 checks"),
        (FULL, "FAILED: 1 of 3 checks (2 needed ones could not be made, 1 more could not be made)"),
        (Verification(SUBJECT, (good(),), (NEEDED,)), "NOT VERIFIED: 1 check that is needed could not be made; 1 passed"),
        (Verification(SUBJECT, ()), "NOT VERIFIED: nothing could be checked"),
    ],
)
def test_verdict(found: Verification, words: str) -> None:
    assert verdict(found) == words
    assert text(found).splitlines()[0] == f"rag/support on context prod (https://x): {words}"
    assert words in html(found, version="1")
    assert words in junit(found)


def test_text_has_what_to_do_before_anything_that_is_fine() -> None:
    lines = text(FULL, width=80).splitlines()
    order = [
        "FAILED",
        " gpu-memory-used  Pod rag/llm-0 (llm)",
        "   do        look at the node",
        "COULD NOT SEE",
        " gpu-visible (needed)  Pod rag/llm-0, Pod rag/llm-1",
        "   $ ragstow rbac verify",
        " ok    1 x gpu-product        the planned card",
    ]
    places = [lines.index(line) for line in order]
    assert places == sorted(places)
    assert "  4.0 GiB  3.0-5.0 GiB  6.0 GiB   44.0 GiB  with 1 more" in text(FULL)
    assert all(line == line.rstrip() for line in lines)


def test_wide_text_shows_the_evidence_of_what_passed() -> None:
    assert "GPU 0: ..." not in text(FULL)
    assert "GPU 0: ..." in text(FULL, wide=True)


def test_junit_counts_and_escapes() -> None:
    suites = ElementTree.fromstring(junit(FULL))
    assert {name: suites.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "1",
        "errors": "2",
        "skipped": "1",
    }
    for name in ("tests", "failures", "errors", "skipped"):
        assert sum(int(suite.get(name) or 0) for suite in suites) == int(suites.get(name) or 0)
    (failure,) = suites.iter("failure")
    assert NASTY.replace("\x01", "?") in (failure.text or "")
    names = [(case.get("classname"), case.get("name")) for case in suites.iter("testcase")]
    assert len(set(names)) == len(names)
    assert {item.get("name"): item.get("value") for item in suites.iter("property")}["planDigest"] == "ab" * 32


class Page(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""
        self.open: list[str] = []
        self.links: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_html_stands_alone_and_escapes_everything() -> None:
    page = Page(html(FULL, version="1"))
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.links == []
    for words in (
        NASTY,
        "ab" * 32,
        "context prod (https://x)",
        "2026-12-01T03:00:00Z",
        "kubectl get --raw x",
        "something to know",
    ):
        assert words in page.words
    for check in FULL.checks:
        for entry in check.evidence:
            assert entry.value in page.words


def test_the_same_verification_gives_the_same_bytes() -> None:
    for made in (text, junit):
        assert made(FULL) == made(FULL)
    assert html(FULL, version="1") == html(FULL, version="1")


def test_json_follows_its_schema() -> None:
    schema = json.loads((ROOT / "src/ragstow/schemas/verification.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    data = document("Verification", body(FULL), source=Source("live", "prod", "2026-12-01T03:00:00Z"))
    jsonschema.validate(json.loads(json.dumps(data)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "passed": "yes"}, schema)


def test_every_check_of_the_code_has_a_title() -> None:
    import re

    named = set()
    for room in ("verification", "live/verify", "live/endpoints"):
        for file in (ROOT / "src/ragstow" / room).rglob("*.py"):
            named |= set(re.findall(r'(?:Check|Unknown)\(\s*"([a-z]+(?:-[a-z]+)+)"', file.read_text()))
    assert len(named) > 15
    assert named <= set(TITLES)
