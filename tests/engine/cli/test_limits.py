"""Names that no run or path can hold, and limits of the machine: one line before anything is made."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.core.model import Build
from engine.plan import design
from tests.faults.call import Outcome, call

ROOT = Path(__file__).parents[3]


def _refused(outcome: Outcome) -> str:
    assert outcome.code == 2, outcome
    assert outcome.stderr.count("\n") == 1 and "Traceback" not in outcome.stderr
    return outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a\nb", "a\x1bb", "a\udcff"])
def test_an_output_folder_of_invalid_name_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(name)
    for out in (name, f"{name}/runs", "link"):
        assert "choose another folder" in _refused(call(("run", "--pg", "absent", "--out", out), tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_more_connections_than_open_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    design.check_open_files(8, 2)  # two clients in slices, of which engines had up to 218 open
    with pytest.raises(UserError, match=r"40 connections to 2 servers at once need 690 open files, .* limit is 256"):
        design.check_open_files(40, 2)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    design.check_open_files(2000, 4)


@pytest.mark.parametrize(
    ("kilobytes", "arguments", "lacking"),
    [(100_000, "compare", "bench needs"), (2_000_000, "--set shared_buffers=4GB --dry-run --pg", "buffers of 4 GB")],
)
def test_too_small_an_address_space_is_refused(
    kilobytes: int, arguments: str, lacking: str, build: Callable[[int | str], Build]
) -> None:
    words = (*arguments.split(), *([f"a={build(16).bin.parent}"] if arguments.endswith("--pg") else []))
    limited = ("bash", "-c", f'ulimit -v {kilobytes} && exec "$0" -m engine "$@"', sys.executable, *words)
    ended = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    assert lacking in _refused(Outcome(words, ended.returncode, ended.stdout, ended.stderr))
