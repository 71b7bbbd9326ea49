"""The table of settings that differ: who has which value, in as few words as tell it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.analysis.answer.compare import compare
from engine.report.tables.settings import differences
from engine.results.setting_difference import SettingDifference
from tests.support.journal import make_run

FOUR = ("16.3/a", "17.0/a", "16.3/b", "17.0/b")
DEFAULT = dict.fromkeys(FOUR, "default")


def test_values_are_of_builds_or_of_configs_and_unimportant_new_settings_share_a_row(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", configs=("a", "b"), repeats=1)])
    assert set(comparison.names) == set(FOUR)
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
    comparison = replace(comparison, settings=settings)
    (section,) = differences(comparison)
    assert [(row.name, *row.values) for row in section.rows] == [
        ("jit", "other default", "1 (16.3), 2 (17.0)"),
        ("work_mem", "config", "1 (a), 2 (b)"),
        ("geqo", "config", "1 (16.3/a, 17.0/a, 16.3/b), 2 (17.0/b)"),
        ("2 more", "not in all versions", "unknown to 16.3: x, y"),
    ]
