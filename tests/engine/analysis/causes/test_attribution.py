"""Causes of slower operations, in made cells, and on real servers that are slowed down on purpose."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.causes.attribution import Parts, attribution, blocked, logs_of, parts_of
from engine.analysis.causes.time_parts import Attribution
from engine.analysis.statistics.inference import share_interval
from engine.core import wait_kinds
from engine.core.model import Build, Cell
from engine.journal.run_lock import is_locked
from engine.journal.totals import StepTotals
from engine.report import render
from engine.results.comparison import Comparison
from tests.support import scripted, templates
from tests.support.attributions import attributions_of
from tests.support.benchcall import Bench, connect, nothing_left
from tests.support.journal import Change, make_run
from tests.support.programs import compiler
from tui.compare.comparison_table import RowKey
from tui.compare.explanation import why
from tui.glyphs import SETS

SYNC_US, SLOW_SYNC_US = 1000, 20_000  # of all builds but one, and of that: nearly all of its time, as 20 looks see it
LOOPS, MORE_LOOPS = 300_000, 6_000_000  # hogs are in the way of who has something to do
# One statement in whose way all of it can be put; only a lock on the table keeps it from beginning.
SCRIPT = (
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, (sin(random()) > 2)::int, 0, now());\n"
)
SMALL = ("--pgbench-scale", "1", "-O", "init_steps=dt", "--between", "none", "--warmup-seconds", "0", "--clients", "1",
         "--set", "shared_buffers=32MB", "--set", "synchronous_commit=on", "--set", "fsync=on")  # fmt: skip
HOG = "while :; do :; done"
HOGS = 5  # on each CPU, of a session each: the kernel shares CPUs out by session first
PLANTED = {
    "base": "",
    "spinning": f"PLANTED_LOOPS={MORE_LOOPS}",
    "syncing": f"PLANTED_SYNC_US={SLOW_SYNC_US}",
    "locked": "",
    "crowded": "",
}


def install(real: Build, folder: Path, library: Path, planted: str) -> Path:
    """An install whose server has the library preloaded; its programs are those of another."""
    words = f"LD_PRELOAD={shlex.quote(str(library))} PLANTED_SYNC_US={SYNC_US} PLANTED_LOOPS={LOOPS} {planted}"
    script = f'#!/bin/sh\nexport {words}\nexec {shlex.quote(str(real.bin / "postgres"))} "$@"\n'
    return scripted.install(Path(real.prefix), folder, "postgres", script)


@contextmanager
def trouble(bench: Bench) -> Iterator[None]:
    """A session that locks the table of `locked` most of the time; run hogs beside `crowded`."""
    ended = threading.Event()
    hogs: list[subprocess.Popen[bytes]] = []

    def stop_hogs() -> None:
        for hog in hogs:
            hog.kill()
            hog.wait()
        hogs.clear()

    def step_of(build: str) -> bool:
        attempt = bench.attempts()[-1]
        under_way = [step.name for step in bench.steps(attempt) if step.state == "running"]
        return attempt.state == "running" and f"-{build}-" in attempt.cell and under_way[:1] not in ([], ["init"])

    def make() -> None:
        while not ended.wait(0.02):
            with suppress(psycopg.Error, ValueError, IndexError):
                if step_of("locked"):
                    with connect(bench) as holder:
                        while not ended.is_set() and holder.execute("SELECT to_regclass('pgbench_history')").fetchone():
                            with holder.transaction():
                                holder.execute("LOCK TABLE pgbench_history IN EXCLUSIVE MODE")
                                time.sleep(0.03)
                            time.sleep(0.005)
                if not step_of("crowded"):
                    stop_hogs()
                elif not hogs:
                    cpus = sorted(os.sched_getaffinity(0)) * HOGS
                    hogs.extend(subprocess.Popen(["sh", "-c", HOG], start_new_session=True) for _ in cpus)
                    for hog, cpu in zip(hogs, cpus, strict=True):
                        os.sched_setaffinity(hog.pid, {cpu})

    thread = threading.Thread(target=make)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        stop_hogs()


def slower(by: float, **values: object) -> Change:
    """Makes 17.0 take so much longer in qr100, with other figures of its query role."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != "qr100":
            return totals
        used: dict[str, Any] = {
            "backend_cpu_ns": round(0.4e9 * totals.seconds),
            "backend_runq_ns": 0,
            "client_cpu_ns": 0,
        }
        query = replace(totals.roles["query"], **used, waits={"": 80, "Client:ClientRead": 20}, wait_samples=100)
        if cell.subject.build == "17.0":
            query = replace(query, **values)  # type: ignore[arg-type]
            totals = replace(totals, seconds=totals.seconds * (1 + by))
        return replace(totals, roles={**totals.roles, "query": query})

    return change


