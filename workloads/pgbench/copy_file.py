"""The file for bulk loads: CSV of whole numbers, text and fixed times, fully determined by its seed."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

COLUMNS = "id integer, number integer, label text, made timestamptz"
FORM = 1  # increased when a seed gives different bytes
ROW_BYTES = 74  # approximately
CHUNK_ROWS = 10_000
DAY_S = 86_400
FIRST_DAY = datetime(2020, 1, 1, tzinfo=UTC)


def write(path: Path, rows: int, seed: int, check: Callable[[], None] = lambda: None) -> None:
    """Write the file; `check` is called now and then, and may raise to abandon it."""
    with path.open("xb") as file:
        for chunk in _chunks(rows, seed):
            check()
            file.write(chunk)


def measured(path: Path) -> dict[str, int | str]:
    """Read all of the file; return its `bytes`, `rows` and `sha256`."""
    digest, length, rows = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
            length += len(part)
            rows += part.count(b"\n")
    return {"bytes": length, "rows": rows, "sha256": digest.hexdigest()}


def _chunks(rows: int, seed: int) -> Iterator[bytes]:
    draws = random.Random(seed)
    times = [f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}+00" for second in range(min(rows, DAY_S))]
    for first in range(0, rows, CHUNK_ROWS):
        count = min(CHUNK_ROWS, rows - first)
        numbers = struct.unpack(f"<{count}I", draws.randbytes(4 * count))
        labels = draws.randbytes(16 * count).hex()
        lines = []
        for place, number in enumerate(numbers):
            days, second = divmod(first + place, DAY_S)
            if place == 0 or second == 0:
                day = f"{FIRST_DAY + timedelta(days=days):%Y-%m-%d}"
            lines.append(
                f"{first + place + 1},{number >> 1},{labels[32 * place : 32 * place + 32]},{day} {times[second]}\n"
            )
        yield "".join(lines).encode()
