"""Features that steps need and builds lack: by version, by how they were compiled, and missing programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.builds.features import check_demands, lacking
from engine.core.errors import UserError
from engine.core.missing_steps import recorded, sentences
from engine.core.model import Build
from workloads.api.base import Step


def build(folder: Path, version: str, *, icu: bool) -> Build:
    program = folder / version / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF" + b"\0" * 5000 + (b"ucol_open_72" if icu else b"none"))
    return Build(version, version, str(folder / version), "", "local")


STEPS = (Step("a", "task", {}), Step("b", "task", {}, needs=("icu",)), Step("c", "task", {}, needs=("builtin",)),
         Step("d", "task", {}, needs=("pg_dump",), named=False))  # fmt: skip


def test_what_a_build_lacks_is_left_out_of_it_with_the_reason(tmp_path: Path) -> None:
    builds = (build(tmp_path, "14.1", icu=True), build(tmp_path, "16.3", icu=False), build(tmp_path, "17.0", icu=True))
    reasons = lacking(STEPS, builds, {"pg_dump": "no pg_dump found"})
    assert {label: list(why) for label, why in reasons.items()} == {
        "14.1": ["b", "c", "d"], "16.3": ["b", "c", "d"], "17.0": ["d"]
    }  # fmt: skip
    assert sentences(reasons) == (
        "left out: step b: 14.1: clusters have ICU as their locale provider since PostgreSQL 15",
        "left out: step b: 16.3: it was compiled without ICU",
        "left out: step c: 14.1, 16.3: the builtin locale provider came with PostgreSQL 17",
        "left out: step d: 14.1, 16.3, 17.0: no pg_dump found",
    )
    assert recorded({"lacking": reasons}) == reasons and recorded({}) == {}


def test_a_named_step_that_no_build_supports_is_refused(tmp_path: Path) -> None:
    named = (Step("b", "task", {}, needs=("icu",), named=True),)
    without, with_icu = build(tmp_path, "16.3", icu=False), build(tmp_path, "16.4", icu=True)
    with pytest.raises(UserError, match=r"step b: 16\.3: it was compiled without ICU"):
        lacking(named, (without,), {})
    assert list(lacking(named, (without, with_icu), {})) == ["16.3"]
    with pytest.raises(UserError, match=r"17\.0/bin/postgres cannot be read: No such file"):
        lacking(named, (Build("17.0", "17.0", str(tmp_path / "17.0"), "", "local"),), {})
    with pytest.raises(UserError, match=r"workload: lacking is invalid"):
        recorded({"lacking": {"16.3": ["b"]}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("demand", "lacks"),
    [
        ("collation a.sql:3: xx_XX.utf8", "is a locale that this machine does not have"),
        ("collation a.sql:3: en", "is a locale that this machine does not have"),
        ("collation a.sql:3: de-x-icu", "is of ICU, without which 16.3 was compiled"),
        ("icu a.sql:3: german", "is of ICU, without which 16.3 was compiled"),
        ("locale a.sql:3: xx_XX.UTF-8", "is a locale that this machine does not have"),
        ("locale a.sql:3: POSIX", ""),
        ("locale a.sql:3: c.UTF-8", "is a locale that this machine does not have"),
    ],
)
def test_collations_that_data_need_are_looked_for_before_a_run(tmp_path: Path, demand: str, lacks: str) -> None:
    builds = (build(tmp_path, "17.0", icu=True), build(tmp_path, "16.3", icu=False))
    if lacks:
        with pytest.raises(UserError, match=rf"a\.sql:3: the collation .* {lacks}"):
            check_demands([demand], builds)
    if "machine" not in lacks:
        check_demands([demand], builds[:1])
