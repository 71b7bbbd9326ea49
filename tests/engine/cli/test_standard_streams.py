"""Standard output that is closed, full or not read ends every command alike, and never with a gate's exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from engine.cli.main import main
from tests.faults.call import call
from tests.support.journal import make_run

ENDINGS = {"full": 2, "closed": 2, "unread": 128 + 13}
PRINTING = (
    ("compare",), ("compare", "--json"), ("list", "runs"), ("list", "runs", "--json"),
    ("watch", "--once", "--plain"), ("trend", "runs"), ("--version",), ("schema", "manifest"),
    ("list", "workloads", "--json"), ("run", "--help-all"),
)  # fmt: skip


def _groups(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command and each group."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _groups(below, (*path, name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams")
    make_run(place / "runs" / "made", repeats=1)
    return place


@pytest.mark.parametrize("stdout", ENDINGS)
def test_unprintable_output_is_one_line_and_not_a_gates_result(
    stdout: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGBED_OUT", "runs")
    asked = [(*path, "--help") for path in _groups(main)]
    assert len(asked) > 30
    for arguments in (*asked, *PRINTING):
        outcome = call(arguments, folder, stdout)
        lines = outcome.stderr.splitlines()
        assert outcome.code == ENDINGS[stdout], (arguments, outcome)
        assert (lines == []) if stdout == "unread" else (len(lines) == 1 and "standard output" in lines[0]), arguments


@pytest.mark.slow
def test_what_standard_error_cannot_take_changes_no_exit_code() -> None:
    command = [sys.executable, "-m", "engine"]
    for arguments, code in ((["list", "configs"], 0), (["no-such-command"], 2)):
        with Path("/dev/full").open("wb") as full:
            assert subprocess.run([*command, *arguments], stdout=subprocess.DEVNULL, stderr=full).returncode == code
        closing = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command, *arguments]
        assert subprocess.run(closing, stdout=subprocess.DEVNULL).returncode == code


@pytest.mark.slow
def test_the_help_is_the_same_without_docstrings() -> None:
    def said(**environ: str) -> bytes:
        command = [sys.executable, "-m", "engine", "compare", "--help"]
        return subprocess.run(command, capture_output=True, check=True, env=os.environ | environ).stdout

    assert said(PYTHONOPTIMIZE="2") == said()
