"""The order in which servers that are up side by side run, and for how long.

A slice is one turn of one server. A block holds two slices of each, all of one length: an order and its mirror image,
so that every server has the same mean place in it and a drift that is linear in time adds the same to all. Lengths
vary from block to block, or else blocks would beat against whatever the machine or a server does at fixed intervals.
Steps with a fixed amount of work have slices of a number of rounds of statements instead, which take about as long.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.core.model import Subject

SHORTEST, LONGEST = 0.8, 1.2  # of a slice, as multiples of the length asked for
# Slices of equal work are as long as their rounds take: in which multiples of the length asked for they are left alone.
SHORT, LONG, TOO_LONG = 0.5, 2.0, 4.0
WARM_NS = 2_000_000  # of a slice, not counted: the first statements after a switch are slower
MAX_WARM = 0.05  # of a slice: more is said
MAX_IMBALANCE = 0.05  # of their time, in which some clients have made their rounds and others have not


@dataclass(frozen=True, slots=True)
class SliceSeed:
    """Seed of the blocks of a step: the plan's seed, the repeat, and the step's name."""

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
    """Yield the blocks of a step without end; the same for the same arguments, on every machine and Python.

    Two subjects: ABBA or BAAB by coin. More: the rows of a Williams design in a random order, each followed by its
    mirror image, then again in another; over k blocks (k odd: 2 k) every subject follows every other equally often.
    `slice_ms` is the middle of the lengths. Raises ValueError unless there are two or more subjects, all different.
    """
    if len(subjects) < 2 or len(set(subjects)) < len(subjects):
        raise ValueError("slices need two or more subjects, all different")
    return _blocks(tuple(subjects), seed, slice_ms)


def rounds_of(block: Block, rounds: int, slice_ms: float) -> int:
    """Return the rounds of each slice of a block, if a slice of `slice_ms` has `rounds`; at least 1."""
    return max(1, round(rounds * block.slice_ns / (slice_ms * 1e6)))


def next_rounds(rounds: int, length_ms: float, imbalance: float, slice_ms: float) -> int:
    """Return how many rounds slices should have, when `rounds` took `length_ms` at an `imbalance` (a fraction).

    Twice as many where slices are short or imbalanced: more rounds even out what clients do. Half as many where they
    are long, unless they would then be imbalanced; the range between is wide enough for neither to cause the other.
    """
    length = length_ms / slice_ms
    if length < SHORT or (length < LONG and imbalance > MAX_IMBALANCE):
        return 2 * rounds
    if length > TOO_LONG or (length > LONG and imbalance < MAX_IMBALANCE / 2):
        return max(1, rounds // 2)
    return rounds


def _blocks(subjects: tuple[Subject, ...], seed: SliceSeed, slice_ms: float) -> Iterator[Block]:
    # Of Python's generator only random() is promised to stay the same in later versions, so nothing else is used.
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
    """Return orders of 0 .. count-1 in which each number is in each place, and follows each other, equally often.

    There are `count` rows, or 2 `count` of an odd number: the second half is then the first in reverse. Williams 1949:
    0, 1, n-1, 2, n-2, … and its shifts modulo n.
    """
    first = [0]
    for low, high in zip(range(1, count), range(count - 1, 0, -1), strict=True):
        first += [low, high]
    shifts = tuple(tuple((number + shift) % count for number in first[:count]) for shift in range(count))
    return shifts if count % 2 == 0 else shifts + tuple(row[::-1] for row in shifts)
