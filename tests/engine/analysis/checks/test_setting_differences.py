"""Settings that differ between servers, and why: a config, a version's default, initdb, or the server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.answer.compare import compared_cells
from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.cells.run_results import ServerSettings
from engine.analysis.checks.comparability import checks
from engine.analysis.checks.setting_differences import SettingDifference, differences, section
from engine.results.section import text
from tests.support.journal import make_run

DEFAULTS = {
    "shared_buffers": "128MB",
    "jit": "on",
    "wal_buffers": "-1 x 8kB",
    "lc_time": "C",
    "old": "1",
    "work_mem": "4MB",
}
OLD = ServerSettings(
    DEFAULTS | {"shared_buffers": "1GB", "wal_buffers": "4MB", "lc_time": "C", "port": "5432"},
    {"shared_buffers": "configuration file", "wal_buffers": "override", "port": "configuration file"},
    DEFAULTS,
)
LATER = DEFAULTS | {"jit": "off", "io_method": "worker"}
NEW = ServerSettings(
    {name: value for name, value in LATER.items() if name != "old"}
    | {"shared_buffers": "2GB", "wal_buffers": "16MB", "lc_time": "de_DE", "port": "5433"},
    {"shared_buffers": "configuration file", "wal_buffers": "override", "lc_time": "configuration file"},
    LATER,
)
FOUR = ("16.3/a", "17.0/a", "16.3/b", "17.0/b")
DEFAULT = dict.fromkeys(FOUR, "default")


def cells_of(folder: Path, old: ServerSettings, new: ServerSettings) -> ComparedCells:
    cells = compared_cells([make_run(folder / "r", repeats=1)])
    conf = {"16.3": old, "17.0": new}
    return replace(cells, cells=tuple(replace(cell, settings=conf[cell.cell.subject.build]) for cell in cells.cells))


def by_name(folder: Path, old: ServerSettings = OLD, new: ServerSettings = NEW) -> dict[str, SettingDifference]:
    return {setting.name: setting for setting in differences(cells_of(folder, old, new))}


def test_differences_have_reasons_and_important_ones_come_first(tmp_path: Path) -> None:
    reasons = {name: setting.reason for name, setting in by_name(tmp_path).items()}
    assert list(reasons.items()) == [
        ("shared_buffers", "config"), ("jit", "default"), ("io_method", "version"), ("wal_buffers", "server"),
        ("old", "version"), ("lc_time", "initdb"),
    ]  # fmt: skip


def test_what_a_cluster_was_made_with_is_the_choice_of_initdb(tmp_path: Path) -> None:
    init = ServerSettings({"data_checksums": "on"}, {"data_checksums": "override"}, {"data_checksums": "off"})
    assert by_name(tmp_path, replace(init, values={"data_checksums": "off"}), init)["data_checksums"].reason == "initdb"


def test_values_sources_and_steps_are_given_by_subject(tmp_path: Path) -> None:
    settings = by_name(tmp_path)
    assert settings["io_method"].values == {"16.3": None, "17.0": "worker"}
    assert settings["io_method"].sources == {"17.0": "default"}
    assert settings["shared_buffers"].sources["16.3"] == "configuration file"
    assert settings["jit"].matters == ("query",) and not settings["old"].matters
    assert set(settings["shared_buffers"].matters) > {"load", "index", "query"}


@pytest.mark.parametrize(
    ("kind", "jit", "checkpoints"),
    [
        ("query", True, False), ("aggregate", True, False), ("scan", True, False), ("write", False, True),
        ("index", False, False), ("transactions", True, True), ("statement", True, True), ("task", True, True),
    ],
)  # fmt: skip
def test_what_matters_goes_by_what_the_judged_steps_do(kind: str, jit: bool, checkpoints: bool, tmp_path: Path) -> None:
    """Kinds of all workloads; an unknown kind may do anything."""
    slow = ServerSettings(NEW.values | {"max_wal_size": "1GB"}, NEW.sources, NEW.defaults)
    cells = cells_of(tmp_path, OLD, slow)
    steps = [
        {
            "measured": replace(cell.steps["l.i0"], kind=kind),
            "vacuum": replace(cell.steps["l.x"], kind="pause", totals=unjudged),
        }
        for cell in cells.cells
        for unjudged in [replace(cell.steps["l.x"].totals, primary_metric=None)]
    ]
    changed = tuple(replace(cell, steps=steps_of_cell) for cell, steps_of_cell in zip(cells.cells, steps, strict=True))
    matters = {setting.name: setting.matters for setting in differences(replace(cells, cells=changed))}
    assert matters["jit"] == ((kind,) if jit else ())
    assert matters["max_wal_size"] == ((kind,) if checkpoints else ())
    assert matters["shared_buffers"] == (kind,) and matters["lc_time"] == ()


def test_a_run_that_recorded_no_defaults_says_default(tmp_path: Path) -> None:
    one, other = (ServerSettings({"jit": "off"} if off else {}, {"jit": "configuration file"}) for off in (True, False))
    assert not by_name(tmp_path, one, other), "nothing is known of a cell without any settings"
    other = ServerSettings({"fsync": "off"}, {"fsync": "configuration file"})
    assert by_name(tmp_path / "2", one, other)["jit"].values == {"16.3": "off", "17.0": "default"}


def test_a_check_names_the_important_ones_that_no_config_sets(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, OLD, NEW)
    (text,) = (check.text for check in checks(cells, cells.others[0]) if check.what == "defaults")
    assert text == "5 differ: jit on vs off, io_method unknown vs worker, wal_buffers 4MB vs 16MB, 2 more"


def test_what_a_config_sets_of_the_device_is_listed_too(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, OLD, NEW)
    (run,) = cells.runs
    configs = {
        key: replace(config, device=(("read_ahead_kb", "100"),)) if key.endswith("17.0") else config
        for key, config in run.manifest.configs.items()
    }
    limited = replace(run, manifest=replace(run.manifest, configs=configs))
    first = differences(replace(cells, runs=(limited,)))[0]
    assert (first.name, first.reason) == ("device read_ahead_kb", "config")
    assert first.values == {"16.3": "as it was", "17.0": "100"} and "query" in first.matters


def test_unimportant_new_settings_share_a_row(tmp_path: Path) -> None:
    cells = compared_cells([make_run(tmp_path / "r", configs=("a", "b"), repeats=1)])
    assert set(cells.names.values()) == set(FOUR)
    by_build, by_config, by_both = (
        dict[str, str | None](zip(FOUR, text, strict=True)) for text in ("1212", "1122", "1112")
    )
    new = {name: None if name.startswith("16") else "on" for name in FOUR}
    settings = (
        SettingDifference("jit", "default", by_build, DEFAULT, ("query",)),
        SettingDifference("work_mem", "config", by_config, DEFAULT),
        SettingDifference("geqo", "config", by_both, DEFAULT),
        *(SettingDifference(name, "version", new, {"17.0/a": "default", "17.0/b": "default"}) for name in ("x", "y")),
    )
    assert [(row.name, *map(text, row.values)) for row in section(cells, settings).rows] == [
        ("jit", "other default", "1 (16.3), 2 (17.0)"),
        ("work_mem", "config", "1 (a), 2 (b)"),
        ("geqo", "config", "1 (16.3/a, 17.0/a, 16.3/b), 2 (17.0/b)"),
        ("2 more", "not in all versions", "unknown to 16.3: x, y"),
    ]
