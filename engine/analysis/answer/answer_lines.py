"""The answer of a comparison, line by line for each subject: slower, faster or neither, in which steps, by how much.

The lines rest on the verdicts: each holds for all steps that it names together (`analysis.ratios.verdicts`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.checks import external_servers
from engine.core.model import PAIRS, Subject
from engine.results.comparison import Answer
from engine.results.ratio import CHANGED, CPU, DELETE_PLAN, LATENCIES, MIN_PAIRS, PRIMARY_METRICS, TIME, Ratio, Verdict

if TYPE_CHECKING:
    from engine.analysis.ratios.group_verdicts import StepGroup

NAMED = 3  # steps listed with their figures; others are counted


def answer(cells: ComparedCells, ratios: Sequence[Ratio], groups: Sequence[StepGroup]) -> tuple[Answer, ...]:
    """The answer for each subject compared with the base, except controls."""
    answers = []
    for subject in cells.others:
        if not subject.control:
            name = cells.names[subject]
            ratios_of = [ratio for ratio in ratios if ratio.subject == name]
            rates, costs = ([r for r in ratios_of if r.metric in metrics] for metrics in (PRIMARY_METRICS, (CPU,)))
            lines = (
                *_of_groups(cells, subject, groups),
                *_of_rates(cells, subject, rates),
                *_of_cpu(rates, costs),
                *_of_latencies(ratios_of),
                *_of_planning(ratios_of),
            )
            answers.append(Answer(name, lines))
    return tuple(answers)


def _of_groups(cells: ComparedCells, subject: Subject, groups: Sequence[StepGroup]) -> list[str]:
    name, base = cells.names[subject], cells.names[cells.baseline_of(subject)]
    lines: list[str] = []
    for group in groups:
        ratio = group.ratio
        if ratio.subject == name and ratio.pairs >= MIN_PAIRS and ratio.verdict != "none":
            withheld = f": {'; '.join(ratio.reasons)}"
            text_of = withheld if ratio.reasons else f" {ratio.effect}: {ratio.verdict_text}"
            lines.append(
                f"{'' if lines else f'{name} against {base}, '}{ratio.step} ({len(group.steps)} steps){text_of}"
            )
    return lines


def _of_rates(cells: ComparedCells, subject: Subject, rates: Sequence[Ratio]) -> list[str]:
    name, base = cells.names[subject], cells.names[cells.baseline_of(subject)]
    pairs = max((ratio.pairs for ratio in rates), default=0)
    if not pairs:
        why = next((reason for ratio in rates for reason in ratio.reasons), "no pair of cells has finished")
        return [f"{name} against {base}: no verdict: {why}"]
    if external_servers.unjudged(cells):
        effects = _effects([ratio for ratio in rates if ratio.bounds]) or "none"
        return [f"{name} against {base}, ratios without verdicts, as {external_servers.NO_VERDICT}: {effects}"]
    if pairs < MIN_PAIRS:
        # An even number balances the order of cells.
        better = PAIRS if cells.runs[0].manifest.design.sliced else "4 or 6"
        have = "one pair" if pairs == 1 else "two pairs"
        return [f"{name} against {base}: no verdict from {have}: {MIN_PAIRS} are needed, better {better}"]
    within = f"within {100 * cells.margin:.3g}%"
    words: dict[Verdict, tuple[str, str]] = {  # of the first line, and of others
        "slower": (f"{name} is slower than {base}", "slower"),
        "faster": (f"{name} is faster than {base}", "faster"),
        "same": (f"{name} is {within} of {base}", within),
        "no slower": (f"{name} is no slower than {base}", "no slower"),
        "no faster": (f"{name} is no faster than {base}", "no faster"),
        "undecided": (f"{name} against {base}: undecided", "undecided"),
        "withheld": (f"{name} against {base}: withheld", "withheld"),
        "none": (f"{name} against {base}: no ratio", "no ratio"),
    }
    lines: list[str] = []
    for verdict, (first, word) in words.items():
        if with_verdict := [ratio for ratio in rates if ratio.verdict == verdict]:
            every = len(with_verdict) == len(rates)
            head = f"{word} in {len(with_verdict)}" if lines else f"{first} in {_steps(with_verdict, rates)}"
            details = _signs(with_verdict, every=every) if verdict == "same" else _details(verdict, with_verdict)
            advice = _advice(cells, subject, with_verdict) if verdict == "undecided" else ""
            lines.append(f"{head}{': ' * bool(details)}{details}{advice}")
    return lines


def _steps(some: Sequence[Ratio], of: Sequence[Ratio]) -> str:
    if len(some) < len(of):
        return f"{len(some)} of {len(of)} steps"
    return f"all {len(of)} steps" if len(of) > 1 else "the only step"


def _details(verdict: Verdict, ratios: Sequence[Ratio]) -> str:
    if verdict in CHANGED:
        return _effects(ratios)
    if verdict in ("no slower", "no faster"):
        faster = verdict == "no faster"
        ends = [(ratio, ratio.bounds[faster != (ratio.metric == TIME)]) for ratio in ratios if ratio.bounds]
        ends.sort(key=lambda end: math.log(end[1]) * (-1 if end[0].metric == TIME else 1), reverse=faster)
        texts = (f"{ratio.step} {end - 1:+.1%}{' in time' * (ratio.metric == TIME)}" for ratio, end in ends)
        return f"at {'best' if faster else 'worst'} {_listed(texts)}"
    if verdict == "undecided":
        return _listed(f"{ratio.step} {_width(ratio)}" for ratio in sorted(ratios, key=_half, reverse=True))
    why = next((f": {ratio.reasons[0].removesuffix(': no ratio')}" for ratio in ratios if ratio.reasons), "")
    return f"{', '.join(ratio.step for ratio in ratios)}{why if verdict == 'none' else ''}"


def _signs(ratios: Sequence[Ratio], *, every: bool) -> str:
    """Steps within the margin, those whose sign is certain first; only these if all steps are."""
    signs = {ratio.step: ratio.verdict_text.removeprefix("same").lstrip(",") for ratio in ratios}
    ordered = sorted(signs.items(), key=lambda item: not item[1])
    return _listed(f"{step}{sign}" for step, sign in ordered if sign or not every)


def _of_cpu(rates: Sequence[Ratio], costs: Sequence[Ratio]) -> list[str]:
    verdicts = {ratio.step: ratio.verdict for ratio in rates}
    changed = [ratio for ratio in costs if ratio.verdict in ("slower", "faster")]
    if all(ratio.verdict == verdicts.get(ratio.step) for ratio in changed):
        return []
    words: tuple[tuple[Verdict, str], ...] = (("slower", "higher"), ("faster", "lower"))
    parts = [
        f"{word} in {_steps(with_verdict, costs)}: {_effects(with_verdict)}"
        for verdict, word in words
        if (with_verdict := [ratio for ratio in changed if ratio.verdict == verdict])
    ]
    return [f"server CPU per operation is {'; '.join(parts)}"]


def _of_latencies(ratios: Sequence[Ratio]) -> list[str]:
    """The quantiles whose verdicts add to the rate's: in steps whose rate did not change likewise."""
    rates = {ratio.step: ratio.verdict for ratio in ratios if ratio.metric in PRIMARY_METRICS}
    words: tuple[tuple[Verdict, str], ...] = (("slower", "longer"), ("faster", "shorter"))
    parts = []
    for verdict, word in words:
        changed = [r for r in ratios if r.metric in LATENCIES and r.verdict == verdict != rates.get(r.step)]
        if changed:
            parts.append(f"{word}: {_effects(changed)}")
    return [f"response times are {'; '.join(parts)}"] if parts else []


