"""The Launch screen as lines: panels of items, and the head with the plan's size."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from engine.builds.label import name_of
from engine.core.format import size, span
from engine.plan.request import Request
from tui.glyphs import Glyphs
from tui.launch.choices import Choices, Item, unfinished
from tui.launch.plan_edits import repeats_of
from tui.marks import Line, fit, line, width

Grid = tuple[int, range]  # columns of items, and the visible rows

ASIDE_CELLS = 36  # a panel this wide has room for a few words after each name


@dataclass(frozen=True, slots=True)
class PanelForm:
    """Layout of a panel: items in `columns`, as fields (name, then value), or `inline` in the title's row.

    Texts follow names of `name_cells`; `groups` precede names; texts aside start at `aside_at`. A panel of `wide_at`
    cells has `wide_columns`.
    """

    title: str
    hint: str = ""
    columns: int = 1
    wide_columns: int = 1
    wide_at: int = 100
    aside_at: int = 28
    fields: bool = False
    inline: bool = False
    name_cells: int = 0
    groups: bool = False


def panel(
    form: PanelForm,
    items: Sequence[Item],
    cursor: int,
    grid: Grid,
    cells: int,
    glyphs: Glyphs,
    *,
    focused: bool,
    note: str = "",
    instead: str = "",
) -> list[Line]:
    """A panel: its title with a rule, then the visible items, or `instead` if there are none."""
    waits = [line((f" {instead}", "dim"))] if instead and not items else []
    if form.inline:
        line_of_items = _inline(form, items, cursor, focused=focused)
        return [fit((*line_of_items, *(waits[0] if waits else ())), cells, glyphs.ellipsis)]
    columns, seen = grid
    deep = -(-len(items) // columns)
    place = f"{seen.start + 1}-{seen.stop}/{deep}" if deep > len(seen) else ""
    lines = [_title(form, cells - 1, glyphs, focused, note, place)]
    cell_width = (cells - 1) // columns
    for row in seen:
        spans: list[tuple[str, str]] = []
        for number in range(row * columns, min(len(items), (row + 1) * columns)):
            above = items[number - columns].group if row > seen.start else ""
            item = _item(items[number], focused and number == cursor, form, cell_width, glyphs, above)
            spans += [*item, (" " * max(0, cell_width - width(item)), "")]
        lines.append(tuple(spans))
    return lines + waits


def grid(form: PanelForm, count: int, cursor: int, cells: int, rows: int, top: int = 0) -> Grid:
    """Lay out items from row `top` on, scrolled if the cursor would not be visible."""
    if form.inline:
        return max(1, count), range(1)
    columns = max(1, min(form.wide_columns if cells >= form.wide_at else form.columns, count))
    deep, room = -(-count // columns), max(1, rows - 1)
    at = cursor // columns
    if not top <= at < top + room:
        top = at - room // 2  # centres the cursor's row
    top = max(0, min(top, deep - room))
    return columns, range(top, min(deep, top + room))


def _inline(form: PanelForm, items: Sequence[Item], cursor: int, *, focused: bool) -> Line:
    spans: list[tuple[str, str]] = [(f"{'>' if focused else ' '}{form.title} ", "chosen" if focused else "strong")]
    for number, item in enumerate(items):
        at = focused and number == cursor
        name = "cursor" if at else "chosen" if item.mark == "chosen" else ""
        spans += [(" ", ""), (item.box, item.mark), (f" {item.name}", name)]
    return tuple(spans)


def place_of(form: PanelForm, items: Sequence[Item], grid: Grid, cells: int, x: int, y: int) -> int | None:
    """Index of the item drawn at (x, y) of its panel, if any."""
    if form.inline:
        ends = (width(_inline(form, items[: number + 1], 0, focused=True)) for number in range(len(items)))
        begins = width(_inline(form, (), 0, focused=True))
        return next((number for number, end in enumerate(ends) if begins <= x < end), None) if y == 0 else None
    columns, seen = grid
    row = seen.start + y - 1  # below the title
    place = row * columns + min(x * columns // max(1, cells - 1), columns - 1)
    return place if row in seen and place < len(items) else None


def head(
    plan: Request, file: str, estimate: dict[str, Any] | None, trouble: str, doing: str, refused: str = ""
) -> list[Line]:
    """Two lines: the plan's size and smallest detectable effect; or the error, or why it did not start."""
    first: list[tuple[str, str]] = [(" LAUNCH ", "title"), (f" plan {file or 'not saved'}", "")]
    if plan.base_build is not None:
        first.append((f"  base {name_of(plan.base_build)}", "base"))
    if estimate is not None and not trouble:
        first.append((f"  {amount(estimate)}", "strong"))
    if doing:
        return [tuple(first), line((f" {doing}", "warning"))]
    if trouble:
        return [tuple(first), line((f" ? {trouble}", "warning"))]
    if refused:
        return [tuple(first), line((f" x {refused}", "warning"))]
    if not plan.builds:
        return [tuple(first), line((" space on a plan that is ready, or on each of the builds to compare", "dim"))]
    return [tuple(first), line((f" {_effect(plan, estimate)}", "dim"))]


