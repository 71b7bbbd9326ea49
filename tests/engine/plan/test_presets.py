"""Presets: their files, what they fill into a plan, and which of their builds can be had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.plan import planfile, presets
from workloads import workload
from workloads.api.options import checked
from workloads.presets import parsed
from workloads.presets import presets as all_presets

LABELS = ("13.7", "16.3", "17.0", "17.0-builtin", "18.6", "17.0-prebuilt", "17beta1")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has some builds: all of the list but 17beta1, whose source cannot be fetched."""
    tarball = {"name": "none.tar.bz2", "hash": "sha256-" + "A" * 44, "path": "/nix/store/" + "x" * 60}
    entries = [
        {"label": label, "version": label.partition("-")[0], "attr": label,
         "tarball": None if "prebuilt" in label else tarball,
         "provenance": "prebuilt" if "prebuilt" in label else "source",
         "initdb_args": ["--locale-provider=builtin"] if label.endswith("builtin") else []}
        for label in LABELS
    ]  # fmt: skip
    (tmp_path / "catalog.json").write_text(json.dumps(entries))
    servers = tmp_path / "servers"
    for label in ("16.3", "17.0", "18.6"):
        (servers / label / "bin").mkdir(parents=True)
        (servers / label / "bin" / "postgres").touch()
    monkeypatch.setenv("PGBED_CATALOG", str(tmp_path / "catalog.json"))
    monkeypatch.setenv("PGBED_SERVERS", str(servers))
    monkeypatch.setenv("PGBED_PACKAGE_SET", "hostpkgs")
    monkeypatch.setenv("PATH", "/nonexistent")  # no Nix that could have more
    return servers


def test_every_preset_is_a_plan_at_each_of_its_scales() -> None:
    rows = {row["preset"]: row for row in presets.rows()}
    assert set(rows) == set(all_presets()) >= {"insert-2024-05", "planner-delete", "select-scaling", "quick-look"}
    for name, preset in all_presets().items():
        assert all(set(map(len, (line.values for line in table.lines))) == {len(table.subjects)}
                   for table in preset.published)  # fmt: skip
        for scale in preset.scales or ("",):
            asked = {"preset": name, "builds": ["16.3", "17.0"], **({"scale": scale} if scale else {})}
            request = planfile.request(asked)
            assert planfile.request(request.entries()) == request, "once filled in nothing is added"
            load = workload(request.workload)
            plan = load.plan(checked(load.options, request.options))
            steps = [step["name"] for step in plan.record["steps"]]
            assert {line.step for table in preset.published for line in table.lines} <= set(steps)


def test_what_is_asked_for_is_on_top_of_a_preset() -> None:
    request = planfile.request({"preset": "insert-2024-05", "rows": 5000, "builds": ["18.6"], "configs": ["cx5"]})
    assert (request.options["rows"], request.options["scale"], request.builds) == (5000, "quick", ("18.6",))
    assert request.configs == ("cx5",) and request.options["lookup_connection"] == "new"
    large = planfile.request({"preset": "insert-2024-05", "scale": "cached"})
    assert large.configs == ("cx9a2_c8r32",) and "rows" not in large.options
    known = planfile.request({"preset": "insert-2024-05", "until_known": True})
    assert known.repeats is None, "which exclude each other"


def test_planning_of_deletes_is_measured_in_whole_cells() -> None:
    """The analyze of one server in the other's slices would withhold all its verdicts."""
    entries = {"preset": "planner-delete", "builds": ["16.3-prebuilt"]}
    assert planfile.request(entries).interleave == "cells"
    assert planfile.request(entries | {"interleave": "slices"}).interleave == "slices"


def test_builds_that_cannot_be_had_are_named_and_the_rest_is_run(here: Path) -> None:
    request = planfile.request({"preset": "insert-2024-05"})
    assert request.builds == ("16.3", "17.0", "17.0-builtin")
    assert presets.notices(request) == (
        "insert-2024-05: 17.0 in place of 17beta1, which is not among the builds",
        "insert-2024-05: 17.0-builtin in place of 17beta1-builtin, which is not among the builds",
    )
    (one,) = presets.notices(
        planfile.request({"preset": "insert-2024-05", "builds": ["17beta1=/opt", "16.3-prebuilt"]})
    )
    assert one.startswith("insert-2024-05: 17beta1-builtin is missing")
    assert planfile.request({"preset": "quick-look"}).builds == ("17.0", "18.6")
    with pytest.raises(UserError, match=r"preset planner-2024-01: none of its builds is available here .13.13, 14.10"):
        planfile.request({"preset": "planner-2024-01"})


@pytest.mark.slow
def test_an_unfetchable_build_is_reported_and_the_rest_run(here: Path, tmp_path: Path) -> None:
    """Prebuilt 17.0 where there is no Nix; a build asked for by name cannot be left out."""
    (here / "17.0" / "bin" / "postgres").unlink()
    for program in (here / "16.3" / "bin" / name for name in ("postgres", "initdb")):
        program.write_text("#!/bin/sh")
        program.chmod(0o755)
    request = planfile.request({"preset": "insert-2024-05"})
    assert request.builds == ("16.3", "17.0-prebuilt")
    left, lines = presets.fetched(request, tmp_path, lambda _: None)
    assert left.builds == ("16.3",) and lines == (
        "17.0-prebuilt is missing: Nix is not installed: start with ./bench, which installs it",
    )
    asked = planfile.request({"preset": "insert-2024-05", "builds": ["17.0-prebuilt"]})
    assert presets.fetched(asked, tmp_path, lambda _: None) == (asked, ())
    (here / "16.3" / "bin" / "postgres").unlink()
    with pytest.raises(
        UserError, match=r"preset insert-2024-05: none of its builds is available here: 17.0-prebuilt is miss"
    ):
        presets.fetched(planfile.request({"preset": "insert-2024-05"}), tmp_path, lambda _: None)


GOOD = """
question = "?"
workload = "insert"
[[published]]
title = "t"
subjects = ["a", "b"]
lines = [{ step = "l.i0", values = [1, 2] }]
"""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("[1, 2]", "[1]"), "t: l.i0: 1 values of 2"),
        (("[1, 2]", "[1, nan]"), "Expected `float` > 0.0|nan"),
        (("[1, 2]", "[1, -2]"), "> 0"),
        (('"?"', "1"), "Expected `str`"),
        (('workload = "insert"', 'workload = "insert"\nwork = 1'), "unknown field `work`"),
        (("[[published]]", '[plan]\nbuilds = ["x"]\n[[published]]'), "builds is no entry of a preset's plan"),
        (("[[published]]", "[scales.huge]\n[[published]]"), "Invalid enum value 'huge'"),
        (('"t"', '"t'), "line 5"),
    ],
)
def test_a_file_is_read_strictly(changed: tuple[str, str], said: str) -> None:
    assert parsed("x", GOOD).published[0].lines[0].values == (1, 2)
    with pytest.raises(ValueError, match=f"preset x: .*({said})"):
        parsed("x", GOOD.replace(*changed))
