"""Somebody else's run: what it names is neither executed nor made a path, and nothing outside its folder is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.core.model import Build
from engine.journal.runs import planned
from engine.run.engine import execute
from engine.system.account import own_folder
from tests.support.benchcall import LONG, SECONDS, SMALL, Bench, nothing_left
from tests.support.journal import make_run

NOBODY = 65534


def refused(bench: Bench, *arguments: str) -> str:
    """The one line by which a command refuses."""
    done = bench(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr.strip()


@contextmanager
def edited(run: Path) -> Iterator[dict[str, Any]]:
    """The manifest of a run, written again with changes."""
    record = json.loads((run / "manifest.json").read_text())
    yield record
    (run / "manifest.json").write_text(json.dumps(record))


@pytest.fixture
def out(new_folder: Callable[[], Path]) -> Path:
    """A folder with one run, `one`, none of whose cells was begun."""
    folder = new_folder() / "runs"
    folder.mkdir()
    run = make_run(folder / "one", repeats=1, unfinished=range(2))
    (run / "cells").mkdir(exist_ok=True)
    return folder


NAMES = ("../../precious", "/tmp/precious", "..", "", "a/b", "x" * 256, "a\nb", "\x1b[2J", "\0", 3, None, ["x"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["cell", "build", "run"])
def test_an_invalid_file_name_is_refused_before_any_work(out: Path, name: object, place: str) -> None:
    with edited(out / "one") as record:
        {"cell": record["cells"][0], "build": record["builds"][0], "run": record}[place][
            {"cell": "id", "build": "label", "run": "run"}[place]
        ] = name
    with pytest.raises(UserError):
        planned(out / "one")


def test_two_cells_of_one_name_are_refused(out: Path) -> None:
    with edited(out / "one") as record:
        record["cells"][1]["id"] = record["cells"][0]["id"]
    with pytest.raises(UserError, match="two cells have one name"):
        planned(out / "one")


def server_that_tells(folder: Path) -> Path:
    """An install whose programs leave a file behind when they are started."""
    (folder / "bin").mkdir(parents=True)
    folder.chmod(0o777)
    for name in ("postgres", "initdb"):
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\ntouch {folder}/started\necho 'postgres (PostgreSQL) 16.3'\n")
        path.chmod(0o755)
    return folder


def test_nothing_that_a_record_of_somebody_else_names_is_started(out: Path, new_folder: Callable[[], Path]) -> None:
    strange = server_that_tells(new_folder() / "strange")
    with edited(out / "one") as record:
        record["builds"][0] |= {"prefix": str(strange), "version": "16.3"}
    why = "you did not begin this run here, or it has been changed; bench run --plan "
    assert why in refused(Bench(out), "resume")
    with pytest.raises(UserError, match=why):  # nor does the engine that `resume` would start
        execute(out / "one")
    assert not (strange / "started").exists()


def test_a_manifest_is_a_plan_that_is_shown_and_asked_about(out: Path, new_folder: Callable[[], Path]) -> None:
    strange = server_that_tells(new_folder() / "strange")
    with edited(out / "one") as record:
        record["request"] = {"builds": [f"mine={strange}"], "overrides": ["archive_command=touch /tmp/x"], "rows": 2000}
    plan = str(out / "one" / "manifest.json")
    for words in ((), ("--dry-run",), ("--estimate",)):
        done = Bench(out)("run", "--plan", plan, *words)
        assert done.returncode == 2 and "not a terminal: add --yes to confirm" in done.stderr
        assert f"--pg mine={strange}" in done.stderr and "--set 'archive_command=touch /tmp/x'" in done.stderr
    assert not (strange / "started").exists() and len(list(out.iterdir())) == 1
    done = Bench(out)("run", "--plan", plan, "--yes", "--dry-run")
    assert (strange / "started").exists(), done.stderr


def test_a_finished_run_needs_no_builds(new_folder: Callable[[], Path]) -> None:
    folder = new_folder()
    make_run(folder / "one", builds=("16.3-nowhere",), repeats=1, allow_concurrent=True)  # other tests measure, too
    done = Bench(folder)("resume")
    assert (done.returncode, done.stderr) == (0, "") and "bench compare" in done.stdout


def test_a_run_of_an_install_continues_unless_it_changed(
    bench: Bench, build: Callable[[int | str], Build], new_folder: Callable[[], Path]
) -> None:
    place = new_folder() / "install"
    place.symlink_to(build(16).prefix)
    bench.planned("--pg", f"mine={place}", "--repeats", "1", *LONG)
    place.unlink()
    place.symlink_to(build(17).prefix)
    assert "build 'mine' has changed since the run began" in refused(bench, "resume")
    place.unlink()
    place.symlink_to(build(16).prefix)
    started = bench("resume", "--detach")
    assert started.returncode == 0, started.stderr
    bench.await_step("l.i1")
    bench("stop")
    nothing_left(bench)


@pytest.mark.parametrize("place", ["engine.log", "engine.lock", "cells/x", "journal.db", "journal.db-wal"])
def test_a_symlink_or_fifo_in_a_record_is_not_written_through(out: Path, place: str) -> None:
    path = out / "one" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    precious = out.parent / "precious"
    precious.write_text("precious")
    makers: tuple[Callable[[], None], ...] = (lambda: path.symlink_to(precious), lambda: os.mkfifo(path))
    for make in makers:
        path.unlink(missing_ok=True)
        make()
        assert place in refused(Bench(out), "resume")
    assert precious.read_text() == "precious"


def test_three_who_resume_at_once_start_one_engine(bench: Bench, build: Callable[[int | str], Build]) -> None:
    bench.planned("--pg", build(16).label, "--repeats", "1", *LONG)
    commands = [bench.begun("resume", "--detach") for _ in range(3)]
    ended = [process.communicate(timeout_s=120) for process in commands]
    assert sorted(code for code, _, _ in ended) == [0, 2, 2], ended
    for code, output, errors in ended:
        assert ("running detached" in output) if code == 0 else (len(errors.strip().splitlines()) == 1), ended
    bench("stop")
    nothing_left(bench)


def test_kept_clusters_do_not_stand_in_the_way_of_resume(bench: Bench, build: Callable[[int | str], Build]) -> None:
    bench.detached("--pg", build(16).label, "--repeats", "1", "--keep", *SECONDS)
    bench.await_step("l.i1")
    assert bench("stop").returncode == 0
    assert len(list(bench.run.glob("cells/*/data/PG_VERSION"))) == 1
    done = bench("resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [attempt.state for attempt in bench.attempts()] == ["interrupted", "finished"]
    assert len(list(bench.run.glob("cells/*/data/PG_VERSION"))) == 1


# -- where root writes


@pytest.mark.outside  # only root can make files of another user
def test_a_folder_that_another_user_could_rearrange_is_refused(new_folder: Callable[[], Path]) -> None:
    shared, theirs = new_folder(), new_folder()
    shared.chmod(0o1777)
    os.chown(theirs, NOBODY, NOBODY)
    (shared / "pgbed").symlink_to(theirs)
    os.lchown(shared / "pgbed", NOBODY, NOBODY)
    (shared / "made").mkdir()
    os.chown(shared / "made", NOBODY, NOBODY)
    for folder in (shared / "pgbed", shared / "pgbed" / "deeper", shared / "made", shared / "x" / ".." / "made"):
        (shared / "x").mkdir(exist_ok=True)
        with pytest.raises(UserError, match="was made by another user; choose another folder with --out"):
            own_folder(folder)
    assert list(theirs.iterdir()) == []
    home = new_folder()
    (home / "results").symlink_to(shared / "x")
    os.lchown(home / "results", NOBODY, NOBODY)
    os.chown(home, NOBODY, NOBODY)
    with pytest.raises(UserError, match="was made by another user"):
        own_folder(home / "results" / "new")
    (shared / "mine").symlink_to(shared / "x")
    assert own_folder(shared / "mine" / "new" / "folder") == (shared / "x" / "new" / "folder").resolve()


@pytest.mark.outside  # only root can make files of another user
@pytest.mark.parametrize(
    ("owner", "group", "mode"), [(NOBODY, NOBODY, 0o755), (0, 0, 0o777), (0, 0, 0o1777), (0, NOBODY, 0o2775)]
)
def test_root_writes_nothing_through_another_users_links(
    new_folder: Callable[[], Path], build: Callable[[int | str], Build], owner: int, group: int, mode: int
) -> None:
    out, target = new_folder(), new_folder()
    for name in (".builds", ".data", "probe-costs.json", "probe-costs.json.part"):
        (out / name).symlink_to(target / name)
        os.lchown(out / name, NOBODY, NOBODY)
    os.chown(out, owner, group)
    out.chmod(mode)
    said = refused(Bench(out), "--pg", build(16).label, *SMALL)
    assert "other users may write there" in said and "name a new folder in it with --out" in said
    (out / "run" / "cells").mkdir(parents=True)
    (out / "run" / "manifest.json").write_text("{}")
    assert "other users may write there" in refused(Bench(out), "resume", "run")
    assert list(target.iterdir()) == []
    assert own_folder(out / "new") == out / "new"


def test_a_symlink_loop_or_a_name_too_long_is_one_line(tmp_path: Path, build: Callable[[int | str], Build]) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for folder in (tmp_path / "loop", tmp_path / ("x" * 256), tmp_path / "/".join(["x" * 100] * 45)):
        bench = Bench(folder)
        commands: list[tuple[str, ...]] = [("--pg", build(16).label, *SMALL), ("resume",), ("stop",)]
        for command in [*commands, ("delete", "x")]:
            assert refused(bench, *command)
        assert refused(bench, "doctor")
    for name in ("resume", "stop", "tag"):
        assert refused(Bench(tmp_path), name, "x" * 5000)


# -- other users


STOP = """
import os, sys
import engine.cli.start, engine.cli.watch
from engine.cli.main import main
os.setuid(65534)
main(["stop", sys.argv[1]])
"""


@pytest.mark.outside  # only root can become another user
def test_stopping_another_users_run_is_refused_in_one_line(bench: Bench, build: Callable[[int | str], Build]) -> None:
    run = bench.detached("--pg", build(16).label, "--repeats", "1", *LONG)
    asked = subprocess.run([sys.executable, "-c", STOP, str(run)], capture_output=True, text=True, check=False)
    assert asked.returncode == 2, asked.stderr
    assert asked.stderr.strip().endswith("its engine belongs to another user; repeat this as that user or as root")
    assert bench("stop").returncode == 0
    nothing_left(bench)
