"""hyperfine's JSON in both forms, how it is called, and the error where a timed program fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.benchcall import wait_for
from workloads.micro import hyperfine
from workloads.micro.hyperfine import HyperfineFailed, Measured, parse, version

FORMS = Path(__file__).parent / "hyperfine"


@pytest.mark.parametrize(
    ("form", "figures"),
    [
        ("1.15.json", (0.072696574, 0.001666, 0.0, None)),
        ("1.20.json", (0.072696574, 0.001666, 0.0, 2_965_504)),
        ("2.0.json", (0.065437958, 0.001838, 0.0, 3_055_616)),
    ],
)
def test_all_forms_are_read(form: str, figures: tuple[float, float, float, int | None]) -> None:
    times = parse((FORMS / form).read_bytes())
    assert (times.wall_s, times.user_s, times.system_s, times.memory_bytes) == figures
    assert times.found["results"][0]["command"] == "sleep 0.05"


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'{"results": []}', b'{"results": [{"times": [1, 2], "user": 1, "system": 1}]}', b'{"results": 3}'],
)
def test_what_is_no_result_of_one_run_is_refused(text: bytes) -> None:
    with pytest.raises(HyperfineFailed, match="the result of hyperfine cannot be read"):
        parse(text)


def test_versions() -> None:
    assert version("hyperfine 1.19.0") == (1, 19) > hyperfine.SINCE
    with pytest.raises(ValueError, match="not the version of a hyperfine"):
        version("gnu time 1.9")


def test_the_last_words_are_those_of_the_program() -> None:
    words = (
        b"initdb: error: no room\nError: Command 'a b' terminated with non-zero exit code 1 in the first timed run.\n"
    )
    assert hyperfine.last_words(words, 1) == "initdb: error: no room"
    words = b"FATAL:  data directory has group access\npg_ctl: could not start server\nExamine the log output.\n"
    assert hyperfine.last_words(words, 1) == "FATAL:  data directory has group access"
    assert hyperfine.last_words(b"", 1) == "exit code 1"


def test_what_a_program_takes_to_do_nothing_is_subtracted() -> None:
    times = Measured(0.5, 0.25, 0.0, 9, {}).without(Measured(0.125, 0.125, 0.125, 8, {}))
    assert times == Measured(0.375, 0.125, 0.0, 9, {})
    with pytest.raises(HyperfineFailed, match="too short to time, as its program takes 125"):
        Measured(0.125, 0.25, 0.0, 9, {}).without(Measured(0.125, 0.125, 0.125, 8, {}))


def ended(pid: str) -> bool:
    """Whether a process has ended, though nobody may have waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.slow
def test_a_run_is_timed_and_given_up_with_all_that_it_runs(hyperfine_program: str, tmp_path: Path) -> None:
    def check() -> None:
        if (tmp_path / "child").exists():
            raise InterruptedError

    slow = [sys.executable, "-c", "import time; time.sleep(0.1)"]
    times = hyperfine.time_once(hyperfine_program, slow, str(tmp_path), {"PATH": os.environ["PATH"]}, lambda: None)
    assert 0.1 < times.wall_s < 30 and times.user_s >= 0
    # Once the file is there, it has the process id: what it names may be killed at once.
    script = (
        f"import os, time; file = open('{tmp_path}/own', 'w'); file.write(str(os.getpid())); file.close(); "
        f"os.rename('{tmp_path}/own', '{tmp_path}/child'); time.sleep(600)"
    )
    with pytest.raises(InterruptedError):
        hyperfine.time_once(hyperfine_program, [sys.executable, "-c", script], str(tmp_path), {}, check)
    assert wait_for(lambda: ended((tmp_path / "child").read_text()), "the program to end")
    with pytest.raises(HyperfineFailed, match="nowhere"):
        hyperfine.time_once(
            hyperfine_program, ["ls", "/nowhere"], str(tmp_path), {"PATH": os.environ["PATH"]}, lambda: None
        )
