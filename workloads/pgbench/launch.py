"""The launcher of a step with pgbench: starts one pgbench, reads its log, and keeps the page's words for each client.

pgbench knows no barrier: it begins as soon as its clients have connected. So it is stopped (SIGSTOP) at that moment,
and continued when the step begins; its work before that is not counted, and statements in flight meanwhile have no
latency. Under --rate it is not stopped: transactions that fell due meanwhile would all be done at once when it
continues. At the end it is stopped again, so that the last samples are taken with all connections open, and then told
by SIGALRM, as by its own --time, to end and to print its summary. In an interleaved step, the conductor continues and
stops it between begin and end; its --time, which would keep running, is longer than any step.
"""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from workloads.api.base import CLIENT_FOLDER
from workloads.client import client_gate
from workloads.client.counter_page import READ_OFFSET_NS, Control, Page, State, Word
from workloads.client.launcher import cancel
from workloads.client.process import check_stop, clock
from workloads.pgbench import command, summary
from workloads.pgbench.backends import Watching, first_backends
from workloads.pgbench.initialization import initialize
from workloads.pgbench.launcher import serve
from workloads.pgbench.log import parse
from workloads.pgbench.log_counts import LogCounts, Stops, report
from workloads.pgbench.program import APPLICATION, PgbenchFailed, PgbenchProcess
from workloads.pgbench.scripts import timed
from workloads.pgbench.slice_log import LoggedTurns, logged_by_line
from workloads.pgbench.spec import MOST_LINES_PER_S, PgbenchSpec

CONNECTED_EVERY_S = 0.002  # between two checks how many clients have connected
# Between two readings of the log: often if turns or another workload's end must be noticed, and before the engine reads
# the counts; otherwise seldom, since waking up costs more than the reading.
OFTEN_MS, SELDOM_MS = 20, 250
# This long before the engine reads the counts they are updated, possibly several times, since this process may have to
# wait for a CPU; and at this interval if the engine comes late.
FRESH_NS, PROJECTED_EVERY_NS = 60_000_000, 250_000_000
DENSITY_AFTER_NS = 2_000_000_000  # into a step, when the number of lines per second has settled
BARRIER_EVERY_S = 0.002
BUFFERED_LINES = 130  # of 32 bytes or more in a block of 4 KiB
MOST_LISTED = 1000  # transactions of a step whose times are reported one by one
END_TIMEOUT_S = 10.0  # for the transactions in flight at the end


