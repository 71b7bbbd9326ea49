"""The tables' texts and rows: digits in groups, drawn and put together in blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from workloads.client import seeds
from workloads.oltp.statements import C_GROUPS, PAD_GROUPS

Bytes = NDArray[np.uint8]
GROUP = 11  # digits
BLOCK_ROWS = 4096
NUMBER = 10  # digits of a key in a row's text, which has leading zeros
ROW_BYTES = 2 * (NUMBER + 1) + (C_GROUPS + PAD_GROUPS) * (GROUP + 1)


def width(groups: int) -> int:
    return groups * (GROUP + 1) - 1


def digits(generator: np.random.Generator, count: int, groups: int) -> Bytes:
    """`count` texts, a line of the matrix each: groups of random digits, joined by hyphens."""
    drawn = generator.integers(ord("0"), ord("9") + 1, (count, width(groups)), dtype=np.uint8)
    drawn[:, GROUP :: GROUP + 1] = ord("-")
    return drawn


def decimal(values: NDArray[np.int64], places: int) -> Bytes:
    """Numbers in decimal with leading zeros, a line of the matrix each."""
    powers = 10 ** np.arange(places - 1, -1, -1, dtype=np.int64)
    return (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def table_rows(seed: int, table: int, rows: int) -> Iterator[bytes]:
    """A table's rows as COPY reads them: the same bytes for every server, and in every repeat."""
    generator = seeds.stream(seed, "rows", table)
    for first in range(1, rows + 1, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows + 1 - first)
        tab, end = np.full((count, 1), ord("\t"), np.uint8), np.full((count, 1), ord("\n"), np.uint8)
        ids = decimal(np.arange(first, first + count), NUMBER)
        keys = decimal(generator.integers(1, rows + 1, count), NUMBER)
        texts = digits(generator, count, C_GROUPS), digits(generator, count, PAD_GROUPS)
        yield np.hstack([ids, tab, keys, tab, texts[0], tab, texts[1], end]).tobytes()
