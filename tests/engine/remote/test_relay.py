"""Words that the relay writes into the page here, from messages on the page there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.core.lines import LineError
from engine.remote.clock_offset import Offset
from engine.remote.relay import Relay, RemoteStep
from workloads.client.counter_page import Control, Page, State, Word

AHEAD_NS = 5_000_000_000_000


@pytest.fixture
def relay() -> Iterator[Relay]:
    page = Page.create(2)
    running = Relay(RemoteStep(page.fd, 2, -1, -1, "there", {}), page)
    running.offset = running.first = running.last = Offset(AHEAD_NS, 1000, 0)
    yield running
    page.close()


def message(page: Page, words: dict[tuple[int, Word], int], **more: Any) -> dict[str, Any]:
    places = [page.slot(slot) + word for slot, word in words]
    return {"words": [places, list(words.values())], "in_flight": [0, 0], **more}


def test_times_are_told_by_the_clock_here_and_counts_as_they_are(relay: Relay) -> None:
    page = relay.page
    words = {
        (0, Word.STATE): State.RUNNING, (0, Word.STARTED_NS): AHEAD_NS + 7, (0, Word.STATEMENTS): 12,
        (1, Word.ENDED_NS): AHEAD_NS + 9, (1, Word.LAST_ENDED_NS): 0, (1, Word.CLIENT_CPU_NS): AHEAD_NS,
    }  # fmt: skip
    answer = message(page, words, in_flight=[AHEAD_NS + 5, 0])
    relay.take(answer)
    assert page.word(0, Word.STARTED_NS) == 7 and page.word(1, Word.ENDED_NS) == 9
    assert page.word(0, Word.IN_FLIGHT_NS) == 5 and page.word(1, Word.IN_FLIGHT_NS) == 0
    assert page.word(0, Word.STATEMENTS) == 12 and page.word(1, Word.LAST_ENDED_NS) == 0
    assert page.word(1, Word.CLIENT_CPU_NS) == AHEAD_NS  # a duration
    assert page.word(0, Word.STATE) == State.RUNNING and not page.words[Control.STOP]
    relay.take({"in_flight": [AHEAD_NS + 8, AHEAD_NS + 6]})
    assert page.word(0, Word.IN_FLIGHT_NS) == 8 and page.word(1, Word.IN_FLIGHT_NS) == 6
    relay.take(message(page, {(1, Word.STATE): State.FAILED}, stop=1))
    assert page.words[Control.STOP] == 1 and page.word(1, Word.STATE) == State.FAILED


def test_a_hostile_message_counts_as_a_lost_connection(relay: Relay) -> None:
    before = bytes(relay.page.bytes)
    for answer in (
        {"words": [[3], [1]], "in_flight": [0, 0]},  # an order of the engine's
        {"words": [[relay.page.slot(2)], [1]], "in_flight": [0, 0]},
        {"words": [[-1], [1]], "in_flight": [0, 0]},
        {"words": [[relay.page.slot(0) + Word.STATE], [77]], "in_flight": [0, 0]},
        {"words": [[relay.page.slot(0) + Word.ROWS], [2**70]], "in_flight": [0, 0]},
        {"words": [[relay.page.slot(0) + Word.ROWS], ["many"]], "in_flight": [0, 0]},
        {"words": 5, "in_flight": [0, 0]},
        {},
    ):
        with pytest.raises(LineError, match="make no sense"):
            relay.take(answer)
    assert bytes(relay.page.bytes) == before
