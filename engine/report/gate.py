"""What a comparison means to CI: passed, or which steps of which build are worse than tolerated, or have no result.

A step of a build `failed` if its primary metric is slower by more than its tolerance (the step's own, or the one for
all, or nothing beyond the margin of every verdict), if its responses take longer by more than that (p50, p95, p99 or
the longest), if it missed its SLA in more pairs than its baseline did, or if it did nothing in a cell in which its
baseline did something. It is an `error` if cells failed, are missing or lack the step, and the baseline's of the same
repeat do not. It `passed` if it is known to be faster, the same, or slower by a tolerated amount. What is inconclusive
or withheld, and what the baseline itself has no answer to, is `skipped`; a build with nothing but skipped steps has not
passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.etree import ElementTree

from engine.analysis import faults
from engine.analysis.comparability import of_workload
from engine.core import missing_steps
from engine.core.model import Manifest
from engine.core.text import Visible, visible
from engine.results.comparison import LATENCIES, Comparison, LeftOutCell, Ratio

Outcome = Literal["passed", "failed", "error", "skipped"]
NAMED = 3  # reasons; further ones are counted


@dataclass(frozen=True, slots=True)
class Plan:
    """What was to be measured: the steps, and which of them builds lack by the plan, with the reasons."""

    steps: tuple[str, ...]
    lacking: missing_steps.Lacking


@dataclass(frozen=True, slots=True)
class Judged:
    """A step of a build: `text` says by how much it is worse, or why nothing is known."""

    subject: str
    step: str
    outcome: Outcome
    text: str


def plan_of(manifests: Sequence[Manifest]) -> Plan:
    workloads = [manifest.workload for manifest in manifests]
    lacking: dict[str, dict[str, str]] = {}
    for workload in workloads:
        for build, without in missing_steps.recorded(workload).items():
            lacking.setdefault(build, {}).update(without)
    steps = [step for workload in workloads for step in of_workload(workload, "steps", tuple[dict[str, Any], ...])]
    return Plan(tuple(dict.fromkeys(str(step.get("name", "")) for step in steps)), lacking)


def judge(comparison: Comparison, tolerated: Mapping[str, float], plan: Plan) -> tuple[Judged, ...]:
    """Judge every step of every build but the base. `tolerated`: fractions by step; key "" is the default."""
    return tuple(
        _judged(comparison, subject.name, step, tolerated, plan.lacking.get(subject.build, {}).get(step, ""))
        for subject in comparison.others
        if subject.control == ""
        for step in comparison.steps or plan.steps  # before any cell has finished, only the plan names them
    )


def _judged(comparison: Comparison, name: str, step: str, tolerated: Mapping[str, float], lacking: str) -> Judged:
    if lacking:
        return Judged(name, step, "skipped", f"left out: {lacking}")
    limit = tolerated.get(step, tolerated.get("", 0.0))
    by_ratio = _by_ratio(comparison, name, step, limit)
    worse, gone = _worse(comparison, name, step), _gone(comparison, name, step)
    if by_ratio.outcome != "failed":  # where the rate is slower, all of them take longer
        worse += _longer(comparison, name, step, limit)
    if not worse and not gone:
        return by_ratio
    known = [by_ratio.text] if by_ratio.outcome in ("passed", "failed") else []
    outcome: Outcome = "failed" if worse or by_ratio.outcome == "failed" else "error"
    return Judged(name, step, outcome, "; ".join((*worse, *gone, *known)))


def _worse(comparison: Comparison, name: str, step: str) -> list[str]:
    """Faults for which no ratio is judged: missed SLAs, and cells that did nothing."""
    found, base = [], comparison.baseline_of(name)
    cells = len(comparison.of(name, step))
    own, theirs = (faults.slas(comparison, each, step) for each in (name, base))
    missed, missed_by_base = ({place for place, sla in each.items() if not sla.passed} for each in (own, theirs))
    if len(missed - missed_by_base) > len(missed_by_base & own.keys() - missed):  # a limit that noise may cross
        worst = min((own[place] for place in missed), key=lambda sla: sla.achieved_per_s)
        found.append(
            f"missed its SLA in {len(missed)} of {len(own)} cells, {base} in {len(missed_by_base)} of {len(theirs)}: "
            f"{worst.achieved_per_s:,.0f} rows/s at worst where {worst.required_per_s:,.0f} are required"
        )
    if idle := faults.idle(comparison, name, step):
        found.append(f"did nothing in {idle} of {cells} cells")
    return found


def _longer(comparison: Comparison, name: str, step: str, limit: float) -> list[str]:
    """Response times that are longer, by more than where the rate is slower by the limit."""
    found = [
        f"{title} {_effect(ratio)}"
        for metric, title in LATENCIES.items()
        if (ratio := comparison.ratio(name, step, metric)) is not None
        and ratio.verdict == "slower"
        and (ratio.ratio or 0.0) * (1 - limit) > 1
    ]
    return [f"responses take longer: {', '.join(found)}"] if found else []


def _gone(comparison: Comparison, name: str, step: str) -> list[str]:
    found, cells = [], faults.cells_of(comparison, name)
    if lost := faults.lost(comparison, name):
        found.append(f"not measured in {len(lost)} of {cells} cells: {_reasons(lost)}")
    if without := faults.without(comparison, name, step):
        found.append(f"missing in {without} of {cells} cells that finished")
    return found


def _reasons(cells: Sequence[LeftOutCell]) -> str:
    reasons = list(dict.fromkeys(f"{cell.state}: {cell.reason}" if cell.reason else cell.state for cell in cells))
    more = f"; and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
    return "; ".join(reasons[:NAMED]) + more


def _by_ratio(comparison: Comparison, name: str, step: str, limit: float) -> Judged:
    ratio = comparison.ratio(name, step, comparison.primary_metric(step))
    if ratio is None or ratio.ratio is None or ratio.low is None or ratio.high is None:
        why = "; ".join(ratio.remarks) if ratio else _without_pairs(comparison, name)
        return Judged(name, step, "skipped", f"no interval{f': {why}' if why else ''}")
    effect = f"{_effect(ratio)} of {ratio.pairs} pairs"
    if ratio.verdict != "slower":
        known = ratio.verdict in ("faster", "same")
        return Judged(name, step, "passed" if known else "skipped", f"{_verdict(ratio)}: {effect}")
    if abs(ratio.ratio - 1) <= limit:
        return Judged(name, step, "passed", f"slower by what is tolerated, {limit:.1%}: {effect}")
    return Judged(name, step, "failed", f"slower: {effect}{f', tolerated {limit:.1%}' if limit else ''}")


def _effect(ratio: Ratio) -> str:
    if ratio.ratio is None or ratio.low is None or ratio.high is None:
        return "?"
    return f"{ratio.ratio - 1:+.1%} [{ratio.low - 1:+.1%}, {ratio.high - 1:+.1%}]"


def _verdict(ratio: Ratio) -> str:
    if ratio.verdict == "withheld":
        return f"withheld ({'; '.join(ratio.reasons)})"
    return ratio.verdict_text or "no verdict"


def _without_pairs(comparison: Comparison, name: str) -> str:
    sides = (comparison.baseline_of(name), name)
    return _reasons([cell for side in sides for cell in comparison.left_out if cell.name == side])


def failed(judged: tuple[Judged, ...]) -> list[Judged]:
    return [each for each in judged if each.outcome in ("failed", "error")]


def unknown(judged: tuple[Judged, ...]) -> list[Judged]:
    known = {each.subject for each in judged if each.outcome != "skipped"}
    return [each for each in judged if each.subject not in known]


def sentence(judged: tuple[Judged, ...]) -> str:
    """The result on one line; what holds for several steps of a build is said once."""
    steps: dict[tuple[str, str], list[str]] = {}
    for each in failed(judged):
        steps.setdefault((each.subject, each.text), []).append(each.step)
    if steps:
        parts = (f"{subject} {', '.join(names)} {text}" for (subject, text), names in steps.items())
        return f"gate: failed: {'; '.join(parts)}"
    passed = sum(each.outcome == "passed" for each in judged)
    if unknown(judged) or not judged:
        return f"gate: not known: {passed} of {len(judged)} comparisons have an answer"
    left = len(judged) - passed
    return f"gate: passed: none of {len(judged)} comparisons is slower{f'; {left} are not known' if left else ''}"


def to_junit(comparison: Comparison, judged: tuple[Judged, ...]) -> Visible:
    """JUnit XML: a test suite for each build, a test case for each step."""
    root = ElementTree.Element("testsuites", name="pgbed")
    for subject in dict.fromkeys(each.subject for each in judged):
        own = [each for each in judged if each.subject == subject]
        counts: dict[str, str] = {name: str(sum(each.outcome == of for each in own)) for name, of in _COUNTED.items()}
        name = f"{subject} against {comparison.baseline_of(subject)}"
        suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(own)), attrib=counts)
        for each in own:
            case = ElementTree.SubElement(suite, "testcase", classname=subject, name=each.step)
            if each.outcome in _MARKS:
                ElementTree.SubElement(case, _MARKS[each.outcome], message=each.text)
            else:
                ElementTree.SubElement(case, "system-out").text = each.text
    for element in root.iter():  # before line breaks of our own come in
        element.attrib = {name: visible(value) for name, value in element.attrib.items()}
        element.text = visible(element.text) if element.text else None
    ElementTree.indent(root)
    return Visible(ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


_COUNTED = {"failures": "failed", "errors": "error", "skipped": "skipped"}
_MARKS: Mapping[Outcome, str] = {"failed": "failure", "error": "error", "skipped": "skipped"}
