"""Sets of characters for drawing: braille, block or ASCII."""

import locale
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

NAMES = ("braille", "block", "ascii")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters, each one cell wide. `levels` are partial bars from empty to full."""

    name: str
    levels: str
    shade: str  # between the least and the greatest value of a column
    rule: str  # horizontal
    bar: str  # vertical
    dash: str  # of a reference line
    better: str
    worse: str
    dot: str  # one cell (of a run) in a dot strip
    done: str
    todo: str
    ellipsis: str
    sides: str  # one symbol per interleaved build
    several: str  # where several of those coincide
    thirds: str  # a line that is low, in the middle, or high in its cell
    whisker: str  # an interval: left end, line, right end, and crossing with the reference
    arrow: str  # from one value to another
    heat: str  # from little to much
    tick: str  # of a time axis
    trends: str  # falling, steady, rising
    plus_minus: str


_BLOCK = Glyphs(
    "block", " ▁▂▃▄▅▆▇█", "▒", "─", "│", "╌", "▲", "▼", "●", "█", "░", "…", "●○◆◇", "◎", "▁─▔", "├─┤┼", "→", "░▒▓█",
    "╵", "↘→↗", "±",
)  # fmt: skip
_ASCII = Glyphs(
    "ascii", " .:-=+*#", ":", "-", "|", "-", "^", "v", "o", "#", ".", "~", "ox+#", "%", ".='", "[-]+", "->", ".:*#",
    "'", "v=^", "+-",
)  # fmt: skip
SETS = {
    "braille": replace(_BLOCK, name="braille"),  # braille charts, but these bars and signs
    "block": _BLOCK,
    "ascii": _ASCII,
}


def choose(wanted: str, environment: Mapping[str, str] | None = None, encoding: str | None = None) -> Glyphs:
    """The set called `wanted`; `auto` is ASCII on the Linux console or if the locale is not UTF-8, else braille."""
    if wanted != "auto":
        return SETS[wanted]
    terminal = (os.environ if environment is None else environment).get("TERM", "")
    encoding = locale.getpreferredencoding(False) if encoding is None else encoding
    utf8 = encoding.lower().replace("-", "") == "utf8"
    return SETS["braille" if utf8 and terminal not in ("linux", "dumb") else "ascii"]
