"""What the terminal interface costs: CPU while it watches, a repaint, its start, its memory, replay of a long step,
and what ten that start at once take from one who works.

    python -m tests.perf.tui_cost [--seconds S] [--only watching,charts,start,replay,many] [--against CHECKOUT]

No server is needed: the journal is written here, by the journal's own writer. Beside each figure stands what it may be.
Numbers of one machine are not those of another: a chart is therefore also told as a multiple of Textual's own
Sparkline, and of what is timed the quickest counts, since what else the machine did is not the interface's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult
from textual.widgets import Sparkline

from engine.core.clock import Clock
from engine.journal.rows import RoleSecond
from engine.journal.writer import JournalWriter
from engine.view.player import Player
from engine.view.step_series import Series
from tests.support.journal import make_run
from tests.support.terminal import ROOT, Terminal
from tests.support.totals import planned_as
from tui.app import Bench
from tui.glyphs import SETS
from tui.widgets.chart import RateChart
from tui.widgets.column_cache import Axis
from workloads import histogram

SECOND_NS = 1_000_000_000
CELL = 1  # of the made run; the one before it is finished
ROLES = ("insert", "delete", "query")
HOURS_2_S = 7200
SIZES = ((80, 24), (130, 40), (200, 50))
WATCHERS = 10
WARM_S = 5.0


@dataclass(slots=True)
class Report:
    """Figures with what they may be."""

    missed: list[str] = field(default_factory=list)

    def figure(self, name: str, value: float, unit: str, budget: float | None = None) -> None:
        """Prints one; `budget` is the most that it may be."""
        verdict = ""
        if budget is not None:
            verdict = f"  (at most {budget:g} {unit}){'' if value <= budget else '  MISSED'}"
            if value > budget:
                self.missed.append(name)
        print(f"  {value:9.2f} {unit:<9} {name}{verdict}", flush=True)


class Step:
    """A running query step in a journal, to which seconds are added. Rates jitter; every ninth minute it stalls."""

    def __init__(self, journal: JournalWriter, cell: str, started_ns: int, length_s: int) -> None:
        self.journal = journal
        self.started_ns = started_ns
        self.attempt = journal.begin_attempt(cell, started_ns, {})
        plan = {"name": "qr100", "kind": "query", "seconds": length_s, "rate_per_s": 100, **planned_as("query")}
        self.id = journal.begin_step(self.attempt, 0, "qr100", "query", 0, plan, started_ns)
        self.roles = [journal.add_role(self.id, 1, name, 1000 + n, 2000 + n) for n, name in enumerate(ROLES)]
        self.seconds = 0
        self._random = random.Random(1)

    def second(self) -> None:
        """One more second, as the engine writes it."""
        self.seconds += 1
        t_ns = self.started_ns + self.seconds * SECOND_NS
        stalled = self.seconds % 540 > 535
        for role in self.roles:
            count = 20 if stalled else int(self._random.gauss(8000, 400))
            counts = {histogram.index(int(self._random.lognormvariate(6, 1))): count // 40 for _ in range(40)}
            self.journal.add_role_seconds([
                RoleSecond(
                    role, t_ns, SECOND_NS, count, count, 2_000_000, 4000, histogram.pack(counts), None,
                    600_000_000, 10_000_000, 900, 0, 0, 100_000_000, 1_000_000, 900, "Client:ClientRead",
                )
            ])  # fmt: skip
        for source in ("server", "engine", "monitor", "process:walwriter", "process:checkpointer", "process:bgwriter"):
            data = {"cpu_ns": 50_000_000, "runq_ns": 1_000_000, "processes_now": 9}
            self.journal.add_sample(self.id, t_ns, SECOND_NS, source, data)
        self.journal.add_sample(self.id, t_ns, SECOND_NS, "device", {"read_kb": 10, "written_kb": 20_000})
        times = {f"{name}_ns": SECOND_NS for name in ("user", "system", "idle", "iowait")}
        self.journal.add_sample(self.id, t_ns, SECOND_NS, "host", {**times, "pressure_io_some_ns": 1_000_000})
        if self.seconds % 540 == 535:
            record = {"client": 1, "depth": 0.01, "median_per_s": 8000, "missed_rows": 30_000, "causes": []}
            self.journal.add_event(
                "stall", t_ns, record, ended_ns=t_ns + 5 * SECOND_NS, attempt=self.attempt, step=self.id, role="insert"
            )
        if self.seconds % 300 == 0:
            record = {"cause": "time", "buffers": 4000, "total_s": 12.0, "sync_s": 0.3}
            self.journal.add_event(
                "checkpoint", t_ns - 12 * SECOND_NS, record, ended_ns=t_ns, attempt=self.attempt, step=self.id
            )


def made(folder: Path, name: str, length_s: int, recorded_s: int, started_ns: int) -> tuple[JournalWriter, Step, str]:
    """A run with one finished cell and one in a step of which so much is recorded; its journal stays open."""
    run = make_run(folder / name, builds=("16.3", "17.0"), repeats=1, unfinished=(CELL,))
    journal = JournalWriter.open(run)
    cell = next(cell["id"] for cell in _cells(run) if cell["ordinal"] == CELL)
    step = Step(journal, cell, started_ns, length_s)
    for _ in range(recorded_s):
        step.second()
    journal.commit()
    return journal, step, cell


def _cells(run: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads((run / "manifest.json").read_text())["cells"]
    return cells


def cpu_s(terminal: Terminal) -> float:
    """CPU time of the process in a terminal, so far."""
    fields = Path(f"/proc/{terminal.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(value) for value in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def resident_mib(terminal: Terminal) -> float:
    """Its resident memory."""
    status = Path(f"/proc/{terminal.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def watching(report: Report, folder: Path, seconds: int) -> None:
    """The Live screen on a step of which half an hour is recorded, and which goes on."""
    print(f"Live on a step with 1,800 s recorded, one more each second, over {seconds} s:")
    journal, step, _ = made(folder, "watched", 3600, 1800, time.monotonic_ns() - 1800 * SECOND_NS)
    with journal:
        _base_seconds(journal, 3600)
        for columns, rows in SIZES:
            terminal = Terminal([sys.executable, "-m", "tui", str(journal.run), "--out", str(folder)])
            terminal.resize(columns, rows)
            terminal.until(b"in flight")
            _grow(terminal, step, WARM_S)
            before_s, began_s = cpu_s(terminal), time.monotonic()
            _grow(terminal, step, seconds)
            share = (cpu_s(terminal) - before_s) / (time.monotonic() - began_s)
            report.figure(f"CPU of the Live screen at {columns}x{rows}", 100 * share, "% of one", 1.5)
            report.figure("resident memory", resident_mib(terminal), "MiB", 90)
            terminal.close()


def _base_seconds(journal: JournalWriter, seconds: int) -> None:
    """As many of the base's query step, for the curve behind the one that is watched."""
    roles = journal.database.execute(
        "SELECT role.id, role.name, step.started_ns FROM role JOIN step ON step.id = step_id"
        " WHERE step.name = 'qr100' AND step.state = 'finished'"
    ).fetchall()
    source = random.Random(2)
    for role, _, started_ns in roles:
        for second in range(13, seconds + 1):
            count = int(source.gauss(8000, 400))
            service = histogram.pack({histogram.index(300): count})
            t_ns = started_ns + second * SECOND_NS
            journal.add_role_seconds([RoleSecond(role, t_ns, SECOND_NS, count, count, 0, 3000, service)])
    journal.commit()


