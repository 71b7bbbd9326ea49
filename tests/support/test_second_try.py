"""Second tries: which tests have them, with which fixtures, their report, and how many are too many."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.second_try import MOST, main

HOME = Path(__file__).parents[2]
FEW = 3
CONFTEST = """
from pathlib import Path
import pytest
from tests.support import second_try
from tests.support.second_try import *

second_try.MOST = {most}

@pytest.fixture(scope="session")
def servers():
    return ["whole"]

@pytest.fixture(scope="module")
def server(servers):
    return ["whole"]
"""
MODULE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({failing}))
def test_breaks(number, server, servers, tmp_path):
    tried = Path(f"{{number}}.tried")
    if not tried.exists():
        tried.touch()
        for shared in (server, servers):
            shared.append("broken")
        (tmp_path / "left").touch()
        assert not "busy", "the machine is busy"
    assert {passes} and server == servers == ["whole"] and not list(tmp_path.iterdir())

def test_other():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "passes", "options", "code", "counts", "named"),
    [
        (FEW, True, (), 0, f"{FEW + 1} passed in", FEW),
        (FEW, True, ("-n2",), 0, f"{FEW + 1} passed in", FEW),
        (1, False, ("-n2",), 1, "1 failed, 1 passed in", 0),
        (FEW + 1, True, ("-n2",), 1, f"{FEW + 1} failed, 1 passed in", 0),
        (2, True, ("--maxfail=1",), 1, "1 failed in", 0),
    ],
)
def test_a_few_tests_are_tried_again_and_named_if_they_pass_then(
    tmp_path: Path, failing: int, passes: bool, options: tuple[str, ...], code: int, counts: str, named: int
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(most=FEW))
    (tmp_path / "test_module.py").write_text(MODULE.format(failing=failing, passes=passes))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = os.environ | {"PYTHONPATH": str(HOME)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code and counts in done.stdout, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("second try: ")]
    assert lines == [
        f"second try: test_module.py::test_breaks[{number}]: AssertionError: the machine is busy"
        for number in range(named)
    ]
    if named:
        assert "  | test_module.py:13: AssertionError" in done.stdout, "with all that is known of it"


@pytest.mark.parametrize("tests", [0, MOST, MOST + 1])
def test_of_many_processes_all_are_counted_each_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tests: int
) -> None:
    lines = [f"second try: test_module.py::test_breaks[{number}]: KeyError: 'x'" for number in range(tests)]
    (tmp_path / "one").write_text("\n".join(["1 passed", *lines, "assert 'second try: '"]))
    (tmp_path / "other").write_text("\n".join(f"pgbed-tests> {line}" for line in lines))
    more = [f"{tests} tests needed a second try; at most {MOST} may"] if tests > MOST else []
    assert main([str(path) for path in tmp_path.iterdir()]) == len(more)
    assert capsys.readouterr().out.splitlines() == [*lines, *more]
