"""The result of a comparison for CI: passed, or the steps that are worse than tolerated, or have no result.

A step of a build `failed` if its primary metric is slower by more than its tolerance (the step's own, or the one for
all), if its responses take longer by more than that (p50, p95, p99 or the longest), if it missed its SLA in more pairs
than its baseline did, or if it did nothing in a cell in which its baseline did something. Without a tolerance a
verdict `slower` fails; with one smaller than the margin, so does `same` if it is certainly a little slower and the
estimate is beyond the tolerance. A step is an `error` if cells failed, are missing or lack it, and the baseline's of
the same repeat do not. It `passed` if it is faster, the same, no slower, or slower by a tolerated amount. A
step undecided or withheld, or without an answer of the baseline itself, is `skipped`; a build with nothing but skipped
steps is undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.etree import ElementTree

from engine.analysis.cells import faults
from engine.analysis.checks.comparability import of_workload
from engine.core import missing_steps
from engine.core.model import Manifest
from engine.core.text import Visible, visible
from engine.results.comparison import Comparison, LeftOutCell
from engine.results.ratio import LATENCIES, Ratio

Outcome = Literal["passed", "failed", "error", "skipped"]
NAMED = 3  # reasons; further ones are counted
PASSED = ("faster", "same", "no slower")


@dataclass(frozen=True, slots=True)
class GatePlan:
    """The planned measurements: the steps, and which of them builds lack by the plan, with the reasons."""

    steps: tuple[str, ...]
    lacking: missing_steps.Lacking


@dataclass(frozen=True, slots=True)
class GatedStep:
    """A step of a build: `text` says by how much it is worse, or why it is undecided."""

    subject: str
    step: str
    outcome: Outcome
    text: str


def plan_of(manifests: Sequence[Manifest]) -> GatePlan:
    workloads = [manifest.workload for manifest in manifests]
    lacking: dict[str, dict[str, str]] = {}
    for workload in workloads:
        for build, without in missing_steps.recorded(workload).items():
            lacking.setdefault(build, {}).update(without)
    steps = [step for workload in workloads for step in of_workload(workload, "steps", tuple[dict[str, Any], ...])]
    return GatePlan(tuple(dict.fromkeys(str(step.get("name", "")) for step in steps)), lacking)


def judge(comparison: Comparison, tolerated: Mapping[str, float], plan: GatePlan) -> tuple[GatedStep, ...]:
    """Judge every step of every build but the base. `tolerated`: fractions by step; key "" is the default."""
    return tuple(
        _judged(comparison, subject.name, step, tolerated, plan.lacking.get(subject.build, {}).get(step, ""))
        for subject in comparison.others
        if subject.control == ""
        for step in comparison.steps or plan.steps  # before any cell has finished, only the plan names them
    )


def _judged(comparison: Comparison, name: str, step: str, tolerated: Mapping[str, float], lacking: str) -> GatedStep:
    if lacking:
        return GatedStep(name, step, "skipped", f"left out: {lacking}")
    limit = tolerated.get(step, tolerated.get(""))
    by_ratio = _by_ratio(comparison, name, step, limit)
    worse, gone = _worse(comparison, name, step), _gone(comparison, name, step)
    if by_ratio.outcome != "failed":  # where the rate is slower, all of them take longer
        worse += _longer(comparison, name, step, limit)
    if not worse and not gone:
        return by_ratio
    known = [by_ratio.text] if by_ratio.outcome in ("passed", "failed") else []
    outcome: Outcome = "failed" if worse or by_ratio.outcome == "failed" else "error"
    return GatedStep(name, step, outcome, "; ".join((*worse, *gone, *known)))


def _worse(comparison: Comparison, name: str, step: str) -> list[str]:
    """Faults for which no ratio is judged: missed SLAs, and cells that did nothing."""
    texts, base = [], comparison.baseline_of(name)
    cells = len(comparison.of(name, step))
    ours, theirs = (faults.slas(comparison, side, step) for side in (name, base))
    missed, missed_by_base = ({place for place, sla in side.items() if not sla.passed} for side in (ours, theirs))
    if len(missed - missed_by_base) > len(missed_by_base & ours.keys() - missed):  # a limit that noise may cross
        worst = min((ours[place] for place in missed), key=lambda sla: sla.achieved_per_s)
        texts.append(
            f"missed its SLA in {len(missed)} of {len(ours)} cells, {base} in {len(missed_by_base)} of {len(theirs)}: "
            f"{worst.achieved_per_s:,.0f} rows/s at worst where {worst.required_per_s:,.0f} are required"
        )
    if idle := faults.idle(comparison, name, step):
        texts.append(f"did nothing in {idle} of {cells} cells")
    return texts


def _is_loss(ratio: Ratio, limit: float | None, loss: float) -> bool:
    """Whether a step, or its responses, are worse for certain, and by more than is tolerated."""
    if limit is None:
        return ratio.verdict == "slower"
    return ratio.differs and ratio.better is False and loss > limit


def _longer(comparison: Comparison, name: str, step: str, limit: float | None) -> list[str]:
    """Response times that are longer, by more than where the rate is slower by the limit."""
    texts = [
        f"{title} {ratio.effect}"
        for metric, title in LATENCIES.items()
        if (ratio := comparison.ratio(name, step, metric)) is not None
        and _is_loss(ratio, limit, 1 - 1 / (ratio.ratio or 1.0))
    ]
    return [f"responses take longer: {', '.join(texts)}"] if texts else []


def _gone(comparison: Comparison, name: str, step: str) -> list[str]:
    texts, cells = [], faults.cells_of(comparison, name)
    if lost := faults.lost(comparison, name):
        texts.append(f"not measured in {len(lost)} of {cells} cells: {_reasons(lost)}")
    if without := faults.without(comparison, name, step):
        texts.append(f"missing in {without} of {cells} cells that finished")
    return texts


def _reasons(cells: Sequence[LeftOutCell]) -> str:
    reasons = list(dict.fromkeys(f"{cell.state}: {cell.reason}" if cell.reason else cell.state for cell in cells))
    more = f"; and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
    return "; ".join(reasons[:NAMED]) + more


def _by_ratio(comparison: Comparison, name: str, step: str, limit: float | None) -> GatedStep:
    ratio = comparison.ratio(name, step, comparison.primary_metric(step))
    if ratio is None or ratio.ratio is None or not ratio.bounds:
        why = "; ".join(ratio.remarks) if ratio else _without_pairs(comparison, name)
        return GatedStep(name, step, "skipped", f"no interval{f': {why}' if why else ''}")
    text = f"{_verdict(ratio)}: {ratio.effect} of {ratio.pairs} pairs"
    if _is_loss(ratio, limit, abs(ratio.ratio - 1)):
        return GatedStep(name, step, "failed", text + ("" if limit is None else f", tolerated {limit:.1%}"))
    if ratio.verdict == "slower":
        return GatedStep(name, step, "passed", f"{text}, which is tolerated")
    return GatedStep(name, step, "passed" if ratio.verdict in PASSED else "skipped", text)


def _verdict(ratio: Ratio) -> str:
    if ratio.verdict == "withheld":
        return f"withheld ({'; '.join(ratio.reasons)})"
    return ratio.verdict_text or "no verdict"


def _without_pairs(comparison: Comparison, name: str) -> str:
    sides = (comparison.baseline_of(name), name)
    return _reasons([cell for side in sides for cell in comparison.remarks.left_out if cell.name == side])


def failed(judged: tuple[GatedStep, ...]) -> list[GatedStep]:
    return [step for step in judged if step.outcome in ("failed", "error")]


def exit_code(judged: tuple[GatedStep, ...]) -> int:
    return 1 if failed(judged) else 3 if not judged or _undecided(judged) else 0


def _undecided(judged: tuple[GatedStep, ...]) -> list[str]:
    """The builds with nothing but skipped steps."""
    known = {step.subject for step in judged if step.outcome != "skipped"}
    return [name for name in dict.fromkeys(step.subject for step in judged) if name not in known]


def sentence(judged: tuple[GatedStep, ...]) -> str:
    """The result on one line; a result that holds for several steps of a build appears once."""
    steps: dict[tuple[str, str], list[str]] = {}
    for step in failed(judged):
        steps.setdefault((step.subject, step.text), []).append(step.step)
    if steps:
        parts = (f"{subject} {', '.join(names)} {text}" for (subject, text), names in steps.items())
        return f"gate: failed: {'; '.join(parts)}"
    left = sum(step.outcome == "skipped" for step in judged)
    if undecided := _undecided(judged):
        return f"gate: undecided: {left} of {len(judged)} comparisons, all of {', '.join(undecided)}"
    rest = f"; without an answer: {left}" if left else ""
    return f"gate: passed: none of {len(judged)} comparisons is worse than tolerated{rest}"


def to_junit(comparison: Comparison, judged: tuple[GatedStep, ...]) -> Visible:
    """JUnit XML: a test suite for each build, a test case for each step."""
    root = ElementTree.Element("testsuites", name="pgbed")
    for subject in dict.fromkeys(step.subject for step in judged):
        steps = [step for step in judged if step.subject == subject]
        counts: dict[str, str] = {name: str(sum(step.outcome == of for step in steps)) for name, of in _COUNTED.items()}
        name = f"{subject} against {comparison.baseline_of(subject)}"
        suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(steps)), attrib=counts)
        for step in steps:
            case = ElementTree.SubElement(suite, "testcase", classname=subject, name=step.step)
            if step.outcome in _MARKS:
                ElementTree.SubElement(case, _MARKS[step.outcome], message=step.text)
            else:
                ElementTree.SubElement(case, "system-out").text = step.text
    for element in root.iter():  # before line breaks of our own come in
        element.attrib = {name: visible(value) for name, value in element.attrib.items()}
        element.text = visible(element.text) if element.text else None
    ElementTree.indent(root)
    return Visible(ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


_COUNTED = {"failures": "failed", "errors": "error", "skipped": "skipped"}
_MARKS: Mapping[Outcome, str] = {"failed": "failure", "error": "error", "skipped": "skipped"}
