"""A flame graph as lines: rows of frames, the chosen one in words, or a list of functions. Pure: values to lines."""

from collections.abc import Collection, Sequence

from engine.results.flame import FlameGraph
from tui.flame.tree import Box, CallFrame, Function, Side
from tui.glyphs import Glyphs
from tui.marks import Line, Span, cut, joined, line

PALE, DEEP = 0.001, 0.02  # shares of all samples from which a change is shown, and shown strongly
SHARE_CELLS, BAR_CELLS = 9, 20
NO_MORE = ", no more than chance"
NAME_CELLS = 60  # maximum; bars take the remaining width


def change_mark(change: float) -> str:
    """The style of a change, given as a share of all samples."""
    if abs(change) < PALE:
        return ""
    return f"{'more' if change > 0 else 'less'}{'_little' if abs(change) < DEEP else ''}"


def change_sign(change: float, glyphs: Glyphs) -> str:
    """The sign of a change: more work points down, like a worse result."""
    return "" if abs(change) < PALE else glyphs.worse if change > 0 else glyphs.better


def certain_mark(change: float, glyphs: Glyphs, *, certain: bool) -> tuple[str, str]:
    """The style and sign of a change; both empty if it may be chance."""
    sign = change_sign(change, glyphs) if certain else ""
    return ("dim" if not sign else "worse" if change > 0 else "better"), sign


def percent(part: float) -> str:
    """A share as `12%`, `1.3%`, `0.04%`."""
    size = abs(part)
    return f"{part:.{0 if size >= 0.1 else 1 if size >= 0.01 else 2}%}"


def signed(part: float) -> str:
    return f"{'+' if part >= 0 else '-'}{percent(abs(part))}"


def counted(graph: FlameGraph, many: int) -> str:
    """The number of samples, `1,234 samples`, or time, `12.345 s off the CPU`."""
    return f"{many / 1e6:,.3f} s off the CPU" if graph.offcpu else f"{many:,} samples"


def row(
    boxes: Sequence[Box],
    cells: int,
    total: float,
    chosen: CallFrame,
    matches: Collection[int],
    glyphs: Glyphs,
    *,
    differential: bool,
) -> Line:
    """Frames of one depth as boxes with as much of their names as fits; `*` marks search results."""
    spans: list[Span] = []
    at = 0
    for place, box in enumerate(boxes):
        frame, wide = box.frame, box.end - box.start
        spans.append((" " * (box.start - at), ""))
        change = frame.change / total if total and frame.certain else 0.0
        mark = change_mark(change) if differential else ""
        mark = mark or f"{'same' if differential else 'frame'}{'_next' * (place % 2)}"
        sign = change_sign(change, glyphs) if differential else ""
        hit = "*" if id(frame) in matches else ""
        text = cut(f"{sign}{hit}{frame.name}", wide - 1, glyphs) if wide > 3 else (hit or sign)[: wide - 1]
        mark_of = "cursor" if frame is chosen else "found" if hit else mark
        spans.append((f"{glyphs.bar}{text}".ljust(wide)[:wide], mark_of))
        at = box.end
    spans.append((" " * (cells - at), ""))
    return joined(spans)


def details(graph: FlameGraph, frame: CallFrame, root: CallFrame, side: Side, glyphs: Glyphs) -> list[Line]:
    """Describe the chosen frame: its whole name, its share, its own share, and its change."""
    total = root.samples(side) or 1.0
    head = line((f" {frame.name}", "strong"), f"  {frame.samples(side) / total:.1%}")
    samples = frame.own_other if side == "other" else frame.own_base
    below = frame.samples(side) - samples
    parts = [f" itself {percent(samples / total)}, in what it calls {percent(below / total)}"]
    if graph.other is None:
        return [(*head, (f" of {counted(graph, graph.base.samples)}", "dim")), line((parts[0], ""))]
    root_total = root.other or 1.0
    change = frame.change / root_total
    mark, sign = certain_mark(change, glyphs, certain=frame.certain)
    text = f"{sign}{signed(change)}{'' if frame.certain else NO_MORE}"
    told_change = f"  base {percent(frame.base / root_total)}, other {percent(frame.other / root_total)}: "
    effect = next((function.effect for function in graph.functions if function.name == frame.name), "")
    per_operation = (f"; {effect} of CPU per operation, in all", "strong") if effect else ""
    return [line(*head, (told_change, ""), (text, mark)), line((parts[0], ""), per_operation)]


def compared(graph: FlameGraph, root: CallFrame, side: Side, columns: int, glyphs: Glyphs) -> list[Line]:
    """Two lines: the subject of the drawing, and the meaning of its signs."""
    if graph.other is None:
        all_of_it = counted(graph, graph.base.samples) + ("" if graph.offcpu else " on CPU")
        text = f" {graph.base.name}: {all_of_it}; a frame is as wide as its part of them"
        return [line((cut(text, columns, glyphs), "dim"))]
    of = graph.other if side == "other" else graph.base
    against = f"{graph.base.samples / 1e6:,.3f} s" if graph.offcpu else f"{graph.base.samples:,}"
    samples = f" {counted(graph, graph.other.samples)} of {graph.other.name} against {against} of {graph.base.name}"
    ratio = root.other / root.base if root.base else 1.0
    per = f", {graph.compared}: {signed(ratio - 1)}" if graph.compared == "per statement" else f", {graph.compared}"
    legend = line(
        (f" {glyphs.worse} takes more", "worse"),
        (f"  {glyphs.better} takes less", "better"),
        (f"  than chance explains; widths: {of.name}", "dim"),
    )
    return [line((cut(samples + per, columns, glyphs), "dim")), legend]


def functions(
    graph: FlameGraph,
    root: CallFrame,
    shown: Sequence[Function],
    cursor: int,
    top: int,
    height: int,
    columns: int,
    glyphs: Glyphs,
) -> list[Line]:
    """The functions from `top` on with their own samples, baseline against other, as a bar and in digits."""
    differential = graph.other is not None
    total = (root.other if differential else root.base) or 1.0
    heads = ("base", "other", "change") if differential else ("itself", "with calls")
    room = columns - 1 - len(heads) * (SHARE_CELLS + 2) - 1
    names = max(8, min(NAME_CELLS, room - BAR_CELLS))
    longest = max(0, room - names)
    lines = [line((f" {'function':<{names}}" + "".join(f"{head:>{SHARE_CELLS + 2}}" for head in heads), "dim"))]
    widest = max((_size(function, differential=differential) for function in shown), default=0.0) or 1.0
    for place, function in enumerate(shown[top : top + height - 1], top):
        here = place == cursor
        change = function.change / total
        values = [function.own_base, function.own_other] if differential else [function.own_base, function.base]
        text = "".join(f"{percent(value / total):>{SHARE_CELLS + 2}}" for value in values)
        spans: list[Span] = [(">" if here else " ", "chosen")]
        spans.append((f"{cut(function.name, names - 1, glyphs):<{names}}", "cursor" if here else ""))
        spans.append((text, ""))
        mark = "rate"
        if differential:
            mark, sign = certain_mark(change, glyphs, certain=function.certain)
            spans.append((f"{sign + signed(change):>{SHARE_CELLS + 2}}", mark))
        bar = round(_size(function, differential=differential) / widest * longest)
        spans += [(" ", ""), (glyphs.done * bar, mark)]
        lines.append(tuple(spans))
    return lines


def _size(function: Function, *, differential: bool) -> float:
    return abs(function.change) if differential else function.own_base
