"""Bulk loads before anything runs: the file, the plan, the times that a page lists."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from workloads.counter_page import TIMES, Page, Word
from workloads.pgbench import copy_file
from workloads.pgbench.copy_launch import script
from workloads.pgbench.copy_workload import WORKLOAD
from workloads.pgbench.options import CopyOptions, Options
from workloads.pgbench.workload import SELECT

DIGEST = "67567029bb547925cd5ced1f83e5bd6910137cc06ca205a15e9ae701153d9e6a"


def test_the_file_follows_from_its_seed_alone(tmp_path: Path) -> None:
    """Its digest is pinned: files of other bytes are another workload, and `FORM` must say so."""
    rows = copy_file.DAY_S + 2 * copy_file.CHUNK_ROWS + 7  # over a day's end, the last part shorter than others
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        copy_file.write(tmp_path / name, rows, seed)
    found = copy_file.measured(tmp_path / "one")
    assert copy_file.measured(tmp_path / "same") == found != copy_file.measured(tmp_path / "other")
    text = (tmp_path / "one").read_bytes()
    assert found == {"bytes": len(text), "rows": rows, "sha256": hashlib.sha256(text).hexdigest()}
    assert (copy_file.FORM, found["sha256"]) == (1, DIGEST)
    lines = text.decode().splitlines()
    assert [line.split(",")[0] for line in (lines[0], lines[-1])] == ["1", str(rows)]
    ends = [lines[place].rpartition(",")[2] for place in (0, copy_file.DAY_S - 1, copy_file.DAY_S)]
    assert ends == ["2020-01-01 00:00:00+00", "2020-01-01 23:59:59+00", "2020-01-02 00:00:00+00"]
    assert abs(found["bytes"] / rows - copy_file.ROW_BYTES) < 3  # type: ignore[operator]


def test_a_file_is_given_up_when_asked_and_never_written_over(tmp_path: Path) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        copy_file.write(tmp_path / "file", 10, 1, stop)
    with pytest.raises(FileExistsError):
        copy_file.write(tmp_path / "file", 10, 1)


def test_a_plan_has_whole_cells_and_a_table_for_each_client() -> None:
    record = WORKLOAD.plan(CopyOptions(clients=(1, 4), transactions=50, copy_truncate="never")).record
    first, one, four = WORKLOAD.steps(record)
    assert [step.name for step in (first, one, four)] == ["init", "copy.c1", "copy.c4"]
    assert not any(step.sliced for step in (first, one, four)) and len(four.roles) == 4
    assert four.primary_metric is not None and (four.primary_metric.unit, four.primary_metric.live) == ("tx/s", False)
    assert record["title"] == "1,000,000 rows (74 MB), truncate never"
    ((emptied,), (checkpoint,)) = WORKLOAD.maintenance(record, one, 18).before
    assert emptied.endswith("pgbench_copy_2, pgbench_copy_3") and checkpoint == "CHECKPOINT"
    assert not WORKLOAD.maintenance(record, first, 18).before
    small = {**record, "options": {**record["options"], "copy_rows": 10}}
    assert WORKLOAD.identity(record) != WORKLOAD.identity(small)
    # 50 transactions of 4 clients that are never emptied
    assert WORKLOAD.expected_bytes(record, 0) > 200 * 80_000_000 > WORKLOAD.expected_bytes(small, 0)
    with pytest.raises(ValueError, match="a COPY takes longer than a slice"):
        WORKLOAD.sliced_options({})
    with pytest.raises(ValueError, match="names no pgbench"):
        WORKLOAD.check(record)


def test_the_script_names_the_file_as_sql_does() -> None:
    each, never = (script(CopyOptions(copy_truncate=when), Path("/it's/f")) for when in ("each", "never"))
    copy = "COPY pgbench_copy_:client_id FROM '/it''s/f' WITH (FORMAT csv);\n"
    assert never == copy and each == f"BEGIN;\nTRUNCATE pgbench_copy_:client_id;\n{copy}END;\n"


def test_a_page_lists_the_newest_times_in_order() -> None:
    page = Page.create(2)
    try:
        for number in range(5):
            page.add_time(1, number, 10 * number)
        assert page.times(1, 0, 5) == [(number, 10 * number) for number in range(5)]
        assert page.times(1, 3, 5) == [(3, 30), (4, 40)] and page.times(0, 0, 0) == []
        for number in range(5, TIMES + 40):
            page.add_time(1, number, 0)
        count = page.word(1, Word.TIMED)
        found = [ended for ended, _ in page.times(1, 5, count)]
        assert count == TIMES + 40 and found == list(range(count - TIMES + 1, count))
        assert not any(page.counts(1))  # the histograms beside the list
    finally:
        page.close()


@pytest.mark.parametrize("name", ["/mnt/fast", "../x", "pg_fast", "Fast", "a b", "1a", "x" * 64])
def test_a_tablespace_is_a_name_and_no_place(name: str) -> None:
    for options in (Options(tablespace=name), Options(index_tablespace=name)):
        with pytest.raises(ValueError, match=r"--(index-)?tablespace .*: give a name of small letters"):
            SELECT.plan(options)
