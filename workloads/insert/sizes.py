"""Amounts that a cell loads, writes and queries: the named scales of every generation."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.api.names import pick


@dataclass(frozen=True, slots=True)
class Sizes:
    """Amounts per client. `pause_scale` multiplies the pause's length; `full_index_rows` is false if l.x's extra rows
    (g22: 100 000) would outweigh a small load.
    """

    rows_loaded: int  # N1: l.i0
    rows_written: int  # N2: l.i1 and l.i2 together
    query_seconds: float  # S: each query step
    pause_scale: float = 1.0
    full_index_rows: bool = True


# A first run: all ten steps in well under three minutes per build on two small cores.
QUICK = Sizes(400_000, 100_000, 10, pause_scale=0.05, full_index_rows=False)

SCALES: dict[str, dict[str, Sizes]] = {
    "quick": {"g22": QUICK, "g24a": QUICK, "g24b": QUICK},
    "cached": {
        "g22": Sizes(20_000_000, 20_000_000, 7200),
        "g24a": Sizes(50_000_000, 50_000_000, 1800),
        "g24b": Sizes(50_000_000, 50_000_000, 1800),
    },
    "io": {
        "g22": Sizes(500_000_000, 10_000_000, 7200),
        "g24a": Sizes(800_000_000, 5_000_000, 1800),
        "g24b": Sizes(800_000_000, 5_000_000, 1800),
    },
}
# This project's own sizes: (scale, generation), and the reasons for them.
OWN_SIZES = {
    ("io", generation): (
        "the posts of 2024 do not state their IO-bound sizes; 800M rows are this project's own choice: some 160 GB "
        "with indexes, far above the memory of the small server they used, and few rows written, as each costs reads"
    )
    for generation in ("g24a", "g24b")
}
DEFAULT_SCALE = "quick"


def sizes_of(generation: str, scale: str | int) -> Sizes:
    """The sizes of a named scale, or for a number of loaded rows (N1): in proportion to `quick`, at most `cached`."""
    if isinstance(scale, str) or scale < 1:
        return pick("scale", str(scale), SCALES)[generation]
    factor = scale / QUICK.rows_loaded
    return Sizes(
        rows_loaded=scale,
        rows_written=min(50_000_000, max(1000, scale // 4)),
        query_seconds=min(1800.0, max(QUICK.query_seconds, QUICK.query_seconds * factor)),
        pause_scale=min(1.0, max(QUICK.pause_scale, QUICK.pause_scale * factor)),
        full_index_rows=scale >= 10_000_000,
    )


def pause_seconds(rows_loaded: int, scale: float = 1.0) -> float:
    """Length of the pause with vacuum and checkpoint: the reference's X, scaled. `rows_loaded` is over all clients."""
    return scale * min(1200.0, 60 + rows_loaded / 1_000_000)
