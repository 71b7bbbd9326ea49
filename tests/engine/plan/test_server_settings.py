"""Settings that servers cannot run with are refused before any load, in the server's own words; twins are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.model import Build
from tests.support.benchcall import Bench

SMALL = ("--rows", "2000", "--dry-run")


@pytest.fixture
def label(build: Callable[[int | str], Build]) -> str:
    return build(16).label


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set-each", "shared_bufers=1MB,2MB"), "(did you mean shared_buffers?)"),
        (("--set", "shard_buffers=3MB"), "did you mean shared_buffers"),
        (("--set-each", "wal_level=replica,minimal"), "does not start: FATAL:  WAL streaming (max_wal_senders > 0)"),
        (("--set-each", "work_mem=1GB,1024MB"), "'work_mem=1GB' and 'work_mem=1024MB' are the same on "),
        (("--set-each", "io_method=sync,worker"), "unknown to "),
        (("--config", "cx9a2_c8r32,cx9a2lc_c8r32"), "'cx9a2_c8r32' and 'cx9a2lc_c8r32' are the same on "),
        (("--set-each", "max_wal_senders=0,-1"), "config 'max_wal_senders=-1' on "),
    ],
)
def test_what_a_server_cannot_start_with_is_named(
    bench: Bench, label: str, options: tuple[str, ...], said: str
) -> None:
    refused = bench("--pg", label, *SMALL, *options)
    (line,) = (line for line in refused.stderr.splitlines() if line.startswith("bench: "))
    assert refused.returncode == 2 and said in line, line
    assert not list(bench.out.glob("*/manifest.json"))


def test_configs_that_differ_on_some_builds_are_compared(
    bench: Bench, build: Callable[[int | str], Build], tmp_path: Path
) -> None:
    """A version's defaults, as in the preset defaults-19, are compared with differences by chance."""
    (tmp_path / "later.toml").write_text("[from.18]\njit = 'off'\n")
    plan = (*SMALL, "--config", f"defaults,{tmp_path}/later.toml", "--pg")
    done = bench(*plan, f"{build(16).label},{build(18).label}")
    assert done.returncode == 0, done.stderr
    said = f"configs 'defaults' and 'later' are the same on {build(16).label} (without jit): how its two servers differ"
    assert said in done.stdout + done.stderr and f"the same on {build(18).label}" not in done.stdout + done.stderr
    refused = bench(*plan, build(16).label)
    assert refused.returncode == 2 and "(without jit): leave one out (--aa" in refused.stderr


def test_one_server_by_two_names_is_said(bench: Bench, build: Callable[[int | str], Build]) -> None:
    one, other = build(16).prefix, build(14).prefix
    done = bench("--pg", f"a={one},b={one},c={other}", *SMALL)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "the same server" in line]
    assert lines == ["a and b are the same server: how they differ is chance, as with --aa"]


def test_a_mistyped_setting_of_a_file_is_named(bench: Bench, label: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[settings]\nshard_buffers = '1GB'\n")
    refused = bench("--pg", label, *SMALL, "--config", str(file))
    assert refused.returncode == 2 and "unknown setting 'shard_buffers' (did you mean shared_buffers" in refused.stderr
    file.write_text("[until.12]\nshard_buffers = '1GB'\n")  # of another version
    assert bench("--pg", label, *SMALL, "--config", str(file)).returncode == 0


def test_the_preset_of_io_methods_plans_a_config_for_each(bench: Bench, build: Callable[[int | str], Build]) -> None:
    plan = ("--preset", "io-method", "--scale", "quick", "--pg", build(18).label, "--dry-run")
    every = bench(*plan)
    if every.returncode:  # where the kernel, or the build, has no io_uring
        assert "config 'io_uring' on " in every.stderr and every.returncode == 2, every.stderr
        every = bench(*plan, "--config", "io_sync,io_worker")
    assert every.returncode == 0, every.stderr
    assert "side by side: io_sync, io_worker" in every.stdout
    assert "point-query" in every.stdout and not list(bench.out.glob("*/manifest.json"))
