"""Probes attached to real runs: their counts by role, and the course of a run when they fail."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, StepRow
from engine.journal.writer import JournalWriter
from engine.postgres.server import Server
from engine.tracing import attach
from engine.tracing.selection import Choice
from probes import bpftrace, helper, timing
from tests.support.benchcall import SMALL, WAITING, Bench, connect, stalls, wait_for
from tests.support.compiled import compiled_here
from tests.support.journal import make_run

pytestmark = [pytest.mark.outside, pytest.mark.first]

# Steps that wait in each commit, and last longer than a busy machine takes for the questions asked while they run.
WRITES = ("--steps", "l.i0,l.i1", "--repeats", "1")
LASTING = (*WRITES, "--rows", "2000", "--rows-written", "60000", "--set", "shared_buffers=32MB", *WAITING)


@pytest.fixture(scope="module", autouse=True)
def kernel() -> None:
    """Root, bpftrace and the tracing file system; fails without, as a suite that skips these tests says nothing."""
    if os.geteuid() != 0:
        pytest.fail("these tests need root; run ./check as root", pytrace=False)
    bpftrace.find()
    helper.mount_tracefs()


def steps(bench: Bench) -> list[StepRow]:
    """The steps of the newest run's last attempt."""
    return bench.steps(bench.attempts()[-1])


def words(bench: Bench, kind: str) -> list[EventRow]:
    """The events of a kind in the newest run, but for seconds that bpftrace missed on a busy machine."""
    with JournalReader(bench.run) as reader:
        return [event for event in reader.events() if event.kind == kind and "s missed" not in event.data["text"]]


def tracers(bench: Bench) -> list[int]:
    """The bpftraces whose helpers watch servers of this folder's runs, by their helpers' children.

    But for those that are only asked for their version, or have ended and no longer show what they were asked.
    """
    engine = bench.engine_pid()
    parent_of = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat, line = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if not line or b"--version" in line:
                continue
            parent_of[int(entry.name)] = (int(stat[stat.rindex(")") + 2 :].split()[1]), stat)
    return [
        pid
        for pid, (parent, stat) in parent_of.items()
        if "(bpftrace)" in stat and parent_of.get(parent, (0,))[0] == engine
    ]


