"""What it costs to run pgbench as `bench` does: throughput and CPU per transaction against a bare one, in slices.

    PGBED_SERVERS=... PGBED_PGBENCH=... python -m tests.perf.pgbench_slices [--server LABEL] [--clients 1,8,50]
        [--seconds S] [--rounds N] [--log-every N]

Two servers of one build are up side by side, and the conductor drives them in turns of 50 ms. The clients of one are a
pgbench with its launcher, as in a run: a log sampled as much as a warm-up says, or by --log-every, read and counted as
it comes, ages asked of the server four times a second. Those of the other are a bare pgbench, select-only like it,
without a log. They change servers from round to round. Shown for each number of clients, as geometric means over the
rounds with 95 % intervals: the ratio of transactions per second of active time, of pgbench's own CPU per transaction,
and of all CPU (pgbench, its launcher, its backends). The bare one's transactions are those of its summary, less those
in flight at the end; what it did before it was first stopped, some milliseconds, is among them. Exit code 1 where an
interval lies below the goal.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psycopg

from engine.builds import resolve
from engine.core.model import Config, Subject
from engine.host.account import unprivileged
from engine.host.procfs import TaskReader
from engine.postgres import pgstat
from engine.postgres.activity import Activity
from engine.postgres.pgstat import MonitorError
from engine.postgres.server import DATABASE, Server
from engine.slices.block_order import SliceSeed
from engine.slices.conductor import Orders
from engine.slices.drive import drive
from engine.slices.sliced_server import Side
from tests.perf.pgbench_cost import GOAL, interval
from workloads import client_gate, slice_times
from workloads.counter_page import Control, Page, State, Word
from workloads.pgbench import command, summary
from workloads.pgbench.options import Options
from workloads.pgbench.program import APPLICATION
from workloads.pgbench.scripts import Script
from workloads.pgbench.spec import Found, Spec

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (("shared_buffers", "256MB"), ("fsync", "off"), ("max_connections", "80"), ("autovacuum", "off"))
ASK_S, LOOK_S, LONGEST_S = 0.25, 0.002, 1_000_000
SLICE_MS, WARM_SECONDS = 50, 2
ACCOUNT = unprivileged()
WORKING = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND query LIKE 'SELECT abalance%%'"


@dataclass
class Clients:
    """The clients of one server, stopped until they are driven: their page, their processes, what these have used."""

    page: Page
    pgbench: int
    backends: list[int]
    launchers: list[subprocess.Popen[bytes]]

    def begin(self, opened: ExitStack) -> None:
        self._own = [opened.enter_context(TaskReader(self.pgbench))]
        self._all = [opened.enter_context(TaskReader(pid)) for pid in self.backends]
        self._all += [opened.enter_context(TaskReader(each.pid)) for each in self.launchers]
        self._first = self._used()

    def used_us(self) -> tuple[float, float]:
        """CPU since the begin: pgbench's own, and all."""
        own, others = (last - first for first, last in zip(self._first, self._used(), strict=True))
        return own / 1000, (own + others) / 1000

    def _used(self) -> tuple[int, int]:
        own, others = (
            sum(task.cpu_ns for reader in readers if (task := reader.read()) is not None)
            for readers in (self._own, self._all)
        )
        return own, others

    def side(self, server: Server, name: str) -> Side:
        slots = tuple(range(self.page.roles))
        return Side(
            Subject(name, "cost"), self.page.fd, self.page.roles, slots, server.pid, tuple(self.backends), 0,
            (self.pgbench,),
        )  # fmt: skip


@contextmanager
def watched(server: Server, clients: int, folder: Path, every: int, opened: ExitStack) -> Iterator[Clients]:
    """A pgbench with its launcher, at the barrier."""
    page = Page.create(clients)
    opened.callback(page.close)
    spec = Spec(
        page_fd=page.fd,
        folder=str(folder),
        data_folder=str(folder),
        dsn=server.dsn(DATABASE),
        program=os.environ["PGBED_PGBENCH"],
        version=18,
        options=Options(),
        scripts=(Script("select-only"),),
        step={"kind": "transactions", "clients": clients, "seconds": LONGEST_S, "transactions": 0},
        warm_clients=clients,
        log_every=every,
        log_by_line=False,
        seed=1,
    )
    launcher = subprocess.Popen(
        [sys.executable, "-m", "workloads.pgbench.launch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=(page.fd,),
        cwd=ROOT,
        **ACCOUNT.identity(),
    )
    try:
        assert launcher.stdin is not None
        launcher.stdin.write(msgspec.json.encode(spec))
        launcher.stdin.close()
        while page.word(0, Word.STATE) != State.READY:
            if page.words[Control.STOP]:
                sys.exit(page.error(0))
            time.sleep(LOOK_S)
        backends = [page.word(slot, Word.BACKEND_PID) for slot in range(clients)]
        yield Clients(page, page.word(0, Word.CLIENT_PID), backends, [launcher])
    finally:
        page.words[Control.STOP] = page.words[Control.RELEASE] = 1
        launcher.wait(30)


@dataclass
class Bare(Clients):
    """A pgbench without anything around it."""

    process: subprocess.Popen[str]

    def done(self) -> int:
        """Ends it; returns how many transactions it did but for those in flight when it was stopped."""
        self.process.send_signal(signal.SIGALRM)
        self.process.send_signal(signal.SIGCONT)
        output, _ = self.process.communicate(timeout=30)
        return int(summary.parse(output)["processed"]) - self.page.roles


@contextmanager
def bare(server: Server, clients: int, folder: Path, opened: ExitStack) -> Iterator[Bare]:
    """A bare pgbench, stopped as soon as all its clients are at work."""
    page = Page.create(clients)
    opened.callback(page.close)
    program, scripts = os.environ["PGBED_PGBENCH"], [Script("select-only")]
    dsn = server.dsn(DATABASE)
    argv = command.run(program, 18, Options(), scripts, str(folder), clients=clients, dsn=dsn, seed=1)
    with psycopg.connect(dsn, autocommit=True) as connection:

        def working() -> list[int]:
            return [pid for (pid,) in connection.execute(WORKING, (APPLICATION,), prepare=True)]

        process = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PGAPPNAME": APPLICATION},
            **ACCOUNT.identity(),
        )
        try:
            while len(found := working()) < clients:
                if process.poll() is not None:
                    sys.exit(f"pgbench ended with {process.returncode}")
                time.sleep(LOOK_S)
            process.send_signal(signal.SIGSTOP)
            for slot in range(clients):
                page.set_word(slot, Word.STATE, State.RUNNING)
            yield Bare(page, process.pid, found, [], process)
        finally:
            process.kill()
            process.wait()


