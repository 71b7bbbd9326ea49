"""The settings file: strictly parsed, and passed to the processes that bench starts."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli import settings
from engine.cli.main import main
from engine.core.errors import UserError
from tests.support.benchcall import Bench

MOST_VARIABLES = 12


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings file, which is not there yet; the environment is restored."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pgbed").mkdir()
    return settings.settings_path()


def test_without_a_file_nothing_changes(path: Path) -> None:
    before = dict(os.environ)
    settings.apply()
    assert os.environ == before


def test_keys_become_variables_of_the_process(path: Path) -> None:
    path.write_text('theme = "nord"\nccache = ""\nperf = "~/bin/perf"\nworkloads = ["a=x.y", "b=z"]\n')
    settings.apply()
    assert os.environ["PGBED_THEME"] == "nord" and os.environ["PGBED_CCACHE"] == ""
    assert os.environ["PGBED_PERF"] == f"{Path.home()}/bin/perf"
    assert os.environ["PGBED_WORKLOADS"] == "a=x.y,b=z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('them = "nord"', "unknown setting 'them' (nearest: theme)"),
        ("theme = 3", "theme must be text, not 3"),
        ('workloads = "a=b"', "workloads must be a list of texts, not 'a=b'"),
        ("theme", "not valid TOML"),
        ('perf = "a\\u0000b"', "perf must not contain a null byte"),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_code_2(path: Path, bench: Bench, text: str, message: str) -> None:
    path.write_text(text)
    done = Bench(bench.out, {"XDG_CONFIG_HOME": str(path.parents[1])})("list", "workloads")
    assert done.returncode == 2 and done.stdout == ""
    assert str(path) in done.stderr and message in done.stderr and done.stderr.count("\n") == 1


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text('theme = "nord"')
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 2)
    if owner == 0:
        os.chown(path, 1, -1)
    with pytest.raises(UserError, match="belongs to another user"):
        settings.apply()


def test_a_file_that_anybody_can_change_is_refused(path: Path) -> None:
    path.write_text('theme = "nord"')
    path.chmod(0o666)
    with pytest.raises(UserError, match="anybody can change it"):
        settings.apply()
    path.chmod(0o664)  # a group of one's own has it so
    settings.apply()


def test_the_full_help_lists_variables_and_keys() -> None:
    text = CliRunner().invoke(main, ["--help-all"]).output
    assert all(f"  {name} " in text for name, _ in settings.ENVIRONMENT)
    assert all(f"  {name} = " in text for name in settings.Settings.__struct_fields__)
    assert len(settings.ENVIRONMENT) <= MOST_VARIABLES
