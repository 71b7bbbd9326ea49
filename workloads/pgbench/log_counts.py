"""Counters of the page from lines of pgbench's log: one slot for each of its clients."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workloads.client import histogram
from workloads.client.counter_page import OUTCOMES, RESPONSE_OFFSET, SERVICE_OFFSET, Page, Word
from workloads.client.process import BOUNDS_NS
from workloads.pgbench.log import LogLine
from workloads.pgbench.slice_log import LoggedTurns

# Plain numbers, for use on each line: looking up an enumeration's member takes longer than adding.
STATEMENTS, LAST_ENDED_NS, SERVICE_NS, MAX_NS, LATE_MAX_NS, BUCKET_0 = map(
    int, (Word.STATEMENTS, Word.LAST_ENDED_NS, Word.SERVICE_NS, Word.MAX_NS, Word.LATE_MAX_NS, Word.BUCKET_0)
)

QUANTILES = (0.5, 0.95, 0.99)


@dataclass(slots=True)
class _LoggedClient:
    """A client: `number` and `last_ns` of its last logged transaction, `base` of its words, `done` by the log."""

    base: int
    before: int = 0  # `number` when the step began
    number: int = 0
    first_number: int = 0
    first_active_ns: int = 0
    last_active_ns: int = 0
    last_ns: int = 0
    ended_otherwise: int = 0  # transactions that failed or were skipped
    done: int = 0


@dataclass(slots=True)
class LogCounts:
    """Counts for a step on its page. A line stands for `every` transactions; times are by the monotonic clock.

    `wall_ns` is how far the log's clock is ahead of it. Until `began_ns` is set, only the clients' positions are kept.
    If not every transaction is logged, the numbers of logged ones give the total. `slices` are those of an interleaved
    step. `scripts` are the names of those whose times are kept apart. `times_ms` lists the time of each transaction,
    unless it is None.
    """

    page: Page
    every: int
    wall_ns: int
    limited: bool  # under --rate: there are response times
    late_us: float  # the latency limit; 0 for none
    began_ns: int = 0
    ended_ns: int = 0  # 0 during the step; transactions that end later are not counted
    buffered: int = 0  # lines of each client that pgbench may hold back
    lines: int = 0
    slices: LoggedTurns | None = None
    scripts: tuple[str, ...] = ()
    times_ms: list[float] | None = None
    _clients: list[_LoggedClient] = field(init=False)
    _by_script: list[Counter[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._clients = [_LoggedClient(self.page.slot(slot)) for slot in range(self.page.roles)]
        self._by_script = [Counter() for _ in self.scripts]

    @property
    def last_ns(self) -> int:
        """The end of the last logged transaction; 0 without one."""
        return max((client.last_ns for client in self._clients), default=0)

    def thin(self, factor: int) -> None:
        """Take only one line of `factor` from now on, which stands for that many times more transactions."""
        self.every *= factor
        self.buffered = -(-self.buffered // factor)

    def take(self, line: LogLine) -> None:
        slot, number, outcome, _, ended_us, _, retries, _ = line
        if not 0 <= slot < len(self._clients):
            return
        client, ended_ns = self._clients[slot], ended_us * 1000 - self.wall_ns
        if not self.began_ns or ended_ns < self.began_ns:
            client.before = client.number = max(client.number, number)
            return
        if self.ended_ns and ended_ns > self.ended_ns:
            return
        self.lines += 1
        client.number = number = max(client.number, number)
        active_ns = self._active_ns(ended_ns)
        if not client.last_ns:
            client.first_active_ns, client.first_number = active_ns, number
        client.last_ns, client.last_active_ns = ended_ns, active_ns
        if retries:
            self._add(slot, Word.RETRIED, self.every)
            self._add(slot, Word.RETRIES, self.every * retries)
        if outcome:
            client.ended_otherwise += self.every
            self._add(slot, OUTCOMES[outcome], self.every)
        else:
            self._count_times(line, client.base, ended_ns)
        client.done = done = max(0, number - client.before - client.ended_otherwise)
        words, base = self.page.words, client.base
        if done > words[base + STATEMENTS]:
            words[base + STATEMENTS] = done
        words[base + LAST_ENDED_NS] = ended_ns
        if self.slices is not None:
            self.slices.add(slot, ended_ns, done)

    def project(self, now_ns: int) -> None:
        """Add each client's estimated work since its last line, at its rate, as far as it may not be in the log yet."""
        most, active_ns = self.every * self.buffered + self.every - 1, self._active_ns(now_ns)
        words = self.page.words
        for client in self._clients if most else ():  # frequent, and there may be hundreds
            known_ns, since_ns = client.last_active_ns - client.first_active_ns, active_ns - client.last_active_ns
            if known_ns > 0 and since_ns > 0:
                missing = (client.number - client.first_number) * since_ns // known_ns
                done = client.done + (missing if missing < most else most)
                if done > words[client.base + STATEMENTS]:
                    words[client.base + STATEMENTS] = done

    def settle(self) -> None:
        """Replace projected counts by the log's, which is complete."""
        for slot, client in enumerate(self._clients):
            self.page.set_word(slot, Word.STATEMENTS, client.done)

    def correct(self, done: int) -> None:
        """Set the true number of transactions since the step began, over all clients."""
        counted = [self.page.word(slot, Word.STATEMENTS) for slot in range(self.page.roles)]
        total = sum(counted)
        corrected = [count * done // total if total else 0 for count in counted]
        corrected[0] += done - sum(corrected)
        for slot, count in enumerate(corrected):
            self.page.set_word(slot, Word.STATEMENTS, max(0, count))

    @property
    def before(self) -> int:
        """Transactions before the step began, as far as known."""
        return sum(client.before for client in self._clients)

    def _active_ns(self, t_ns: int) -> int:
        return t_ns if self.slices is None else self.slices.active_ns(t_ns)

    def _count_times(self, line: LogLine, base: int, ended_ns: int) -> None:
        slot, _, _, time_us, _, lag_us, _, script = line
        begun_ns = ended_ns - time_us * 1000
        if begun_ns < self.began_ns:
            return  # it was in flight while pgbench stood at the barrier, or was due before that
        if self.slices is not None and self.slices.cuts(begun_ns, ended_ns):
            self._add(slot, Word.DROPPED, self.every)
            return
        if self.late_us and time_us > self.late_us:
            self._add(slot, Word.LATE, self.every)
        service_us = max(0, time_us - lag_us)
        if self.times_ms is not None:
            self.times_ms.append(service_us / 1000)
        service_ns, words, every = service_us * 1000, self.page.words, self.every
        if script < len(self._by_script):
            self._by_script[script][histogram.index(time_us)] += every
        words[base + SERVICE_OFFSET + histogram.index(service_us)] += every
        words[base + BUCKET_0 + bisect_left(BOUNDS_NS, service_ns)] += every
        words[base + SERVICE_NS] += service_ns * every
        if service_ns > words[base + MAX_NS]:
            words[base + MAX_NS] = service_ns
        if self.limited:
            words[base + RESPONSE_OFFSET + histogram.index(time_us)] += every
            if time_us * 1000 > words[base + LATE_MAX_NS]:
                words[base + LATE_MAX_NS] = time_us * 1000

    def script_times(self) -> list[dict[str, Any]]:
        """The name of each script, its transactions with a time, and quantiles of their response times."""
        times = []
        for name, counts in zip(self.scripts, self._by_script, strict=True):
            times_us = histogram.quantiles_us(counts, QUANTILES)
            quantiles = {
                f"p{q * 100:.0f}_ms": us / 1000 for q, us in zip(QUANTILES, times_us, strict=True) if us is not None
            }
            times.append({"name": name, "transactions": counts.total(), **quantiles})
        return times

    def _add(self, slot: int, word: Word, count: int) -> None:
        self.page.set_word(slot, word, self.page.word(slot, word) + count)


@dataclass(frozen=True, slots=True)
class Stops:
    """Running time of pgbench's clients by the clock in a sliced step, and the length of each stop."""

    whole_ns: int
    each_ns: tuple[int, ...]


def report(
    summary: Mapping[str, Any],
    counting: LogCounts,
    stopped_ns: int,
    stops: Stops | None = None,
    *,
    unended: bool = False,
) -> dict[str, Any]:
    """The step's report; `statements` as in `workloads.api.base.Launch`.

    `stopped_ns` is the time that pgbench was stopped, which statements' times include. `unended`: it had not ended in
    time, so that counts are those of the log, which may lack the last transactions. In slices, statements' times
    consist mostly of `stops`, which are subtracted.
    """
    pgbench = {name: value for name, value in summary.items() if name != "statements"}
    entries = {
        "pgbench": pgbench,
        "log_lines": counting.lines,
        "log_every": counting.every,
        "stopped_ms": stopped_ns / 1e6,
    }
    if "statements" in summary and stops is not None:
        entries["statements"] = _without_stops(summary, counting.page.roles, stops)
    elif "statements" in summary and counting.slices is None:
        entries["statements"] = [
            _with_stop(statement, summary, counting.page.roles, stopped_ns) for statement in summary["statements"]
        ]
    if counting.scripts:
        entries["scripts"] = counting.script_times()
    if counting.times_ms:
        entries["times_ms"] = counting.times_ms
    return entries | ({"unended": True} if unended else {})


def _with_stop(
    statement: Mapping[str, Any], summary: Mapping[str, Any], clients: int, stopped_ns: int
) -> dict[str, Any]:
    """A statement with `stop_ms`: the excess of its mean time, if it was the one that was stopped."""
    return {**statement, "stop_ms": stopped_ns / 1e6 * clients / max(1, _times_run(statement, summary))}


def _times_run(statement: Mapping[str, Any], summary: Mapping[str, Any]) -> int:
    scripts, place = summary.get("scripts", []), statement["script"] - 1
    return (scripts[place].get("transactions") if place < len(scripts) else summary.get("processed")) or 0


def _without_stops(summary: Mapping[str, Any], clients: int, stops: Stops) -> list[dict[str, Any]]:
    """Statements with their times without the stops, and `error_ms`: the standard error of these.

    At each stop each client is in one of its statements, chosen by chance in proportion to the time spent there. So all
    statements are too long by the same factor, up to the (binomial) error of that draw: for a statement with the share
    p of the time, and n clients, it is sqrt((1 - p) / (p n) x sum of squares of the stops), in parts of the whole time.
    `clock_ms` is pgbench's figure.
    """
    active_ns = stops.whole_ns - sum(stops.each_ns)
    spent = [statement["mean_ms"] * _times_run(statement, summary) for statement in summary["statements"]]
    if active_ns <= 0 or sum(spent) <= 0:
        return []
    squares = sum(each_ns**2 for each_ns in stops.each_ns)
    corrected = []
    for statement, spent_ms in zip(summary["statements"], spent, strict=True):
        share, mean_ms = spent_ms / sum(spent), statement["mean_ms"] * active_ns / stops.whole_ns
        part = math.sqrt((1 - share) / (share * clients) * squares) / stops.whole_ns if share else 0.0
        corrected.append(
            {**statement, "mean_ms": mean_ms, "error_ms": mean_ms * part, "clock_ms": statement["mean_ms"]}
        )
    return corrected