def amount(estimate: dict[str, Any]) -> str:
    cells, seconds, needed = (estimate[name] for name in ("cell_count", "total_s", "needed_bytes"))
    return f"{cells} cell{'s' if cells != 1 else ''}, about {span(seconds)}, {size(needed)} of disk"


def _effect(plan: Request, estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return "counting cells"
    if plan.subjects < 2:
        return "one build under one config: nothing to compare it with (another build, a config, or A/A)"
    repeats = repeats_of(plan, estimate)
    if repeats < 3:
        bear = f"{repeats} repeat{'s bear' if repeats > 1 else ' bears'}"
        return f"{bear} no verdict: 3 pairs are the least"
    noise = estimate["noise"]
    if noise is None and estimate.get("interleave") == "slices":
        return "smallest visible effect unknown before the first run in slices on this host"
    if noise is None:
        return "smallest visible effect unknown: no A/A run on this machine yet (A/A makes one)"
    by_size = sorted(noise["steps"].items(), key=lambda step: float(step[1]))
    (least, small), (most, large) = by_size[0], by_size[-1]
    upto = f" to {large:.1%} ({most})" if most != least else ""
    kind = "slices" if noise.get("sliced") else "A/A"
    return f"smallest visible effect ~{small:.1%} ({least}){upto}, by {kind} {noise['run']}"


def detail(item: Item | None, cells: int) -> list[Line]:
    rows = wrap(item.detail if item else "", max(1, cells - 2), break_on_hyphens=False)
    return [line((f" {row}", "dim")) for row in rows[:2]]


def counted(checks: Sequence[Item]) -> str:
    """Summary such as `15 ok  3 ?  1 x`."""
    signs = [item.box for item in checks]
    return "  ".join(f"{signs.count(sign)} {sign}" for sign in ("ok", "?", "x") if sign in signs)


def small(
    plan: Request, estimate: dict[str, Any] | None, trouble: str, checks: Sequence[Item], offer: Choices
) -> list[Line]:
    lines = [line(("LAUNCH", "strong"))]
    builds = ", ".join(name_of(build) for build in plan.builds) or "none chosen yet"
    lines.append(line(f"builds   {builds}"))
    beside = f", each with {plan.set_each}" if plan.set_each else ""
    lines.append(line(f"configs  {', '.join(plan.configs)}{beside}"))
    lines.append(line(f"load     {offer.load(plan)}, {repeats_of(plan, estimate)} repeats"))
    if estimate is not None and not trouble:
        lines.append(line(amount(estimate)))
    if trouble:
        lines.append(line((f"? {trouble}", "warning")))
    lines.append(line(f"preflight: {counted(checks) or 'looking'}"))
    lines += [line((f"x {item.name}: {item.text}", "error")) for item in checks if item.box == "x"]
    if left := len(unfinished(offer)):
        lines.append(line(f"{left} unfinished run{'s' if left != 1 else ''}: r resumes one"))
    return lines


def _title(form: PanelForm, cells: int, glyphs: Glyphs, focused: bool, note: str, place: str) -> Line:
    name = f"{'>' if focused else ' '}{form.title} "
    facts = " ".join(part for part in (note, place) if part)
    if len(name) + len(facts) + 1 > cells:
        facts = place
    facts = f"{facts} " if facts else ""
    room = max(0, cells - len(name) - len(facts))
    hint = f" {form.hint} " if focused and form.hint and len(form.hint) + 3 <= room else ""
    rule = glyphs.rule * (room - len(hint))
    title = line((name, "chosen" if focused else "strong"), (facts, "dim"), (rule, "dim"), (hint, "key"))
    return fit(title, cells, glyphs.ellipsis)


def _item(item: Item, at: bool, form: PanelForm, cells: int, glyphs: Glyphs, above: str) -> Line:
    sign = ">" if at else " "
    cursor = "cursor" if at else ""
    if form.fields:
        value = f"< {item.text} >" if at and item.lesser is not None else item.text
        return fit(line((f"{sign}{item.name:<13} ", cursor), (value, cursor or item.mark)), cells - 1, glyphs.ellipsis)
    name_mark = cursor or ("chosen" if item.mark == "chosen" else "")
    group = ((f"{item.group if item.group != above else '':<4}", "strong"),) if form.groups else ()
    name = f" {item.shown or item.name}".ljust(form.name_cells + 1)
    spans = line((sign, cursor), *group, (item.box, item.mark), (name, name_mark))
    if item.text and cells - width(spans) > 3:
        gap = "  " if form.columns == 1 else " "
        spans = (*spans, (gap + item.text, "dim"))
    if item.aside and cells >= ASIDE_CELLS:
        spans = (*spans, (" " * max(1, form.aside_at - width(spans)) + item.aside, "dim"))
    return fit(spans, cells - 1, glyphs.ellipsis)
