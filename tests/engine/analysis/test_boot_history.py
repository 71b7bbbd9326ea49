"""Which earlier A/A runs tell how much boots of a machine change a ratio, and what a comparison makes of them."""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis import boot_history, verdicts
from engine.analysis.compare import compare, compared_cells
from engine.analysis.interim_results import look
from engine.analysis.run_results import load
from engine.core.kernel import GuestMachine, Kernel
from engine.core.model import Cell, Config, Manifest
from engine.core.route import Route
from engine.journal.manifest import read_manifest
from engine.journal.totals import StepTotals
from engine.report.render import to_json, to_markdown
from engine.results.comparison import CPU, Ratio
from tests.support.journal import ENVIRONMENT, STEPS, make_run

HERE = ENVIRONMENT | {"host": {"machine": "here"}}
SLOWER = {("17.0", "l.i1"): 0.97}
APART = (1.02, 0.98, 1.015, 0.985)  # by which boots change the rates of the base against itself


def made(path: Path, boot: str, *, hour: int = 10, environment: dict[str, Any] = HERE, **plan: Any) -> Path:
    """A run of one boot, begun at an hour of a day."""
    created = f"2026-11-20T{hour:02}:00:00+00:00"
    run = make_run(path, created=created, environment=environment, **plan)
    with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
        journal.execute("UPDATE session SET boot_id = ?", (boot,))
    return run


def made_aa(out: Path, number: int, effect: float, *, boot: str = "", **plan: Any) -> Path:
    """An A/A run of the base, whose boot makes it faster than itself by this factor."""
    effects = {("16.3", step): effect for step in STEPS}
    plan = {"builds": ["16.3"], "aa": True, "repeats": 4, "seed": number, "hour": number, "noise": 0.001, **plan}
    return made(out / f"20261120-{number:02}-aa", boot or f"boot {number}", effects=effects, **plan)


def made_run(out: Path, name: str = "20261120-20", **plan: Any) -> Path:
    plan = {"hour": 20, "effects": SLOWER, "repeats": 6, "noise": 0.002, **plan}
    return made(out / name, "today", **plan)


def of(run: Path | Sequence[Path], step: str = "l.i1", metric: str = "rate_per_s") -> Ratio:
    found = compare([run] if isinstance(run, Path) else run).ratio("17.0", step, metric)
    assert found is not None
    return found


