"""Lists of choices, as a person in 80 columns reads them."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.analysis.causes import probe_cost
from engine.cli import lists
from engine.report.console import PlainConsole
from tests.support.journal import make_run

TARBALL = {"name": "postgresql-16.3.tar.bz2", "hash": "sha256-" + "A" * 44, "path": "/nix/store/" + "x" * 60}
LABELS = ("12.11", "16.3", "17.0-prebuilt-builtin")
BARE = lists.ListedRows(
    [{"label": label, "patches": [], "size": 0} for label in ("12.11", "16.3")], ("label", "patches", "size")
)


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """80 columns, and a list of builds as the flake writes it."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    entries = [
        {"label": label, "version": label.partition("-")[0], "attr": f"postgresql-{label}", "provenance": "source",
         "patches": ["0001-a-patch-of-mine.patch"] if label == "16.3" else [], "tarball": TARBALL}
        for label in LABELS
    ]  # fmt: skip
    (tmp_path / "lists.json").write_text(json.dumps(entries))
    monkeypatch.setenv("PGBED_CATALOG", str(tmp_path / "lists.json"))


def lines_of(listing: lists.ListedRows, capsys: pytest.CaptureFixture[str]) -> Sequence[str]:
    lists.show(listing, False, PlainConsole(force_terminal=True))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    return [line.rstrip() for line in lines]


def test_a_build_is_one_line_and_its_record_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(lists.builds(), capsys)
    assert lines[0].split() == ["label", "version", "newest", "provenance", "patches"]
    assert [line.split()[0] for line in lines[1:-1]] == list(LABELS)
    assert lines[2].split() == ["16.3", "16.3", "16.3", "source", "0001-a-patch-of-mine.patch"]
    bare = [line.split() for line in lines_of(BARE, capsys)]
    assert bare == [["label", "size"], ["12.11", "0"], ["16.3", "0"]], "a column without entries is left out"
    lists.show(lists.builds(), as_json=True)
    assert json.loads(capsys.readouterr().out)[0]["tarball"] == TARBALL


def test_run_names_are_never_wrapped_and_the_newest_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builds = ("16.3-prebuilt", "17beta1-builtin", "12.11-prebuilt")
    for name in ("20261120-101500-16.3-prebuilt", "20261123-101500-16.3-prebuilt"):
        make_run(tmp_path / name, builds=builds, repeats=2)
        (tmp_path / name / "cells").mkdir(exist_ok=True)
    listing = lists.runs(tmp_path)
    lines = lines_of(listing, capsys)
    words = {word for line in lines for word in line.split()}
    assert words >= {*builds, "finished", "g24b"}
    assert [line.split()[0] for line in lines if line.split()[1:2] == ["*"]] == ["20261123-101500-16.3-prebuilt"]
    lists.show(listing, as_json=False)  # into a pipe
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["run", "state", "cells", "builds", "scale"]
    assert [row.split()[:3] for row in rows] == [
        ["20261123-101500-16.3-prebuilt", "finished", "6/6"], ["20261120-101500-16.3-prebuilt", "finished", "6/6"],
    ]  # fmt: skip
    assert [row.endswith(" *") for row in rows] == [True, False]
    assert all(" ".join(builds) in row for row in rows)


def test_a_workload_is_one_line_and_its_own_sizes_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(lists.workloads(), capsys)
    assert len([line for line in lines if line.startswith("insert ")]) == 9
    assert "g24b: l.i0 l.x l.i1 l.i2 pause qr100 qp100 qr500 qp500 qr1000 qp1000" in lines
    text = " ".join(lines)
    assert (
        "g24a, g24b io: the posts of 2024 do not state their IO-bound sizes; 800M rows are this project's own" in text
    )
    lists.show(lists.workloads(), as_json=True)
    noted = [(row["scale"], row["generation"]) for row in json.loads(capsys.readouterr().out) if row.get("note")]
    assert noted == [("io", "g24a"), ("io", "g24b")]


@pytest.mark.slow
def test_a_probe_tells_what_it_was_measured_to_cost_here(tmp_path: Path) -> None:
    cost = probe_cost.Cost(
        platform.node(), ("sched", "stacks"), "16.3", "l.i1", "rate_per_s", 0.99, 0.98, 1.0, 8, "a-run"
    )
    probe_cost.keep(tmp_path, [cost])
    measured = {row["probe"]: row["measured"] for row in lists.probes(tmp_path).rows}
    assert [one["ratio"] for one in measured["sched"]] == [0.99] and measured["sched"] == measured["stacks"]
    assert measured["planner"] == []
