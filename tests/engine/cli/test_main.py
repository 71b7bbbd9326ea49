"""Names and numbers that cannot be: one line that says what, where and what to do; exit code 2; nothing written."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from engine.cli.commands import COMMANDS, GROUPS
from engine.cli.main import main
from engine.core.model import Build
from engine.guest.tools import PACKAGES
from tests.support.benchcall import SMALL, Bench


def refused(bench: Bench, *arguments: str) -> str:
    """The one line with which a command is refused; checks that nothing was written."""
    done = bench(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert not bench.out.exists() or not list(bench.out.iterdir())
    return lines[0]


@pytest.mark.parametrize("module", ["no_such_module", "json"])
def test_a_registered_module_that_is_no_workload_is_refused(module: str, bench: Bench, label: str) -> None:
    line = refused(Bench(bench.out, {"PGBED_WORKLOADS": f"mine={module}"}), "--pg", label)
    assert "workloads in config.toml" in line and module in line


def test_a_run_that_has_no_room_is_refused_before_it_starts(bench: Bench, label: str) -> None:
    line = refused(bench, "run", "--pg", label, "--rows", "900000000000", "--detach", "--json")
    assert "free" in line and "needed" in line


def test_an_output_folder_that_cannot_be_written_is_refused(build: Callable[[int | str], Build]) -> None:
    line = refused(Bench(Path("/proc/pgbed")), "--pg", build(16).label, *SMALL)
    assert "/proc/pgbed" in line and "cannot" in line


def test_a_socket_path_that_is_too_long_is_refused(bench: Bench, label: str, new_folder: Callable[[], Path]) -> None:
    deep = new_folder() / ("d" * 100)
    deep.mkdir()
    line = refused(Bench(bench.out, {"PGBED_SOCKETS": str(deep)}), "--pg", label, *SMALL)
    assert "107" in line and "PGBED_SOCKETS" in line


def test_a_dry_run_shows_the_cells_and_writes_nothing(bench: Bench, build: Callable[[int | str], Build]) -> None:
    done = bench("--pg", f"{build(12).label},{build(16).label}", "--repeats", "2", "--interleave", "cells", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "4 cells" in done.stdout
    order = [line.split()[1] for line in done.stdout.splitlines() if line[:1].isdigit() and " auto " in line]
    assert order == [build(12).label, build(16).label, build(16).label, build(12).label]
    assert not bench.out.exists() or not list(bench.out.iterdir())


def test_help_needs_no_server_and_names_the_commands(bench: Bench) -> None:
    text = Bench(bench.out, {"PGBED_SERVERS": "", "PGBED_CATALOG": ""})("list", "--help").stdout
    assert all(word in text for word in ("builds", "configs", "workloads", "runs"))
    shown = main.get_help(click.Context(main)).partition("Show this message and exit.\n")[2].splitlines()
    titles, rows = [line for line in shown if line.endswith(":")], [line for line in shown if line.startswith("  ")]
    assert [title.rstrip(":") for title in titles] == [*GROUPS]
    assert [row.split()[0] for row in rows[:-1]] == [*COMMANDS]


def test_at_most_22_commands() -> None:
    assert len(COMMANDS) <= 22


def test_kernels_and_guests_that_cannot_be_are_refused(
    bench: Bench, label: str, tmp_path: Path, new_folder: Callable[[], Path]
) -> None:
    tools = new_folder()  # whether the machine has the guests' programs or not; none of them boots anything here
    for name in PACKAGES:
        (tools / name).write_text("#!/bin/sh\necho version 9.2\n")
        (tools / name).chmod(0o755)
    bench.environment["PATH"] = f"{tools}:{os.environ['PATH']}"
    (tmp_path / "vmlinuz").write_text("MZ")
    kernel = f"mine={tmp_path / 'vmlinuz'}"
    for words, said in (
        (("hots",), "unknown kernel 'hots' (nearest: host"),
        (("mine=/nonexistent",), "kernel 'mine': /nonexistent: no kernel image (bzImage, vmlinuz) is there"),
        ((kernel,), "vmlinuz is not a bootable x86 kernel image"),
        ((kernel, "--guest-memory", "100000GB"), "--guest-memory: a guest of 97.7 TB does not fit into "),
        ((kernel, "--guest-memory", "100MB"), "--guest-memory 100MB: a guest needs at least 768 MB"),
        ((kernel, "--guest-memory", "1X"), "--guest-memory '1X' is not a size such as 40GB"),
        ((kernel, "--guest-memory", "900MB", "--guest-huge-pages"), "--guest-huge-pages: "),
        ((kernel, "--guest-pin", "4095"), "--guest-pin: this machine has no CPU 4095 for bench"),
        ((kernel, "--sched", "base_slice=1"), "--sched base_slice: unknown; known: base_slice_ns, latency_ns"),
        ((kernel, "--tcp"), "--tcp: not with --kernel: a guest has no network"),
        ((kernel, "--keep"), "--keep: a guest's cluster goes with the guest"),
    ):
        assert said in refused(bench, "--pg", label, "--kernel", *words, *SMALL, "--repeats", "1")


def test_a_preset_is_a_plan_of_its_own(bench: Bench, label: str) -> None:
    done = bench("--pg", label, "--preset", "planner-delete", "--probes", "none", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    manifest = json.loads(done.stdout)["manifest"]
    steps = manifest["workload"]["steps"]
    assert [step["name"] for step in steps] == ["l.i0", "l.x", "grow", "vacuum", "after"]
    assert manifest["workload"]["generation"] == "g24a"
    # Fewer than 2% of the rows are deleted before the vacuum: what it then does is the question.
    assert steps[2]["rows_per_client"] < 0.02 * steps[0]["rows_per_client"]
    (config,) = manifest["configs"].values()
    assert ["autovacuum_naptime", "1s"] in config["settings"]


def test_an_unknown_setting_of_a_file_is_left_out(
    bench: Bench, build: Callable[[int | str], Build], tmp_path: Path
) -> None:
    old, new = build(12).label, build(16).label
    mine = tmp_path / "mine.conf"
    mine.write_text("logical_decoding_work_mem = 1MB\napp.tenant = 7\n")
    done = bench("--pg", f"{old},{new}", "--config", str(mine), "--set", "app.role=x", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"mine/{old}: settings unknown to this version, left out: logical_decoding_work_mem\n" in done.stdout
