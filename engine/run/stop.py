"""The end of a step before its time: it fails, or the run is asked to stop."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from engine.core.clock import patient

# Exit codes of engines, beside those of `bench`: one was asked to stop, could not write its files, has a fault.
STOPPED, NO_ROOM, BROKEN = 130, 74, 70
END_S = patient(10.0)  # from the request until everything has ended, whatever the server does


class StepFailed(Exception):
    """A step cannot be finished; the text says why. Ends the cell, not the run."""


class Interrupted(Exception):
    pass


@dataclass(slots=True)
class Stop:
    """A request to stop, set by a signal handler or by `poll_control`, which polls the control socket."""

    reason: str = ""
    poll_control: Callable[[], None] = lambda: None
    until_s: float = math.inf

    def ask(self, reason: str) -> None:
        if not self.reason:
            self.reason, self.until_s = reason, time.monotonic() + END_S

    def left_s(self) -> float:
        """Seconds in which everything must have ended; infinite until a stop is requested."""
        with suppress(sqlite3.Error):  # of a command's record: a command must end all the same
            self.poll_control()
        return self.until_s - time.monotonic()

    def check(self) -> None:
        self.poll_control()
        if self.reason:
            raise Interrupted(self.reason)