def many(report: Report, folder: Path) -> None:
    """Ten watchers that start at once on a run: how long one who works with one CPU of all stands still meanwhile."""
    print(f"{WATCHERS} watchers started at once, beside one busy process for each CPU:")
    journal, _, _ = made(folder, "crowded", 3600, 60, time.monotonic_ns() - 60 * SECOND_NS)
    busy = "import time\nwhile True:\n    for _ in range(200_000): pass\n    print(time.monotonic(), flush=True)"
    with journal:
        workers = [
            subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE, text=True)
            for _ in range(os.cpu_count() or 1)
        ]
        time.sleep(2)
        began_s = time.monotonic()
        terminals = [
            Terminal([sys.executable, "-m", "tui", str(journal.run), "--out", str(folder)]) for _ in range(WATCHERS)
        ]
        for terminal in terminals:
            terminal.until(b"in flight", 120)
        all_s = time.monotonic() - began_s
        for worker in workers:
            worker.kill()
        told = [[float(word) for word in worker.communicate()[0].split()] for worker in workers]
        for terminal in terminals:
            terminal.close()
    before = [b - a for each in told for a, b in pairwise(each) if b < began_s]
    during = [b - a for each in told for a, b in pairwise(each) if began_s <= a]
    usual_s = statistics.median(before)
    report.figure("all of them show something after", all_s, "s")
    report.figure("the longest that a worker took for its usual piece", max(during) / usual_s, "times")
    report.figure("of its usual rate a worker keeps", 100 * usual_s / statistics.fmean(during), "%")
    report.figure("the longest standstill", max(during), "s", 1.0)