@dataclass(eq=False)
class PgbenchStep:
    spec: PgbenchSpec
    page: Page
    folder: Path
    halted_ns: int = 0  # when pgbench was stopped, if it is
    stopped_ns: int = 0  # its total stopped time
    projected_ns: int = 0  # when the counts were last updated
    sliced: bool = False  # others continue and stop it, too
    connected_ns: int = 0  # when all clients had connected, and began
    thinnable: bool = False  # lines of the log may be skipped
    taken_every: int = 1  # one of this many lines
    left_out: int = 0  # lines since the last one that was taken

    def run(self) -> dict[str, Any]:
        """Run the step to its end; return its report. Raises Failed or Stopped."""
        spec, options, version = self.spec, self.spec.options, self.spec.version
        self.clients = int(spec.step["clients"])
        self.timed = not spec.step["transactions"]
        argv = command.run(
            spec.program,
            version,
            options,
            spec.scripts,
            str(self.folder),
            clients=self.clients,
            dsn=spec.dsn,
            seed=spec.seed,
            transactions=spec.step["transactions"] or None,
        )
        log = ["--log", f"--log-prefix={self.folder / 'log'}"]
        log += [f"--sampling-rate={1 / spec.log_every:.12g}"] if spec.log_every > 1 else []
        self.counting = LogCounts(
            self.page,
            spec.log_every,
            time.time_ns() - clock(),
            options.rate is not None,
            (options.latency_limit or 0.0) * 1000,
            scripts=tuple(script.name for script in spec.scripts) if len(spec.scripts) > 1 else (),
        )
        began_ns = clock()
        argv = [argv[0], *log, *argv[1:]]
        threads, by_line = min(options.jobs, self.clients), spec.log_by_line
        self.counting.buffered = 0 if by_line else -(-BUFFERED_LINES * threads // self.clients)
        self.logged_ns = [0] * threads  # the last transaction in the log of each ended then
        with PgbenchProcess(argv, self.folder, threads, by_line, waiting=options.connect) as self.pgbench:
            backends = [0] * self.clients if options.connect else self._await_connected()
            for slot, backend in enumerate(backends):
                self.page.set_word(slot, Word.CLIENT_PID, self.pgbench.pid)
                self.page.set_word(slot, Word.BACKEND_PID, backend)
                self.page.set_word(
                    slot, Word.CONNECT_NS, 0 if options.connect else (clock() - began_ns) // self.clients
                )
            self._await_start()
            self._work()
            return self._finish()

    def _await_connected(self) -> list[int]:
        """Wait until all clients have connected, and stop pgbench; return their backends in order of their start."""
        with contextlib.closing(Watching(self.spec.dsn, APPLICATION)) as watching:
            setting_up = first_backends(self.pgbench.has_opened_logs, watching.backends, self._check_soon)
            while True:
                self._check()
                if len(self._of_clients(watching, setting_up)) >= self.clients:
                    self.halt()
                    time.sleep(CONNECTED_EVERY_S)
                    backends = self._of_clients(watching, setting_up)
                    if len(backends) == self.clients:
                        return backends
                    self.go_on()
                time.sleep(CONNECTED_EVERY_S)

    def _check_soon(self) -> None:
        self._check()
        time.sleep(CONNECTED_EVERY_S)

    def halt(self) -> None:
        """Stop pgbench, except under --rate."""
        if self.spec.options.rate is None:
            self.pgbench.send(signal.SIGSTOP)
            self.halted_ns = clock()

    def go_on(self) -> None:
        """Continue it, even if it was stopped before it began, such as for new connections: no time of its own."""
        self.pgbench.send(signal.SIGCONT)
        if self.halted_ns:
            self.stopped_ns += clock() - self.halted_ns
            self.halted_ns = 0

    def _of_clients(self, watching: Watching, setting_up: set[int]) -> list[int]:
        return [backend for backend in watching.backends() if backend not in setting_up]

    def _await_start(self) -> None:
        self._set_states(State.READY)
        while not self.page.words[Control.START_NS]:
            self._check()
            self._read()
            time.sleep(BARRIER_EVERY_S)
        self.start_ns = self.counting.began_ns = self.page.words[Control.START_NS]
        while clock() < self.start_ns:
            time.sleep(0.0005)
        # Gates are shut before a step in slices begins; if one has been opened since, there was a pause before.
        self.sliced = not self.page.words[Control.GATE] or self.page.words[Control.PAUSED_NS] > 0
        if self.sliced:
            self.counting.slices = LoggedTurns(self.page, self.start_ns, self.spec.log_every)
        every_one = not self.timed and self.spec.log_every == 1
        if every_one and int(self.spec.step["transactions"]) * self.clients <= MOST_LISTED:
            self.counting.times_ms = []
        self.thinnable = self.spec.log_thinned and self.timed and not self.sliced  # else the log gives turns or ends
        self._read()
        for slot in range(self.clients):
            self.page.set_word(slot, Word.STARTED_NS, clock())
        self._set_states(State.RUNNING)
        if self.sliced:  # the conductor continues it, or already has
            self.connected_ns = self.halted_ns
            self.stopped_ns, self.halted_ns = self.stopped_ns + self.start_ns - self.halted_ns, 0
        else:
            self.go_on()

    def _work(self) -> None:
        """Read the log until the time is over, or pgbench has done its transactions."""
        stood_still = False
        while not self.timed or self._left_ns() > 0:
            stands_still = bool(self.page.words[Control.PAUSED_SINCE_NS])
            if self.pgbench.has_ended(self._pause_ms()):
                break
            if not (stood_still and stands_still):  # nothing arrives during another server's turn
                self._read()
                self.thin(clock() - self.start_ns)
                self._project(clock(), at_once=stands_still)
            stood_still = stands_still
            check_stop(self.page)
        if self.timed:
            self._check()
            self.pgbench.send(signal.SIGSTOP)
            self.halted_ns = clock()
            ended_ns = self.counting.ended_ns = clock()
            self._read()
            self.counting.project(ended_ns)
        else:
            if self.pgbench.code:
                raise PgbenchFailed(self.pgbench.reason(self.spec.scripts))
            now_ns = clock()
            self._read()
            self.counting.settle()
            self._correct(0)
            complete = self.spec.log_every == 1
            ended_ns = (complete and self.counting.last_ns) or now_ns  # pgbench's shutdown is not part of the step
        for slot in range(self.clients):
            self.page.set_word(slot, Word.ENDED_NS, ended_ns)
        self._set_states(State.DONE)

    def thin(self, since_ns: int) -> None:
        """Check once whether the step is so much faster than the warm-up that its log has too many lines."""
        if self.thinnable and since_ns >= DENSITY_AFTER_NS:
            self.thinnable = False
            self.taken_every = math.ceil(self.counting.lines * 1e9 / since_ns / MOST_LINES_PER_S) or 1
            self.counting.thin(self.taken_every)

    def _pause_ms(self) -> int:
        until_fresh_ms = (self._until_read_ns(clock()) - FRESH_NS) // 1_000_000
        pause_ms = OFTEN_MS if self.sliced else min(SELDOM_MS, max(OFTEN_MS, until_fresh_ms))
        return max(1, min(pause_ms, self._left_ns() // 1_000_000)) if self.timed else pause_ms

    def _until_read_ns(self, now_ns: int) -> int:
        return (self.start_ns + READ_OFFSET_NS - now_ns) % 1_000_000_000

    def _project(self, now_ns: int, at_once: bool) -> None:
        """Estimate the transactions missing from the log, if a reading is imminent: this is slow for many clients."""
        if at_once or self._until_read_ns(now_ns) < FRESH_NS or now_ns - self.projected_ns > PROJECTED_EVERY_NS:
            self.counting.project(now_ns)
            self.projected_ns = now_ns

    def _left_ns(self) -> int:
        length_ns = int(self.spec.step["seconds"]) * 1_000_000_000
        return length_ns - (client_gate.active_ns(self.page, clock()) - self.start_ns)

    def _finish(self) -> dict[str, Any]:
        """Let pgbench end once the engine has taken its samples; return the report, with pgbench's output."""
        while not self.page.words[Control.RELEASE]:
            if self.sliced:  # the conductor may have been about to continue it when the step ended
                self.pgbench.send(signal.SIGSTOP)
            time.sleep(BARRIER_EVERY_S)
        if self.sliced:
            self.stopped_ns += self.page.words[Control.PAUSED_NS]
        halted_ns, continued_ns = self.halted_ns, clock()
        if self.timed:
            self.pgbench.send(signal.SIGALRM)
            self.go_on()
            deadline = time.monotonic() + END_TIMEOUT_S
            while not self.pgbench.has_ended(OFTEN_MS) and time.monotonic() < deadline:
                self._read()
            if self.pgbench.code is None:  # a transaction outlasts any patience: pgbench printed no summary
                self.counting.settle()  # to the logged counts: the rest was an estimate
                cancel(self.spec.dsn, self.page, range(self.clients))
                return report({}, self.counting, self.stopped_ns, unended=True)
            if self.pgbench.code:
                self._set_states(State.FAILED)
                sys.stderr.write(f"{self.pgbench.reason(self.spec.scripts)}\n")
                raise PgbenchFailed(self.pgbench.reason(self.spec.scripts))
            self._read()
            self.counting.settle()
            # In a closed loop each client had one transaction in flight when the step ended.
            if not self.spec.options.rate:
                self._correct(self.clients)
        stops = None
        if self.counting.slices is not None:
            self.counting.slices.finish()
            each_ns = self.counting.slices.stops_ns(self.connected_ns, halted_ns, continued_ns)
            stops = Stops(clock() - self.connected_ns, each_ns)
        result = summary.parse(self.pgbench.output.replace(f"{self.folder}/", ""))
        return report(result, self.counting, self.stopped_ns, stops)

    def _correct(self, in_flight: int) -> None:
        # The log says it; otherwise the sum includes work after the step's end.
        if self.spec.log_every == 1:
            return
        processed = summary.parse(self.pgbench.output).get("processed")
        if processed is not None:
            self.counting.correct(processed - self.counting.before - in_flight)

    def _read(self) -> None:
        lag, retries = self.spec.options.rate is not None, self.spec.options.max_tries > 1
        threads, slices = self.pgbench.lines(), self.counting.slices
        if slices is not None:
            slices.look()
        for thread, texts in enumerate(threads):
            line = None
            for text in self.needed(texts):
                if (transaction := parse(text, lag=lag, retries=retries)) is not None:
                    line = transaction
                    self.counting.take(line)
            if line is not None:
                self.logged_ns[thread] = line.ended_us * 1000 - self.counting.wall_ns
        if slices is not None:
            slices.tell(logged_by_line(clock()) if self.spec.log_by_line else min(self.logged_ns))

    def needed(self, lines: list[bytes]) -> list[bytes]:
        """The lines that a thinned log keeps: every `taken_every`-th, counted across calls."""
        if self.taken_every == 1:
            return lines
        first = self.taken_every - 1 - self.left_out
        self.left_out = (self.left_out + len(lines)) % self.taken_every
        return lines[first :: self.taken_every]

    def _check(self) -> None:
        check_stop(self.page)
        if self.pgbench.has_ended():
            few = f"pgbench did {self.spec.step['transactions']} transactions before they could be measured: give more"
            raise PgbenchFailed(self.pgbench.reason(self.spec.scripts) if self.pgbench.code else few)

    def _set_states(self, state: State) -> None:
        for slot in range(self.page.roles):
            self.page.set_word(slot, Word.STATE, state)
        client_gate.tell_change(self.page)


def _run(spec: PgbenchSpec, page: Page) -> None:
    with TemporaryDirectory(prefix=CLIENT_FOLDER, dir=spec.folder) as folder:
        for script in (*spec.scripts, *([spec.setup] if spec.setup is not None else [])):
            if not script.builtin:
                (Path(folder) / script.name).write_text(timed(script))
        if spec.step["kind"] == "init":
            warm_up = initialize(spec, page, Path(folder))
            sys.stdout.buffer.write(msgspec.json.encode({"found": warm_up}))
        else:
            sys.stdout.buffer.write(msgspec.json.encode(PgbenchStep(spec, page, Path(folder)).run()))


if __name__ == "__main__":
    sys.exit(serve(PgbenchSpec, _run))
