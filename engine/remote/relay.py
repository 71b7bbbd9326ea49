"""The launcher of a step with remote clients: mirrors their page in the local one.

It reads a `RemoteStep` from standard input; to the engine it is a launcher like any other. Once a second, just before
the engine samples, it fetches all changed words; in between, how long statements have been in flight. It converts times
to this machine's clock.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from typing import Any

import msgspec

from engine.core.lines import Fault, LineError
from engine.remote import clock_offset
from engine.remote.channel import Channel
from engine.remote.clock_offset import Offset, Trip
from workloads.client.counter_page import (
    CONTROL_WORDS,
    ERROR_BYTES,
    READ_OFFSET_NS,
    SLOT_WORDS,
    Control,
    Page,
    State,
    Word,
)
from workloads.client.process import die_with_parent, name_process, stop_on_signals

SECOND_NS = 1_000_000_000
LEAD_NS = 20_000_000  # by which words are fetched before the engine reads them
AGES_MS = 200  # between polls of statements in flight
HERE_S = 0.002  # between checks of the engine's orders, where clients wait for one
NEWS_MS = 100
TIMES = frozenset({Word.STARTED_NS, Word.ENDED_NS, Word.IN_FLIGHT_NS, Word.LAST_ENDED_NS})


class RemoteStep(msgspec.Struct, frozen=True):
    """One step: its page here, the pipes to the host, and the request that starts its clients there."""

    page_fd: int
    roles: int
    reading: int
    writing: int
    host: str
    question: dict[str, Any]


class Relay:
    def __init__(self, spec: RemoteStep, page: Page) -> None:
        self.spec, self.page = spec, page
        self.channel = Channel(spec.reading, spec.writing)
        self._trips: deque[Trip] = deque(maxlen=clock_offset.ROUND_TRIPS)
        self._full_ns = 0  # of the next full fetch
        self._all_done = False

    def run(self) -> int:
        """Run to the step's end; return the exit code of the launcher there. Raises LineError."""
        words = self.page.words
        words[Control.ELSEWHERE] = 1
        self.first = self.last = self.offset = self._measured()
        words[Control.LATENCY_NS] = 2 * self.first.error_ns
        self.channel.ask(self.spec.question)
        while True:
            full, wait_ms = self._turn()
            orders = {word.name: words[word] for word in (Control.STOP, Control.RELEASE)}
            start_ns = self.offset.there(words[Control.START_NS])
            question = {"do": "poll", "full": full, "wait_ms": wait_ms, Control.START_NS.name: start_ns, **orders}
            answer, trip = self.channel.timed(question)
            self._trips.append(trip)
            self.offset = clock_offset.best(self._trips)
            self.take(answer)
            if "ended" in answer:
                return self._conclude(answer["ended"])

    def _measured(self) -> Offset:
        offset = self.channel.offset()
        if why := clock_offset.uncertain(offset):
            raise LineError(Fault.MALFORMED, why)
        return offset

    def _states(self) -> list[int]:
        return [self.page.word(slot, Word.STATE) for slot in range(self.page.roles)]

    def _turn(self) -> tuple[bool, float]:
        """Wait until a request is due; return whether to ask for all words, and how long to wait for news there."""
        words, states = self.page.words, self._states()
        started = words[Control.START_NS]
        if not started and min(states) < State.READY:
            return False, NEWS_MS
        if not started or (min(states) >= State.DONE and not words[Control.RELEASE]):
            order = Control.RELEASE if started else Control.START_NS
            until_s = time.monotonic() + AGES_MS / 1000
            while not words[order] and not words[Control.STOP] and time.monotonic() < until_s:
                time.sleep(HERE_S)
            return False, 0
        if min(states) >= State.DONE or words[Control.STOP]:
            return False, NEWS_MS
        now_ns, trip_ns = time.monotonic_ns(), 2 * self.offset.error_ns
        if not self._full_ns:
            self._full_ns = started + SECOND_NS + READ_OFFSET_NS - LEAD_NS - trip_ns
        left_ns = self._full_ns - now_ns
        if left_ns > trip_ns + SECOND_NS // 1000:
            return False, min(AGES_MS, (left_ns - trip_ns) / 1e6)
        self._full_ns += SECOND_NS * (1 + max(0, -left_ns) // SECOND_NS)
        return True, 0

    def take(self, answer: dict[str, Any]) -> None:
        """Write an answer to the page: states last, because a reader that sees an end takes the counts as final."""
        page, words, most = self.page, self.page.words, CONTROL_WORDS + self.page.roles * SLOT_WORDS
        try:
            places, values = answer.get("words", ([], []))
            states = {}
            for place, value in zip(places, values, strict=True):
                if not CONTROL_WORDS <= place < most:
                    raise ValueError(place)
                word = (place - CONTROL_WORDS) % SLOT_WORDS
                if word == Word.STATE:
                    states[place] = State(value)
                elif word not in TIMES:
                    words[place] = value
            if states and not self._all_done:
                self._see_end(states)
            for place, value in zip(places, values, strict=True):
                if (place - CONTROL_WORDS) % SLOT_WORDS in TIMES:
                    words[place] = self.offset.here(value)
            for slot, value in enumerate(answer["in_flight"][: page.roles]):
                page.set_word(slot, Word.IN_FLIGHT_NS, self.offset.here(value))
            if answer.get("stop"):
                words[Control.STOP] = 1
            for place, state in states.items():
                words[place] = state
        except (ValueError, LookupError, TypeError, OverflowError):
            raise LineError(Fault.MALFORMED, "its counters make no sense") from None

    def _see_end(self, states: dict[int, State]) -> None:
        """Measure the clock again once all have done their work: it converts the time of the end."""
        slots = range(self.page.roles)
        now = [states.get(self.page.slot(slot) + Word.STATE, self.page.word(slot, Word.STATE)) for slot in slots]
        if any(state != State.DONE for state in now):
            return
        self._all_done = True
        self.last = self.offset = self._measured()
        if why := clock_offset.unsteady(self.first, self.last):
            raise LineError(Fault.MALFORMED, why)

    def _conclude(self, ended: dict[str, Any]) -> int:
        report, errors, code = str(ended["report"]), str(ended["errors"]), int(ended["code"])
        sys.stderr.write(errors)
        try:
            record = json.loads(report) if report.strip() else {}
            report = json.dumps({**record, "client_clock": clock_offset.record(self.first, self.last)})
        except (ValueError, TypeError, RecursionError):
            pass  # its reader reports it
        sys.stdout.write(report)
        return code


def main() -> int:
    die_with_parent(os.getppid())
    name_process("clients' relay")
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=RemoteStep)
    page = Page(spec.page_fd, spec.roles)
    stop_on_signals(page)
    try:
        return Relay(spec, page).run()
    except LineError as error:
        text = f"the clients' host {spec.host}: {error}"[: ERROR_BYTES - 1]
        sys.stderr.write(f"{text}\n")
        page.set_error(0, text)
        page.words[Control.STOP] = 1
        page.set_word(0, Word.STATE, State.FAILED)
        return 1


if __name__ == "__main__":
    sys.exit(main())
