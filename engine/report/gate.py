"""What a comparison means to CI: passed, or which steps of which build are slower than is tolerated.

A step fails when its headline's verdict is slower and the slow-down is larger than its tolerance: that of the step, or
of all, or none beyond the margin that every verdict has. What is not known, withheld or the same passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from engine.core.comparison import Comparison, Ratio
from engine.core.text import visible

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A step of a build: `skipped` where nothing is known; `text` says by how much, or why not."""

    subject: str
    step: str
    outcome: Outcome
    text: str


def judge(comparison: Comparison, tolerated: Mapping[str, float]) -> tuple[Judged, ...]:
    """Every step of every build but the base. `tolerated`: fractions by step, that of "" for all others."""
    return tuple(
        _judged(subject.name, step, comparison.ratio(subject.name, step, comparison.judged_by(step)), tolerated)
        for subject in comparison.others
        if subject.arm == ""
        for step in comparison.steps
    )


def _judged(subject: str, step: str, ratio: Ratio | None, tolerated: Mapping[str, float]) -> Judged:
    if ratio is None or ratio.ratio is None or ratio.low is None or ratio.high is None:
        why = "; ".join(ratio.remarks) if ratio else ""
        return Judged(subject, step, "skipped", f"no interval{f': {why}' if why else ''}")
    effect = f"{ratio.ratio - 1:+.1%} [{ratio.low - 1:+.1%}, {ratio.high - 1:+.1%}] of {ratio.pairs} pairs"
    if ratio.verdict != "slower":
        known = ratio.verdict in ("faster", "same")
        return Judged(subject, step, "passed" if known else "skipped", f"{ratio.verdict_text}: {effect}")
    limit = tolerated.get(step, tolerated.get("", 0.0))
    if abs(ratio.ratio - 1) <= limit:
        return Judged(subject, step, "passed", f"slower by what is tolerated, {limit:.1%}: {effect}")
    return Judged(subject, step, "failed", f"slower: {effect}{f', tolerated {limit:.1%}' if limit else ''}")


def failed(judged: tuple[Judged, ...]) -> list[Judged]:
    """Those that are slower than is tolerated."""
    return [each for each in judged if each.outcome == "failed"]


def sentence(judged: tuple[Judged, ...]) -> str:
    """The result on one line."""
    slower = failed(judged)
    if slower:
        return f"gate: failed: {'; '.join(f'{each.subject} {each.step} {each.text}' for each in slower)}"
    known = sum(each.outcome == "passed" for each in judged)
    unknown = len(judged) - known
    return f"gate: passed: none of {len(judged)} comparisons is slower{f'; {unknown} are not known' if unknown else ''}"


def to_junit(comparison: Comparison, judged: tuple[Judged, ...]) -> str:
    """JUnit's XML: a test suite for each build, a test case for each step."""
    root = ElementTree.Element("testsuites", name="pgbed")
    for subject in dict.fromkeys(each.subject for each in judged):
        own = [each for each in judged if each.subject == subject]
        counts: dict[str, str] = {name: str(sum(each.outcome == of for each in own)) for name, of in _COUNTED.items()}
        name = visible(f"{subject} against {comparison.baseline_of(subject)}")
        suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(own)), errors="0", attrib=counts)
        for each in own:
            case = ElementTree.SubElement(suite, "testcase", classname=visible(subject), name=visible(each.step))
            if each.outcome in _MARKS:
                ElementTree.SubElement(case, _MARKS[each.outcome], message=visible(each.text))
            else:
                ElementTree.SubElement(case, "system-out").text = visible(each.text)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


_COUNTED = {"failures": "failed", "skipped": "skipped"}
_MARKS: Mapping[Outcome, str] = {"failed": "failure", "skipped": "skipped"}
