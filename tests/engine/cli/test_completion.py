"""Completion in shells: the scripts, and their completions in a real bash."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.builds.catalog import catalog
from engine.journal.manifest import read_manifest
from tests.support.journal import make_run

Complete = Callable[..., list[str]]


@pytest.fixture(scope="module")
def source() -> str:
    """The script that a shell reads once."""
    environment = os.environ | {"_BENCH_COMPLETE": "bash_source"}
    command = [sys.executable, "-m", "engine"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == "" and done.stdout
    return done.stdout


@pytest.fixture
def complete(source: str, tmp_path: Path) -> Complete:
    """Completions of bash at the end of a command line, given as words, the last of which is not finished."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.fail("no bash on PATH", pytrace=False)
    program = tmp_path / "bin" / "bench"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m engine "$@"\n')
    program.chmod(0o755)

    def run(*words: str) -> list[str]:
        script = (
            f"PATH={shlex.quote(str(program.parent))}:$PATH; complete() {{ :; }}; compopt() {{ :; }}\n{source}\n"
            f"COMP_WORDS=(bench {shlex.join(words)}); COMP_CWORD={len(words)}\n"
            '_bench_completion bench; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run([bash, "-c", script], capture_output=True, text=True, timeout=120, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    return run


@pytest.mark.slow
def test_bash_completes_a_label(complete: Complete) -> None:
    label = next(entry.label for entry in catalog())
    assert label in complete("--pg", label[:2])
    assert f"{label},{label}" in complete("run", "--pg", f"{label},{label[:-1]}")


@pytest.mark.slow
def test_bash_completes_steps_workloads_and_options(complete: Complete) -> None:
    assert "l.i0,l.x" in complete("--steps", "l.i0,l.")
    assert "pgbench-select" in complete("--workload", "pgb")
    assert complete("-O", "resync") == ["resync_rounds="]
    assert "--interleave" in complete("--inter") and complete("--interleave", "sl") == ["slices"]
    assert "compare" in complete("comp")
    assert "--interleave" in complete("-o", "1", "--inter"), "an option of earlier versions ends no completion"


@pytest.mark.slow
def test_bash_completes_a_run(complete: Complete, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "20260101-000000-0001", repeats=1)
    assert read_manifest(run)
    assert complete("compare", "--out", str(run.parent), "2026") == [run.name]


@pytest.mark.slow
def test_a_name_that_a_shell_would_run_is_not_completed(complete: Complete, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    for name in ("2026-plain", "2026$(id)", "2026;id", "2026\x1b[2J"):
        make_run(out / name, repeats=1)
    assert complete("compare", "--out", str(out), "2026") == ["2026-plain"]
