"""Sampled stacks of a role in a step, of one subject or of two against each other: what `bench flame --json` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampled:
    """Whose samples, how many, and in how many statements; None where these were not counted."""

    name: str
    samples: int
    statements: int | None = None


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """`stacks` are [the functions from the outermost on, joined by `;`, samples of the base, samples of the other].

    The base's are to be multiplied by `scale` before they are compared with the other's; `compared` says what that
    makes equal: `per statement`, or `as shares of all samples`. Where there is no other, its samples are 0.
    `innermost_only`: the binaries keep no frame pointers, so a stack is the function that ran and nothing else.
    """

    step: str
    role: str
    base: Sampled
    other: Sampled | None
    scale: float
    compared: str
    innermost_only: bool
    stacks: tuple[tuple[str, int, int], ...]
