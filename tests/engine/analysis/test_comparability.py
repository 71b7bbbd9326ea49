"""What a comparison tells of its cells being of one kind: what was looked at, found alike or not."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.compare import compare
from engine.core.errors import UserError
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.results.comparison import Check
from tests.support.journal import ENVIRONMENT, make_run
from tests.support.totals import made_slices


def checks(path: Path, subject: str = "17.0") -> dict[str, Check]:
    """The checks of a subject by what was looked at; of several of one kind the last."""
    return {check.what: check for check in compare([path]).checks(subject)}


def test_an_even_run_is_alike_in_all_that_is_looked_at(tmp_path: Path) -> None:
    found = checks(make_run(tmp_path / "r"))
    assert all(check.ok for check in found.values())
    texts = {what: check.text for what, check in found.items()}
    assert texts == {
        "kernel": "6.12.58",
        "binaries": "the same in all cells",
        "settings": "the same",
        "machine": "unchanged in 3 pairs",
        "CPU speed": "100 us of work",
        "CPU clock": "3400 MHz",
        "others' load": "at most 1% of the CPUs",
        "probes": "none",
        "work": "equal in all pairs",
    }


def test_a_machine_that_changed_within_a_pair_comes_first_and_by_its_sentence(tmp_path: Path) -> None:
    def environments(cell: Cell) -> dict[str, Any]:
        slow = cell.ordinal == 3
        return {**ENVIRONMENT, "cpu": {**ENVIRONMENT["cpu"], "mhz": 2000.0 if slow else 3400.0}}

    path = make_run(tmp_path / "r", environments=environments)
    found = compare([path]).checks("17.0")
    assert found[0].what == "machine"
    assert not found[0].ok
    assert "the CPU's clock changed" in found[0].text
    assert Check("17.0", "CPU clock", False, "2000 to 3400 MHz") in found
    assert [check.ok for check in found] == sorted(check.ok for check in found)


def test_a_pair_in_which_the_machine_was_suspended_is_left_out_by_its_sentence(tmp_path: Path) -> None:
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


def test_settings_that_are_what_is_compared_are_named_and_alright(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", builds=("16.3",), configs=("cx5", "cx7"))
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"1GB"', '"2GB"', 1))
    check = checks(path, "cx7")["settings"]
    assert check == Check("cx7", "settings", True, "1 differ: shared_buffers 2GB vs 1GB; these are what is compared")


def test_settings_that_differ_behind_one_name_are_not_alright(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r")
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"1GB"', '"2GB"', 1))
    assert not checks(path)["settings"].ok


def test_unlike_observers_and_unequal_work_are_told(tmp_path: Path) -> None:
    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if cell.subject.build == "16.3" or step != "l.i1":
            return totals
        insert = totals.roles["insert"]
        fewer = replace(insert, rows=insert.rows // 2, rows_actual=insert.rows_actual // 2)
        return replace(totals, observers=("sched",), roles={**totals.roles, "insert": fewer})

    found = checks(make_run(tmp_path / "r", change=change))
    assert (found["probes"].ok, found["probes"].text) == (False, "none, sched")
    assert not found["work"].ok
    assert found["work"].text.startswith("l.i1: unequal work in pair 1")


def test_other_probes_in_any_pair_are_told(tmp_path: Path) -> None:
    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, observers=("sched",)) if cell.subject.build == "16.3" and cell.repeat == 1 else totals

    assert checks(make_run(tmp_path / "r", change=change))["probes"] == Check("17.0", "probes", False, "none, sched")


def test_probes_whose_cost_is_asked_for_are_alright(tmp_path: Path) -> None:
    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, observers=("sched",)) if cell.subject.control else totals

    path = make_run(tmp_path / "r", builds=("16.3",), aa=True, change=change)
    for name in ("manifest.json",):
        text = (path / name).read_text()
        (path / name).write_text(text.replace('"control": "aa"', '"control": "probed"'))
    check = checks(path, "16.3 probed")["probes"]
    assert check == Check("16.3 probed", "probes", True, "none, sched; their cost is compared")


def test_another_binary_behind_the_label_is_told(tmp_path: Path) -> None:
    paths = [make_run(tmp_path / "a", digest="d0"), make_run(tmp_path / "b", digest="d1")]
    found = compare(paths).comparability
    assert [check.ok for check in found if check.what == "binaries"] == [False]


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
        (
            SLICED,
            SLICED | {"stop": "none"},
            "and in slices of 50 ms with 2 servers side by side and --stop none, unlike",
        ),
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
    found = compare([make_run(tmp_path / name, repeats=2, **SLICED) for name in ("a", "b")])
    assert (found.design, found.pairs) == ("slices of 50 ms", 4)
    assert found.sliced("17.0", "qr100") and not found.sliced("17.0", "l.i0")


def test_runs_whose_clients_connect_otherwise_are_not_compared(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "one"), make_run(tmp_path / "two")
    record = json.loads((two / "manifest.json").read_text())
    record["route"] = {"address": "127.0.0.1", "client": "127.0.0.1"}
    (two / "manifest.json").write_text(json.dumps(record))
    told = "clients connect over the Unix socket in the one and over TCP within this machine in the other"
    with pytest.raises(UserError, match=told):
        compare([one, two])
    record["route"] |= {"client": "10.0.0.2", "host": "db2", "name": "client2"}
    (two / "manifest.json").write_text(json.dumps(record))
    assert compare([two]).route == "TCP from client2"


def test_a_clients_host_that_changed_within_a_pair_is_told_as_the_machine_is(tmp_path: Path) -> None:
    def environments(cell: Cell) -> dict[str, Any]:
        kernel = {"release": "6.12.59" if cell.ordinal == 3 else "6.12.58"}
        return {**ENVIRONMENT, "client": {**ENVIRONMENT, "kernel": kernel, "state": {"busy_share": 0.9}}}

    found = compare([make_run(tmp_path / "r", environments=environments)]).checks("17.0")
    assert (found[0].what, found[0].ok) == ("machine", False)
    assert "on the clients' host the kernel changed: 6.12.58, then 6.12.59" in found[0].text
    assert not any("other programs" in check.text for check in found)