def gone(pids: list[int]) -> bool:
    """Whether none of these processes is left."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_planner_counts_by_role_equal_planned_statements(bench: Bench, build: Callable[[int | str], Build]) -> None:
    label, arguments = build(16).label, ("--probes", "sched,planner,planstats,stacks", *WRITES, *SMALL)
    if "prebuilt" not in label:
        pytest.fail(f"{label} keeps frame pointers; this test wants a server that keeps none", pytrace=False)
    done = bench("run", "--pg", label, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    with JournalReader(bench.run) as reader:
        for step in steps(bench):
            if step.kind not in ("load", "write"):
                continue
            assert step.totals is not None
            assert step.totals.observers == ("planner", "planstats", "sched", "stacks")
            for role, totals in step.totals.roles.items():
                frames = [
                    frame for frame in reader.probe_frames(step.id) if (frame.probe, frame.role) == ("planner", role)
                ]
                planned = sum(frame.data["n"] for frame in frames)
                # Connecting and asking for the least key plan a few statements, too.
                assert totals.statements <= planned <= totals.statements + 5
                assert planned == step.totals.probes[role]["planner"]["n"]
                assert step.totals.probes[role]["sched"]["oncpu_us"] > 0
    cells = {cell["step"]: cell for cell in _cells(bench)}
    for cell in (cells["l.i0"], cells["l.i1"]):
        counted = cell["probes"]["statements"]["plan_n"]
        probed = sum(cell["probes"][role]["plan_n"] for role in cell["roles"])
        assert probed <= counted <= probed + 5, "without privilege as the probe counts it"
    assert cells["l.i1"]["plan_us_per_op"] > 0
    assert cells["l.i1"]["probes"]["delete"]["plan_n"] > 0
    assert done.stdout.count("no phase shares") == 1
    (flat,) = (text for event in words(bench, "probe") if "flat profile" in (text := event.data["text"]))
    assert flat.startswith("probes: stacks: flat profile: the binary keeps no frame pointers")
    text = bench("compare", "--all").stdout
    assert "Planner (" in text
    assert "Waits for a CPU (" in text
    refused = bench("run", "--pg", build(12).label, *arguments)
    assert (refused.returncode, "PostgreSQL 12 cannot track planning time" in refused.stderr) == (2, True)


def _cells(bench: Bench) -> list[dict[str, Any]]:
    cells: Any = bench.comparison()["cells"]
    return list(cells)


@pytest.mark.parametrize("label", compiled_here())
def test_phases_are_sampled_with_frame_pointers_only(bench: Bench, label: str) -> None:
    words = ("--workload", "pgbench-select", "--pgbench-scale", "1", "--clients", "1", "--seconds", "6")
    done = bench("run", "--pg", label, "--probes", "stacks", "--repeats", "1", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    (cell,) = (cell for cell in _cells(bench) if cell["step"] == "select.c1")
    assert cell["phases_by"] == "sampled"
    assert cell["phases"]["execute"] > 0.1
    assert cell["phases"]["plan"] > 0.05
    assert sum(cell["phases"].values()) == pytest.approx(1.0)
    (folded,) = bench.run.glob("cells/*/stacks/select.c1.pgbench.folded")
    assert "PortalRun" in folded.read_text()


def test_probes_attach_and_detach_within_a_step(bench: Bench, build: Callable[[int | str], Build]) -> None:
    bench.detached("--pg", build(16).label, "--probes", "sched", *LASTING)
    step = bench.await_step("l.i1")
    first = wait_for(lambda: tracers(bench), "bpftrace")

    def frames(probe: str) -> set[int]:
        with JournalReader(bench.run) as reader:
            return {frame.t_ns for frame in reader.probe_frames(step.id) if frame.probe == probe}

    wait_for(lambda: frames("sched"), "a frame, after which a gap can begin")
    os.kill(first[0], signal.SIGKILL)
    assert bench("probes", "on", "planner").stdout.strip() == "planner starts"
    assert "is on already" in bench("probes", "on", "planner").stderr
    assert bench("mark", "here").stdout.strip() == "marked"
    unknown = bench("probes", "on", "plannr")
    assert (unknown.returncode, "nearest: planner" in unknown.stderr) == (2, True)
    wait_for(lambda: len(frames("planner")) >= 2, "frames of the probe")
    assert bench("probes", "off", "planner").stdout.strip() == "planner stops"
    assert "is not on" in bench("probes", "off", "planner").stderr
    wait_for(lambda: words(bench, "probe_gap"), "the gap")
    bench.await_end()
    assert bench.attempts()[-1].state == "finished"
    (gap,) = words(bench, "probe_gap")
    last = steps(bench)[-1]
    assert last.totals is not None and last.ended_ns is not None
    assert last.totals.observers == ("planner", "sched")
    assert 0 < last.totals.probes["insert"]["planner"]["seconds"] < last.totals.seconds - 1
    assert [mark.data["text"] for mark in words(bench, "mark")] == ["here"]
    assert gap.ended_ns is not None and step.started_ns < gap.started_ns < gap.ended_ns < last.ended_ns
    with JournalReader(bench.run) as reader:
        after = reader.probe_frames(last.id, after_ns=gap.ended_ns)
    # The clients that were there are followed again.
    assert {"insert", "client:insert"} <= {frame.role for frame in after if frame.probe == "sched"}


def test_a_window_is_part_of_a_step(bench: Bench, build: Callable[[int | str], Build]) -> None:
    done = bench("run", "--pg", build(16).label, "--probes", "planner:window", *LASTING, "--rows-written", "36000")
    assert done.returncode == 0, done.stdout + done.stderr
    last = steps(bench)[-1]
    assert last.totals is not None
    assert last.totals.observers == ("planner:window",)
    assert last.totals.probes["insert"]["planner"]["seconds"] < last.totals.seconds - 2


def test_stall_probes_come_with_the_stall_and_go_after_it(bench: Bench, build: Callable[[int | str], Build]) -> None:
    bench.detached("--pg", build(16).label, "--probes", "planner:stalls", *LASTING)
    step = bench.await_step("l.i1")
    time.sleep(8)  # past the warm-up

    assert not tracers(bench) or stalls(bench, step), "a busy machine may have had one"
    with connect(bench) as connection:
        connection.autocommit = False
        connection.execute("LOCK TABLE pi1 IN ACCESS EXCLUSIVE MODE")
        wait_for(lambda: tracers(bench), "bpftrace to start in the stall")
        time.sleep(3)  # so that it is attached when the stall ends
        pids = tracers(bench)
        assert pids and any(stall.ended_ns is None for stall in stalls(bench, step)), "the stall lasts"
        connection.rollback()
    released_ns = time.monotonic_ns()
    wait_for(lambda: gone(pids), "bpftrace to end")
    assert time.monotonic_ns() - released_ns > 5_000_000_000
    bench.await_end()
    with JournalReader(bench.run) as reader:
        frames = reader.probe_frames(step.id)
    counted = [frame for frame in frames if frame.role in ("insert", "delete") and frame.data.get("n")]
    assert counted and all(frame.quality["mode"] == "stalls" for frame in frames)
    assert min(frame.t_ns - frame.dt_ns for frame in counted) > stalls(bench, step)[0].started_ns
    (cell,) = (cell for cell in _cells(bench) if cell["step"] == "l.i1")
    assert cell["observers"] == ["planner:stalls"]
    assert 0 < cell["coverage"]["planner"] < 0.7
    assert cell["plan_us_per_op"] is None
    assert "planning per op is withheld: planner was attached around stalls only" in cell["probe_notes"]
    (load,) = (cell for cell in _cells(bench) if cell["step"] == "l.i0")
    assert (load["observers"], load["coverage"]) == (["planner:stalls"], {})  # it would have been there


def test_stalls_in_a_row_attach_a_probe_a_few_times_only(
    server: Callable[[int | str], Server], cell_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "STALLS_MAX", 2)
    stalling = False
    monkeypatch.setattr(timing, "around_stall", lambda *_: stalling)  # over as soon as it is not seen any more
    monkeypatch.setattr(attach, "PERIOD_S", 0.0)
    running = server(16)
    run = make_run(tmp_path / "r")
    with (
        JournalWriter.open(run) as journal,
        attach.Probing([Choice("planner", "stalls")], running.build, running.pid, journal, 1, cell_dir) as probes,
    ):
        probes.begin_step(1, time.monotonic_ns(), {}, (), busy=False)
        starts = []
        for _ in range(4):
            stalling = True
            probes.watch(stalling=stalling)
            one = probes.running.get("planner")
            starts.append(one is not None)
            wait_for(lambda: one is None or one.session.wait_baseline(0.1), "the probe")  # noqa: B023
            stalling = False
            probes.watch(stalling=stalling)
            assert not probes.running
        assert starts == [True, True, False, False]
        probes.finish_step(time.monotonic_ns(), "s")
        # The next step has its own.
        probes.begin_step(2, time.monotonic_ns(), {}, (), busy=False)
        stalling = True
        probes.watch(stalling=stalling)
        assert probes.running
        ended = [one.session for one in (*probes.running.values(), *probes.ending)]
    assert all(session.over for session in ended)
    with JournalReader(run) as reader:
        said = [event.data["text"] for event in reader.events() if event.kind == "probe"]
    assert said == ["probes: planner:stalls: attached 2 times in this step, and no more"]


def test_unavailable_named_probes_are_refused_early(bench: Bench, build: Callable[[int | str], Build]) -> None:
    without = ("unshare", "--mount", "sh", "-c", 'mount --bind /etc/passwd "$0" && exec "$@"', str(bpftrace.find()))
    arguments = ("run", "--pg", build(16).label, "--probes", "planner", "--repeats", "1", *SMALL)
    done = subprocess.run(
        [*without, *bench.command(*arguments)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("bench: probe planner is not available: bpftrace not found (looked for /usr/bin/")
    assert len(done.stderr.strip().splitlines()) == 1
    assert not bench.out.exists()


def test_without_privilege_the_default_probes_are_left_out(
    new_folder: Callable[[], Path], build: Callable[[int | str], Build]
) -> None:
    out = new_folder()
    nobody = pwd.getpwnam("nobody")
    os.chown(out, nobody.pw_uid, nobody.pw_gid)
    bench = Bench(out / "runs")
    arguments = ("run", "--pg", build(16).label, "--probes", "default", "--steps", "l.i0", "--repeats", "1")
    done = subprocess.run(
        bench.command(*arguments, *SMALL),
        user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], cwd=Path(__file__).parents[3],
        env=os.environ | {"HOME": str(out), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("probes: bpftrace")]
    assert len(said) == 1
    assert bench.attempts()[-1].state == "finished"
    (event,) = words(bench, "probe")
    assert "Re-run with sudo" in event.data["text"] or "missing CAP" in event.data["text"]
    assert all(step.totals is not None and step.totals.observers == () for step in steps(bench))


def wrapped(install: Path, folder: Path, script: str) -> Path:
    """An install that has a script for its postgres, and links to another install for all else."""
    (folder / "bin").mkdir(parents=True)
    for entry in (*install.iterdir(), *(install / "bin").iterdir()):
        if entry.name not in ("bin", "postgres"):
            (folder / entry.relative_to(install)).symlink_to(entry)
    (folder / "bin" / "postgres").write_text(f"#!/bin/bash\n{script.format(install / 'bin' / 'postgres')}\n")
    for entry in (folder, folder / "bin", folder / "bin" / "postgres"):
        entry.chmod(0o755)
    return folder


def test_server_probes_are_refused_for_a_starting_script(
    bench: Bench, build: Callable[[int | str], Build], new_folder: Callable[[], Path]
) -> None:
    install = wrapped(Path(build(16).prefix), new_folder() / "mine", 'exec -a "$0" {} "$@"')
    done = bench("run", "--pg", f"mine={install}", "--probes", "planner", "--steps", "l.i0", "--repeats", "1", *SMALL)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "give the real postgres binary (a wrapper script was found)" in done.stderr
    done = bench("run", "--pg", f"mine={install}", "--probes", "sched", "--steps", "l.i0", "--repeats", "1", *SMALL)
    assert done.returncode == 0, done.stderr
    (load,) = steps(bench)
    assert load.totals is not None and load.totals.observers == ("sched",)
