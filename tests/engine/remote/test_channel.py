"""Questions over a pair of pipes: an answer each, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from engine.core.lines import LineError
from engine.remote.channel import Channel

ANSWER = b'{"came_ns": 1, "left_ns": 2, "text": "so"}\n'


@pytest.fixture
def channel() -> Iterator[tuple[Channel, int]]:
    """The near ends, and the end at which answers are written."""
    (reading, there), (here, writing) = os.pipe(), os.pipe()
    yield Channel(reading, writing), there
    for descriptor in (reading, there, here, writing):
        os.close(descriptor)


def test_a_question_has_its_answer(channel: tuple[Channel, int]) -> None:
    os.write(channel[1], ANSWER)
    assert channel[0].ask({"do": "clock"})["text"] == "so"


@pytest.mark.parametrize("more", [ANSWER, b"You have mail\n", b"{"])
def test_an_unrequested_answer_is_not_the_next_one(channel: tuple[Channel, int], more: bytes) -> None:
    os.write(channel[1], ANSWER + more)
    with pytest.raises(LineError, match="more than it was asked for"):
        channel[0].ask({"do": "clock"})


@pytest.mark.parametrize(
    "line", [b"{}\n", b"[]\n", b'{"came_ns": 1e999, "left_ns": 2}\n', b"\xff\n", b"[" * 5000 + b"\n"]
)
def test_what_is_no_answer_is_a_fault_of_the_connection(channel: tuple[Channel, int], line: bytes) -> None:
    os.write(channel[1], line)
    with pytest.raises(LineError):
        channel[0].ask({"do": "clock"})
