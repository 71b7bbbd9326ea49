"""What is run twice, what is printed of it, and how often is too often."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
CONFTEST = "from tests.support.timing import pytest_runtest_protocol, pytest_sessionfinish, pytest_terminal_summary\n"
MODULE = """import pytest
from pathlib import Path

MARK = [pytest.mark.timing] if {marked} else []

@pytest.mark.parametrize("number", [pytest.param(number, marks=MARK) for number in range({failing})])
def test_fails_at_first(number, tmp_path_factory):
    file = Path(f"{{number}}.ran")
    fails = {always} or not file.exists()
    file.touch()
    assert not fails, "met another program"

@pytest.mark.parametrize("number", range({others}))
def test_other(number):
    pass
"""


@pytest.mark.parametrize(
    ("marked", "always", "failing", "others", "code", "told"),
    [
        (False, False, 1, 5, 1, "1 failed, 5 passed"),
        (True, False, 1, 5, 0, "1 of 6 tests were run twice"),
        (True, True, 1, 5, 1, "1 of 6 tests were run twice"),
        (True, False, 2, 98, 0, "2 of 100 tests were run twice"),
        (True, False, 3, 97, 1, "3 of 100 tests were run twice, as they meet other programs' work: too many"),
        (True, False, 3, 297, 0, "3 of 300 tests were run twice"),
        (True, False, 0, 5, 0, "5 passed"),
    ],
)
def test_only_marked_tests_are_run_twice_and_few_of_them(
    tmp_path: Path, marked: bool, always: bool, failing: int, others: int, code: int, told: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = timing\n")
    (tmp_path / "test_module.py").write_text(
        MODULE.format(marked=marked, always=always, failing=failing, others=others)
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(HOME)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code and told in ended.stdout, ended.stdout
    assert ("met another program" in ended.stdout) == (failing > 0)