def _of_planning(ratios: Sequence[Ratio]) -> list[str]:
    changed = [ratio for ratio in ratios if ratio.metric == DELETE_PLAN and ratio.verdict in CHANGED]
    ordered = sorted(changed, key=_size, reverse=True)
    named = [
        f"{ratio.ratio:.2f} x as long in {ratio.step} [{', '.join(f'{bound:.2f}' for bound in ratio.bounds or ())}]"
        for ratio in ordered[:NAMED]
    ]
    more = f" and differs in {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
    return [f"planning a DELETE takes {', '.join(named)}{more}"] if named else []


def _effects(ratios: Sequence[Ratio]) -> str:
    return _listed(
        f"{f'{LATENCIES[ratio.metric]} of ' if ratio.metric in LATENCIES else ''}{ratio.step} "
        f"{ratio.effect}{' in time' if ratio.metric == TIME else ''}"
        for ratio in sorted(ratios, key=_size, reverse=True)
    )


def _listed(texts: Iterable[str]) -> str:
    items = list(texts)
    return ", ".join(items[:NAMED]) + (f" and {len(items) - NAMED} more" if len(items) > NAMED else "")


def _advice(cells: ComparedCells, subject: Subject, undecided: Sequence[Ratio]) -> str:
    """The further pairs that lead to a verdict; empty if none would."""
    wanted = [ratio.more_pairs for ratio in undecided if ratio.more_pairs is not None]
    if not wanted:
        return ""
    pairs = max(wanted)
    together = max if cells.runs[0].manifest.design.sliced else sum  # interleaved cells run at the same time
    took_s = [together(cell.seconds for cell in pair) for pair in cells.pairs(subject)]
    minutes = math.ceil(pairs * median(took_s) / 60) if took_s else 0
    which = f"{len(wanted)} of them" if len(wanted) < len(undecided) else "them" if len(wanted) > 1 else "it"
    return (
        f"; {pairs} more pair{'s' if pairs > 1 else ''}, about {minutes} minute{'s' if minutes != 1 else ''}, "
        f"would decide {which}"
    )


def _size(ratio: Ratio) -> float:
    return abs(math.log(ratio.ratio or 1.0))


def _half(ratio: Ratio) -> float:
    return math.sqrt((ratio.high or 1.0) / (ratio.low or 1.0)) - 1


def _width(ratio: Ratio) -> str:
    half = _half(ratio)
    return f"±{half:.1%}" if half <= 1 else "over ±100%"