def of_qr100(path: Path, change: Change, **how: Any) -> tuple[Comparison, Attribution | None]:
    run = make_run(path, change=change, **how)
    return compare([run]), attributions_of(run).get("qr100")


def test_waits_make_what_their_share_of_the_looks_says(tmp_path: Path) -> None:
    """Twice the time, three tenths for a lock and two for WAL: 0.6 and 0.4 of the difference."""
    waits = {"": 40, "Client:ClientRead": 10, "Lock:tuple": 30, "IO:WALSync": 15, "LWLock:WALWrite": 5}
    _, difference = of_qr100(tmp_path / "r", slower(1.0, waits=waits))
    assert difference is not None and difference.role == "query" and not difference.reason
    assert difference.us == pytest.approx(2 * difference.base_us, rel=0.02)
    for place in ("base_us", "us"):
        assert sum(getattr(part, place) for part in difference.parts) == pytest.approx(getattr(difference, place))
    lock, wal = difference.named
    assert (lock.name, lock.title, wal.name, wal.title) == (
        "wait.lock", "lock waits (tuple)", "wait.wal", "WAL waits (WALSync)",
    )  # fmt: skip
    assert lock.share == pytest.approx(0.6, abs=0.02) and wal.share == pytest.approx(0.4, abs=0.02)
    assert lock.known and wal.known and difference.unexplained == pytest.approx(0.0, abs=0.04)
    assert difference.causes == ("wait.lock", "wait.wal")


