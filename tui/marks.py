"""What a piece of text means, and how each theme shows that. Colours are Okabe and Ito's, told apart by everybody.

Text on a screen is lines of spans: a string and the name of a mark. No mark is known by its colour alone: `stall` is
reversed and comes with `!`, `better` and `worse` come with their arrows.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from textual.theme import Theme

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
    "error": "bold reverse",
}
_DARK = {
    "title": f"bold {SKY} on #1d2730",
    "key": f"bold {SKY}",
    "chosen": f"bold {SKY}",
    "stall": f"bold reverse {VERMILLION}",
    "sla": f"bold {PURPLE}",
    "warning": YELLOW,
    "better": f"bold {SKY}",
    "worse": f"bold {VERMILLION}",
    "base": ORANGE,
    "rate": SKY,
    "error": f"bold reverse {VERMILLION}",
}
_LIGHT = {
    "title": f"bold {BLUE} on #dde6ee",
    "key": f"bold {BLUE}",
    "chosen": f"bold {BLUE}",
    "stall": f"bold reverse {VERMILLION}",
    "sla": "bold #8f3f6b",
    "warning": "bold #7a5c00",
    "better": f"bold {BLUE}",
    "worse": f"bold {VERMILLION}",
    "base": "#9a6a00",
    "rate": BLUE,
    "error": f"bold reverse {VERMILLION}",
}

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

STYLES: dict[str, dict[str, Style]] = {
    theme: {mark: Style.parse(styles.get(mark, plain)) for mark, plain in _PLAIN.items()}
    for theme, styles in (("bench-dark", _DARK), ("bench-light", _LIGHT), ("bench-mono", {}))
}


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
