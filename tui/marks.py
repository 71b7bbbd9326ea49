"""What a piece of text means, and how each theme shows that.

The colours of the first three themes are those of Okabe and Ito, distinct for all; further ones are Textual's own,
whose colours are darkened or lightened until they can be read as text.

Text on a screen is lines of spans: a string and the name of a mark. No mark is known by its colour alone: `stall` is
reversed and comes with `!`, `better` and `worse` come with their arrows.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from rich.style import Style
from textual.color import BLACK, WHITE, Color
from textual.theme import BUILTIN_THEMES, Theme

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
    # Frames of a flame graph and the one beside them; those that take more or less than the base's; what was found.
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

_OWN = (
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

# Textual's own, the light ones last. They go round after ours.
TAKEN = ("nord", "gruvbox", "tokyo-night", "dracula", "monokai", "catppuccin-mocha", "catppuccin-latte",
         "solarized-light", "atom-one-light", "rose-pine-dawn")  # fmt: skip
THEMES = (*_OWN, *(BUILTIN_THEMES[name] for name in TAKEN))
LEGIBLE = 4.5  # least contrast of text with its background, as WCAG has it

SIDES = ("base", "rate", "third", "fourth")  # the marks of builds that are drawn over each other, the base's first


def contrast(one: Color, other: Color) -> float:
    """How well one can be told from the other, from 1 to 21. https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio"""
    lesser, greater = sorted(
        sum(
            share * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
            for share, part in zip((0.2126, 0.7152, 0.0722), colour.normalized, strict=True)
        )
        for colour in (one, other)
    )
    return (greater + 0.05) / (lesser + 0.05)


def _of_theme(theme: Theme) -> dict[str, str]:
    """The marks in the colours of one of Textual's themes."""
    background = Color.parse(theme.background or "#121212")
    towards = WHITE if theme.dark else BLACK

    def legible(colour: str | None) -> str:
        wanted = Color.parse(colour or theme.primary)
        steps = (wanted.blend(towards, step / 20) for step in range(21))
        return next((each for each in steps if contrast(each, background) >= LEGIBLE), towards).hex

    marks = _coloured(
        legible(theme.primary),
        title=background.blend(towards, 0.1).hex,
        sla=legible(theme.accent),
        warning=f"bold {legible(theme.warning)}",
        base=legible(theme.warning),
        third=legible(theme.success),
    )
    return {mark: style.replace(VERMILLION, legible(theme.error)) for mark, style in marks.items()}


class _Styles(dict[str, dict[str, Style]]):
    """The styles of each theme by mark, made when the theme is first shown; of an unknown one those without colour."""

    def __missing__(self, theme: str) -> dict[str, Style]:
        own = {"bench-dark": _DARK, "bench-light": _LIGHT}
        styles = own[theme] if theme in own else _of_theme(BUILTIN_THEMES[theme]) if theme in TAKEN else {}
        self[theme] = {mark: Style.parse(styles.get(mark, plain)) for mark, plain in _PLAIN.items()}
        return self[theme]


STYLES = _Styles()


def chosen_theme(environment: Mapping[str, str]) -> str:
    """The theme that config.toml names, else the first. Raises UserError for an unknown one."""
    names = [theme.name for theme in THEMES]
    wanted = environment.get("PGBED_THEME") or names[0]
    if wanted not in names:
        raise unknown("theme", wanted, names)
    return wanted


def line(*spans: Span | str) -> Line:
    """A line of spans; a bare string has no mark."""
    return tuple(span if isinstance(span, tuple) else (span, "") for span in spans)


def width(spans: Line) -> int:
    """How many cells a line takes; all text here is of characters one cell wide."""
    return sum(len(text) for text, _ in spans)


def joined(spans: Iterable[Span]) -> Line:
    """Neighbours of one mark as one span: a strip of 80 segments costs ten times one of eight."""
    made: list[Span] = []
    for text, mark in spans:
        if made and made[-1][1] == mark:
            made[-1] = (made[-1][0] + text, mark)
        else:
            made.append((text, mark))
    return tuple(made)


def fit(spans: Line, cells: int, ellipsis: str = "~") -> Line:
    """The line cut to so many cells, with an ellipsis in the last one where something went."""
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
    """The text, with an ellipsis in its last cell where it is longer than so many."""
    return text if len(text) <= cells else text[: max(0, cells - 1)] + glyphs.ellipsis


def folded(text: str, columns: int, mark: str = "", indent: int = 1) -> list[Line]:
    """Text in as many lines as it takes; further lines are indented by two more."""
    parts = textwrap.wrap(text, max(10, columns - indent - 2))
    return [line((" " * (indent + 2 * (place > 0)) + part, mark)) for place, part in enumerate(parts)]


def hanging(head: Span, text: str, columns: int, mark: str = "") -> list[Line]:
    """A head and text beside it, in as many lines as it takes."""
    indent = len(head[0])
    parts = textwrap.wrap(text, max(10, columns - indent - 1)) or [""]
    return [line(head if place == 0 else " " * indent, (part, mark)) for place, part in enumerate(parts)]


def side_by_side(left: Sequence[Line], right: Sequence[Line], cells: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """Two columns of lines, the left one of so many cells, with a bar between."""
    made = []
    for place in range(rows):
        one = fit(left[place], cells, glyphs.ellipsis) if place < len(left) else ()
        two = right[place] if place < len(right) else ()
        made.append((*one, (" " * (cells - width(one)), ""), (glyphs.bar, "dim"), *two))
    return made