def test_cpu_is_told_by_phase_where_all_cells_have_them(tmp_path: Path) -> None:
    def planned(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != "qr100":
            return totals
        new = cell.subject.build == "17.0"
        cpu_ns, seconds = round(totals.seconds * (1e9 if new else 0.5e9)), totals.seconds * (1.5 if new else 1.0)
        samples = {"plan": 1200 if new else 200, "execute": 800}
        stacks = {"stacks": {"samples": sum(samples.values()), "phases": samples, "seconds": seconds}}
        query = replace(totals.roles["query"], backend_cpu_ns=cpu_ns, backend_runq_ns=0)
        return replace(totals, seconds=seconds, roles={**totals.roles, "query": query}, probes={"query": stacks})

    _, difference = of_qr100(tmp_path / "r", planned)
    assert difference is not None
    (only,) = difference.named
    assert (only.name, only.title) == ("server_cpu.plan", "server CPU in plan")
    assert only.share == pytest.approx(1.0, abs=0.005)

    def some(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        totals_of_step = planned(cell, step, totals)
        return replace(totals_of_step, probes={}) if cell.repeat == 1 else totals_of_step

    _, difference = of_qr100(tmp_path / "some", some)
    assert difference is not None and [part.name for part in difference.named] == ["server_cpu"]


def test_a_scattered_share_does_not_count_as_explained(tmp_path: Path) -> None:
    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        own_ns = round(totals.seconds * 1e9 * (0.1, 0.9, 0.4)[cell.repeat - 1])
        waits = {"": 90, "Client:ClientRead": 10}
        return slower(1.0, backend_runq_ns=own_ns, waits=waits)(cell, step, totals)

    comparison, difference = of_qr100(tmp_path / "r", change)
    assert difference is not None and (difference.causes, difference.undecided) == ((), ("server_runq",))
    assert difference.unexplained == 1.0
    text = render.to_markdown(comparison)
    assert re.search(
        r"\| unexplained \|  \| 100% \|  \|\n\| server waiting [^|]+\| \+[\d,.]+ \| undecided \| -?\d+% to", text
    )
    (subject,) = comparison.others
    shown = why(comparison, RowKey("qr100", "rate_per_s"), subject, SETS["braille"], 120, 20)
    said = ["".join(text for text, _ in row) for row in shown]
    assert said[0].split() == ["100%", "unexplained"]
    assert said[1].startswith("undecided server waiting for a CPU (run queue)  ")


def test_known_parts_come_before_scattered_ones(tmp_path: Path) -> None:
    """The difference is half run queue, 0.2 CPU of the server, 0.1 of clients, about 0.1 lock waits, which scatter."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        took_ns, waited = totals.seconds * 1e9, (2, 11, 5)[cell.repeat - 1]
        waits = {"": 82 - waited, "Lock:tuple": waited, "Client:ClientRead": 18}
        parts = {"cpu": 0.6, "runq": 0.5, "client": 0.1, "bound": 0.05}
        used = {name: round(took_ns * part) for name, part in parts.items()}
        return slower(1.0, backend_cpu_ns=used["cpu"], backend_runq_ns=used["runq"], client_cpu_ns=used["client"],
                      limited_ns=used["bound"], waits=waits)(cell, step, totals)  # fmt: skip

    comparison, difference = of_qr100(tmp_path / "r", change)
    assert difference is not None
    shares = {part.name: part.share or 0.0 for part in difference.parts if part.known}
    assert difference.causes == ("server_runq", "server_cpu") and difference.undecided == ("wait.lock",)
    assert set(difference.further) == {"client_cpu", "limiter", "client_wait"}
    assert difference.unexplained == pytest.approx(1 - sum(shares.values())) == pytest.approx(0.15, abs=0.03)
    assert difference.further_share == pytest.approx(0.16, abs=0.02)
    table = render.to_markdown(comparison)
    assert "| 3 further known parts |  | 16% |" in table and table.index("further known") < table.index("| lock waits")


def test_a_part_with_the_opposite_sign_is_not_unexplained(tmp_path: Path) -> None:
    """A lock makes 1.2 of the difference, less CPU time -0.2 of it: nothing is left."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        cpu_ns = round(totals.seconds * 0.2e9)
        waits = {"": 30, "Lock:tuple": 60, "Client:ClientRead": 10}
        return slower(1.0, backend_cpu_ns=cpu_ns, waits=waits)(cell, step, totals)

    _, difference = of_qr100(tmp_path / "r", change)
    assert difference is not None and difference.causes == ("wait.lock",) and difference.further == ("server_cpu",)
    assert difference.unexplained == pytest.approx(0.0, abs=0.03)


def test_a_full_machine_takes_nothing_from_a_lock() -> None:
    """Half of the time is run-queue wait after a client's message; it was seen as ClientRead, not as the lock."""
    assert blocked({"lock": 34.0, "client": 56.0}, 40.0, 50.0) == pytest.approx({"lock": 34.0, "client": 6.0})
    # CPU time within events is taken from those in which a backend works.
    assert blocked({"lock": 30.0, "io": 40.0, "client": 10.0}, 60.0, 5.0) == pytest.approx(
        {"lock": 30.0, "io": 40 - 40 / 45 * 15, "client": 5 - 5 / 45 * 15}
    )
    assert blocked({"lock": 30.0, "client": 10.0}, 20.0, 0.0) == pytest.approx({"lock": 20.0, "client": 0.0})
    # Seen for longer than it was blocked: it waited for a CPU once it had the lock, and the kernel counts that exactly.
    assert blocked({"lock": 90.0, "latch": 10.0, "client": 5.0}, 80.0, 15.0) == pytest.approx(
        {"lock": 72.0, "latch": 8.0, "client": 0.0}
    )
    assert blocked({"lock": 30.0}, 50.0, 10.0) == {"lock": 30.0}
    assert blocked({}, 0.0, 0.0) == {}


def test_an_undecided_difference_has_no_causes(tmp_path: Path) -> None:
    """Certain by its interval, but of two pairs only: the verdict is what counts."""
    run = make_run(tmp_path / "r", effects={("17.0", "l.i1"): 0.9}, repeats=2, noise=1e-5)
    ratio, difference = compare([run]).ratio("17.0", "l.i1", "rate_per_s"), attributions_of(run)["l.i1"]
    assert ratio is not None and ratio.verdict == "undecided" and ratio.high is not None and ratio.high < 1
    assert difference is not None and (difference.causes, difference.reason) == ((), "its verdict is undecided")


def test_what_is_the_same_uncertain_or_of_one_pair_has_no_causes(tmp_path: Path) -> None:
    assert of_qr100(tmp_path / "same", slower(0.0), noise=0.0001)[1] is None
    _, difference = of_qr100(tmp_path / "wide", slower(0.01), noise=0.2)
    assert difference is not None and (difference.causes, difference.unexplained) == ((), None)
    assert difference.reason == "the difference is within its error"
    comparison, difference = of_qr100(tmp_path / "one", slower(1.0), repeats=1)
    assert difference is not None and difference.reason == "one pair" and difference.causes == ()
    assert "What makes the difference" not in render.to_markdown(comparison)


def test_servers_with_hidden_processes_are_sampled_by_waits(tmp_path: Path) -> None:
    unseen: dict[str, Any] = {"backend_cpu_ns": None, "backend_runq_ns": None}

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        figures = slower(1.0, waits={"": 90, "Client:ClientRead": 10})(cell, step, totals)
        return replace(figures, roles={name: replace(role, **unseen) for name, role in figures.roles.items()})

    _, difference = of_qr100(tmp_path / "r", change)
    assert difference is not None and difference.named[0].name == "server_running"


@pytest.mark.parametrize(
    "values",
    [
        {"limited_ns": 10**290, "waits": {"": 1}},
        {"connections": -1},
        {"coupled_ns": -(10**30)},
        {"waits": {"": -5, "Lock:tuple": 6}},
        {"waits": {"Lock:tuple": 10**300, "": 1}},
        {"waits": {"": 0}},
    ],
)
def test_damaged_counts_make_no_figures_that_are_none(tmp_path: Path, values: dict[str, Any]) -> None:
    comparison, _ = of_qr100(tmp_path / "r", slower(1.0, **values))
    assert len(json.loads(render.to_json(comparison))["steps"]) == 4


@given(
    st.lists(st.tuples(st.dictionaries(st.sampled_from("abc"), st.floats(0.1, 1e6), min_size=1),
                       st.dictionaries(st.sampled_from("abc"), st.floats(0.1, 1e6), min_size=1)), min_size=1)
)  # fmt: skip
def test_parts_add_up_to_the_log_of_the_ratio(pairs: list[tuple[Parts, Parts]]) -> None:
    for base, other in pairs:
        log_ratio = math.log(sum(other.values()) / sum(base.values()))
        assert sum(logs_of((base, other), "abc").values()) == pytest.approx(log_ratio, rel=1e-6, abs=1e-9)


def test_the_interval_of_a_share_holds_it_as_often_as_it_says() -> None:
    chance, held = random.Random(1), 0
    for _ in range(1000):
        wholes = [chance.gauss(0.2, 0.04) for _ in range(5)]
        parts = [0.6 * log + chance.gauss(0, 0.01) for log in wholes]
        low, high = share_interval(parts, wholes)
        assert low is not None and high is not None
        held += low <= 0.6 <= high
    assert 930 <= held <= 970
    assert share_interval([0.1], [0.2]) == share_interval([0.1, 0.2], [1.0, -1.0]) == (None, None)


@pytest.mark.nightly("a difference of each kind is planted and measured, with the machine to itself")
@pytest.mark.outside  # beside all that Nix builds, everything waits for a CPU
@pytest.mark.timeout(900)  # twenty cells on a machine that others keep busy
def test_each_planted_slow_down_is_put_down_to_its_cause(
    bench: Bench, build: Callable[[int | str], Build], tmp_path: Path, new_folder: Callable[[], Path]
) -> None:
    folder = new_folder()
    library = compiler(tmp_path)("planted.so", (Path(__file__).parent / "planted.c").read_text(), "-shared", "-fPIC")
    library = library.rename(folder / "planted.so")
    library.chmod(0o755)
    (folder / "servers").mkdir()
    (folder / "servers" / "real").symlink_to(build(16).prefix)
    (folder / "made").mkdir()
    real = replace(build(16), prefix=str(templates.installs(folder / "servers", folder / "made") / "real"))
    installs = [f"{name}={install(real, folder / name, library, how)}" for name, how in PLANTED.items()]
    script = tmp_path / "planted.sql"
    script.write_text(SCRIPT)
    words = ("--workload", f"pgbench:{script}", "--seconds", "2", *SMALL, "--interleave", "cells", "--repeats", "4")
    bench.detached("--pg", ",".join(installs), *words)
    with trouble(bench):
        while is_locked(bench.run):
            time.sleep(0.1)
    nothing_left(bench)
    assert {attempt.state for attempt in bench.attempts()} == {"finished"}
    cells = compared_cells([bench.run])
    (step,) = (step for step in cells.steps if step != "init")
    of_step = {
        name: [(one.steps[step], other.steps[step]) for one, other in cells.pairs(subject, step)]
        for subject, name in cells.names.items()
        if subject != cells.base
    }
    causes = {name: attribution(step, name, pairs) or pytest.fail(name) for name, pairs in of_step.items()}
    shares = {name: {part.name: part.share or 0.0 for part in cause.parts} for name, cause in causes.items()}
    assert shares["syncing"]["wait.wal"] > 0.5, causes["syncing"]
    assert shares["locked"]["wait.lock"] > 0.5, causes["locked"]
    # Tests run beside others: who needs more CPU also waits longer for it, and a few hogs more may make no difference.
    likely = {
        "syncing": {"wait.wal"},
        "locked": {"wait.lock"},
        "spinning": {"server_cpu", "server_runq"},
        "crowded": {"server_runq", "client_runq"},
    }
    crowded = causes.pop("crowded")
    for name, cause in causes.items():
        assert cause.reason or (cause.causes or cause.undecided)[0] in likely[name], cause
    # Hogs keep those from their CPU, too, who flush WAL for others: which may be the surer part, but not the greatest.
    greatest = max(shares["crowded"].keys() - {"rest"}, key=shares["crowded"].__getitem__)
    assert crowded.reason or greatest in likely["crowded"], crowded
    assert causes["syncing"].causes and causes["locked"].causes, causes
    assert causes["spinning"].reason or shares["spinning"]["server_cpu"] > 0.1, causes["spinning"]
    assert causes["spinning"].reason or "server_cpu" in (*causes["spinning"].causes, *causes["spinning"].undecided)
    assert crowded.reason or shares["crowded"]["server_cpu"] < 0.25, crowded
    for _, other in of_step["locked"]:  # however full the machine was
        parts, (role,) = parts_of(other) or pytest.fail("no parts"), other.totals.roles.values()
        whole_us, kinds = sum(parts.values()), wait_kinds.by_kind(wait_kinds.shares(role.waits))
        # The time by looks, but no more than the time in which the backend was neither on a CPU nor waiting for one.
        blocked_us = whole_us - parts["server_cpu"] - parts["server_runq"]
        most_us = blocked_us / sum(kinds.get(kind, 0.0) for kind in ("lock", "latch", "buffer"))
        assert parts["wait.lock"] == pytest.approx(kinds["lock"] * min(whole_us, most_us)), (parts, role.waits)
