"""The statements of the OLTP tests, and the values that each is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TABLE = "sbtest"
C_GROUPS, PAD_GROUPS = 10, 5
# `id` and `key` are drawn uniformly, `zipf` by rank, `hot` are adjacent and always the same, `one` is the first id,
# `again` is the id of the statement before; `range` is two numbers: a drawn one, and that plus a distance.
Source = Literal["id", "key", "zipf", "hot", "one", "again", "range", "c", "pad"]


@dataclass(frozen=True, slots=True)
class Value:
    """Parameters of a statement: `count` of one source, or, for a range, its distance."""

    source: Source
    count: int = 1


@dataclass(frozen=True, slots=True)
class OltpStatement:
    """`sql` has `{table}`, and `{list}` for as many parameters as the last value counts.

    One that is not `prepared` is sent as text, with its values in place of the parameters.
    """

    sql: str
    values: tuple[Value, ...] = ()
    prepared: bool = True

    def of(self, table: int) -> str:
        first = sum(value.count for value in self.values[:-1]) + 1
        count = self.values[-1].count if self.values else 0
        numbers = ",".join(f"${number}" for number in range(first, first + count))
        return self.sql.format(table=f"{TABLE}{table}", list=numbers)


def among(columns: str, key: str, count: int, source: Source = "id") -> OltpStatement:
    """Rows whose key is one of a list."""
    return OltpStatement(f"SELECT {columns} FROM {{table}} WHERE {key} IN ({{list}})", (Value(source, count),))


def between(columns: str, distance: int, key: str = "id", rest: str = "") -> OltpStatement:
    """Rows whose key lies in a range."""
    return OltpStatement(
        f"SELECT {columns} FROM {{table}} WHERE {key} BETWEEN $1 AND $2{rest}", (Value("range", distance),)
    )


ID, C = Value("id"), Value("c")
BEGIN, COMMIT = OltpStatement("BEGIN"), OltpStatement("COMMIT")
SCAN = OltpStatement("SELECT * FROM {table} WHERE length(c) < 0")
POINT = OltpStatement("SELECT c FROM {table} WHERE id = $1", (ID,))
UPDATE_INDEX = OltpStatement("UPDATE {table} SET k = k + 1 WHERE id = $1", (ID,))
UPDATE_NONINDEX = OltpStatement("UPDATE {table} SET c = $1 WHERE id = $2", (C, ID))
UPDATE_ONE = OltpStatement(UPDATE_NONINDEX.sql, (C, Value("one")))
UPDATE_ZIPF = OltpStatement(UPDATE_NONINDEX.sql, (C, Value("zipf")))
UPDATE_LIST = OltpStatement("UPDATE {table} SET c = $1 WHERE id IN ({list})", (C, Value("id", 100)))
DELETE = OltpStatement("DELETE FROM {table} WHERE id = $1", (ID,))
INSERT_AGAIN = OltpStatement(
    "INSERT INTO {table} (id, k, c, pad) VALUES ($1, $2, $3, $4)", (Value("again"), Value("key"), C, Value("pad"))
)
# The reference does not prepare it.
INSERT = OltpStatement(
    "INSERT INTO {table} (k, c, pad) VALUES ($1, '$2', '$3')", (Value("key"), C, Value("pad")), prepared=False
)
