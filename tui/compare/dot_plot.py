"""Every cell as a dot, one line per subject, all on one scale. A mean hides two modes; dots do not."""

from collections.abc import Sequence
from dataclasses import dataclass

from tui.compare.comparison_table import figure_text
from tui.glyphs import Glyphs
from tui.marks import Line, Span, cut

NAME_CELLS = 17
VALUE_CELLS = 7


@dataclass(frozen=True, slots=True)
class DotRow:
    name: str
    values: tuple[float, ...]
    note: str = ""
    mark: str = ""
    chosen: bool = False
    metric: str = ""


def dots(values: Sequence[float], low: float, high: float, columns: int, glyphs: Glyphs) -> str:
    """Draw a dot for each value between low and high; a digit where several coincide, `9` for nine or more."""
    counts = [0] * columns
    for value in values:
        share = (value - low) / (high - low) if high > low else 0.5
        counts[max(0, min(columns - 1, round(share * (columns - 1))))] += 1
    signs = {0: " ", 1: glyphs.dot}
    return "".join(signs.get(count, str(min(count, 9))) for count in counts)


def strips(rows: Sequence[DotRow], columns: int, glyphs: Glyphs) -> list[Line]:
    """Lines of name, lowest value, dots, highest value, and the note if it fits."""
    everything = [value for row in rows for value in row.values]
    low, high = min(everything, default=0.0), max(everything, default=0.0)
    notes = max((len(row.note) for row in rows), default=0)
    across = columns - NAME_CELLS - 2 * VALUE_CELLS - 4 - (notes + 1 if notes else 0)
    lines: list[Line] = []
    for row in rows:
        name = cut(row.name, NAME_CELLS - 1, glyphs)
        spans: list[Span] = [(">" if row.chosen else " ", "chosen"), (name.ljust(NAME_CELLS), row.mark)]
        if row.values:
            lowest, highest = (figure_text(row.metric, bound) for bound in (min(row.values), max(row.values)))
            spans += [
                (f"{lowest:>{VALUE_CELLS}} ", ""),
                (glyphs.bar, "dim"),
                (dots(row.values, low, high, max(1, across - 1), glyphs), row.mark or "strong"),
                (glyphs.bar, "dim"),
                (f"{highest:>{VALUE_CELLS}}", ""),
            ]
            if row.note:
                spans.append((f" {row.note}", "warning"))
        else:
            spans.append((f"{'-':>{VALUE_CELLS}}", "dim"))
        lines.append(tuple(spans))
    return lines
