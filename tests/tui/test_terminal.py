"""The whole of it in a real terminal: tmux at 80x24, real servers, a stall made by hand."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from engine.journal.run_lock import is_locked
from tests.support.benchcall import PATIENCE_S, WAITING, Bench, nothing_left, wait_for
from tui.compare.comparison_table import ratio_text

pytestmark = [
    pytest.mark.outside,
    pytest.mark.first,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]

ROOT = Path(__file__).parents[2]
STOPPED_S = 3.0  # at least: until it is seen
QUICK = (
    "--rows 2000 --rows-written 2000 --steps l.i0,l.x,l.i1 --repeats 1 --interleave cells "
    "--set shared_buffers=64MB --allow-concurrent"
)
# l.i1 lasts, by waiting: for half a minute in a run that is watched to its end, or until somebody ends it.
WATCHED = f"{QUICK.replace('2000 --steps', '60000 --steps')} {' '.join(WAITING)}"
ENDLESS = WATCHED.replace("60000", "10000000")


class Tmux:
    """A tmux server of its own with one terminal, in which a shell runs."""

    def __init__(self, socket: Path, out: Path) -> None:
        self.socket = socket
        self.bench = f"{os.environ.get('PGBED_BENCH') or f'{sys.executable} -m engine'}"
        self.out = out
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(":")
        given = {"PYTHONPATH": path, "PGBED_OUT": str(out), "LC_ALL": "C.UTF-8", "ENV": "/dev/null"}
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")} | given
        command = ("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh")
        subprocess.run(["tmux", "-S", str(socket), *command], env=environment, cwd=socket.parent, check=True)
        self.tell("send-keys", "PS1='ready> '", "Enter")

    def tell(self, *arguments: str) -> str:
        """A command to tmux; its answer."""
        command = ["tmux", "-S", str(self.socket), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def run(self, command: str) -> None:
        """Types a command of the shell, on a screen of its own."""
        self.tell("send-keys", "clear", "Enter")
        self.tell("send-keys", "-l", command)
        self.tell("send-keys", "Enter")

    def press(self, *keys: str) -> None:
        """Presses keys, by tmux's names."""
        self.tell("send-keys", *keys)

    def screen(self) -> str:
        """The text that is seen."""
        return self.tell("capture-pane", "-p")

    def until(self, *words: str, patience_s: float = 90.0) -> str:
        """The screen as soon as it has all words."""
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s:
            shown = self.screen()
            if all(word in shown for word in words):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{words} were not shown:\n{self.screen()}")

    def await_shell(self) -> None:
        """Waits until the command has ended."""
        wait_for(lambda: self.screen().rstrip().endswith("ready>"), "the shell")

    def kill(self) -> None:
        """The terminal goes away, with its processes."""
        with suppress(subprocess.CalledProcessError):
            self.tell("kill-server")


@pytest.fixture
def bench(new_folder: Callable[[], Path]) -> Iterator[Bench]:
    """`bench` over a folder of its own; what still runs at the end is ended."""
    bench_run = Bench(new_folder() / "runs")
    bench_run.out.mkdir()
    yield bench_run
    bench_run.stop()


@pytest.fixture
def tmux(bench: Bench, tmp_path: Path) -> Iterator[Tmux]:
    """A terminal that is gone afterwards."""
    terminal = Tmux(tmp_path / "tmux", bench.out)
    yield terminal
    terminal.kill()


def rate(screen: str) -> str:
    """The rate as shown; empty before the first."""
    match = re.search(r"ins/s (\S+)", screen)
    return match.group(1) if match else ""


