"""`bench bisect` over a repository: real commits, real builds by Nix, real servers."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli.main import main
from engine.journal.run_lock import is_locked
from tests.support import slowtree, smalltree
from tests.support.benchcall import Bench, wait_for
from tests.support.realnix import wrapper_environment
from tests.support.templates import BY_THEMSELVES
from tests.support.terminal import Terminal

pytestmark = pytest.mark.outside  # a Nix build has no git

LOAD = ("--workload", "pgbench-select", "--pgbench-scale", "1", "--clients", "1", "--seconds", "1",
        "--warmup-seconds", "1", "--set", "shared_buffers=32MB", "--allow-concurrent")  # fmt: skip


def bench(*words: str) -> Result:
    return CliRunner().invoke(main, ["bisect", *words])


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits of PostgreSQL's shape, the second made slow; beside it a shallow clone and one without git."""
    path = tmp_path_factory.mktemp("bisect") / "postgres"
    path.mkdir()
    slowtree.make_history(path, Path("/nonexistent"), "16.3", [0, 1, 2])
    smalltree.git(path, "clone", "--quiet", "--depth=2", f"file://{path}", str(path.with_name("shallow")))
    path.with_name("empty").mkdir()
    smalltree.git(path, "checkout", "--quiet", "-b", "aside", "main~1")
    smalltree.commit(path, "aside") if (path / "src/backend/aside").write_text("x\n") else None
    smalltree.git(path, "checkout", "--quiet", "main")
    return path


@pytest.mark.parametrize(
    ("where", "good", "bad", "said"),
    [
        ("postgres", "v0", "main", "has no revision 'v0'"),
        ("postgres", "main", "main", "are the same commit"),
        ("postgres", "main", "main~2", "main is not a first-parent ancestor of main~2; it comes after it: swap them"),
        ("postgres", "aside", "main", "aside is not a first-parent ancestor of main; name a common ancestor"),
        ("shallow", "main~1", "main", "is a shallow clone: git fetch --unshallow"),
        ("empty", "main~1", "main", "is not a git repository"),
        ("nowhere", "main~1", "main", "there is no folder"),
    ],
)
def test_what_cannot_be_searched_is_one_line(repository: Path, where: str, good: str, bad: str, said: str) -> None:
    out = repository.with_name("out")
    outcome = bench("--repo", str(repository.with_name(where)), "--good", good, "--bad", bad, "--out", str(out))
    assert outcome.exit_code == 2 and said in outcome.stderr, outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1 and outcome.stdout == "" and not out.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--pg", "16.3"), "a search builds commits"),
        (("--step", "qr10"), "unknown step 'qr10'"),
        (("--config", "cx5,cx7"), "one --config"),
    ],
)
def test_what_is_not_of_a_search_is_refused(repository: Path, words: tuple[str, ...], said: str) -> None:
    outcome = bench("--repo", str(repository), "--good", "main~2", "--bad", "main", *words)
    assert outcome.exit_code == 2 and said in outcome.stderr and len(outcome.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ('{"format": 1, "asked": "another", "step": "l.x"}', "begun with other options"),
        (
            '{"format": 1, "asked": "DIGEST", "judged": [{"commit": "../../etc", "pairs": [], "run": "x"}]}',
            "not part of this search",
        ),
        ('{"format": 1, "asked": "DIGEST", "measured": ["../../etc"]}', "not part of this search"),
        ('{"format": 1, "asked": "DIGEST", "measured": ["a", "b", "c", "d"]}', "not part of this search"),
        ('{"format": 1, "asked": "DIGEST", "under_way": {"run": "/etc", "commits": {}}}', "not part of this search"),
        ('{"format": 1, "asked": "DIGEST", "step": "l.x"}', "not part of this search"),
    ],
)
def test_a_state_of_another_search_is_refused(repository: Path, tmp_path: Path, text: str, said: str) -> None:
    from engine.bisect import state
    from engine.core.errors import UserError

    (tmp_path / "bisect.json").write_text(text.replace("DIGEST", "digest"))
    with pytest.raises(UserError, match=said):
        state.read(tmp_path / "bisect.json", "digest", {"a" * 40})


