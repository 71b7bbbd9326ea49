"""The row below a chart: times, checkpoints, autovacuum and the user's marks."""

from collections.abc import Iterable

from engine.journal.rows import EventRow
from engine.view.envelope import columns_of
from engine.view.events import until_ns
from engine.view.step_series import SECOND_NS
from tui.glyphs import Glyphs
from tui.marks import Line, joined
from tui.widgets.column_cache import Axis

STEPS_S = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800, 2592000
)  # fmt: skip
APART = 12  # least distance of two labels, in cells
# Symbol where an event of a kind begins; in a cell with several events the kind listed first wins.
KINDS = {"mark": ("m", "key"), "checkpoint": ("c", "strong"), "autovacuum": ("v", "dim")}


def ticks(axis: Axis, zero: float, cells: int) -> list[tuple[int, str]]:
    """Columns and words of the times on an axis, in round numbers from `zero` on."""
    length_s = (axis.end - axis.start) / SECOND_NS
    if cells <= 0 or length_s <= 0:
        return []
    step = next((step for step in STEPS_S if step * cells >= APART * length_s), STEPS_S[-1])
    first = -(-int((axis.start - zero) / SECOND_NS) // step)
    labels = []
    for number in range(first, first + cells):
        at = zero + number * step * SECOND_NS
        column = int((at - axis.start) / (axis.end - axis.start) * cells)
        if column >= cells:
            break
        if column >= 0:
            labels.append((column, time_words(number * step)))
    return labels


def time_words(seconds: int) -> str:
    """`45s`, `5m`, `2:30`, `1h`, `1h30`, `1:00:05`."""
    hours, minutes, rest = seconds // 3600, seconds % 3600 // 60, seconds % 60
    if hours and rest:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    if hours:
        return f"{hours}h{minutes:02d}" if minutes else f"{hours}h"
    if not minutes:
        return f"{rest}s"
    return f"{minutes}:{rest:02d}" if rest else f"{minutes}m"


def axis_row(
    axis: Axis, zero: float, cells: int, events: Iterable[tuple[EventRow, float, float]], glyphs: Glyphs
) -> Line:
    """Draw the row. An event, given with its start and end, takes the cell in which it begins; times have the rest."""
    row: list[tuple[str, str]] = [(" ", "dim")] * cells
    by_kind: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for event, start, end in events:
        if event.kind in KINDS:
            by_kind[event.kind].append((start, end))
    for start, end in by_kind["checkpoint"]:
        for x in columns_of(axis.start, axis.end, start, end, cells):
            row[x] = (glyphs.rule, "dim")
    for kind in reversed(KINDS):
        for start, _ in by_kind[kind]:
            for x in columns_of(axis.start, axis.end, start, start, cells):
                row[x] = KINDS[kind]
    for column, words in ticks(axis, zero, cells):
        text = glyphs.tick + words
        free = all(row[x][0] in (" ", glyphs.rule, "v") for x in range(column, min(cells, column + len(text))))
        if free and column + len(text) <= cells:
            row[column : column + len(text)] = [(character, "dim") for character in text]
    return joined(row)


def placed(event: EventRow, at_ns: int) -> tuple[EventRow, float, float]:
    """An event with its start and end by the clock (so far, if it lasts)."""
    return event, event.started_ns, until_ns(event, at_ns)
