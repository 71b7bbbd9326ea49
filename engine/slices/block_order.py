"""The order in which servers side by side run, and for how long.

A slice is one turn of one server. A block holds two slices of each, all of one length: an order and its mirror image,
so that every server has the same mean place and a linear drift adds the same to all. Lengths vary from block to block,
as blocks would otherwise beat against whatever the machine or a server does at fixed intervals. In steps with a fixed
amount of work a slice is a number of rounds of statements, which take about as long.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.core.model import Subject

SHORTEST, LONGEST = 0.8, 1.2  # of a slice, as multiples of the length asked for
# Slices of equal work last as long as their rounds; lengths within these multiples are left alone.
SHORT, LONG, TOO_LONG = 0.5, 2.0, 4.0
LEAST_WHOLE_MS = 50.0  # least length of the slices of statements that outlast them: all of it is counted
WARM_NS = 2_000_000  # uncounted start of a slice: the first statements after a switch are slower
MAX_IMBALANCE = 0.05  # of their time with some clients done with their rounds and others not


@dataclass(frozen=True, slots=True)
class SliceSeed:
    plan: int
    repeat: int
    step: str


@dataclass(frozen=True, slots=True)
class Block:
    """`ordinal` counts from 0, `order` lists the turns (2 k places), `slice_ns` is the length of each turn."""

    ordinal: int
    order: tuple[Subject, ...]
    slice_ns: int


def blocks(subjects: Sequence[Subject], seed: SliceSeed, slice_ms: float) -> Iterator[Block]:
    """Yield the blocks of a step endlessly; the same for the same arguments, on every machine and Python.

    Two subjects: ABBA or BAAB by coin. More: the rows of a Williams design in random order, each followed by its mirror
    image, then again in another order; over k blocks (k odd: 2 k) every subject follows every other equally often.
    `slice_ms` is the middle of the lengths. Raises ValueError unless there are two or more subjects, all different.
    """
    if len(subjects) < 2 or len(set(subjects)) < len(subjects):
        raise ValueError("slices need two or more subjects, all different")
    return _blocks(tuple(subjects), seed, slice_ms)


def rounds_of(block: Block, rounds: int, slice_ms: float) -> int:
    """The rounds of each slice of a block, if a slice of `slice_ms` has `rounds`; at least 1."""
    return max(1, round(rounds * block.slice_ns / (slice_ms * 1e6)))


def next_rounds(rounds: int, length_ms: float, imbalance: float, slice_ms: float) -> int:
    """The rounds of the next slices, when `rounds` took `length_ms` at an `imbalance` (a fraction).

    Twice as many if slices are short or imbalanced: more rounds even out the clients' work. Half as many if they are
    long, unless that would imbalance them; the range between is wide enough that neither causes the other.
    """
    length = length_ms / slice_ms
    if length < SHORT or (length < LONG and imbalance > MAX_IMBALANCE):
        return 2 * rounds
    if length > TOO_LONG or (length > LONG and imbalance < MAX_IMBALANCE / 2):
        return max(1, rounds // 2)
    return rounds


def _blocks(subjects: tuple[Subject, ...], seed: SliceSeed, slice_ms: float) -> Iterator[Block]:
    # Python promises the same sequence across versions for random() only.
    draw = random.Random(f"{seed.plan}/{seed.repeat}/{seed.step}").random
    for ordinal, row in enumerate(_rows(len(subjects), draw)):
        slice_ns = round((SHORTEST + (LONGEST - SHORTEST) * draw()) * slice_ms * 1e6)
        half = tuple(subjects[place] for place in row)
        yield Block(ordinal, half + half[::-1], slice_ns)


def _rows(count: int, draw: Callable[[], float]) -> Iterator[tuple[int, ...]]:
    design = williams(count)
    while True:
        if count == 2:
            yield design[draw() < 0.5]
        else:
            yield from sorted(design, key=lambda _: draw())


def williams(count: int) -> tuple[tuple[int, ...], ...]:
    """Orders of 0 .. count-1 in which each number is in each place, and follows each other, equally often.

    `count` rows, or 2 `count` if it is odd: the second half is then the first in reverse. Williams 1949: 0, 1, n-1, 2,
    n-2, … and its shifts modulo n.
    """
    first = [0]
    for low, high in zip(range(1, count), range(count - 1, 0, -1), strict=True):
        first += [low, high]
    shifts = tuple(tuple((number + shift) % count for number in first[:count]) for shift in range(count))
    return shifts if count % 2 == 0 else shifts + tuple(row[::-1] for row in shifts)
