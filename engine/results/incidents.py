"""Stalls of one client that overlap are one incident: its roles wait for each other; what stops one stops all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from engine.journal.totals import role_place

T = TypeVar("T")
FOREVER_NS = 2**63

# Causes that say little: nothing was found, or another role of the client (or the client itself, on that role's behalf)
# is waited for, whose own stall says why.
LEAST_TELLING = ("", "unknown", "partner", "client")
# A process that is stopped may hold what the other roles wait for, such as the lock for writing WAL; and they may have
# waited for a larger share of their stalls.
STOPPED, HELD_UP = "stopped", 0.5  # from this share on


def incidents(stalls: Iterable[T], span: Callable[[T], tuple[int, int, int | None]]) -> list[tuple[T, ...]]:
    """Group one client's stalls that overlap or touch. `span`: client, start and end (None while it lasts) in ns."""
    by_role: dict[int, list[list[T]]] = {}
    reached: dict[int, int] = {}
    for stall in sorted(stalls, key=lambda stall: span(stall)[1]):
        client, began_ns, ended_ns = span(stall)
        if client in reached and began_ns <= reached[client]:
            by_role[client][-1].append(stall)
        else:
            by_role.setdefault(client, []).append([stall])
        reached[client] = max(reached.get(client, 0), FOREVER_NS if ended_ns is None else ended_ns)
    groups = [tuple(group) for of_client in by_role.values() for group in of_client]
    return sorted(groups, key=lambda group: span(group[0])[1])


def ranked(stalls: Iterable[T], cause: Callable[[T], tuple[str, str, float]]) -> list[T]:
    """An incident's stalls, the most telling first. `cause`: role, likeliest cause's name ('': none) and score.

    Scores come from samples, so they are compared in tenths; ties go by role. One of a process that is stopped for half
    of it comes first.
    """

    def place(stall: T) -> tuple[int, float, tuple[int, str]]:
        role, name, score = cause(stall)
        telling = LEAST_TELLING.index(name) if name in LEAST_TELLING else len(LEAST_TELLING)
        holds = name == STOPPED and round(score, 1) >= HELD_UP
        return -telling - holds, -round(score, 1), role_place(role)

    return sorted(stalls, key=place)
