"""The answer to what was asked, in a sentence for each subject: slower or faster, in which steps, by how much.

The sentences rest on the verdicts: that steps differ holds for all steps named together, and so does that steps are the
same; the intervals of the steps that differ are their joint bounds (`engine.analysis.verdicts`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from engine.analysis import external_servers
from engine.analysis.cells import ComparedCells
from engine.core.model import PAIRS, Subject
from engine.results.comparison import (
    CHANGED,
    CPU,
    DELETE_PLAN,
    KNOWN,
    LATENCIES,
    MIN_PAIRS,
    PRIMARY_METRICS,
    TIME,
    Answer,
    Ratio,
    Verdict,
)

NAMED = 3  # steps that are named with their figures; others are counted


def answer(cells: ComparedCells, ratios: Sequence[Ratio]) -> tuple[Answer, ...]:
    """A sentence for each subject compared with the base, except controls; a second one if the CPU differs."""
    found = []
    for subject in cells.others:
        if not subject.control:
            name = cells.names[subject]
            own = [ratio for ratio in ratios if ratio.subject == name]
            rates, costs = ([r for r in own if r.metric in metrics] for metrics in (PRIMARY_METRICS, (CPU,)))
            sentences = (
                _of_rates(cells, subject, rates),
                *_of_cpu(rates, costs),
                *_of_latencies(own),
                *_of_planning(own),
            )
            found.append(Answer(name, " ".join(sentences)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Words:
    """The parts of a sentence that name its sides: `16.3 is`, `than 12.11`, `as 12.11`."""

    begin: str
    than: str
    same: str


def _words(cells: ComparedCells, subject: Subject) -> _Words:
    base = cells.names[cells.baseline_of(subject)]
    return _Words(f"{cells.names[subject]} is", f"than {base}", f"as {base}")


def _of_rates(cells: ComparedCells, subject: Subject, rates: Sequence[Ratio]) -> str:
    name, base = cells.names[subject], cells.names[cells.baseline_of(subject)]
    pairs = max((ratio.pairs for ratio in rates), default=0)
    if not pairs:
        why = next((reason for ratio in rates for reason in ratio.reasons), "no pair of cells has finished")
        return f"{name} against {base}: no verdict: {why}."
    if external_servers.unjudged(cells):
        judged = [ratio for ratio in rates if ratio.low is not None]
        effects = _effects(judged) or "none"
        return f"{name} against {base}, ratios without verdicts, as {external_servers.NO_VERDICT}: {effects}."
    if pairs < MIN_PAIRS:
        better = PAIRS if cells.runs[0].manifest.sliced else "4 or 6"  # an even number balances the order of cells
        have = "one pair" if pairs == 1 else "two pairs"
        return f"{name} against {base}: no verdict from {have}: {MIN_PAIRS} are needed, better {better}."
    known = [ratio for ratio in rates if ratio.verdict in KNOWN]
    unknown = [ratio for ratio in rates if ratio.verdict == "inconclusive"]
    withheld = [ratio for ratio in rates if ratio.verdict == "withheld"]
    if known:
        parts = _known(cells, _words(cells, subject), known, len(rates))
        if unknown:
            parts.append(f"not known in {len(unknown)} ({_widths(unknown)}: {_more(cells, subject, unknown)})")
    else:
        parts = [f"{name} against {base}: nothing is known yet{_visible(unknown)}"]
        if unknown:
            parts.append(f"to know more: {_more(cells, subject, unknown)}")
    if withheld:
        parts.append(f"withheld in {len(withheld)} ({', '.join(ratio.step for ratio in withheld)})")
    if without := [ratio for ratio in rates if ratio.verdict == "none"]:
        why = next((f": {ratio.reasons[0].removesuffix(': no ratio')}" for ratio in without if ratio.reasons), "")
        parts.append(f"no ratio in {len(without)} ({', '.join(ratio.step for ratio in without)}{why})")
    return "; ".join(parts) + "."


def _known(cells: ComparedCells, of: _Words, known: Sequence[Ratio], steps: int) -> list[str]:
    parts: list[str] = []
    words: list[tuple[Verdict, str]] = [("slower", f"slower {of.than}"), ("faster", f"faster {of.than}")]
    words.sort(key=lambda word: -max((_size(ratio) for ratio in known if ratio.verdict == word[0]), default=0.0))
    for verdict, text in words:
        own = [ratio for ratio in known if ratio.verdict == verdict]
        if own:
            where = f"in {len(own)}" if parts else f"in {len(own)} of {steps} steps"
            parts.append(f"{verdict if parts else f'{of.begin} {text}'} {where}: {_effects(own)}")
    same = sum(ratio.verdict == "same" for ratio in known)
    if same:
        within = f"within {cells.margin:.1%}".replace(".0%", "%").replace("%", " %")
        where = f"in {same}" if parts else f"in all {steps} steps" if same == steps else f"in {same} of {steps} steps"
        parts.append(f"the same {within} {where}" if parts else f"{of.begin} the same {of.same} {within} {where}")
    return parts


def _of_cpu(rates: Sequence[Ratio], costs: Sequence[Ratio]) -> list[str]:
    verdicts = {ratio.step: ratio.verdict for ratio in rates}
    changed = [ratio for ratio in costs if ratio.verdict in ("slower", "faster")]
    if all(ratio.verdict == verdicts.get(ratio.step) for ratio in changed):
        return []
    words: tuple[tuple[Verdict, str], ...] = (("slower", "more"), ("faster", "less"))
    parts = [
        f"{word} in {len(own)} of {len(costs)} steps: {_effects(own)}"
        for verdict, word in words
        if (own := [ratio for ratio in changed if ratio.verdict == verdict])
    ]
    return [f"Its server CPU per operation is {'; '.join(parts)}."]


def _of_latencies(ratios: Sequence[Ratio]) -> list[str]:
    """The quantiles whose verdicts say more than the rate's: those of steps whose rate did not change likewise."""
    rates = {ratio.step: ratio.verdict for ratio in ratios if ratio.metric in PRIMARY_METRICS}
    words: tuple[tuple[Verdict, str], ...] = (("slower", "longer"), ("faster", "shorter"))
    parts = []
    for verdict, word in words:
        changed = [r for r in ratios if r.metric in LATENCIES and r.verdict == verdict != rates.get(r.step)]
        if changed:
            parts.append(f"{word}: {_effects(changed)}")
    return [f"Response times are {'; '.join(parts)}."] if parts else []


