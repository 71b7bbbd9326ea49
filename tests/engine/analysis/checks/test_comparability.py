"""Checks of a comparison that its cells are of one kind: their findings."""

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.results.comparison import Check
from tests.support.journal import ENVIRONMENT, Change, make_run
from tests.support.totals import made_slices


def test_an_even_run_is_alike_in_all_that_is_looked_at(tmp_path: Path) -> None:
    checks = compare([make_run(tmp_path / "r")]).checks("17.0")
    assert all(check.ok for check in checks)
    assert {check.what: check.text for check in checks} == {
        "kernel": "6.12.58",
        "binaries": "the same in all cells",
        "settings": "the same",
        "machine": "unchanged in 3 pairs",
        "CPU speed": "100 us of work",
        "CPU clock": "3400 MHz",
        "other load": "at most 1% of the CPUs",
        "probes": "none",
        "work": "equal in all pairs",
    }


def probed(chosen: Callable[[Cell], bool]) -> Change:
    return lambda cell, step, totals: replace(totals, observers=("sched",)) if chosen(cell) else totals


def half_of_the_rows(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    if cell.subject.build == "16.3" or step != "l.i1":
        return totals
    insert = totals.roles["insert"]
    fewer = replace(insert, rows=insert.rows // 2, rows_actual=insert.rows_actual // 2)
    return replace(totals, roles={**totals.roles, "insert": fewer})


def of_client(cell: Cell) -> dict[str, Any]:
    kernel = {"release": "6.12.59" if cell.ordinal == 3 else "6.12.58"}
    return {**ENVIRONMENT, "client": {**ENVIRONMENT, "kernel": kernel, "state": {"busy_share": 0.9}}}


def slow_clock(cell: Cell) -> dict[str, Any]:
    return {**ENVIRONMENT, "cpu": {**ENVIRONMENT["cpu"], "mhz": 2000.0 if cell.ordinal == 3 else 3400.0}}


LARGER = ('"1GB"', '"2GB"', 1)
AS_PROBED = ('"control": "aa"', '"control": "probed"', -1)


@pytest.mark.parametrize(
    ("plan", "edit", "expected"),
    [
        (
            {"builds": ("16.3",), "configs": ("cx5", "cx7")},
            LARGER,
            Check("cx7", "settings", True, "1 differ: shared_buffers 2GB vs 1GB; compared on purpose"),
        ),
        ({}, LARGER, Check("17.0", "settings", False, "1 differ: shared_buffers 2GB vs 1GB")),
        (
            {"change": probed(lambda cell: (cell.subject.build, cell.repeat) == ("16.3", 1))},
            None,
            Check("17.0", "probes", False, "none, sched"),
        ),
        (
            {"builds": ("16.3",), "aa": True, "change": probed(lambda cell: bool(cell.subject.control))},
            AS_PROBED,
            Check("16.3 probed", "probes", True, "none, sched; their cost is compared"),
        ),
        (
            {"change": half_of_the_rows},
            None,
            Check(
                "17.0",
                "work",
                False,
                "; ".join(
                    f"l.i1: unequal work in pair {pair}: insert rows asked for 400,000 vs 200,000" for pair in (1, 2, 3)
                ),
            ),
        ),
        ({"environments": slow_clock}, None, Check("17.0", "CPU clock", False, "2000 to 3400 MHz")),
        (
            {"environments": slow_clock},
            None,
            Check("17.0", "machine", False, "pair 2: the CPU's clock changed: 3400.0 MHz, then 2000.0 MHz"),
        ),
        (  # as the machine's, but other programs on it are not looked at
            {"environments": of_client},
            None,
            Check("17.0", "machine", False, "pair 2: on the clients' host the kernel changed: 6.12.58, then 6.12.59"),
        ),
    ],
)
def test_only_the_compared_thing_may_differ(
    tmp_path: Path, plan: dict[str, Any], edit: tuple[str, str, int] | None, expected: Check
) -> None:
    path = make_run(tmp_path / "r", **plan)
    if edit:
        text = (path / "manifest.json").read_text()
        (path / "manifest.json").write_text(text.replace(*edit))
    checks = compare([path]).checks(expected.subject)
    assert next(check for check in checks if check.what == expected.what) == expected
    assert [check.ok for check in checks] == sorted(check.ok for check in checks)


def test_another_binary_behind_the_label_is_told(tmp_path: Path) -> None:
    paths = [make_run(tmp_path / "a", digest="d0"), make_run(tmp_path / "b", digest="d1")]
    checks = compare(paths).remarks.comparability
    assert [check.ok for check in checks if check.what == "binaries"] == [False]


def test_a_sliced_pair_with_one_sided_autovacuum_is_left_out(tmp_path: Path) -> None:
    def left_out(
        name: str, pairs: tuple[int, ...], relation: str = "pi1", anew: str = "", *, earlier: bool = False
    ) -> list[str]:
        """Autovacuum comes to the second server of these pairs before qr100; at `anew` the workload vacuums itself."""
        path = make_run(tmp_path / name, repeats=5, blocks=30)
        with sqlite3.connect(path / "journal.db") as connection:
            for pair in pairs:
                connection.execute(
                    "INSERT INTO event (attempt_id, kind, started_ns, ended_ns, data)"
                    " SELECT attempt.id, 'autovacuum', step.ended_ns, step.ended_ns, ? FROM attempt JOIN step"
                    " ON attempt_id = attempt.id WHERE cell LIKE ? AND name = 'l.x'",
                    (json.dumps({"operation": "vacuum", "relation": relation}), f"%-17.0-%-r{pair}"),
                )
            for value, names in () if earlier else (("true", "name = ?"), ("false", "name <> ?")):
                sql = f"UPDATE step SET plan = json_set(plan, '$.vacuumed', json('{value}')) WHERE {names}"
                connection.execute(sql, (anew,))
        comparison = compare([path])
        plain, sliced = (comparison.ratio("17.0", step, "rate_per_s") for step in ("l.x", "qr100"))
        assert plain is not None and sliced is not None
        assert plain.pairs == 5 and sliced.pairs == 5 - len(sliced.left_out)
        return list(sliced.left_out)

    reason = "left out: pair 2: unlike work: autovacuum came to the tables 0 and 1 times"
    assert left_out("one", (2,)) == [reason]
    assert left_out("system", (2,), "pg_catalog.pg_class") == []
    assert left_out("before", (2,), anew="qr100") == []
    assert left_out("since", (2,), anew="l.i0") == [reason]
    assert left_out("earlier", (2,), earlier=True) == [], "it is not known when the workload vacuumed"
    assert left_out("most", (1, 2, 3)) == [], "the builds do so"


def test_a_pair_with_a_suspended_machine_is_left_out(tmp_path: Path) -> None:
    path, text = make_run(tmp_path / "r"), "the machine was suspended for 40.0 s"
    with sqlite3.connect(path / "journal.db") as connection:
        (attempt,) = connection.execute("SELECT min(id) FROM attempt").fetchone()
        connection.execute(
            "INSERT INTO event (attempt_id, kind, started_ns, data) VALUES (?, 'suspended', 1, ?)",
            (attempt, json.dumps({"text": text})),
        )
    comparison = compare([path])
    assert Check("17.0", "machine", False, f"pair 1: {text}") in comparison.checks("17.0")
    assert {ratio.pairs for ratio in comparison.ratios} == {2}


RATES = {"16.3": 8000.0, "17.0": 7600.0}
WHOLE: dict[str, Any] = {}
SLICED: dict[str, Any] = {"slices": lambda cell, step: made_slices(cell, step, RATES)}
THREE: dict[str, Any] = {"slices": lambda cell, step: [], "builds": ("16.3", "17.0", "18.1")}


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (WHOLE, SLICED, "measured in cells and in slices of 50 ms with 2 servers side by side, unlike loads"),
        (SLICED, WHOLE, "measured in slices of 50 ms with 2 servers side by side and in cells, unlike loads"),
        (SLICED, SLICED | {"slice_ms": 20.0}, "and in slices of 20 ms with 2 servers side by side, unlike loads"),
        (SLICED, THREE, "with 2 servers side by side and in slices of 50 ms with 3 servers side by side"),
    ],
)
def test_runs_that_took_turns_otherwise_are_never_pooled(
    tmp_path: Path, ours: dict[str, Any], theirs: dict[str, Any], said: str
) -> None:
    paths = [make_run(tmp_path / name, repeats=1, **how) for name, how in (("a", ours), ("b", theirs))]
    with pytest.raises(UserError) as refused:
        compare(paths)
    assert said in str(refused.value)
    assert "their ratios may stand side by side" in str(refused.value)


def test_runs_in_the_same_slices_are_compared_as_one(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / name, repeats=2, **SLICED) for name in ("a", "b")])
    assert (comparison.measured.design, comparison.pairs) == ("slices of 50 ms", 4)
    assert comparison.sliced("17.0", "qr100") and not comparison.sliced("17.0", "l.i0")


def test_runs_whose_clients_connect_otherwise_are_not_compared(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "one"), make_run(tmp_path / "two")
    record = json.loads((two / "manifest.json").read_text())
    record["route"] = {"address": "127.0.0.1", "client": "127.0.0.1"}
    (two / "manifest.json").write_text(json.dumps(record))
    message = "different ways (over the Unix socket, over TCP within this machine)"
    with pytest.raises(UserError, match=re.escape(message)):
        compare([one, two])
    record["route"] |= {"client": "10.0.0.2", "host": "db2", "name": "client2"}
    (two / "manifest.json").write_text(json.dumps(record))
    assert compare([two]).measured.route == "TCP from client2"
