"""How a step ends before its time: it fails, or the run is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

STOPPED = 130  # the exit code of an engine that was asked to stop


class StepFailed(Exception):
    """A step that cannot be finished; its text says why. Ends the cell, not the run."""


class Interrupted(Exception):
    """The run was asked to stop; its text says by what."""


@dataclass(slots=True)
class Stop:
    """The request to stop, set by a signal handler. `poll_control` looks whether it comes over the control socket."""

    reason: str = ""
    poll_control: Callable[[], None] = lambda: None

    def check(self) -> None:
        """Raises Interrupted once the run was asked to stop."""
        self.poll_control()
        if self.reason:
            raise Interrupted(self.reason)