def half(low: float | None, high: float | None) -> float:
    assert low is not None and high is not None
    return math.log(high / low) / 2


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A folder with A/A runs of four boots, between which ratios scatter by 1.8 %."""
    for number, effect in enumerate(APART, 1):
        made_aa(tmp_path, number, effect)
    return tmp_path


def test_an_interval_allows_for_what_boots_of_this_machine_differ_by(history: Path, tmp_path: Path) -> None:
    run = made_run(history)
    found = of(run)
    assert found.boot_sd is not None and found.boots == 4
    assert found.boot_sd == pytest.approx(0.0177, rel=0.1)
    assert half(found.low, found.high) > 2 * found.boot_sd > 10 * half(found.within_boot_low, found.within_boot_high)
    assert (found.verdict, found.more_pairs) == ("inconclusive", None)
    alone = of(made_run(tmp_path / "apart"))
    assert (alone.low, alone.high) == (found.within_boot_low, found.within_boot_high)
    assert (alone.verdict, alone.boot_sd, alone.boots, alone.within_boot_low) == ("slower", None, 0, None)
    assert of(run, "qr100").boot_sd == pytest.approx(found.boot_sd, rel=0.05)


def test_it_is_told_in_a_line_with_its_origin_and_in_the_json(history: Path) -> None:
    comparison = compare([made_run(history)])
    (told,) = [text for text in comparison.findings if "boots" in text]
    span, origin = told.split(" between boots of this machine, from ")
    assert re.fullmatch(r"intervals allow for 1\.\d% \(\S+\) to 1\.\d% \(\S+\)", span)
    assert origin == "A/A runs of 4 boots"
    assert told in to_markdown(comparison)
    assert "for more pairs of this boot to help: compare this run together with one of another boot" in (
        comparison.answer_for("17.0")
    )
    records = json.loads(to_json(comparison))["ratios"]
    (record,) = [each for each in records if (each["step"], each["metric"]) == ("l.i1", "rate_per_s")]
    assert record["boots"] == 4 and record["low"] < record["within_boot_low"] < record["within_boot_high"]
    assert not [text for text in compare([made_run(history / "apart")]).findings if "boots" in text]


def test_every_metric_that_is_judged_has_a_component_of_its_own(history: Path) -> None:
    run = made_run(history)
    judged = {ratio.metric for ratio in compare([run]).ratios if ratio.boots}
    assert {"rate_per_s", CPU} <= judged and "ctx_switches_per_op" not in judged
    assert of(run, metric=CPU).boot_sd != of(run).boot_sd


def test_an_interim_analysis_allows_for_it_too(history: Path, tmp_path: Path) -> None:
    assert "l.i1" in look(made_run(history)).unknown
    assert "l.i1" not in look(made_run(tmp_path / "apart")).unknown


def test_boots_that_agree_hardly_widen_anything(tmp_path: Path) -> None:
    for number in range(1, 9):
        made_aa(tmp_path, number, 1.0, noise=0.002)
    found = of(made_run(tmp_path))
    assert found.boots == 8 and found.verdict == "slower"
    assert half(found.low, found.high) < 1.4 * half(found.within_boot_low, found.within_boot_high)


def test_two_boots_are_not_enough_however_many_runs(tmp_path: Path) -> None:
    for number, effect in enumerate(APART, 1):
        made_aa(tmp_path, number, effect, boot=f"boot {number % 2}")
    assert of(made_run(tmp_path)).boots == 0
    made_aa(tmp_path, 5, 1.0)
    assert of(tmp_path / "20261120-20").boots == 3


def other(**changed: Any) -> dict[str, Any]:
    return {"environment": HERE | changed}


@pytest.mark.parametrize(
    "unlike",
    [
        other(host={"machine": "there"}),
        other(host={}),
        other(kernel={"release": "6.1.1"}),
        other(memory={"total_bytes": 2**35}),
        other(host={"machine": "here", "sandbox": True}),
        {"blocks": 20},
        {"aa": False},
        {"options": {"limiter": "catch-up"}},
        {"observers": ("stacks",)},
        {"tunables": (("nr_migrate", "8"),)},
        {"route": Route("127.0.0.1", "127.0.0.1")},
        {"clients": 2},
        {"hour": 21},
    ],
    ids=str,
)
def test_runs_that_were_made_otherwise_say_nothing(tmp_path: Path, unlike: dict[str, Any]) -> None:
    for number, effect in enumerate(APART, 1):
        made_aa(tmp_path, number, effect, **unlike)
    assert of(made_run(tmp_path)).boots == 0


def test_guests_have_a_boot_of_their_own_each(history: Path) -> None:
    kernel = Kernel("6.1", "6.1.170", "nixpkgs", "/k/6.1", "/k/6.1/bzImage", "d1", "c1")
    guest = GuestMachine("kvm", 4, 4096, "image", 1024, "qemu 9.2.4")
    assert of(made_run(history, under=("6.1",), kernels=(kernel,), guest=guest)).boots == 0


def test_runs_of_a_machine_without_an_identity_have_no_history(tmp_path: Path) -> None:
    for number, effect in enumerate(APART, 1):
        made_aa(tmp_path, number, effect, environment=ENVIRONMENT)
    assert of(made_run(tmp_path, environment=ENVIRONMENT)).boots == 0


def test_other_settings_say_nothing_and_what_a_version_does_not_know_is_no_difference() -> None:
    ours = Config("auto", (("shared_buffers", "1GB"), ("jit", "off")), "built in")
    older = Config("auto", (("shared_buffers", "1GB"),), "built in", dropped=("jit",))
    assert boot_history.alike_settings(ours, older) and boot_history.alike_settings(older, ours)
    assert not boot_history.alike_settings(ours, replace(older, dropped=()))
    assert not boot_history.alike_settings(ours, replace(ours, settings=(("shared_buffers", "2GB"), ("jit", "off"))))
    assert not boot_history.alike_settings(ours, replace(ours, device=(("read_iops", "100"),)))


def test_slices_beside_more_servers_are_another_design(tmp_path: Path) -> None:
    for builds, boots in ((["16.3", "17.0"], 0), (["16.3"], 4)):
        for number, effect in enumerate(APART, 1):
            made_aa(tmp_path / str(boots), number, effect, builds=builds, blocks=20)
        assert of(made_run(tmp_path / str(boots), blocks=20), "qr100").boots == boots


def test_a_config_of_the_same_name_with_other_settings_says_nothing(history: Path) -> None:
    for path in history.glob("*-aa/manifest.json"):
        path.write_text(path.read_text().replace("1GB", "2GB"))
    assert of(made_run(history)).boots == 0


def test_steps_that_were_planned_otherwise_have_no_component(history: Path) -> None:
    for path in history.glob("*-aa/manifest.json"):
        record = json.loads(path.read_text())
        (step,) = [each for each in record["workload"]["steps"] if each["name"] == "qr100"]
        step["seconds"] = 7
        path.write_text(json.dumps(record))
    run = made_run(history)
    assert (of(run, "qr100").boots, of(run, "l.i1").boots) == (0, 4)


def test_a_build_that_is_compared_with_itself_by_another_name_is_a_control(tmp_path: Path) -> None:
    for number, effect in enumerate(APART, 1):
        made_aa(tmp_path, number, effect, builds=["16.3", "copy"], aa=False)
    run = made_run(tmp_path)
    assert of(run).boots == 0
    for path in tmp_path.glob("*-aa/manifest.json"):
        record = json.loads(path.read_text())
        for build in record["builds"]:
            build |= {"digest": "one", "version": "16.3"}
        path.write_text(json.dumps(record))
    assert of(run).boots == 4


def broken_manifest(run: Path) -> None:
    (run / "manifest.json").write_text("{")


def broken_created(run: Path) -> None:
    path = run / "manifest.json"
    path.write_text(path.read_text().replace("2026-11-20T", "someday "))


def broken_identity(run: Path) -> None:
    path = run / "manifest.json"
    record = json.loads(path.read_text())
    record["workload"]["identity"] = 5
    path.write_text(json.dumps(record))


def broken_journal(run: Path) -> None:
    (run / "journal.db").write_bytes(b"SQLite format 3\0" + bytes(200))


def broken_totals(run: Path) -> None:
    with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
        journal.execute("UPDATE step SET totals = '[1'")


def gone(run: Path) -> None:
    (run / "journal.db").unlink()


@pytest.mark.parametrize(
    "damage", [broken_manifest, broken_created, broken_identity, broken_journal, broken_totals, gone]
)
def test_a_damaged_run_is_passed_over(history: Path, damage: Callable[[Path], None]) -> None:
    damage(history / "20261120-02-aa")
    assert of(made_run(history)).boots == 3


def read(out: Path) -> list[str]:
    """The A/A runs that count for a later run, by their number."""
    return [each.run[9:11] for each in boot_history.earlier([load(made_run(out))])]


def other_settings(run: Path) -> None:
    path = run / "manifest.json"
    path.write_text(path.read_text().replace("1GB", "2GB"))


def other_steps(run: Path) -> None:
    path = run / "manifest.json"
    record = json.loads(path.read_text())
    for step in record["workload"]["steps"]:
        step["seconds"] = 7
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("plan", "change"),
    [({"clients": 2}, lambda run: None), ({}, other_settings), ({}, other_steps)],
    ids=["workload", "settings", "steps"],
)
def test_a_newer_run_without_any_of_the_steps_hides_no_older_one_of_its_boot(
    history: Path, plan: dict[str, Any], change: Callable[[Path], None]
) -> None:
    for number, effect in enumerate(APART, 1):
        change(made_aa(history, number + 4, effect, boot=f"boot {number}", **plan))
    assert read(history) == ["04", "03", "02", "01"]
    assert of(history / "20261120-20").boots == 4


def test_a_run_that_is_deleted_meanwhile_is_passed_over(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanishing(folder: Path) -> Manifest:
        manifest = read_manifest(folder)
        if folder.name == "20261120-02-aa":
            shutil.rmtree(folder)
        return manifest

    monkeypatch.setattr(boot_history, "read_manifest", vanishing)
    assert read(history) == ["04", "03", "01"]


def test_a_run_whose_workload_is_not_known_has_no_history(history: Path) -> None:
    run = made_run(history)
    broken_identity(run)
    assert of(run).boots == 0


def test_steps_may_be_known_from_unlike_numbers_of_boots(history: Path) -> None:
    path = history / "20261120-01-aa/manifest.json"
    record = json.loads(path.read_text())
    next(each for each in record["workload"]["steps"] if each["name"] == "qr100")["seconds"] = 7
    path.write_text(json.dumps(record))
    (told,) = [text for text in compare([made_run(history)]).findings if "boots" in text]
    assert told.endswith("from A/A runs of 3 to 4 boots")


def test_a_run_of_another_boot_is_advised_only_against_what_boots_add(history: Path) -> None:
    def to_and_fro(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        factor = 1.5 ** (-1) ** cell.repeat if cell.subject.build == "17.0" else 1
        return replace(totals, seconds=totals.seconds * factor)

    found = compare([made_run(history, change=to_and_fro)])
    assert {ratio.boots for ratio in found.ratios if ratio.metric == "rate_per_s"} == {4}
    assert "too much scatter, or too near the margin, for more pairs to help" in found.answer_for("17.0")


def test_only_the_newest_boots_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 7):
        made_aa(tmp_path, number, 1.0)
    monkeypatch.setattr(boot_history, "MOST_BOOTS", 4)
    assert read(tmp_path) == ["06", "05", "04", "03"]


def test_of_a_boot_the_newest_run_is_read_that_says_something(tmp_path: Path) -> None:
    for number in range(1, 9):
        made_aa(tmp_path, number, 1.0, boot=f"boot {number % 4}")
    broken_totals(tmp_path / "20261120-06-aa")
    assert read(tmp_path) == ["08", "07", "02", "05"]


def test_a_folder_of_many_runs_is_not_searched_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 7):
        made_aa(tmp_path, number, 1.0, boot=f"boot {min(number, 4)}")
    monkeypatch.setattr(boot_history, "MOST_RUNS", 4)
    assert read(tmp_path) == []


def test_a_run_of_a_later_boot_lowers_what_boots_differ_by(history: Path) -> None:
    first = made_run(history)
    second = made(history / "20261120-21", "tomorrow", hour=21, effects=SLOWER, repeats=6, noise=0.002, seed=2)
    one, both = of(first), of([first, second])
    assert both.boots == 4 and both.boot_sd == one.boot_sd
    assert half(both.low, both.high) == pytest.approx(half(one.low, one.high) / math.sqrt(2), rel=0.15)


def test_pairs_of_a_boot_each_hold_it_themselves(history: Path) -> None:
    cells = compared_cells([made_run(history)])
    each = tuple(replace(cell, boot=f"boot of {cell.cell.id}") for cell in cells.cells)
    known = boot_history.earlier(cells.runs)
    ratios = [verdicts.ratios(replace(cells, cells=own, earlier=known)) for own in (cells.cells, each)]
    wide, narrow = (next(one for one in found if one.step == "l.i1") for found in ratios)
    assert wide.boots == narrow.boots == 4
    assert (narrow.low, narrow.high) == (wide.within_boot_low, wide.within_boot_high)
