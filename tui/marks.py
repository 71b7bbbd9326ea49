"""Marks: the meanings of pieces of text, and how each theme shows them.

The colours of two themes are Okabe and Ito's, which colour-blind people can tell apart; the third has none.

Text on a screen is lines of spans: a string and the name of a mark. No mark relies on its colour alone: `stall` is
reversed, with `!` or the sign of its build, `better` and `worse` come with their arrows.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from rich.style import Style
from textual.theme import Theme

from engine.core.errors import unknown
from tui.glyphs import Glyphs

Span = tuple[str, str]  # text, mark
Line = tuple[Span, ...]

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

_PLAIN = {
    "": "",
    "dim": "dim",
    "strong": "bold",
    "title": "reverse",
    "key": "bold",
    "cursor": "reverse",
    "chosen": "bold",
    "stall": "bold reverse",
    "sla": "bold",
    "warning": "bold",
    "better": "bold",
    "worse": "bold",
    "base": "",
    "rate": "",
    "third": "",
    "fourth": "",
    "error": "bold reverse",
    # Frames of a flame graph and their neighbours; frames with more or less than the base; search results.
    **dict.fromkeys(("frame", "frame_next", "same", "same_next", "more_little", "less_little"), ""),
    **dict.fromkeys(("more", "less"), "bold"),
    "found": "bold underline",
}

_FRAMES = {
    "frame": "#11161a on #d9a441",
    "frame_next": "#11161a on #e6bd6d",
    "same": "#11161a on #a9aea8",
    "same_next": "#11161a on #bcc0ba",
    "more": f"bold #ffffff on {VERMILLION}",
    "more_little": "#11161a on #eba27a",
    "less": f"bold #ffffff on {BLUE}",
    "less_little": "#11161a on #8fc3e6",
    "found": f"bold #11161a on {YELLOW}",
}


def _coloured(accent: str, title: str, sla: str, warning: str, base: str, third: str) -> dict[str, str]:
    return {
        **_FRAMES,
        **dict.fromkeys(("key", "chosen", "better"), f"bold {accent}"),
        **dict.fromkeys(("stall", "error"), f"bold reverse {VERMILLION}"),
        "worse": f"bold {VERMILLION}",
        "title": f"bold {accent} on {title}",
        "rate": accent,
        "sla": f"bold {sla}",
        "warning": warning,
        "base": base,
        "third": third,
        "fourth": sla,
    }


_DARK = _coloured(SKY, title="#1d2730", sla=PURPLE, warning=YELLOW, base=ORANGE, third=GREEN)
_LIGHT = _coloured(BLUE, title="#dde6ee", sla="#8f3f6b", warning="bold #7a5c00", base="#9a6a00", third="#00614a")

THEMES = (
    Theme(
        "bench-dark",
        primary=SKY,
        warning=YELLOW,
        error=VERMILLION,
        background="#11161a",
        surface="#161c22",
        foreground="#d8dee4",
        dark=True,
    ),
    Theme(
        "bench-light",
        primary=BLUE,
        warning=ORANGE,
        error=VERMILLION,
        background="#fbfbf8",
        surface="#eef0ee",
        dark=False,
    ),
    Theme("bench-mono", primary="#d0d0d0", background="#000000", surface="#000000", foreground="#d0d0d0", dark=True),
)

SIDES = ("base", "rate", "third", "fourth")  # marks of interleaved builds, the base's first


STYLES = {  # by theme and mark
    theme: {mark: Style.parse(styles.get(mark, plain)) for mark, plain in _PLAIN.items()}
    for theme, styles in (("bench-dark", _DARK), ("bench-light", _LIGHT), ("bench-mono", dict[str, str]()))
}


def chosen_theme(environment: Mapping[str, str]) -> str:
    """The theme that config.toml names, else the first. Raises UserError for an unknown one."""
    names = [theme.name for theme in THEMES]
    wanted = environment.get("PGBED_THEME") or names[0]
    if wanted not in names:
        raise unknown("theme", wanted, names)
    return wanted


def line(*spans: Span | str) -> Line:
    """A line of spans; a string becomes one without a mark."""
    return tuple(span if isinstance(span, tuple) else (span, "") for span in spans)


def width(spans: Line) -> int:
    """Cells of a line; every character is one cell wide."""
    return sum(len(text) for text, _ in spans)


def joined(spans: Iterable[Span]) -> Line:
    """Join neighbours of one mark: a strip of 80 segments costs ten times as much as one of eight."""
    line: list[Span] = []
    for text, mark in spans:
        if line and line[-1][1] == mark:
            line[-1] = (line[-1][0] + text, mark)
        else:
            line.append((text, mark))
    return tuple(line)


def fit(spans: Line, cells: int, ellipsis: str = "~") -> Line:
    """Cut a line to `cells`, with an ellipsis in the last one if anything was cut."""
    if width(spans) <= cells:
        return spans
    kept: list[Span] = []
    room = cells - 1
    for text, mark in spans:
        if room <= 0:
            break
        kept.append((text[:room], mark))
        room -= len(text)
    return (*kept, (ellipsis, "dim")) if cells > 0 else ()


def cut(text: str, cells: int, glyphs: Glyphs) -> str:
    """Cut text to `cells`, with an ellipsis in the last one if anything was cut."""
    return text if len(text) <= cells else text[: max(0, cells - 1)] + glyphs.ellipsis


def fitting(forms: Sequence[str], cells: int) -> str:
    """The first of the forms of a text that fits, or the last one."""
    return next((form for form in forms if len(form) <= cells), forms[-1])


def rule(text: str, columns: int, glyphs: Glyphs, right: str = "") -> Line:
    """A heading in a rule."""
    text = f" {text} "[: max(0, columns - 4)]
    right = f" {right} " if right else ""
    rest = columns - 1 - len(text) - len(right) - 1
    if rest < 1:
        right, rest = "", columns - 2 - len(text)
    return line(
        (glyphs.rule, "dim"), (text, "strong"), (glyphs.rule * rest, "dim"), (right, "dim"), (glyphs.rule, "dim")
    )


def folded(text: str, columns: int, mark: str = "", indent: int = 1) -> list[Line]:
    """Wrap text, indenting further lines by two more."""
    rows = textwrap.wrap(text, max(10, columns - indent - 2))
    return [line((" " * (indent + 2 * (number > 0)) + row, mark)) for number, row in enumerate(rows)]


def hanging(head: Span, text: str, columns: int, mark: str = "") -> list[Line]:
    """A head with text to its right, wrapped."""
    indent = len(head[0])
    rows = textwrap.wrap(text, max(10, columns - indent - 1)) or [""]
    return [line(head if number == 0 else " " * indent, (row, mark)) for number, row in enumerate(rows)]


def side_by_side(left: Sequence[Line], right: Sequence[Line], cells: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """Two columns of lines, the left one `cells` wide, with a bar between."""
    lines = []
    for row in range(rows):
        first = fit(left[row], cells, glyphs.ellipsis) if row < len(left) else ()
        second = right[row] if row < len(right) else ()
        lines.append((*first, (" " * (cells - width(first)), ""), (glyphs.bar, "dim"), *second))
    return lines
