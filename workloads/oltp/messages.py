"""Messages of clients in the server's protocol, with drawn values, made in blocks before they are needed.

A prepared statement is bound, executed and synchronised in one message, its integers in binary form. A block is a
matrix of bytes, a message in each line; only the columns of values, and the number of the table, differ between lines.
So a list of a thousand keys costs the client a microsecond or two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.oltp.statements import C_GROUPS, PAD_GROUPS, TABLE, OltpStatement, Value
from workloads.oltp.texts import NUMBER, Bytes, decimal, digits

Ids = NDArray[np.int64]
TABLE_DIGITS = 3  # of a table's number in the name of a prepared statement
BLOCK_BYTES, MOST_EVENTS = 1 << 17, 256
EXPONENT = 0.8  # of the Zipf distribution, the reference's
GROUPS = {"c": C_GROUPS, "pad": PAD_GROUPS}
BINARY = b"\0\1\0\1"  # one format, for all parameters
TEXT_RESULT = b"\0\0"
EXECUTE = b"E" + (9).to_bytes(4, "big") + b"\0" + (0).to_bytes(4, "big")
SYNC = b"S" + (4).to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class Draw:
    """The source of a client's values: tables and rows are counted from 1."""

    generator: np.random.Generator
    tables: int
    rows: int

    def numbers(self, value: Value, lines: int) -> Ids:
        """Integers of one value: a line for each message."""
        rows, uniform = self.rows, self.generator.integers
        if value.source == "one":
            return np.ones((lines, value.count), np.int64)
        if value.source == "hot":
            return np.tile(np.arange(rows // 2 + 1, rows // 2 + 1 + value.count), (lines, 1))
        if value.source == "zipf":
            return zipf(self.generator.random((lines, value.count)), rows)
        if value.source == "range":
            first: Ids = uniform(1, rows + 1, (lines, 1))
            return np.hstack([first, first + value.count])
        numbers: Ids = uniform(1, rows + 1, (lines, value.count))
        return numbers


def zipf(shares: NDArray[np.float64], rows: int) -> Ids:
    """Ids from uniform numbers, by the inverse of the distribution function, taken as continuous."""
    power = 1 - EXPONENT
    ids: Ids = np.minimum(((rows + 1.0) ** power * shares + (1 - shares)) ** (1 / power), rows).astype(np.int64)
    return ids


def name_of(place: int, table: int) -> str:
    """The name of a prepared statement: its place in the event, and its table."""
    return f"s{place:02d}{table:0{TABLE_DIGITS}d}"


class Drawn(NamedTuple):
    """A block of messages, a line each; and for the next statement, which may be on the same rows, theirs."""

    messages: Bytes
    tables: Ids
    ids: Ids


def drawn(draw: Draw, place: int, statement: OltpStatement, lines: int, before: Drawn | None) -> Drawn:
    """Messages of one statement, whose place in the event names it."""
    again = before if any(value.source == "again" for value in statement.values) else None
    tables = again.tables if again else draw.generator.integers(1, draw.tables + 1, lines)
    columns: list[Bytes] = []
    ids: Ids = np.zeros((lines, 0), np.int64)
    for value in statement.values:
        if value.source in GROUPS:
            text = digits(draw.generator, lines, GROUPS[value.source])
            columns.append(_sized(text) if statement.prepared else text)
        else:
            numbers = again.ids if again and value.source == "again" else draw.numbers(value, lines)
            columns.append(_binary(numbers) if statement.prepared else decimal(numbers[:, 0], NUMBER))
            ids = numbers if not ids.size else ids
    return Drawn(
        _bound(place, statement, tables, columns) if statement.prepared else _text(statement, tables, columns),
        tables,
        ids,
    )


def _bound(place: int, statement: OltpStatement, tables: Ids, columns: Sequence[Bytes]) -> Bytes:
    """Messages that bind, execute and synchronise a prepared statement."""
    lines, name = len(tables), name_of(place, 0).encode()
    parameters = sum(2 if value.source == "range" else value.count for value in statement.values)
    body = np.hstack(
        [
            _every(b"\0" + name + b"\0" + BINARY + parameters.to_bytes(2, "big"), lines),
            *columns,
            _every(TEXT_RESULT, lines),
        ]
    )
    end = 1 + len(name)
    body[:, end - TABLE_DIGITS : end] = decimal(tables, TABLE_DIGITS)
    bind = b"B" + (body.shape[1] + 4).to_bytes(4, "big")
    return np.hstack([_every(bind, lines), body, _every(EXECUTE + SYNC, lines)])


def _every(part: bytes, lines: int) -> Bytes:
    return np.tile(np.frombuffer(part, np.uint8), (lines, 1))


def _sized(text: Bytes) -> Bytes:
    return np.hstack([_every(text.shape[1].to_bytes(4, "big"), len(text)), text])


def _binary(numbers: Ids) -> Bytes:
    """Integers with their lengths, as four bytes each."""
    words = np.empty((*numbers.shape, 2), ">i4")
    words[..., 0], words[..., 1] = 4, numbers
    return words.view(np.uint8).reshape(len(numbers), -1)


def _text(statement: OltpStatement, tables: Ids, columns: Sequence[Bytes]) -> Bytes:
    """Queries of the simple protocol: the statement's text with values in place of the parameters."""
    lines = len(tables)
    before, text = statement.sql.split("{table}")
    names = np.array([f"{TABLE}{table:<{TABLE_DIGITS}d}".encode() for table in range(1000)])
    parts = [_every(before.encode(), lines), names[tables].view(np.uint8).reshape(lines, -1)]
    for number, column in enumerate(columns, 1):
        ahead, text = text.split(f"${number}", 1)
        parts += [_every(ahead.encode(), lines), column]
    body = np.hstack([*parts, _every(text.encode() + b"\0", lines)])
    return np.hstack([_every(b"Q" + (body.shape[1] + 4).to_bytes(4, "big"), lines), body])


def events(draw: Draw, event: Sequence[OltpStatement]) -> Iterator[list[tuple[bytes, ...]]]:
    """Blocks of events without end: each is the messages of one event, in order."""
    lines = MOST_EVENTS
    while True:
        columns: list[list[bytes]] = []
        before: Drawn | None = None
        for place, statement in enumerate(event):
            before = drawn(draw, place, statement, lines, before)
            columns.append(_lines(before.messages))
        yield list(zip(*columns, strict=True))
        size = sum(len(column[0]) for column in columns)
        lines = max(1, min(MOST_EVENTS, BLOCK_BYTES // size))


def _lines(block: Bytes) -> list[bytes]:
    lines, width = block.shape
    packed = block.tobytes()
    return [packed[first : first + width] for first in range(0, lines * width, width)]
