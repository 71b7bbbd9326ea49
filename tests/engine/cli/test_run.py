"""The options of `bench run`: their help in groups, and those of workloads without flags."""

import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from engine.cli.main import main
from engine.cli.run import take, workload_options
from engine.core.errors import UserError
from engine.plan.request import Request
from tests.support.terminal import Terminal
from workloads import workloads
from workloads.api.options import options_of

WIDTH, HEIGHT = 80, 50


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The output of a command on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    return lambda *words: CliRunner().invoke(main, words)


def test_the_help_fits_one_screen_and_no_line_of_it_is_wrapped(shown: Callable[..., Result]) -> None:
    lines = shown("run", "--help").output.splitlines()
    assert len(lines) <= HEIGHT and all(len(line) <= WIDTH for line in lines)
    # A wrapped text would begin in the column of the texts.
    assert not [line for line in lines if line.startswith("     ")]


def test_the_help_shows_about_25_options_in_six_groups(shown: Callable[..., Result]) -> None:
    lines = shown("run", "--help").output.splitlines()
    assert 22 <= len([line for line in lines if line.startswith("  -")]) <= 28
    assert [line for line in lines if line.endswith(":") and not line.startswith(" ")] == [
        "What to compare:", "Workload:", "How long and how sure:", "Causes:", "Where:", "Output:", "Examples:",
    ]  # fmt: skip


def test_every_option_is_in_the_full_help(shown: Callable[..., Result]) -> None:
    text = shown("run", "--help-all").output
    assert "\nWhat to compare:\n  --pg LABEL" in text
    every = [*options_of(Request), *(option for known in workloads() for option in options_of(known.options))]
    for option in every:
        assert (f"-O {option.name}=" if option.rare else f"{option.flag} ") in text, option.name


def test_a_search_has_the_same_groups_after_its_own(shown: Callable[..., Result]) -> None:
    text = shown("bisect", "--help").output
    assert text.index("Search:") < text.index("--good") < text.index("What to compare:") < text.index("--config")
    assert "--kernel LABEL" not in text and "--pg LABEL" not in shown("bisect", "--help-all").output


def test_a_rare_option_has_no_flag_of_its_own() -> None:
    assert "resync_rounds" not in {option.name for option in workload_options()}
    assert take({"named": ["resync_rounds=3", "delete-form=range"]}).options == {
        "resync_rounds": 3,
        "delete_form": "range",
    }


def test_a_refused_option_names_the_workload() -> None:
    with pytest.raises(UserError, match="workload insert has no option --rate"):
        take({"rate": 3.0})


@pytest.mark.slow  # needs the table of releases, which comes with servers
def test_a_release_that_no_table_has_is_added_after_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBED_RELEASES", "http://127.0.0.1:1")
    command = ["run", "--pg", "old=16.99:O3,16.3"]
    hint, unreached = "if it is a release, bench pin 16.99", "16.99.tar.bz2.sha256 cannot be"
    refusals = {"": hint, "--yes --estimate": hint, "--yes --dry-run": hint, "--yes": unreached}
    for words, text in refusals.items():
        done = CliRunner().invoke(main, [*command, *words.split()])
        assert done.exit_code == 2 and text in done.output, done.output
    terminal = Terminal([sys.executable, "-m", "engine", *command])
    terminal.until(b"(nearest: 16.")
    terminal.write(b"n\n")
    terminal.until(b"nothing was done")
    terminal.close()
