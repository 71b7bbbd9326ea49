"""`bench tag`, `bench delete`, and the row of a run in `bench list runs`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.journal import housekeeping
from engine.journal.housekeeping import read_tags
from engine.journal.manifest import read_manifest
from engine.journal.writer import JournalWriter
from tests.support.benchcall import Bench
from tests.support.journal import make_run
from workloads.api.base import UNBEGUN


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with one finished run, `one`."""
    folder = tmp_path / "runs"
    folder.mkdir()
    written(folder, "one")
    return folder


def written(out: Path, name: str) -> Path:
    run = make_run(out / name, repeats=1)
    (run / "cells").mkdir(exist_ok=True)
    return run


def refused(bench: Bench, *arguments: str) -> str:
    done = bench(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


# -- tags


def test_tags_are_added_shown_and_removed(out: Path) -> None:
    bench = Bench(out)
    assert bench("tag", "baseline,nvme", "one").stdout == "one: baseline nvme\n"
    assert bench("tag", "nvme,bug:17", "one").stdout == "one: baseline nvme bug:17\n"
    listed = bench("list", "runs").stdout
    assert "tags" in listed and "baseline" in listed
    assert json.loads(bench("list", "runs", "--json").stdout)[0]["tags"] == ["baseline", "nvme", "bug:17"]
    assert bench("tag", "nvme,baseline", "one", "--remove").stdout == "one: bug:17\n"
    assert bench("tag", "bug:17", "--remove").stdout == "one: no tags\n"
    assert "tags" not in bench("list", "runs").stdout.splitlines()[0]


def test_what_is_no_word_is_refused_in_one_line(out: Path) -> None:
    bench = Bench(out)
    assert "tag 'two words'" in refused(bench, "tag", "two words", "one")
    assert "at most 40" in refused(bench, "tag", "x" * 41, "one")
    assert "has no tag 'nvme' (it has: none)" in refused(bench, "tag", "nvme", "one", "--remove")
    assert "tag ''" in refused(bench, "tag", "", "one")
    assert "unknown run 'two'" in refused(bench, "tag", "word", "two")
    assert "20 tags" in refused(bench, "tag", ",".join(f"t{n}" for n in range(21)), "one")
    assert read_tags(out / "one") == ()


@given(st.lists(st.from_regex(r"[a-z0-9][a-z0-9.:/-]{0,8}", fullmatch=True), max_size=10))
def test_tagging_keeps_order_and_each_word_once(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    run = tmp_path_factory.mktemp("run")
    assert housekeeping.tag(run, words) == tuple(dict.fromkeys(words)) == read_tags(run)
    assert housekeeping.untag(run, words) == ()


# -- deleting


def test_a_deleted_run_is_gone_and_others_stay(out: Path) -> None:
    written(out, "two")
    (out / "probe-cost.json").write_text("[]")
    named = read_manifest(out / "two").builds[0].digest
    kept = [out / ".builds" / name for name in (f"built-{named}", "postgresql-16_3", "built-younger")]
    (out / ".builds").mkdir()
    for link in (*kept, out / ".builds" / "built-unnamed"):
        link.symlink_to("/nix/store/none")
        if link.name != "built-younger":
            os.utime(link, (0, 0), follow_symlinks=False)
    done = Bench(out)("delete", "one", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("removed one: ") and done.stdout.endswith(" freed\n")
    assert sorted(path.name for path in out.iterdir()) == [".builds", "probe-cost.json", "two"]
    assert sorted((out / ".builds").iterdir()) == sorted(kept)


def test_several_runs_are_deleted_together_or_none_of_them(out: Path) -> None:
    written(out, "two")
    assert "unknown run 'nine'" in refused(Bench(out), "delete", "one", "nine", "--yes")
    assert (out / "one" / "journal.db").exists()
    done = Bench(out)("delete", "one", "two", "--yes")
    assert done.stdout.count("freed") == 2
    assert list(out.iterdir()) == []


def test_deleting_asks_and_without_a_terminal_removes_nothing(out: Path) -> None:
    assert "add --yes to confirm" in refused(Bench(out), "delete", "one")
    assert (out / "one" / "journal.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "removed"), [(b"n\n", False), (b"y\n", True)])
def test_deleting_asks_on_a_terminal(out: Path, answer: bytes, removed: bool) -> None:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine", "delete", "one", "--out", str(out)],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.write(ours, answer)
        _, said = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"Remove this run for good?" in said
    assert (process.returncode, (out / "one").exists()) == ((0, False) if removed else (2, True))


def test_nothing_outside_the_output_folder_is_removed(out: Path, tmp_path: Path) -> None:
    elsewhere = written(tmp_path, "elsewhere")
    assert "name the folder that holds it" in refused(Bench(out), "delete", str(elsewhere), "--yes")
    (out / "link").symlink_to(elsewhere)
    assert "a symlink" in refused(Bench(out), "delete", "link", "--yes")
    (out / "one" / "inner").symlink_to(elsewhere)
    (out / ".data").symlink_to(tmp_path / "data")
    (out / ".builds").symlink_to(tmp_path / "data")
    (tmp_path / "data/one").mkdir(parents=True)
    (tmp_path / "data/built-x").symlink_to("nowhere")
    os.utime(tmp_path / "data/built-x", (0, 0), follow_symlinks=False)
    assert Bench(out)("delete", "one", "--yes").returncode == 0
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["built-x", "one"]
    assert (elsewhere / "journal.db").exists()


def test_what_is_no_run_is_left_alone(out: Path, tmp_path: Path) -> None:
    (out / "notes").mkdir()
    with pytest.raises(UserError, match="no manifest"):
        housekeeping.delete(out / "notes", out)
    (out / "other").mkdir()
    (out / "other" / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match="it has no cells"):
        housekeeping.delete(out / "other", out)
    with pytest.raises(UserError, match="not in"):
        housekeeping.delete(out / "one" / "..", out)
    assert {path.name for path in out.iterdir()} == {"one", "notes", "other"}


def test_a_run_whose_engine_is_at_work_is_not_deleted(out: Path) -> None:
    with JournalWriter.open(out / "one"):
        assert "bench stop one" in refused(Bench(out), "delete", "one", "--yes")
    assert (out / "one" / "journal.db").exists()


def test_a_cell_whose_data_are_a_link_to_itself_is_deleted(out: Path) -> None:
    cell = out / "one" / "cells" / "001-x"
    cell.mkdir(parents=True)
    (cell / "data").symlink_to("data")
    assert housekeeping.delete(out / "one", out) > 0


@pytest.mark.slow
def test_a_server_that_still_runs_over_a_kept_cluster_is_told(out: Path) -> None:
    data = out / "one" / "cells" / "001-x" / "data"
    data.mkdir(parents=True)
    server = subprocess.Popen(["sleep", "60"], cwd=data)
    try:
        assert f"process {server.pid}" in refused(Bench(out), "delete", "one", "--yes")
    finally:
        server.kill()
        server.wait()
    assert data.exists()


def test_a_removal_that_was_cut_short_can_be_repeated(out: Path) -> None:
    (out / "one" / "journal.db").unlink()
    assert housekeeping.delete(out / "one", out) > 0
    assert not (out / "one").exists()


def test_data_that_were_made_for_a_run_go_with_it_and_no_others(out: Path) -> None:
    written(out, "two")
    for name in ("one", "two"):
        (folder := housekeeping.data_of(out / name)).mkdir(parents=True)
        (folder / "a.dump").write_text("rows")
    housekeeping.delete(out / "one", out)
    assert [folder.name for folder in (out / ".data").iterdir()] == ["two"]
    housekeeping.delete(out / "two", out)
    assert list(out.iterdir()) == []


def test_data_of_a_run_that_does_not_begin_are_not_kept(out: Path) -> None:
    for name, kept in (("new", False), ("one", True)):
        with pytest.raises(KeyboardInterrupt), housekeeping.data_kept(out / name) as folder:
            folder.mkdir(parents=True)
            raise KeyboardInterrupt
        assert folder.exists() == kept


KILLED = """
import sys
from pathlib import Path
from workloads.own import template
template._dump = lambda _, __, name: (Path(name).write_text("rows"), print(flush=True), sys.stdin.read())
template.dumped(template.planned("db.example.org/app"), "", "", Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_dump_is_removed_unless_it_is_in_use(out: Path) -> None:
    folder, of_one = housekeeping.data_of(out / "killed"), housekeeping.data_of(out / "one")
    of_one.mkdir(parents=True)
    (of_one / UNBEGUN).touch()
    words = [sys.executable, "-c", KILLED, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dumping:
        assert dumping.stdout is not None and dumping.stdout.readline()
        housekeeping.forget_abandoned(out)
        assert len(list(folder.iterdir())) == 2, "it is being made"
        dumping.kill()
    housekeeping.forget_abandoned(out)
    assert not folder.exists() and of_one.exists()
    housekeeping.keep_data(out / "one")
    assert of_one.exists() and not list(of_one.iterdir())


# -- watching


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--step", "l.i1"), "--step l.i1 is where a replay starts: name its cell with --cell too"),
        (("--once", "--step", "l.i1"), "name its cell"),
        (("--once", "--cell", "1"), "--cell replays a cell, and --once and --json show the current state"),
        (("--json", "--cell", "1", "--step", "l.i1"), "--cell replays a cell"),
        (("--plain", "--cell", "1"), "replay needs a terminal and no --plain"),
        (("--cell", ""), "replay needs a terminal;"),
    ],
)
def test_options_that_watch_cannot_follow_together_are_refused(out: Path, options: Sequence[str], said: str) -> None:
    assert said in refused(Bench(out), "watch", "one", *options)


# -- what a listing says


def test_a_listed_run_says_what_it_is(out: Path) -> None:
    (row,) = json.loads(Bench(out)("list", "runs", "--json").stdout)
    assert row["run"] == "one" and row["state"] == "finished" and row["cells"] == "2/2"
    assert row["created"] == "2026-11-20T10:00:00+00:00" and row["kernel"] == "6.12.58"
    assert row["workload"] == "insert" and row["steps"] == ["l.i0", "l.x", "l.i1", "qr100"]
    assert (row["clients"], row["cells_done"], row["cells_planned"], row["cells_failed"]) == (1, 2, 2, 0)


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "1.0"}', '{"schema": "9.0"}'])
def test_a_run_that_cannot_be_read_is_a_row_that_says_so(out: Path, text: str) -> None:
    (out / "one" / "manifest.json").write_text(text)
    (row,) = json.loads(Bench(out)("list", "runs", "--json").stdout)
    assert "one" in row["state"] and row["cells_planned"] == 0
