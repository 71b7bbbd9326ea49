"""Numbers as they are read on a screen: three digits that matter, in a few cells."""

from __future__ import annotations


def short(value: float | None) -> str:
    """`950`, `28.4k`, `1.2M`; small ones with decimals (`0.34`), `-` for none."""
    if value is None:
        return "-"
    size = abs(value)
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{three(value / divisor)}{unit}"
    return three(value)


def three(value: float) -> str:
    """Three digits that matter, without an exponent."""
    size = abs(value)
    if size >= 99.95 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def span(seconds: float) -> str:
    """`2h05m`, `3m20s` or `12s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"


def clock(seconds: float) -> str:
    """`00:14:07`."""
    whole = max(0, int(seconds))
    return f"{whole // 3600:02d}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def size(size_bytes: float) -> str:
    """`943 MB`, `1.5 GB`: binary units, called as PostgreSQL calls them."""
    for limit, unit in ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if size_bytes >= limit:
            return f"{three(size_bytes / limit)} {unit}"
    return f"{size_bytes:.0f} B"


def seconds_of(text: str) -> float:
    """`90`, `1:30` or `0:01:30` in seconds. Raises ValueError."""
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total