@pytest.mark.timeout(600)
def test_a_run_is_started_watched_left_and_compared(
    bench: Bench, tmux: Tmux, build: Callable[[int | str], Build]
) -> None:
    base, other = build(14).label, build(16).label
    tmux.run(f"{tmux.bench} --pg {base},{other} {WATCHED}")
    shown = tmux.until(" REC ", " l.i1 ", "ins/s", base, "space pause")
    assert "1/2" in shown and "space pause" in shown.splitlines()[-1]
    rates = set()

    def moves() -> bool:
        rates.add(rate(tmux.screen()))
        return len(rates - {"", "-"}) >= 3

    wait_for(moves, "the rate to move")
    step = bench.await_step("l.i1")
    wait_for(lambda: time.monotonic_ns() - step.started_ns > 6.5e9, "the warm-up to pass")

    backend = bench.backend(step, "insert")
    os.kill(backend, signal.SIGSTOP)
    stopped_s = time.monotonic()
    try:
        shown = tmux.until("STALL insert", "s so far: ", "!insert", "of the insert backend is")
        assert "!" in next(row for row in shown.splitlines() if row.startswith("stalls"))
        time.sleep(max(0.0, STOPPED_S - (time.monotonic() - stopped_s)))
    finally:
        os.kill(backend, signal.SIGCONT)
    tmux.until(" stall of ", patience_s=PATIENCE_S)
    tmux.press("Enter")
    shown = tmux.until(" STALL ", "30 s before to 30 s after")
    for key in ("n", "N", "N"):  # what others waited for meanwhile is a stall of theirs, before it or after it
        if "STALL  insert" not in shown:
            tmux.press(key)
            with suppress(AssertionError):
                shown = tmux.until("STALL  insert", "30 s before to 30 s after", patience_s=10)
    assert "SIGSTOP" in shown and re.search(r"1\. \d\.\d+ process \d+ of the insert backend is stopped", shown), shown
    tmux.press("Escape")
    tmux.until(" REC ")

    tmux.press("q")
    shown = tmux.until("the run continues", "bench watch")
    assert is_locked(bench.run)
    tmux.run(f"{tmux.bench} watch")
    tmux.until(" REC ", "2/2", " l.i1 ", other)
    shown = tmux.until("base", "so far)")  # of the first cell, which was the base's
    tmux.until(" FINISHED ", "2/2 cells", patience_s=300)
    tmux.press("3")
    shown = tmux.until("COMPARE", "1 pair, no verdicts", "l.i1", f"{other} against {base}: ")
    (ratio,) = (r for r in bench.ratios() if (r["step"], r["metric"]) == ("l.i1", "rate_per_s"))
    assert re.search(rf"l\.i1 +rows/s .* {re.escape(ratio_text(ratio['ratio']))}\b", shown), shown
    tmux.press(*["Down"] * 20)
    tmux.until("stalls       ! ")
    tmux.press("2")
    tmux.until(" FINISHED ")
    tmux.press("q")
    tmux.await_shell()
    bench.await_end()
    nothing_left(bench)


def test_a_lost_terminal_leaves_the_run_going(bench: Bench, tmux: Tmux, build: Callable[[int | str], Build]) -> None:
    tmux.run(f"{tmux.bench} --pg {build(16).label} {ENDLESS}")
    tmux.until(" REC ", " l.i1 ", "ins/s")
    bench.await_step("l.i1")
    engine = bench.engine_pid()
    shown = _interfaces(bench.run)
    assert shown
    tmux.kill()
    wait_for(lambda: not Path(tmux.socket).exists() or not _answers(tmux), "tmux to go")
    wait_for(lambda: not shown & _interfaces(bench.run), "the interface to go with it")
    assert is_locked(bench.run) and bench.engine_pid() == engine
    with JournalReader(bench.run) as reader:
        step = reader.latest_step(1)
        assert step is not None and step.state == "running"
        newest_ns = max((count.t_ns for count in reader.counts(step.id)), default=0)
        wait_for(lambda: reader.counts(step.id, newest_ns), "the record to go on")
    stopped = bench("stop")
    assert stopped.returncode == 0, stopped.stderr
    nothing_left(bench)


def _interfaces(run: Path) -> set[int]:
    """The processes that show a run."""
    pids = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if os.fsencode(run) in words and {b"tui", b"watch"} & set(words):
                pids.add(int(entry.parent.name))
    return pids


def _answers(tmux: Tmux) -> bool:
    try:
        tmux.tell("list-sessions")
    except subprocess.CalledProcessError:
        return False
    return True


def test_stopping_from_the_screen_stops_the_run(bench: Bench, tmux: Tmux, build: Callable[[int | str], Build]) -> None:
    tmux.run(f"{tmux.bench} --pg {build(16).label} {ENDLESS}")
    tmux.until(" REC ", " l.i1 ", "ins/s")
    tmux.press("m")
    tmux.until("Marker for this moment")
    tmux.press("h", "e", "r", "e", "Enter")
    tmux.until("mark: here")
    tmux.press("S")
    tmux.until("Stop ", "y yes")
    tmux.press("y")
    tmux.until(" STOPPED ")
    tmux.press("q")
    tmux.until("stopped; to continue: bench resume")
    nothing_left(bench)


def test_plain_prints_lines_in_a_terminal(bench: Bench, tmux: Tmux, build: Callable[[int | str], Build]) -> None:
    tmux.run(f"{tmux.bench} --pg {build(16).label} {QUICK} --steps l.i0 --plain")
    shown = tmux.until("more tables: bench compare")
    assert "REC" not in shown and "space pause" not in shown
    tmux.run(f"{tmux.bench} watch --plain")
    tmux.await_shell()
    assert "space pause" not in tmux.screen()
    bench.await_end()


def test_a_terminal_that_can_do_nothing_gets_lines(bench: Bench, tmux: Tmux, recorded: Path) -> None:
    tmux.run(f"TERM=dumb {tmux.bench} watch {recorded.name}")
    shown = tmux.until("finished")
    assert "space pause" not in shown
    tmux.run(f"TERM=linux {tmux.bench} watch {recorded.name}")
    shown = tmux.until("FINISHED", "space pause")
    assert shown.isascii()
    tmux.press("q")
    tmux.await_shell()


@pytest.fixture
def recorded(recording: Path, bench: Bench) -> Path:
    """The recording, among the runs."""
    shutil.move(recording, bench.out / recording.name)
    return bench.out / recording.name
