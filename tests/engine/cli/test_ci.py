"""`bench ci`: what a job shows, its files and its exit codes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli import ci
from engine.cli.ci import CiSide
from engine.cli.main import main
from engine.core.errors import UserError
from engine.core.model import Build
from tests.support import ci_runner
from tests.support.journal import make_run
from tests.support.smalltree import commit, git, make_repository

SIDES = (
    CiSide("base", "base=/opt/a", "1234abcd old"),
    CiSide("head", "head=/opt/b", "5678abcd [x](http://y) <b>\x1b[2J"),
)
SHOWN = "5678abcd \\[x](http://y) &lt;b&gt;\\\\x1b\\[2J"


@pytest.mark.parametrize(
    ("minutes", "rows", "steps", "said"),
    [
        (15, 400_000, "l.i0,l.x,l.i1,qr100,qp100", ""),
        (7, 200_000, "l.i0,l.x,l.i1,qr100,qp100", "loading 200,000 rows instead of 400,000, to fit into 7m00s"),
        (
            2, 50_000, "l.i0,l.x,l.i1",
            "loading 50,000 rows instead of 400,000 and leaving out qr100, qp100, to fit into 2m00s",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_left_out_and_named(
    minutes: float,
    rows: int,
    steps: str,
    said: str,
    tmp_path: Path,
    servers: dict[str, Build],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    prefix = next(iter(servers.values())).prefix
    sides = CiSide("base", f"base={prefix}", ""), CiSide("head", f"head={prefix}", "")
    plan, line = ci.fitting(sides, ci.STEPS.split(","), minutes, tmp_path)
    assert (plan["rows"], ",".join(plan["steps"]), line) == (rows, steps, said)
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0 * (os.cpu_count() or 1), 0.0, 0.0))
    busy, _ = ci.fitting(sides, ci.STEPS.split(","), 2 * minutes, tmp_path)
    assert (busy["rows"], busy["steps"]) == (plan["rows"], plan["steps"])


def test_the_summary_shows_the_titles_of_commits_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ci.SUMMARY, str(tmp_path / "page.md"))
    run = make_run(tmp_path / "run", builds=("base", "head"))
    ci.conclude(run, SIDES, tmp_path, tmp_path / "summary.md", gate=False, notes=("left out: x",))
    text = (tmp_path / "summary.md").read_text()
    assert {f"- head: {SHOWN}", "- left out: x"} <= set(text.splitlines()) and (
        tmp_path / "page.md"
    ).read_text() == text


def test_a_job_that_knows_nothing_has_not_passed_and_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", builds=("base", "head"), repeats=1)
    assert ci.conclude(run, SIDES, tmp_path, tmp_path / "summary.md", gate=True) == 3
    assert "- gate: undecided: 4 of 4 comparisons, all of head" in (tmp_path / "summary.md").read_text().splitlines()


@pytest.mark.parametrize("gate", [False, True])
def test_a_job_without_a_finished_cell_measured_nothing(gate: bool, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", builds=("base", "head"), failed=dict.fromkeys(range(6), "no memory"))
    with pytest.raises(UserError, match="no cell has finished, so nothing is measured"):
        ci.conclude(run, SIDES, tmp_path, tmp_path / "summary.md", gate=gate)
    assert "undecided" in (tmp_path / "summary.md").read_text()


def test_the_action_has_the_defaults_of_the_command() -> None:
    inputs = ci_runner.action()["inputs"]
    defaults = {str(option.name): option.default for option in ci.ci.params}
    assert inputs["steps"]["default"] == defaults["steps"] and inputs["head"]["default"] == defaults["head"]
    assert float(inputs["minutes"]["default"]) == defaults["minutes"]


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a branch and an unrelated one, and a clone of it that is too shallow for their merge base."""
    path = make_repository(tmp_path_factory.mktemp("ci") / "postgres")
    for branch in ("aside", "main"):
        git(path, "checkout", "--quiet", "-B", branch)
        (path / branch).write_text("x\n")
        commit(path, f"Something on {branch}")
        git(path, "checkout", "--quiet", "v1") if branch == "aside" else None
    git(path, "checkout", "--quiet", "--orphan", "unrelated")
    commit(path, "Another beginning")
    shallow = path.with_name("shallow")
    git(path, "clone", "--quiet", "--depth=1", "--no-single-branch", f"file://{path}", str(shallow))
    return path.parent


@pytest.mark.outside  # a Nix build has no git
@pytest.mark.parametrize(
    ("where", "base", "head", "said"),
    [
        ("postgres", "main", "unrelated", "main and unrelated have no commit in common; name other revisions"),
        ("postgres", "main", "v1", "v1 is part of main: there is nothing to compare"),
        ("postgres", "nowhere", "main", "has no revision 'nowhere'"),
        ("shallow", "origin/main", "origin/aside", "in common; this is a shallow clone: git fetch --unshallow"),
        ("shallow", "v1~9", "HEAD", "has no revision 'v1~9'; it is a shallow clone: git fetch --unshallow"),
    ],
)  # fmt: skip
def test_without_a_merge_base_nothing_is_built(
    where: str, base: str, head: str, said: str, repositories: Path, tmp_path: Path
) -> None:
    place = ("--repo", str(repositories / where), "--artifacts", str(tmp_path / "files"))
    result = CliRunner().invoke(main, ["ci", "--base", base, "--head", head, *place])
    assert result.exit_code == 2 and said in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.outside
def test_a_mistyped_step_is_found_before_anything_is_built(repositories: Path, tmp_path: Path) -> None:
    place = ("--repo", str(repositories / "postgres"), "--artifacts", str(tmp_path / "files"))
    result = CliRunner().invoke(main, ["ci", "--base", "main", "--head", "aside", "--steps", "l.i0,qr10", *place])
    assert result.exit_code == 2 and "unknown step 'qr10'" in result.stderr.splitlines()[-1]
    assert "building" not in result.output
