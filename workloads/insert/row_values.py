"""Row values and insert statement text, in blocks: the generator of the Insert Benchmark.

A row's text is put together from fixed-width cells, padded with NUL bytes, in a matrix of 80 bytes per row; the
padding is deleted when a statement is cut out. That leaves a handful of numpy calls per block of rows and two
bytes operations per statement. Little-endian machines only, as the words are cut by masks.

    bytes  0..23   ),('YYYY-MM-DD hh:mm:ss'     24..31  ,<cashregisterid>,     32..39  <customerid>,
          40..47   <productid>,                 48..55  <price with 2 decimals>,
          56..71   '<characters a>              72..79  <random characters>'

Per row the reference draws cashregisterid, productid, customerid, price, length, slice offset, in this order. Here
a block draws n of the first, then n of the second, and so on, each independent and from the same distribution: the
joint distribution of rows is the same, only the assignment of random numbers to rows differs.
"""

from __future__ import annotations

import base64
import functools
import time
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

REGISTERS, PRODUCTS, CUSTOMERS, MAX_PRICE = 1000, 10_000, 100_000, 500
SHORTEST, LONGEST = 10, 20
TEXT_BYTES = 4 << 20
CENTS = MAX_PRICE + CUSTOMERS  # upper bound (exclusive) of g22's price in cents
BLOCK_ROWS = 2000  # approximately: filling a block takes a fifth of a millisecond, between two statements

Words = NDArray[np.uint64]
Statements = Callable[[], bytes]


def random_length(length: int) -> int:
    """Number of random characters in a text: 0.75 is an allowance for base64, 0.50 the random share."""
    return int(length * 0.75 * 0.50)


def text_buffer(generator: np.random.Generator) -> bytes:
    """The run's buffer of random characters: 4 MiB of randomness in base64."""
    return base64.b64encode(generator.bytes(TEXT_BYTES))


def _cells(texts: Iterable[str], words: int = 1) -> Words:
    table = np.array([text.encode() for text in texts], dtype=f"S{words * 8}").view(np.uint64)
    return table.reshape(-1, words) if words > 1 else table


class Tables:
    """The texts of all values, shared by all clients of a step."""

    def __init__(self, price_type: str) -> None:
        self.registers = _cells(f",{value}," for value in range(REGISTERS))
        self.customers = _cells(f"{value}," for value in range(CUSTOMERS))
        self.products = _cells(f"{value}," for value in range(PRODUCTS))
        # Two decimals even if the column is integer, as the reference sends them.
        self.prices = (
            _cells(f"{value // 100}.{value % 100:02d}," for value in range(CENTS))
            if price_type == "real"
            else _cells(f"{value}.00," for value in range(MAX_PRICE))
        )
        lengths = range(SHORTEST, LONGEST + 1)
        self.fillings = _cells(("'" + "a" * (n - random_length(n)) for n in lengths), words=2)
        # A mask cuts the random characters out of eight, and the closing quote is added after them.
        self.masks = np.array([(1 << 8 * random_length(n)) - 1 for n in lengths], dtype=np.uint64)
        self.quotes = _cells("\1" * random_length(n) + "'" for n in lengths)
        self.quotes &= ~self.masks


@functools.cache
def tables(price_type: str) -> Tables:
    return Tables(price_type)


class RowBlock:
    def __init__(self, generator: np.random.Generator, text: bytes, price_type: str, rows: int) -> None:
        self.rows = rows
        self.price_in_cents = price_type == "real"
        self._generator = generator
        self._tables = tables(price_type)
        self._words = np.zeros((rows, 10), dtype=np.uint64)
        # Eight characters from any offset on: overlapping words over the same buffer.
        self._offsets = len(text) - 8
        self._text = np.ndarray((self._offsets,), dtype="<u8", buffer=text, strides=(1,))
        self.bytes = self._words.data.cast("B")

    def fill(self) -> None:
        """Draw all rows anew, except the dates."""
        draw, cells, words, n = self._generator.integers, self._tables, self._words, self.rows
        words[:, 3] = cells.registers[draw(0, REGISTERS, n, dtype=np.uint32)]
        words[:, 5] = cells.products[draw(0, PRODUCTS, n, dtype=np.uint32)]
        customers = draw(0, CUSTOMERS, n, dtype=np.uint32)
        words[:, 4] = cells.customers[customers]
        if self.price_in_cents:
            words[:, 6] = cells.prices[draw_cents(self._generator, customers)]
        else:
            words[:, 6] = cells.prices[draw(0, MAX_PRICE, n, dtype=np.uint32)]
        lengths = draw(0, LONGEST - SHORTEST + 1, n, dtype=np.uint32)
        words[:, 7:9] = cells.fillings[lengths]
        tails = self._text[draw(0, self._offsets, n, dtype=np.uint32)]
        words[:, 9] = (tails & cells.masks[lengths]) | cells.quotes[lengths]

    def date(self, first: int, text: str) -> None:
        """Set the date of the rows from number `first` on."""
        self._words[first:, 0:3] = np.frombuffer(f"),('{text}'".encode(), dtype=np.uint64)


def draw_cents(generator: np.random.Generator, customers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """g22's price in cents, correlated with the customer: (u * 500 + customerid) / 100, to two decimals."""
    return np.rint(generator.random(len(customers)) * MAX_PRICE + customers).astype(np.int64)


def block_rows(rows_per_statement: int) -> int:
    """Rows of a block: whole statements, about `BLOCK_ROWS`."""
    return rows_per_statement * max(1, BLOCK_ROWS // rows_per_statement)


def insert_statements(
    block: RowBlock, rows_per_statement: int, head: bytes, *, clock: Callable[[], float] = time.time
) -> Statements:
    """Make a function that returns the next insert statement: `head`, the value tuples, a parenthesis.

    The date is the local time, formatted once per second and thus constant within a statement. The block's rows must be
    a multiple of the statement's.
    """
    if block.rows % rows_per_statement:
        raise ValueError("a block must hold whole statements")
    statement_bytes = rows_per_statement * 80
    block_bytes = block.rows * 80
    rows = block.bytes
    position = block_bytes
    second = -1

    def next_statement() -> bytes:
        nonlocal position, second
        now = int(clock())
        if position == block_bytes:
            block.fill()
            position = 0
            second = -1  # rows before the last change of date still carry the previous one
        if now != second:
            block.date(position // 80, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)))
            second = now
        text = bytes(rows[position : position + statement_bytes]).translate(None, b"\0")
        position += statement_bytes
        return b"".join((head, text[2:], b")"))  # without the first row's leading "),"

    return next_statement