def one_round(servers: list[Server], clients: int, seconds: float, folder: Path, every: int) -> list[float]:
    """Logs of the ratios, watched to bare: transactions per second, CPU of pgbench and all CPU for each."""
    with ExitStack() as opened:
        ours = opened.enter_context(watched(servers[0], clients, folder, every, opened))
        theirs = opened.enter_context(bare(servers[1], clients, folder, opened))
        activity = Activity(opened.enter_context(pgstat.Monitor(servers[0].dsn(DATABASE))))
        sides = (theirs.side(servers[1], "bare"), ours.side(servers[0], "watched"))
        with drive(Orders(sides, SLICE_MS, SliceSeed(time.monotonic_ns(), 1, "cost")), ACCOUNT) as conductor:
            for each in (ours, theirs):
                each.begin(opened)
                each.page.words[Control.START_NS] = time.monotonic_ns()
            began_ns = ours.page.words[Control.START_NS]
            until_s = time.monotonic() + 2 * seconds
            while time.monotonic() < until_s:
                conductor.slices()
                with suppress(MonitorError):
                    activity.sample()
                time.sleep(ASK_S)
            # The bare one is not continued then; the launcher ends its step as soon as it sees the new length.
            theirs.page.words[Control.STOP] = 1
            ours.page.words[Control.END_NS] = 1
            while ours.page.word(0, Word.STATE) != State.DONE:
                time.sleep(LOOK_S)
        used = [each.used_us() for each in (ours, theirs)]
        ours_ns = client_gate.active_ns(ours.page, ours.page.word(0, Word.ENDED_NS)) - began_ns
        taken = [slice_times.slice_time(theirs.page, number) for number in range(slice_times.begun(theirs.page))]
        theirs_ns = sum(turn.closed_ns - turn.opened_ns for turn in taken if turn.closed_ns)
        ours.page.words[Control.RELEASE] = 1
        theirs_done = theirs.done()
        for launcher in ours.launchers:  # it corrects its counts once pgbench has ended
            launcher.wait(30)
        ours_done = sum(ours.page.word(slot, Word.STATEMENTS) for slot in range(clients))
    rates = math.log(ours_done / ours_ns) - math.log(theirs_done / theirs_ns)
    costs = (math.log(one / ours_done) - math.log(other / theirs_done) for one, other in zip(*used, strict=True))
    return [rates, *costs]


def warm_up(server: Server, clients: int, folder: Path) -> int:
    """One of how many transactions a run would log."""
    program, dsn = os.environ["PGBED_PGBENCH"], server.dsn(DATABASE)
    scripts = [Script("select-only")]
    argv = command.run(
        program, 18, Options(), scripts, str(folder), clients=clients, dsn=dsn, seed=1, seconds=WARM_SECONDS
    )
    done = subprocess.run(argv, check=True, capture_output=True, text=True, **ACCOUNT.identity())
    return Found.of(summary.parse(done.stdout)["tps"], 1).log_every


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="16.3-prebuilt")
    parser.add_argument("--clients", default="1,8,50")
    parser.add_argument("--seconds", type=float, default=10, help="of each pgbench and round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--log-every", type=int)
    asked = parser.parse_args()
    counts = [int(each) for each in asked.clients.split(",")]
    build = resolve.local_build(asked.server, Path(os.environ["PGBED_SERVERS"]) / asked.server)
    good = True
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="pgbed-cost-", dir="/tmp")))
        folder.chmod(0o777)
        servers = []
        for name in ("one", "two"):
            server = opened.enter_context(Server(build, Config("cost", SETTINGS, "test"), folder / name))
            server.create_database()
            call = command.initialize(os.environ["PGBED_PGBENCH"], Options(), server.dsn(DATABASE))
            subprocess.run(call, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **ACCOUNT.identity())
            servers.append(server)
        every = asked.log_every or warm_up(servers[0], sorted(counts)[len(counts) // 2], folder)
        print(f"1 of {every} transactions is logged")
        print(f"{'clients':>7} {'tps ratio':>24} {'pgbench CPU ratio':>24} {'all CPU ratio':>24}")
        for clients in counts:
            rounds = []
            for _ in range(asked.rounds):
                rounds.append(one_round(servers, clients, asked.seconds, folder, every))
                servers.reverse()
            ratios = [interval(logs) for logs in zip(*rounds, strict=True)]
            texts = (f"{ratio:.3f} [{low:.3f}, {high:.3f}]" for ratio, low, high in ratios)
            print(f"{clients:7}", *(f"{text:>24}" for text in texts), flush=True)
            good = good and ratios[0][2] >= GOAL
    print("load average at the end:", *(f"{load:.1f}" for load in os.getloadavg()), "on", os.cpu_count(), "CPUs")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
