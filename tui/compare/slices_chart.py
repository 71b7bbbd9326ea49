"""The slices of a step: each block's ratio as a dot over time, and below it the CPUs that other processes used."""

from math import ceil, floor

from engine.core.format import short, three
from engine.results.sliced_step import SlicedCheck, SlicedPair
from engine.view.envelope import columns_of, envelope
from tui.compare.comparison_table import ratio_text
from tui.glyphs import Glyphs
from tui.marks import Line, Span, folded, joined, line
from tui.widgets.chart import nice
from tui.widgets.raster import columns_per_cell, dots_per_cell, level, raster, scatter

LABEL_CELLS = 7  # left of the charts, whose columns are the same moments
OUTSIDE = 0.05  # share of blocks that may lie outside the scale at either end: one wild block would flatten the rest
LEAST_SPAN = 0.02
MARGIN = 0.1  # of the scale, above and below
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
MOST_TICKS = 10
THICK = 2  # blocks per column up to which each is drawn as four braille dots, since one is hard to see


def end_s(pair: SlicedPair) -> float:
    blocks = [block.at_s + block.length_s for block in pair.blocks]
    return max([*blocks, *(second.at_s + second.length_s for second in pair.machine)], default=0.0)


def scale(pair: SlicedPair) -> tuple[float, float]:
    """Round ratios for both edges, with 1, most blocks and the final running ratio between them."""
    ratios = sorted(block.ratio for block in pair.blocks if block.ratio is not None)
    cut = int(OUTSIDE * len(ratios))
    inner = ratios[cut : len(ratios) - cut]
    shown = [1.0, *([pair.ratio] if pair.ratio is not None else []), *inner[:1], *inner[-1:]]
    low, high = min(shown), max(shown)
    margin = max(MARGIN * (high - low), (LEAST_SPAN - (high - low)) / 2)
    low, high = max(0.0, low - margin), high + margin
    tick = next((tick for tick in TICKS if high - low <= MOST_TICKS * tick), TICKS[-1])
    return floor(low / tick) * tick, ceil(high / tick) * tick


