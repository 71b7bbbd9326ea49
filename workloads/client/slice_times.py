"""Slices of a server whose clients ignore the gate: begin and end of each, and the work done by its end.

Such clients are stopped between the slices of their server. Their progress shows in their output, which arrives
after a slice's end. So the conductor records begin and end, and the clients' launcher adds the number of statements
done by then, once it knows. Slices count from 0; the newest `KEPT_TURNS` are kept. Each word of a slice has one writer,
and is written before the word that announces it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from workloads.client import client_gate
from workloads.client.counter_page import KEPT_TURNS, TURN_WORDS, Control, Page


class _Place(IntEnum):
    OPENED_NS = 0  # by the conductor
    CLOSED_NS = 1  # 0 while it lasts
    DONE = 2  # by the launcher
    TOLD = 3  # the slice, from 1, that DONE belongs to


class SliceTime(NamedTuple):
    """Begin and end of a slice; `closed_ns` is 0 while it lasts."""

    opened_ns: int
    closed_ns: int


def begun(page: Page) -> int:
    return page.words[Control.TURNS]


def begin(page: Page, opened_ns: int) -> int:
    """Record that the next slice has begun; return its number. For the conductor."""
    number = begun(page)
    place = _place(page, number)
    page.words[place + _Place.CLOSED_NS] = 0
    page.words[place + _Place.OPENED_NS] = opened_ns
    page.words[Control.TURNS] = number + 1
    return number


def end(page: Page, closed_ns: int) -> None:
    """Record that the newest slice is over. For the conductor."""
    page.words[_place(page, begun(page) - 1) + _Place.CLOSED_NS] = closed_ns


def slice_time(page: Page, number: int) -> SliceTime:
    place = _place(page, number)
    return SliceTime(page.words[place + _Place.OPENED_NS], page.words[place + _Place.CLOSED_NS])


def active_ns(page: Page, t_ns: int) -> int:
    """Like `client_gate.active_ns`, but also for times before the last pause, if there were slices."""
    number = begun(page) - 1
    if number < 0 or t_ns >= (opened_ns := slice_time(page, number).opened_ns):
        return client_gate.active_ns(page, t_ns)
    active = client_gate.active_ns(page, opened_ns)
    for earlier in range(number - 1, max(-1, number - KEPT_TURNS), -1):
        opened_ns, closed_ns = slice_time(page, earlier)
        active -= closed_ns - opened_ns
        if t_ns >= opened_ns:
            return active + min(t_ns, closed_ns) - opened_ns
    return active


def tell(page: Page, number: int, done: int) -> None:
    """Record the statements done, from the start of the step, by the end of a slice. For the launcher."""
    place = _place(page, number)
    page.words[place + _Place.DONE] = done
    page.words[place + _Place.TOLD] = number + 1


def reported(page: Page, number: int) -> int | None:
    """Statements done by the end of a slice; None while unknown, or if no longer kept."""
    if number < 0:
        return 0
    place = _place(page, number)
    return page.words[place + _Place.DONE] if page.words[place + _Place.TOLD] == number + 1 else None


def _place(page: Page, number: int) -> int:
    return page.turns + number % KEPT_TURNS * TURN_WORDS