def _grow(terminal: Terminal, step: Step, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        step.second()
        step.journal.commit()
        terminal.watch(1.0)


class Charts(App[None]):
    """Three charts, or three of Textual's own sparklines."""

    CSS = "RateChart, Sparkline { height: 1fr; width: 100%; }"

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.theme = "textual-dark"
        self._own = own

    def compose(self) -> ComposeResult:
        """Three rows."""
        for _ in range(3):
            yield RateChart(SETS["braille"]) if self._own else Sparkline([0.0], summary_function=min)


def charts(report: Report) -> None:
    """CPU of a repaint of three charts of 1,800 points, made anew and with one more point."""
    print("three charts of 1,800 points, CPU of a repaint:")
    random_source = random.Random(1)
    points = Series()
    for second in range(3600):
        points.add((second + 1) * SECOND_NS, SECOND_NS, max(0.0, random_source.gauss(29_000, 2000)))
    stalls = [(900e9, 906e9), (1500e9, 1514e9)]

    def own(app: App[None], axis: Axis) -> None:
        for chart in app.query(RateChart):
            chart.show(points, axis, stalls, 31_000.0, "base 16.3")

    def anew(app: App[None], turn: int) -> None:
        own(app, Axis(turn * SECOND_NS, (1800 + turn) * SECOND_NS, (1800 + turn) * SECOND_NS))

    def on(app: App[None], turn: int) -> None:
        own(app, Axis(0, 3600 * SECOND_NS, (1800 + turn) * SECOND_NS))

    def sparkline(app: App[None], turn: int) -> None:
        for chart in app.query(Sparkline):
            chart.data = points.value[turn : 1800 + turn]

    for size in ((80, 24), (200, 50)):
        theirs = asyncio.run(_repaint_ms(Charts(False), sparkline, size))
        for name, paint in (("axis moved: all points anew", anew), ("one more point", on)):
            ours = asyncio.run(_repaint_ms(Charts(True), paint, size))
            report.figure(f"{name}, {size[0]}x{size[1]}", ours, "ms", 15)
            print(f"  {ours / theirs:9.2f} times that of Textual's Sparkline", flush=True)


async def _repaint_ms(app: App[None], paint: Callable[[App[None], int], None], size: tuple[int, int]) -> float:
    """CPU of painting and of what follows on the screen, less that of the waiting itself."""
    async with app.run_test(size=size) as pilot:
        await pilot.pause()

        async def turns(act: Callable[[int], None]) -> float:
            began_s = time.process_time()
            for turn in range(60):
                act(turn)
                await pilot.pause()
            return time.process_time() - began_s

        await turns(lambda turn: paint(app, turn))
        idle_s = await turns(lambda _: None)
        return 1000 * (await turns(lambda turn: paint(app, turn)) - idle_s) / 60


def start(report: Report, folder: Path, against: Path | None) -> None:
    """From the command to what it shows first; `against`: and what that takes of the code in another checkout."""
    print("start to first paint, the quickest of 7:")
    run = make_run(folder / "started", repeats=1)
    commands = {
        "python -m tui RUN": ["-m", "tui", str(run), "--out", str(folder)],
        "bench watch RUN": ["-m", "engine", "watch", str(run), "--out", str(folder)],
    }
    for name, command in commands.items():
        taken_s, busy_s = [], []
        # The first start compiles, where Python may not have kept that: an installed one is compiled.
        first = Terminal([sys.executable, *command], {"PYTHONDONTWRITEBYTECODE": ""})
        first.until(b"FINISHED")
        first.close()
        for _ in range(7):
            terminal = Terminal([sys.executable, *command])
            taken_s.append(terminal.until(b"FINISHED"))
            busy_s.append(cpu_s(terminal))
            terminal.close()
        report.figure(name, min(taken_s), "s", 0.4)
        report.figure("of it CPU", min(busy_s), "s")
        print(f"  {min(busy_s) / _import_s():9.2f} times what importing Textual takes", flush=True)
        if against is not None:
            ratio = _in_turns([sys.executable, *command], (against, ROOT))
            print(f"  {ratio:9.2f} times the CPU of {against}, in turns", flush=True)


def _in_turns(command: list[str], checkouts: tuple[Path, Path]) -> float:
    """CPU to the first paint of the second checkout's code, by the first's: medians of 8 turns each, ABBA."""
    taken_s: dict[Path, list[float]] = {checkout: [] for checkout in checkouts}
    for checkout in (*checkouts, *reversed(checkouts)) * 4:
        terminal = Terminal(command, {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"})
        terminal.until(b"FINISHED")
        taken_s[checkout].append(cpu_s(terminal))
        terminal.close()
    first, second = (statistics.median(taken_s[checkout]) for checkout in checkouts)
    return second / first


def _import_s() -> float:
    """CPU time of Python with Textual's application and nothing else."""
    taken_s = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import textual.app"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken_s)


def replay(report: Report, folder: Path) -> None:
    """A two-hour step, opened and sought through: what is read, and what the screen does with it."""
    print("replay of a step of 7,200 s with 3 roles:")
    journal, step, cell = made(folder, "replayed", HOURS_2_S, HOURS_2_S, SECOND_NS)
    with journal:
        end_ns = step.started_ns + HOURS_2_S * SECOND_NS
        journal.end_step(step.id, end_ns, None)
        journal.end_attempt(step.attempt, end_ns, "finished")
    run = journal.run
    opened_s = []
    for _ in range(3):
        began_s = time.monotonic()
        with Player(run, Clock(), cell) as player:
            player.look()
            opened_s.append(time.monotonic() - began_s)
    report.figure("opened, without the screen", min(opened_s), "s", 1.0)
    asyncio.run(_replay_screen(report, folder, run, cell, (step.started_ns, end_ns)))
    opened_s, memory_mib = [], 0.0
    for _ in range(3):
        terminal = Terminal([sys.executable, "-m", "tui", str(run), "--out", str(folder), "--cell", cell])
        opened_s.append(terminal.until(b"in flight"))
        terminal.watch(3)
        memory_mib = max(memory_mib, resident_mib(terminal))
        terminal.close()
    report.figure("opened: from the command to the first paint", min(opened_s), "s", 1.0 + 0.7)
    report.figure("resident memory", memory_mib, "MiB", 90)


async def _replay_screen(report: Report, folder: Path, run: Path, cell: str, span: tuple[int, int]) -> None:
    from tui.live.screen import LiveScreen

    app = Bench(folder, run, SETS["braille"], "live")
    app.context.replayed = (cell, None)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, LiveScreen) and screen.player is not None
        random_source, taken_s = random.Random(1), []
        for _ in range(40):
            wanted_ns = random_source.randint(*span)
            quickest_s = 1e9
            for _ in range(3):
                screen.player.seek(span[0])
                screen.repaint()
                began_s = time.monotonic()
                screen.player.seek(wanted_ns)
                screen.repaint()
                app.screen_text()
                quickest_s = min(quickest_s, time.monotonic() - began_s)
            taken_s.append(quickest_s)
        report.figure("sought and drawn, median", 1000 * statistics.median(taken_s), "ms", 100)
        report.figure("sought and drawn, slowest of 40", 1000 * max(taken_s), "ms", 100)


def main() -> int:
    """Reads the options and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--only", default="watching,charts,start,replay,many")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="other code, for the start")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="pgbed-tui-") as name:
        folder = Path(name)
        parts: dict[str, Callable[[], None]] = {
            "charts": lambda: charts(report),
            "start": lambda: start(report, folder, options.against),
            "replay": lambda: replay(report, folder),
            "many": lambda: many(report, folder),
            "watching": lambda: watching(report, folder, options.seconds),
        }
        for part, measure in parts.items():
            if part in options.only.split(","):
                measure()
    print(f"MISSED: {', '.join(report.missed)}" if report.missed else "all reached")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