def _of_planning(ratios: Sequence[Ratio]) -> list[str]:
    changed = [ratio for ratio in ratios if ratio.metric == DELETE_PLAN and ratio.verdict in CHANGED]
    ordered = sorted(changed, key=_size, reverse=True)
    named = [
        f"{ratio.ratio:.2f} times as long in {ratio.step} "
        f"[{ratio.joint_low or ratio.low:.2f}, {ratio.joint_high or ratio.high:.2f}]"
        for ratio in ordered[:NAMED]
    ]
    more = f" and differs in {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
    return [f"Planning a DELETE takes {', '.join(named)}{more}."] if named else []


def _effects(ratios: Sequence[Ratio]) -> str:
    ordered = sorted(ratios, key=_size, reverse=True)
    named = [
        f"{f'{LATENCIES[ratio.metric]} of ' if ratio.metric in LATENCIES else ''}{ratio.step} "
        f"{_percent(ratio.ratio)} %{' in time' if ratio.metric == TIME else ''} "
        f"[{_percent(ratio.joint_low or ratio.low)}, {_percent(ratio.joint_high or ratio.high)}]"
        for ratio in ordered[:NAMED]
    ]
    return ", ".join(named) + (f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else "")


def _widths(ratios: Sequence[Ratio]) -> str:
    ordered = sorted(ratios, key=_half, reverse=True)
    named = [f"{ratio.step} {_width(_half(ratio))}".replace("%", " %") for ratio in ordered[:NAMED]]
    return ", ".join(named) + (f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else "")


def _more(cells: ComparedCells, subject: Subject, unknown: Sequence[Ratio]) -> str:
    wanted = [ratio.more_pairs for ratio in unknown if ratio.more_pairs is not None]
    if not wanted:
        return "too much scatter, or too near the margin, for more pairs to help"
    pairs = max(wanted)
    together = max if cells.runs[0].manifest.sliced else sum  # interleaved cells run at the same time
    took_s = [together(cell.seconds for cell in pair) for pair in cells.pairs(subject)]
    minutes = math.ceil(pairs * median(took_s) / 60) if took_s else 0
    settled = f" for {len(wanted)} of them" if len(wanted) < len(unknown) else ""
    return f"{pairs} more pair{'s' if pairs > 1 else ''}{settled}, about {minutes} minute{'s' if minutes != 1 else ''}"


def _visible(unknown: Sequence[Ratio]) -> str:
    found = sorted((ratio.visible_effect, ratio.step) for ratio in unknown if ratio.visible_effect is not None)
    if not found:
        return ""
    (least, step), (most, other) = found[0], found[-1]
    if least > 1:
        return ": only halvings or worse would show"
    to = f" to {'over 100%' if most > 1 else f'{most:.0%}'} ({other})" if other != step else ""
    return f": the smallest effect that would show is {least:.0%} ({step}){to}".replace("%", " %")


def _size(ratio: Ratio) -> float:
    return abs(math.log(ratio.ratio or 1.0))


def _half(ratio: Ratio) -> float:
    return math.sqrt((ratio.high or 1.0) / (ratio.low or 1.0)) - 1


def _width(half: float) -> str:
    return f"±{half:.1%}" if half <= 1 else "over ±100%"


def _percent(ratio: float | None) -> str:
    return "?" if ratio is None else f"{100 * (ratio - 1):+.1f}"