def ratios(pair: SlicedPair, cells: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """Draw the ratios with their scale at the left, the highest row first."""
    end, (low, high) = end_s(pair), scale(pair)
    if not pair.blocks or end <= 0 or cells <= 0 or rows <= 0:
        return [line((" " * LABEL_CELLS + "no block is whole: there is no ratio to draw", "dim"))]

    def height(ratio: float) -> float:
        return max(0.0, min((ratio - low) / (high - low), 1.0))

    across, up = dots_per_cell(glyphs)
    dots = [
        ((block.at_s + block.length_s / 2) / end, height(block.ratio))
        for block in pair.blocks
        if block.ratio is not None
    ]
    if glyphs.name == "braille" and len(dots) <= THICK * cells:
        right, above = 1 / (cells * across), 1 / (rows * up)
        dots = [(min(1.0, x + dx), min(1.0, y + dy)) for x, y in dots for dx in (0.0, right) for dy in (0.0, above)]
    running = _running(pair, end, cells * across)
    means = [(x, height(ratio)) for x, ratio in running.items()]
    line_cells = {(x // across, level(y, 1.0, rows * up) // up) for x, y in means}
    if glyphs.name == "braille":  # the line is finer than a character and hides no dot
        dots += [((x + 0.5) / (cells * across), y) for x, y in means]
    drawn = scatter(dots, cells, rows, glyphs)
    reference = level(height(1.0), 1.0, rows * up) // up
    labels = {rows - 1: ratio_text(high), 0: ratio_text(low)}
    labels |= {reference: "1.000"} if 0 < reference < rows - 1 or labels.get(reference) is None else {}
    lines = []
    for y, text in enumerate(drawn):
        ratio_row = rows - 1 - y
        row: list[Span] = [(f"{labels.get(ratio_row, ''):>{LABEL_CELLS - 1}} ", "dim")]
        for x, character in enumerate(text):
            if (x, ratio_row) in line_cells:
                row.append((character if glyphs.name == "braille" else "=", "rate"))
            elif character == " " and ratio_row == reference:
                row.append((glyphs.dash, "base"))
            else:
                row.append((character, ""))
        lines.append(joined(row))
    return lines


def others(pair: SlicedPair, cells: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """Draw the CPUs used by other processes on the same time axis, from 0 to all CPUs of the machine."""
    end = end_s(pair)
    if not pair.machine or end <= 0 or cells <= 0 or rows <= 0:
        return [line((" " * LABEL_CELLS + "the machine's CPUs were not sampled", "dim"))]
    top = float(pair.cpus) if pair.cpus else nice(max(second.others_cpus for second in pair.machine))
    points = ((second.at_s + second.length_s, second.length_s, second.others_cpus) for second in pair.machine)
    drawn = raster(envelope(points, 0.0, end, cells * columns_per_cell(glyphs)), top, rows, glyphs)
    labels = {0: short(top), rows - 1: "0"}
    return [line((f"{labels.get(y, ''):>{LABEL_CELLS - 1}} ", "dim"), (text, "sla")) for y, text in enumerate(drawn)]


def axis(pair: SlicedPair, cells: int) -> Line:
    right = f"{three(end_s(pair))} s of the clock"
    return line((f"{'':{LABEL_CELLS}}0{right:>{max(1, cells - 1)}}", "dim"))


def summary(pair: SlicedPair, check: SlicedCheck | None, columns: int) -> list[Line]:
    """Summarise the blocks and how far they can be trusted, in as many lines as needed."""
    if pair.ratio is None:
        came_to = line((" no ratio: a server did nothing in its slices", "warning"))
    else:
        bounds = f" {pair.low:.3f}-{pair.high:.3f}" if pair.low is not None and pair.high is not None else ""
        blocks = f"  {len(pair.blocks)} blocks, for these two clusters"
        typical = f"  typical {pair.typical:.3f}" if pair.typical is not None else ""
        came_to = line(" ratio ", (f"{pair.ratio:.3f}", "strong"), bounds, typical, (blocks, "dim"))
    if pair.left_out:
        return [came_to, *folded(f"left out of the comparison: {pair.left_out}", columns, "warning")]
    spill_over = (
        f"CPU in the other's slices {_percent(pair.base_spill_over_share)}, {_percent(pair.other_spill_over_share)}"
    )
    if check is None or not check.ratios:
        return [came_to, *folded(f"self-check: too few blocks to tell; {spill_over}", columns)]
    errors = f"self-check: errors {check.f:.2f} x the computed ones ({check.ratios} ratios)"
    return [came_to, *folded(f"{errors}; {spill_over}", columns, "warning" if check.suspect else "")]


def legend(glyphs: Glyphs) -> Line:
    dot, mean = ("⠛", "⠒⠒") if glyphs.name == "braille" else (glyphs.dot, "==")
    return line(
        (f" {dot} block, at the edge: off scale  ", "dim"),
        (mean, "rate"),
        (" ratio of totals so far  ", "dim"),
        (glyphs.dash * 2, "base"),
        (" no difference", "dim"),
    )


def heading(pair: SlicedPair) -> str:
    """The heading of the chart of other processes, with their mean."""
    if not pair.machine:
        return "others on this machine"
    length = sum(second.length_s for second in pair.machine) or 1.0
    busy = sum(second.others_cpus * second.length_s for second in pair.machine) / length
    stolen = sum(second.stolen_cpus * second.length_s for second in pair.machine) / length
    of = f" of {pair.cpus}" if pair.cpus else ""
    taken = f", {stolen:.2f} stolen by the hypervisor" if stolen >= 0.005 else ""
    return f"others on this machine: {busy:.2f}{of} CPUs on average{taken}"


def _running(pair: SlicedPair, end: float, columns: int) -> dict[int, float]:
    by_column: dict[int, float] = {}
    for block in pair.blocks:
        if block.running is not None:
            for x in columns_of(0.0, end, block.at_s, block.at_s + block.length_s, columns):
                by_column[x] = block.running
    known: float | None = None
    last = max(by_column, default=-1)
    for x in range(last + 1):  # bridges gaps: a line has no holes
        known = by_column.get(x, known)
        if known is not None:
            by_column[x] = known
    return by_column


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"
