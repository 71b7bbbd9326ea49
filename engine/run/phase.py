"""The point that the steps of a cell have reached; interleaved cells meet there."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Progress of a cell. The caller waits after RUNNING (`StepRunner.rest`); interleaved cells meet at the others."""

    PREPARED = 1  # before all steps, in slices: the cluster is there
    STARTED = 2  # and the server
    CONNECTED = 3  # and its processes are known: they can be stopped
    LAUNCHED = 4  # a step that may be sliced: the process that will fork its clients has been started
    READY = 5  # such a step's clients stand at the barrier
    RUNNING = 6
    TOGETHER = 7  # what follows is done on all servers at the same time
    DONE = 8  # nothing is left to do; clients are still connected
    FINISHED = 9  # its totals are recorded
