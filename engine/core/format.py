"""Formatting and parsing numbers: three significant digits, units as in PostgreSQL."""

from __future__ import annotations

import re

from engine.core.errors import UserError

_UNITS = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(B|kB|MB|GB|TB)?")


def short(value: float | None) -> str:
    """`950`, `28.4k`, `1.2M`; small values with decimals (`0.34`), `-` for None."""
    if value is None:
        return "-"
    size = abs(value)
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{three(value / divisor)}{unit}"
    return three(value)


def three(value: float) -> str:
    """Three significant digits, without an exponent."""
    size = abs(value)
    if size >= 99.95 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def span(seconds: float) -> str:
    """`2h05m`, `3m20s` or `12s`."""
    seconds_left = max(0, round(seconds))
    if seconds_left >= 3600:
        return f"{seconds_left // 3600}h{seconds_left % 3600 // 60:02d}m"
    return f"{seconds_left // 60}m{seconds_left % 60:02d}s" if seconds_left >= 60 else f"{seconds_left}s"


def duration(seconds: float | None) -> str:
    """`4.41 s`, `117 ms`, `103 us`; `-` for None."""
    if seconds is None:
        return "-"
    for limit, divisor, unit in ((0.9995, 1.0, "s"), (0.0009995, 1e-3, "ms")):
        if abs(seconds) >= limit:
            return f"{three(seconds / divisor)} {unit}"
    return f"{three(seconds / 1e-6)} us"


def clock(seconds: float) -> str:
    """`00:14:07`."""
    seconds_left = max(0, int(seconds))
    return f"{seconds_left // 3600:02d}:{seconds_left % 3600 // 60:02d}:{seconds_left % 60:02d}"


def size(size_bytes: float) -> str:
    """`943 MB`, `1.5 GB`: binary units, named as in PostgreSQL."""
    for limit, unit in ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if size_bytes >= limit:
            return f"{three(size_bytes / limit)} {unit}"
    return f"{size_bytes:.0f} B"


def seconds_of(text: str) -> float:
    """Parse `90`, `1:30` or `0:01:30`. Raises ValueError."""
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total


def size_bytes(value: str, default_unit: str) -> int:
    """Parse a PostgreSQL size (`40GB`); a bare number is in `default_unit`. Raises UserError."""
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise UserError(f"'{value}' is not a size such as 40GB")
    return int(float(match[1]) * _UNITS[match[2] or default_unit])


def number(text: str) -> int | float:
    """An int if possible, else a float."""
    try:
        return int(text)
    except ValueError:
        return float(text)
