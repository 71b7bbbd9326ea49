"""Turns of a server whose clients know no gate: when each was, and how much had been done by its end, told late.

Such clients are stopped between the turns of their server. What they do is known from what they write, and that comes
later than a turn's end. So the conductor says when turns begin and end, and the clients' launcher adds how many
statements had been done by then, once it knows. Turns count from 0; the newest `KEPT` are there. Each word of a turn
has one writer, and is written before what says that it is there.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from workloads import gate
from workloads.page import KEPT_TURNS, TURN_WORDS, Control, Page


class _Place(IntEnum):
    """Words of a turn on the page."""

    OPENED_NS = 0  # by the conductor
    CLOSED_NS = 1  # 0 while it lasts
    DONE = 2  # by the launcher
    TOLD = 3  # the turn, from 1, that DONE is of


class Turn(NamedTuple):
    """When a turn began and ended; `closed_ns` is 0 while it lasts."""

    opened_ns: int
    closed_ns: int


def begun(page: Page) -> int:
    """How many turns have begun."""
    return page.words[Control.TURNS]


def begin(page: Page, opened_ns: int) -> int:
    """The next turn has begun; returns its number. For the conductor."""
    number = begun(page)
    place = _place(page, number)
    page.words[place + _Place.CLOSED_NS] = 0
    page.words[place + _Place.OPENED_NS] = opened_ns
    page.words[Control.TURNS] = number + 1
    return number


def end(page: Page, closed_ns: int) -> None:
    """The newest turn is over. For the conductor."""
    page.words[_place(page, begun(page) - 1) + _Place.CLOSED_NS] = closed_ns


def turn(page: Page, number: int) -> Turn:
    """One of those that are kept."""
    place = _place(page, number)
    return Turn(page.words[place + _Place.OPENED_NS], page.words[place + _Place.CLOSED_NS])


def active_ns(page: Page, t_ns: int) -> int:
    """A time as active time, also one before the last pause; as `gate.active_ns` where there have been no turns."""
    number = begun(page) - 1
    if number < 0 or t_ns >= (opened_ns := turn(page, number).opened_ns):
        return gate.active_ns(page, t_ns)
    active = gate.active_ns(page, opened_ns)
    for earlier in range(number - 1, max(-1, number - KEPT_TURNS), -1):
        opened_ns, closed_ns = turn(page, earlier)
        active -= closed_ns - opened_ns
        if t_ns >= opened_ns:
            return active + min(t_ns, closed_ns) - opened_ns
    return active


def tell(page: Page, number: int, done: int) -> None:
    """So many statements had been done when a turn ended, from the step's begin on. For the launcher."""
    place = _place(page, number)
    page.words[place + _Place.DONE] = done
    page.words[place + _Place.TOLD] = number + 1


def told(page: Page, number: int) -> int | None:
    """How many statements had been done when a turn ended; None while that is not known, or no more."""
    if number < 0:
        return 0
    place = _place(page, number)
    return page.words[place + _Place.DONE] if page.words[place + _Place.TOLD] == number + 1 else None


def _place(page: Page, number: int) -> int:
    return page.turns + number % KEPT_TURNS * TURN_WORDS
