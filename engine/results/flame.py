"""Stacks of a role in a step, on or off a CPU, of one subject or two against each other: `bench flame --json`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampled:
    """Whose samples, how many, and in how many statements; None where these were not counted.

    Of time off the CPU a sample is a microsecond.
    """

    name: str
    samples: int
    statements: int | None = None


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """`stacks` are [the functions from the outermost on, joined by `;`, samples of the base, samples of the other].

    The base's are to be multiplied by `scale` before they are compared with the other's; `compared` says what that
    makes equal: `per statement`, or `as shares of all samples`. Where there is no other, its samples are 0.
    `offcpu`: counted are microseconds off the CPU.
    `certain` are the frames (functions from the outermost on, joined by `;`) and `certain_functions` the functions, by
    what they took themselves, that changed by more than chance: see `engine.analysis.stack_changes`.
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
    offcpu: bool = False
    certain: tuple[str, ...] = ()
    certain_functions: tuple[str, ...] = ()
