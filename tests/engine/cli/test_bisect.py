"""`bench bisect` over a repository: real commits, real builds by Nix, real servers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.cli.main import main
from engine.postgres import history
from tests.support import slowtree, smalltree
from tests.support.benchcall import Bench, wait_for
from tests.support.realnix import wrapper_environment

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
        ("postgres", "main", "main", "are one commit"),
        ("postgres", "main", "main~2", "main is no first-parent ancestor of main~2; it comes after it: swap them"),
        ("postgres", "aside", "main", "aside is no first-parent ancestor of main; name a common ancestor"),
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
        (("--pg", "16.3"), "the builds of a search are its commits"),
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
        ('{"format": 1, "asked": "another"}', "begun with other options"),
        ('{"format": 1, "asked": "DIGEST", "judged": [{"commit": "../../etc", "pairs": [], "run": "x"}]}', "no commit"),
    ],
)
def test_a_state_of_another_search_is_refused(repository: Path, tmp_path: Path, text: str, said: str) -> None:
    from engine.cli import bisecting
    from engine.core.errors import UserError

    (tmp_path / "bisect.json").write_text(text.replace("DIGEST", "digest"))
    with pytest.raises(UserError, match=said):
        bisecting._read(tmp_path / "bisect.json", "digest", {"a" * 40})


def test_merges_are_one_change(repository: Path) -> None:
    assert [commit.subject for commit in history.commits_between(repository, "main~2", "main")] == [
        "Change 0", "Change 1", "Change 2",
    ]  # fmt: skip


@pytest.mark.timeout(900)
def test_a_slow_commit_is_found_the_search_killed_midway(
    new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = new_folder()
    for name, value in wrapper_environment().items():
        monkeypatch.setenv(name, os.environ.get(name, value))
    server = next(Path(os.environ["PGBED_SERVERS"]).glob("16.3-*"))
    path = folder / "postgres"
    path.mkdir()
    commits = slowtree.make_history(path, server, "16.3", [0, None, 3_000_000])
    bench = Bench(folder / "runs")
    words = ("bisect", "--good", "main~2", "--bad", "main", "--repo", str(path), *LOAD)

    def begun() -> bool:
        """Whether the ends are known to differ. They are asked again where all that was measured is withheld."""
        with subprocess.Popen(bench.command(*words), stdout=subprocess.DEVNULL) as process:
            wait_for(lambda: process.poll() is not None or list(folder.glob("runs/*/bisect.json")), "the ends", 200)
            process.kill()
        return bool(list(folder.glob("runs/*/bisect.json")))

    assert begun() or begun() or begun()
    outcome = subprocess.run(bench.command(*words, "--json"), capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert "going on with a search that was begun" in outcome.stderr
    assert "does not build: build 'tried' failed" in outcome.stderr
    found = json.loads(outcome.stdout)
    assert found["candidates"] == commits[1:] and found["parent"] == commits[0]
    assert found["probability"] > 0.95 and found["ratio"]["high"] < 0.98 and "Change 2" in found["message"]
    assert smalltree.git(path, "worktree", "list").count("\n") == 0 and not smalltree.git(path, "status", "--short")
