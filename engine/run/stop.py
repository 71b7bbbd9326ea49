"""How a step ends before its time: it fails, or the run is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

STOPPED = 130  # the exit code of an engine that was asked to stop


class StepFailed(Exception):
    """A step cannot be finished; the text says why. Ends the cell, not the run."""


class Interrupted(Exception):
    pass


@dataclass(slots=True)
class Stop:
    """A request to stop, set by a signal handler or by `poll_control`, which polls the control socket."""

    reason: str = ""
    poll_control: Callable[[], None] = lambda: None

    def check(self) -> None:
        self.poll_control()
        if self.reason:
            raise Interrupted(self.reason)
