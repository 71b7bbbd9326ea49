"""The step in which the bad end of a search is slower than the good one."""

from __future__ import annotations

import math

from engine.analysis.cells import faults
from engine.bisect.culprit import effect
from engine.core.errors import UserError
from engine.results.comparison import Comparison
from engine.results.ratio import Ratio

GOOD, BAD, TRIED = "good", "bad", "tried"
LEVELS = (0.02, 0.01, 0.01)  # of analyses of the ends' pairs, each time with as many more; together 4%


def slowest(comparison: Comparison, named: str | None, *, last: bool, where: str) -> Ratio | None:
    """The step that slowed most, or None if more data may show one.

    `named` is the only step to search by, if given. Raises UserError if no step is slower, or an end fails.
    """
    for end in (GOOD, BAD):
        failed = faults.failed(comparison, end)
        if failed and len(failed) == faults.cells_of(comparison, end):
            other = "; git bisect run finds such a commit: see the manual" if end == BAD else ""
            raise UserError(f"the {end} end fails in all its cells: {failed[0].reason}{other}; {where}")
    steps = [step for step in comparison.steps if named in (None, step)]
    rates = [comparison.ratio(BAD, step, comparison.primary_metric(step)) for step in steps]
    known = [ratio for ratio in rates if ratio is not None and ratio.ratio is not None]
    slower = [ratio for ratio in known if ratio.verdict == "slower"]
    worst = max(slower, key=lambda ratio: abs(math.log(ratio.ratio or 1)), default=None)
    small = worst is None or abs((worst.ratio or 1) - 1) < comparison.margin
    # A step may be slower by more; one without an interval has too few pairs, as if the machine changed.
    if not last and small and any(ratio.verdict in ("undecided", "no faster") or ratio.low is None for ratio in known):
        return None
    if worst is not None:
        return worst
    if faster := [ratio for ratio in known if ratio.verdict == "faster"]:
        raise UserError(f"the bad end is faster: {', '.join(map(with_effect, faster))}; swap --good and --bad; {where}")
    if named and known:
        details = ", ".join(filter(None, (with_effect(known[0]), known[0].verdict_text, *known[0].reasons)))
        raise UserError(f"it is not certain that the bad end is slower: {details}; {where}")
    raise UserError(f"no step of the bad end is slower; give --step, more --pairs or longer steps; {where}")


def unlike_both(comparison: Comparison, step: str) -> str:
    """The reason why the commit that is tried cannot be judged; "" if it can."""
    if lost := faults.lost(comparison, TRIED):
        return f"does not run: {lost[0].text}"
    ratio = comparison.ratio(TRIED, step, comparison.primary_metric(step))
    if ratio is not None and ratio.verdict == "withheld":
        return f"cannot be compared: {'; '.join(ratio.remarks)}"
    return ""


def with_effect(ratio: Ratio) -> str:
    return f"{ratio.step} {effect(ratio)}"
