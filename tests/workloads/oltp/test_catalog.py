"""The tests of the catalog, and how they are chosen."""

from __future__ import annotations

import pytest

from workloads.api.names import UnknownName
from workloads.oltp.catalog import BY_NAME, GROUPS, TESTS, chosen


def names(*wanted: str) -> list[str]:
    return [test.name for test in chosen(wanted)]


def test_there_are_33_in_the_published_order() -> None:
    assert len(TESTS) == len(BY_NAME) == 33
    assert [test.name for test in TESTS][:2] == ["update-inlist", "update-index"]
    assert [test.name for test in TESTS][-2:] == ["delete", "insert"]
    first_read = next(place for place, test in enumerate(TESTS) if not test.writes)
    assert TESTS[first_read].name == "scan.warm" and all(test.writes for test in TESTS[:first_read])
    assert {test.group for test in TESTS} == set(GROUPS)


def test_transactions_have_the_published_statements() -> None:
    assert [statement.of(1) for statement in BY_NAME["write-only"].event] == [
        "BEGIN",
        "UPDATE sbtest1 SET k = k + 1 WHERE id = $1",
        "UPDATE sbtest1 SET c = $1 WHERE id = $2",
        "DELETE FROM sbtest1 WHERE id = $1",
        "INSERT INTO sbtest1 (id, k, c, pad) VALUES ($1, $2, $3, $4)",
        "COMMIT",
    ]
    read_only = [statement.of(2) for statement in BY_NAME["read-only.100"].event]
    assert read_only[1:11] == ["SELECT c FROM sbtest2 WHERE id = $1"] * 10
    assert read_only[11:15] == [
        "SELECT c FROM sbtest2 WHERE id BETWEEN $1 AND $2",
        "SELECT SUM(k) FROM sbtest2 WHERE id BETWEEN $1 AND $2",
        "SELECT c FROM sbtest2 WHERE id BETWEEN $1 AND $2 ORDER BY c",
        "SELECT DISTINCT c FROM sbtest2 WHERE id BETWEEN $1 AND $2 ORDER BY c",
    ]
    assert len(BY_NAME["read-write.10"].event) == 20
    assert BY_NAME["update-inlist"].event[0].of(1).endswith("c = $1 WHERE id IN (" + ",".join(
        f"${number}" for number in range(2, 102)) + ")")  # fmt: skip


def test_names_groups_and_families_keep_the_catalogs_order() -> None:
    assert names() == [test.name for test in TESTS]
    assert names("hot-points", "scan.warm") == ["scan.warm", "hot-points"]
    assert names("random-points") == ["random-points.10", "random-points.100", "random-points.1000"]
    assert names("range") == names("ranges") == [
        "range-covered-pk", "range-covered-si", "range-notcovered-pk", "range-notcovered-si",
    ]  # fmt: skip
    assert names("scan") == ["scan.warm", "scan"], "a group's name that is also a test's is the group's"
    with pytest.raises(UnknownName, match="unknown test 'pointquery'"):
        chosen(["point", "pointquery"])
