"""The 33 tests, in the order in which they run: a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workloads.api.names import UnknownName
from workloads.oltp.statements import (
    BEGIN,
    COMMIT,
    DELETE,
    INSERT,
    INSERT_AGAIN,
    POINT,
    SCAN,
    UPDATE_INDEX,
    UPDATE_LIST,
    UPDATE_NONINDEX,
    UPDATE_ONE,
    UPDATE_ZIPF,
    OltpStatement,
    among,
    between,
)

GROUPS = {
    "point": "rows by their keys",
    "range": "rows of a range of keys",
    "aggregate": "sums, sorts and counts over ranges, and transactions of reads",
    "scan": "whole tables",
    "write": "updates, deletes, inserts, and transactions with them",
}


@dataclass(frozen=True, slots=True)
class OltpTest:
    """`event` are the statements of one event, each followed by an answer; several are a transaction.

    `rows` is the publication's range, if several tests differ in it only.
    """

    family: str
    group: str
    event: tuple[OltpStatement, ...]
    rows: int = 0

    @property
    def name(self) -> str:
        return f"{self.family}.{self.rows}" if self.rows else self.family

    @property
    def transaction(self) -> bool:
        return len(self.event) > 1

    @property
    def depletes(self) -> bool:
        """Whether its own rows run out, so that a faster server finds fewer of them."""
        return self.event == (DELETE,)

    @property
    def writes(self) -> bool:
        return self.group == "write"


def _reads(rows: int, kinds: Iterable[str] = ("simple", "sum", "order", "distinct")) -> tuple[OltpStatement, ...]:
    """Ten rows by their keys, then ranges of this number of rows."""
    ranges = {
        "simple": between("c", rows - 1),
        "sum": between("SUM(k)", rows - 1),
        "order": between("c", rows - 1, rest=" ORDER BY c"),
        "distinct": between("DISTINCT c", rows - 1, rest=" ORDER BY c"),
    }
    return (*[POINT] * 10, *(ranges[kind] for kind in kinds))


_WRITES = (UPDATE_INDEX, UPDATE_NONINDEX, DELETE, INSERT_AGAIN)


def _transaction(*statements: OltpStatement) -> tuple[OltpStatement, ...]:
    return (BEGIN, *statements, COMMIT)


TESTS = (
    OltpTest("update-inlist", "write", (UPDATE_LIST,)),
    OltpTest("update-index", "write", (UPDATE_INDEX,)),
    OltpTest("update-nonindex", "write", (UPDATE_NONINDEX,)),
    OltpTest("update-one", "write", (UPDATE_ONE,)),
    OltpTest("update-zipf", "write", (UPDATE_ZIPF,)),
    OltpTest("write-only", "write", _transaction(*_WRITES)),
    *(OltpTest("read-write", "write", _transaction(*_reads(rows), *_WRITES), rows) for rows in (10, 100)),
    OltpTest("scan.warm", "scan", (SCAN,)),
    OltpTest("scan", "scan", (SCAN,)),
    *(OltpTest("read-only", "aggregate", _transaction(*_reads(rows)), rows) for rows in (10, 100, 10_000)),
    *(
        OltpTest(f"read-only-{kind}", "aggregate", _transaction(*_reads(1000, [kind])))
        for kind in ("simple", "sum", "order", "distinct")
    ),
    OltpTest("read-only-count", "aggregate", (between("count(c)", 999),)),
    OltpTest("point-query", "point", (POINT,)),
    *(OltpTest("random-points", "point", (among("c", "id", rows),), rows) for rows in (10, 100, 1000)),
    OltpTest("hot-points", "point", (among("c", "id", 100, "hot"),)),
    OltpTest("points-covered-pk", "point", (among("id", "id", 100),)),
    OltpTest("points-covered-si", "point", (among("k", "k", 100, "key"),)),
    OltpTest("points-notcovered-pk", "point", (among("id, c", "id", 100),)),
    OltpTest("points-notcovered-si", "point", (among("k, c", "k", 100, "key"),)),
    OltpTest("range-covered-pk", "range", (between("id", 100),)),
    OltpTest("range-covered-si", "range", (between("k", 100, "k"),)),
    OltpTest("range-notcovered-pk", "range", (between("id, c", 100),)),
    OltpTest("range-notcovered-si", "range", (between("k, c", 100, "k"),)),
    OltpTest("delete", "write", (DELETE,)),
    OltpTest("insert", "write", (INSERT,)),
)
BY_NAME = {test.name: test for test in TESTS}


def chosen(names: Sequence[str]) -> tuple[OltpTest, ...]:
    """The tests of these names, groups or families, in their order; all without a name. Raises UnknownName."""
    if not names:
        return TESTS
    selected: set[str] = set()
    for name in names:
        plain = name.strip()
        of_name = {test.name for test in TESTS if plain in (test.name, test.family, test.group, f"{test.group}s")}
        if not of_name:
            raise UnknownName("test", plain, (*GROUPS, *BY_NAME))
        selected |= of_name
    return tuple(test for test in TESTS if test.name in selected)
