"""In what the ends of a search differ: the bad one's cells fail, it misses its SLA, or it is slower."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.analysis import failure_counts, faults
from engine.analysis.failure_counts import Count, Counts
from engine.analysis.faults import Fault
from engine.bisect.culprit import effect
from engine.core.errors import UserError
from engine.results.comparison import Comparison, Ratio

GOOD, BAD, TRIED = "good", "bad", "tried"
LEVELS = (0.02, 0.01, 0.01)  # of analyses of the ends' pairs, each time with as many more; together 4 %


@dataclass(frozen=True, slots=True)
class Difference:
    """The fault of the bad end in a step; `counts` are cells that failed or missed their SLA."""

    fault: Fault
    step: str
    text: str
    counts: Counts | None = None


def difference(
    comparison: Comparison, steps: Sequence[str], named: str | None, level: float, *, last: bool, where: str
) -> Difference | None:
    """The worst difference between the ends, or None if more data may reveal one.

    `steps` are those of a cell, and `named` the only one to search, if given. `level` is the error rate over all tests;
    the comparison's verdicts are already at that level. Raises UserError if there is nothing to search by.
    """
    good, bad = (count(comparison, end, "failed", "") for end in (GOOD, BAD))
    if good.seen == good.cells > 0:
        raise UserError(f"the good end fails in all its cells: {faults.failed(comparison, GOOD)[0].reason}; {where}")
    failed = Counts(good, bad)
    if _differs(failed, level):
        text = f"the bad end failed in {bad.text}, the good end in {good.text}: "
        return Difference("failed", steps[-1], text + faults.failed(comparison, BAD)[0].reason, failed)
    steps_tested = [step for step in comparison.steps if named in (None, step)]
    missed = {step: Counts(*(count(comparison, end, "sla", step) for end in (GOOD, BAD))) for step in steps_tested}
    if late := [step for step in steps_tested if _differs(missed[step], level / len(steps_tested))]:
        step = max(late, key=lambda step: missed[step].bad.seen - missed[step].good.seen)
        both = missed[step]
        text = f"the bad end missed its SLA in {step} in {both.bad.text}, the good end in {both.good.text}"
        return Difference("sla", step, text, both)
    if not last and any(counts.bad.seen > counts.good.seen for counts in (failed, *missed.values())):
        return None
    ratio = _slowest(comparison, steps_tested, named, last=last, where=where)
    return None if ratio is None else Difference("slower", ratio.step, f"the ends differ in {with_effect(ratio)}")


def count(comparison: Comparison, name: str, fault: Fault, step: str) -> Count:
    if fault == "failed":
        return Count(len(faults.failed(comparison, name)), faults.cells_of(comparison, name))
    slas = faults.slas(comparison, name, step).values()
    return Count(sum(not sla.passed for sla in slas), len(slas))


def unlike_both(comparison: Comparison, fault: Fault, step: str) -> str:
    if fault != "failed" and (failed := faults.lost(comparison, TRIED)):
        return f"does not run: {failed[0].text}"
    ratio = comparison.ratio(TRIED, step, comparison.primary_metric(step))
    if fault == "slower" and ratio is not None and ratio.verdict == "withheld":
        return f"cannot be judged: {'; '.join(ratio.remarks)}"
    return ""


def with_effect(ratio: Ratio) -> str:
    return f"{ratio.step} {effect(ratio)}"


def _differs(counts: Counts, level: float) -> bool:
    return counts.bad.seen > 0 and failure_counts.p_value(counts.good, counts.bad) <= level


def _slowest(
    comparison: Comparison, steps: Sequence[str], named: str | None, *, last: bool, where: str
) -> Ratio | None:
    """The step that slowed most; None if more data may show one. Raises UserError if no step is slower."""
    rates = [comparison.ratio(BAD, step, comparison.primary_metric(step)) for step in steps]
    known = [ratio for ratio in rates if ratio is not None and ratio.ratio is not None]
    if slower := [ratio for ratio in known if ratio.verdict == "slower"]:
        return max(slower, key=lambda ratio: abs(math.log(ratio.ratio or 1)))
    if faster := [ratio for ratio in known if ratio.verdict == "faster"]:
        raise UserError(f"the bad end is faster: {', '.join(map(with_effect, faster))}; swap --good and --bad; {where}")
    if not last and any(ratio.verdict == "inconclusive" or ratio.low is None for ratio in known):
        return None  # too few pairs for an interval, as when the machine changed
    if named and known:
        details = ", ".join(filter(None, (with_effect(known[0]), known[0].verdict_text, *known[0].reasons)))
        raise UserError(f"no difference between the ends is known: {details}; {where}")
    raise UserError(f"no step of the bad end is slower; give --step, more --pairs or longer steps; {where}")