def searching(folder: Path, spins: Sequence[int | None]) -> tuple[list[str], Bench, tuple[str, ...]]:
    """The commits of a new history, and the command that searches it."""
    server, path = next(Path(BY_THEMSELVES["PGBED_SERVERS"]).glob("16.3-*")), folder / "postgres"
    path.mkdir()
    commits = slowtree.make_history(path, server, "16.3", spins)
    words = ("bisect", "--good", commits[0], "--bad", "main", "--repo", str(path), *LOAD)
    return commits, Bench(folder / "runs"), words


def state_of(folder: Path) -> dict[str, Any]:
    """The output of a search so far; nothing before it has any."""
    for file in folder.glob("runs/*/bisect.json"):
        return dict(json.loads(file.read_text()))
    return {}


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in wrapper_environment().items():
        monkeypatch.setenv(name, os.environ.get(name, value))


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("wrapped")
@pytest.mark.nightly("a search compiles and measures many commits")
def test_a_slow_commit_is_found_the_search_killed_midway(new_folder: Callable[[], Path]) -> None:
    folder = new_folder()
    commits, bench, words = searching(folder, [0, None, 3_000_000])

    def measuring() -> str:
        """The run of the ends, once its engine has it."""
        run = str((state_of(folder).get("under_way") or {}).get("run", ""))
        return run if any(is_locked(path) for path in folder.glob(f"runs/*/{run or '-'}")) else ""

    with subprocess.Popen(bench.command(*words), stdout=subprocess.DEVNULL) as process:
        run = wait_for(measuring, "the run of the ends", 200)
        process.kill()
    outcome = subprocess.run(bench.command(*words, "--json"), capture_output=True, text=True, check=False)
    assert f"waiting for run {run}, which was begun before and is still measured" in outcome.stderr
    assert f"taking the result of run {run}" in outcome.stderr and state_of(folder)["measured"][0] == run
    for _ in range(2):  # where all that was measured of the ends is withheld
        if outcome.returncode:
            command = bench.command(*words, "--json", "--again")
            outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert "does not build: build 'tried' failed" in outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["candidates"] == commits[1:] and result["parent"] == commits[0]
    assert "does not build" in result["unjudged"][f"{commits[1][:12]} Change 1"]
    assert result["probability"] > 0.95 and result["ratio"]["high"] < 0.98 and "Change 2" in result["message"]
    path = folder / "postgres"
    assert smalltree.git(path, "worktree", "list").count("\n") == 0 and not smalltree.git(path, "status", "--short")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("wrapped")
def test_a_search_ended_in_a_build_explains_how_to_resume(new_folder: Callable[[], Path]) -> None:
    folder = new_folder()
    _, bench, words = searching(folder, [0, 1])
    configure = folder / "postgres" / "configure"
    configure.write_text(configure.read_text() + "sleep 600\n")
    smalltree.commit(folder / "postgres", "slow to build")
    command = bench.command(*words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        wait_for(lambda: any("building" in log.read_text() for log in folder.glob("runs/*/runs.log")), "a build", 200)
        process.terminate()
        text, _ = process.communicate()
    assert process.returncode == 143 and text.rstrip().endswith("stopped; the same command continues the search")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("wrapped")
def test_on_a_terminal_builds_and_runs_show_how_far_they_are(new_folder: Callable[[], Path]) -> None:
    folder = new_folder()
    _, bench, words = searching(folder, [0, 1])
    configure = folder / "postgres" / "configure"
    configure.write_text(configure.read_text() + f"sleep 4 # {time.time_ns()}: never built before\n")
    smalltree.commit(folder / "postgres", "not built yet")
    terminal = Terminal(bench.command(*words))
    try:
        for shown in (b" commits from ", b"building ", b"bad: ready", b"cell 1/6  good r1  starting the server"):
            terminal.until(shown, patience_s=120)
        terminal.write(b"\x03")
        terminal.until(b"stopped; the same command continues the search", patience_s=60)
        assert terminal.wait() == 130
    finally:
        terminal.close()
        bench.stop()
