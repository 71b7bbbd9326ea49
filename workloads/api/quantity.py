"""Numbers as people write them: `400k`, `1e6`, `100 000`, `1h`, `90s`, `2%`. The only parser, also for workloads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?"
_PART = re.compile(rf"({_NUMBER})([a-z%]*)", re.IGNORECASE | re.ASCII)
# Between groups of three digits, and around a unit; `1 2` may rather be a list without its comma.
_GAPS = re.compile(
    r"(?<=\d)[ _,'](?=\d{3}(?!\d))|(?<=\d)_(?=\d)|(?<=\d) +(?=[a-z%])|(?<=[a-z]) +(?=\d)", re.ASCII | re.I
)
MOST_DIGITS = 40

COUNTS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
SECONDS: dict[str, int | Fraction] = {
    "ms": Fraction(1, 1000), "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60,
    "minutes": 60, "h": 3600, "hour": 3600, "hours": 3600, "d": 86400, "day": 86400, "days": 86400,
}  # fmt: skip
IN_SECONDS = {"ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60)}
SHARES = {"": Fraction(1), "%": Fraction(1, 100)}
UNITS = ("", *IN_SECONDS, "share")
EXAMPLES = {"": "400k or 20M", "s": "90s, 30m or 2h", "min": "90m or 2h", "ms": "50ms", "share": "2%"}


def figure(text: str, unit: str = "") -> Fraction:
    """The value of a text in a unit of `UNITS`: a count, ms, s, minutes, a share. Raises ValueError."""
    packed = _GAPS.sub("", text.strip()).lower()
    parts = _PART.findall(packed) if len(packed) <= MOST_DIGITS else []
    if not parts or "".join(number + suffix for number, suffix in parts) != packed:
        raise ValueError(f"'{text}' is not a number, such as {EXAMPLES[unit]}")
    if unit in IN_SECONDS:
        return _time(parts, unit, text)
    known: Mapping[str, int | Fraction] = SHARES if unit == "share" else COUNTS
    (number, suffix), *more = parts
    if more or suffix not in known:
        raise ValueError(f"'{text}' is not a number, such as {EXAMPLES[unit]}")
    return Fraction(number) * known[suffix]


def _time(parts: list[tuple[str, str]], unit: str, text: str) -> Fraction:
    """`1h30m`; a bare number is in `unit` itself."""
    if len(parts) == 1 and not parts[0][1]:
        return Fraction(parts[0][0])
    if any(suffix not in SECONDS for _, suffix in parts) or any(number[0] in "+-" for number, _ in parts[1:]):
        raise ValueError(f"'{text}' is not a time, such as {EXAMPLES[unit]}")
    return sum((Fraction(number) * SECONDS[suffix] for number, suffix in parts), Fraction(0)) / IN_SECONDS[unit]
