"""An interleaved step, pair by pair and block by block: tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from engine.core.text import Visible, visible_json
from engine.results.section import Column, Row, Section, columns, percent
from engine.results.sliced_step import SlicedBlock, SlicedCheck, SlicedPair, SlicedStep

MOST_LINES = 60  # of a pair on a terminal


def sections(step: SlicedStep, *, brief: bool = False) -> list[Section]:
    """A table for each pair, with a line for each block or, if `brief` and there are many, for several."""
    return [_section(step, pair, _together(pair) if brief else 1) for pair in step.pairs]


def header(step: SlicedStep) -> list[str]:
    error = "each interval covers one pair, and noise shorter than a second"
    lines = [f"{step.step} in {step.design}, ratio of {step.unit} to {step.base}; {error}"]
    lines += [f"{title(pair)}: {summary(pair)}" for pair in step.pairs]
    lines += [check_text(check) for check in step.checks if check.ratios]
    return lines


def footer(step: SlicedStep, *, brief: bool = False) -> list[str]:
    several = brief and any(_together(pair) > 1 for pair in step.pairs)
    return [
        *(["statements last longer than blocks: the ratio is of their times"] if _timed(step) else []),
        *(["lines of several blocks show their means; --json has every block"] if several else []),
        "at: seconds of the clock since the step began; order: of turns, A is the base; so far: ratio of totals",
        "spill: spill-over CPU: used in the other's slices, as a share of CPU used in its own",
        "run-q: us per op that server processes waited for a CPU, base and other",
        "others: CPUs that were busy with programs other than this run's servers, clients and engine",
    ]


def title(pair: SlicedPair) -> str:
    return f"{pair.subject} / {pair.base}, repeat {pair.repeat} of {pair.run}"


def summary(pair: SlicedPair) -> str:
    if pair.ratio is None:
        return "no ratio"
    bounds = f" [{pair.low:.3f}, {pair.high:.3f}]" if pair.low is not None and pair.high is not None else ""
    typical = f", typical {pair.typical:.3f}" if pair.typical is not None else ""
    spill_over = f", spill-over {percent(pair.base_spill_over_share)} and {percent(pair.other_spill_over_share)}"
    left_out = f"; left out of the comparison: {pair.left_out}" if pair.left_out else ""
    blocks = f", {len(pair.blocks)} blocks"
    return f"{pair.ratio:.3f}{bounds}{typical}{blocks}{spill_over}{left_out}"


def check_text(check: SlicedCheck) -> str:
    return (
        f"self-check of {check.subject}: errors are {check.f:.2f} x the computed ones ({check.ratios} ratios of "
        "a server to itself, whose truth is 1)"
    )


def to_json(step: SlicedStep) -> Visible:
    """The JSON described by `bench schema slices`, on one line: there may be thousands of blocks."""
    return visible_json(msgspec.to_builtins(step))


def _timed(step: SlicedStep) -> bool:
    return any(pair.ratio is not None and all(block.ratio is None for block in pair.blocks) for pair in step.pairs)


def _together(pair: SlicedPair) -> int:
    return math.ceil(len(pair.blocks) / MOST_LINES) or 1


def _section(step: SlicedStep, pair: SlicedPair, together: int) -> Section:
    headings = columns(
        "block", "at s", "order", f"base\n{step.unit}", f"other\n{step.unit}", Column("ratio", "fixed"),
        Column("so far", "fixed"), Column("spill", "share"), "run-q\nbase", "run-q\nother", "others\nCPUs",
    )  # fmt: skip
    rows = (_line(pair.blocks[start : start + together]) for start in range(0, len(pair.blocks), together))
    return Section("blocks", f"{step.step}: {title(pair)}", headings, tuple(rows))


def _line(blocks: Sequence[SlicedBlock]) -> Row:
    first, last = blocks[0], blocks[-1]
    sides = [[block.base for block in blocks], [block.other for block in blocks]]
    rates = [_mean(block.rate_per_s for block in side) for side in sides]
    spills = [spill for side in sides if (spill := _mean(block.spill_over_share for block in side)) is not None]
    waits = [_mean(block.runq_us_per_op for block in side) for side in sides]
    others = _mean(block.others_cpus for block in blocks)
    ratio = rates[1] / rates[0] if rates[0] and rates[1] is not None else None
    values = (
        f"{first.at_s:.1f}",
        first.order if len({block.order for block in blocks}) == 1 else "any",
        *rates,
        first.ratio if first is last else ratio,
        last.running,
        max(spills, default=None),
        *waits,
        "-" if others is None else f"{others:.2f}",
    )
    return Row(str(first.block) if first is last else f"{first.block}-{last.block}", values)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
