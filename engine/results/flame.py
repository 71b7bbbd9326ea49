"""Stacks of a role in a step, on or off a CPU, of one subject or two against each other: `bench flame --json`."""

from __future__ import annotations

from dataclasses import dataclass

from engine.results.section import Figure, Value, bounds_text, text


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """A function whose own CPU time per operation, without what it calls, differs by more than chance.

    Times are in us per operation; `change_us` is `us` less `base_us`, up to rounding, and lies between `low_us` and
    `high_us`. Of the bounds of all functions that a comparison names, at most 5% are wrong on average. `share` is the
    change as a part of the base's sampled CPU time per operation.
    """

    name: str
    base_us: float
    us: float
    change_us: float
    low_us: float
    high_us: float
    share: float

    @property
    def figure(self) -> Figure:
        return Figure(self.change_us, self.low_us, self.high_us, unit="change")

    @property
    def effect(self) -> str:
        return effect(self.figure)


def effect(change: Value) -> str:
    """`+0.80 us [0.52, 1.08]`, of the figure of a change."""
    return f"{text(change, 'change')} us {bounds_text(change, 'change')}"


@dataclass(frozen=True, slots=True)
class Sampled:
    """Samples of a subject, and its statements (null if not counted). Off the CPU, a sample is a microsecond."""

    name: str
    samples: int
    statements: int | None = None


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """`stacks` are [functions from the outermost on, joined by `;`, samples of the base, samples of the other].

    Multiply the base's samples by `scale` before comparing; `compared` is the basis of that: `per statement` or `as
    shares of all samples`. Without another subject, its samples are 0. `offcpu`: counts are microseconds off the CPU.

    `certain` are the frames (written as in `stacks`) and `certain_functions` the functions, by their own samples, that
    changed by more than chance: see `analysis.causes.stack_changes`. `innermost_only`: the binaries keep no frame
    pointers, so a stack is only the function that ran.

    `functions` are those whose CPU time per operation of the step differs significantly, over all processes of the
    server and from more samples than those of stacks.
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
    functions: tuple[FunctionChange, ...] = ()
