"""The script of action.yml, as a job runs it: without privilege, network or a home to write in, from a shallow clone.

Needs root, Nix, git, setpriv and unshare.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from engine.core.model import Build
from tests.support import slowtree, smalltree
from tests.support.ci_runner import ROOT, Runner, script
from tests.support.journal import make_run
from tests.support.templates import BY_THEMSELVES

pytestmark = [pytest.mark.outside, pytest.mark.first]

SOUND, CRASHING, BROKEN = 0, -50, None  # the second one's backends abort after so many messages
JOB_S = 400.0


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that others can enter, for runners and their clones."""
    path = Path(tempfile.mkdtemp(prefix="pgbed-action-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def runner(place: Path, servers: dict[str, Build]) -> Runner:
    """A runner with the action, and `origin`, whose `crashing` and `broken` branch off before main's end."""
    server = Path(BY_THEMSELVES["PGBED_SERVERS"], "16.3-prebuilt").resolve()
    origin = place / "origin"
    origin.mkdir()
    first, crashing, broken = slowtree.make_history(origin, server, "16.3", [SOUND, CRASHING, BROKEN])
    for name, commit in (("crashing", crashing), ("broken", broken)):
        smalltree.git(origin, "branch", name, commit)
    smalltree.git(origin, "reset", "--quiet", "--hard", first)
    (origin / "src/backend/later").write_text("x\n")
    smalltree.commit(origin, "Later than the merge base")
    ready = Runner(place / "runner", nix="machine")
    ready.make()
    ready.bring_action()
    ready.hand_over(origin)
    return ready


def test_a_head_that_is_worse_fails_the_job_and_the_files_say_so(runner: Runner, place: Path) -> None:
    for minutes in ("1.7", "5"):  # a busy machine needs more than a minute to build bench
        inputs = {"base": "origin/main", "minutes": minutes, "steps": "l.i0"}
        done = runner.run_action(f"file://{place}/origin", "crashing", inputs, JOB_S)
        if "allow more --minutes" not in done.stderr:
            break
    assert done.returncode == 1, done.stdout + done.stderr
    assert "fetching 50 more commits of this shallow clone" in done.stdout
    files = runner.work / "clone" / "pgbed-ci"
    assert (files / "summary.md").exists(), done.stdout + done.stderr
    summary = (files / "summary.md").read_text()
    assert "gate: failed: head l.i0 not measured in" in summary and "- head: " in summary and "Change 1" in summary
    assert runner.summary.read_text() == summary
    (case,) = ElementTree.parse(files / "junit.xml").iter("error")
    assert case.get("message", "").startswith("not measured in ")
    assert list(files.glob("2*/journal.db"))


def test_a_head_that_does_not_compile_fails_the_job(runner: Runner, place: Path) -> None:
    done = runner.run_action(f"file://{place}/origin", "broken", {"base": "origin/main"}, JOB_S)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "does not build:" in done.stderr and "nothing" in done.stderr
    assert "does not build.**" in runner.summary.read_text()


def test_without_network_one_line_says_that_nothing_builds(runner: Runner, place: Path) -> None:
    fresh = replace(runner, folder=place / "fresh", nix="own")
    fresh.make()
    fresh.bring_action()
    done = fresh.run_action(f"file://{place}/origin", "broken", {"base": "origin/main"}, JOB_S)
    assert done.returncode == 2, done.stdout + done.stderr
    said = "bench: bench is not built: what it is made of cannot be fetched without network"
    assert done.stderr.splitlines()[-1] == said


@pytest.fixture
def confirmed(new_folder: Callable[[], Path]) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    """The script in a folder, with the artifact of a job in it, by this checkout's `bench`."""

    def run(artifact: Path) -> subprocess.CompletedProcess[str]:
        bench = artifact.parent / "bench"
        bench.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m engine "$@"\n')
        bench.chmod(0o755)
        text, environment = script({"confirm": artifact.name}, {"runner.temp": str(new_folder())})
        given = {"GITHUB_ACTION_PATH": str(artifact.parent), "GITHUB_STEP_SUMMARY": str(artifact.parent / "summary.md")}
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", text], cwd=artifact.parent, env=os.environ | environment | given,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=JOB_S, check=False,
        )  # fmt: skip

    return run


def test_a_second_job_measures_slower_steps_and_what_they_need(
    confirmed: Callable[[Path], subprocess.CompletedProcess[str]],
    new_folder: Callable[[], Path],
    servers: dict[str, Build],
) -> None:
    folder, prefix = new_folder(), next(iter(servers.values())).prefix
    request = {
        "builds": [f"base={prefix}", f"head={prefix}"], "rows": 2000, "rows_written": 1000, "query_seconds": 1,
        "overrides": ["shared_buffers=32MB"], "interleave": "cells", "repeats": 1, "allow_concurrent": True,
    }  # fmt: skip
    effects = {("head", "l.i1"): 0.9}
    make_run(folder / "pgbed/20261128-1", builds=("base", "head"), effects=effects, repeats=6, request=request)
    done = confirmed(folder / "pgbed")
    (manifest,) = (folder / "pgbed-ci").glob("2*/manifest.json")
    steps = [step["name"] for step in json.loads(manifest.read_text())["workload"]["steps"]]
    assert steps == ["l.i0", "l.x", "l.i1"], done.stdout + done.stderr
    assert done.returncode == 3 and "gate: undecided" in done.stderr  # of a single pair


def test_a_second_job_without_a_slower_step_fails(
    confirmed: Callable[[Path], subprocess.CompletedProcess[str]], new_folder: Callable[[], Path]
) -> None:
    folder = new_folder()
    make_run(folder / "pgbed/20261128-1", builds=("base", "head"), failed={1: "the server ended"}, repeats=6)
    done = confirmed(folder / "pgbed")
    assert done.returncode == 1 and "no step is slower, so the first job failed for another reason" in done.stderr
    assert not (folder / "pgbed-ci").exists()
