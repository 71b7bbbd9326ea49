"""Ends a step that is sliced by time early, once more of it would hardly narrow the builds' interval.

It checks the width of the difference within this pair of clusters, never the difference itself: to stop on that would
choose the moment at which it looks largest. All servers get the same end, a whole second ahead, so that their inserts
are as many, and as regular, as if the step had been planned so long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from engine.core.model import Cell
from engine.results.slice_ratio import TURNS, LogRatio, Sums, log_ratio, narrow_enough
from engine.slices.conductor import Slice
from workloads.base import Step

BASE = 0  # the place of the base among the servers
AHEAD_S = 0.3  # least lead of the end over all servers when it is set
POLL_S = 1.0  # between checks of the width
SECOND_NS = 1_000_000_000


class RunningStep(Protocol):
    """A running step as the rule sees it: see `engine.run.step.StepRunner`."""

    @property
    def cell(self) -> Cell: ...

    def worked_ns(self) -> int: ...

    def end_after(self, active_ns: int, text: str) -> None: ...


class PrecisionRule:
    """The rule for one running step, the base's runner first; `tau` is the scatter of log ratios between pairs."""

    def __init__(self, step: Step, runners: Sequence[RunningStep], tau: float) -> None:
        self._runners, self._tau = runners, tau
        self._blocks: list[dict[int, list[Slice]]] = [{} for _ in runners]
        self._due_s = 0.0
        self._step = step
        self._over = step.sliced != "time"  # work-mode steps never end early

    def add(self, slices: Iterable[Slice]) -> None:
        for slice in slices:
            self._blocks[slice.side].setdefault(slice.block, []).append(slice)

    def watch(self) -> None:
        """Check the width once a second; end the step when it is small enough."""
        if self._over or time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + POLL_S
        ratios = self._ratios()
        if not ratios or not all(narrow_enough(ratio, self._tau) for ratio in ratios):
            return
        self._over = True
        worked_s = max(runner.worked_ns() for runner in self._runners) / SECOND_NS
        end_s = math.floor(worked_s + AHEAD_S) + 1
        if end_s >= self._step.expected_s:
            return
        widest = max(ratio.variance or 0.0 for ratio in ratios)
        for runner in self._runners:
            runner.end_after(
                end_s * SECOND_NS,
                f"{self._step.name} ends after {end_s} s: known to ±{2 * math.sqrt(widest):.2%} for these clusters",
            )

    def _ratios(self) -> list[LogRatio]:
        """Each server's log ratio to the base over complete blocks; none if a server did nothing."""
        whole = [
            block for block in self._blocks[BASE] if all(len(side.get(block, ())) == TURNS for side in self._blocks)
        ]
        sides: list[Sums] = [
            (
                [sum(slice.ops for slice in side[block]) for block in whole],
                [sum(slice.counted_ns for slice in side[block]) for block in whole],
            )
            for side in self._blocks
        ]
        if not all(sum(work) and sum(time_ns) for work, time_ns in sides):
            return []
        base, *others = sides
        return [log_ratio(base, side) for side in others]
