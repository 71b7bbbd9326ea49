"""Interleaved cells: their servers run side by side and do each step together, in slices if the step allows it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from engine.core.model import Manifest
from engine.run.attempt import CellAttempt
from engine.run.phase import Phase
from engine.run.step import POLL_S, StepRunner
from engine.run.stop import StepFailed
from engine.slices.block_order import SliceSeed
from engine.slices.conductor import Orders
from engine.slices.drive import ConductorError, SliceStream, drive
from engine.slices.hold import held
from engine.system.account import Account

MEETINGS = (Phase.LAUNCHED, Phase.TOGETHER, Phase.FINISHED)


def run_interleaved(attempts: Sequence[CellAttempt], manifest: Manifest, account: Account) -> None:
    """Run the cells of a repeat side by side: sliced steps in slices, others one cell after the other.

    A cell that fails ends alone; the others continue unsliced, and their pair cannot be compared.
    """
    alone, left = partial(_alone, attempts), list(attempts)
    try:
        # Servers start at the same time: their autovacuum launchers wake at fixed times after that. Otherwise tables
        # would be vacuumed and analyzed in different steps, and a step may take twice as long with other statistics.
        for phase in (Phase.PREPARED, Phase.STARTED, Phase.CONNECTED):
            left = [attempt for attempt in left if alone(attempt, phase)]
        while left := [attempt for attempt in left if alone(attempt, *MEETINGS)]:
            # The launchers load their modules at the same time; their clients then connect one server after the other.
            left = [attempt for attempt in left if attempt.phase is not Phase.LAUNCHED or alone(attempt, Phase.READY)]
            ready = [attempt for attempt in left if attempt.phase is Phase.READY]
            if ready and len(ready) == len(attempts):
                _drive(ready, manifest, account)
            else:
                for attempt in ready:
                    alone(attempt, Phase.DONE)
            at_once = [attempt for attempt in left if attempt.phase is Phase.TOGETHER]
            while at_once := [attempt for attempt in at_once if attempt.advance() and attempt.phase is Phase.RUNNING]:
                time.sleep(POLL_S)
            left = [attempt for attempt in left if attempt.phase is not None]
    except Exception as error:  # of the conductor or the journal: each cell records it
        for attempt in attempts:
            attempt.fail(StepFailed(str(error)) if isinstance(error, ConductorError) else error)
    finally:
        for attempt in attempts:
            attempt.close()


def _alone(attempts: Sequence[CellAttempt], attempt: CellAttempt, *phases: Phase) -> bool:
    """Run one attempt to one of these phases, with the other servers stopped; False if it ends before."""
    runners = [other.runner for other in attempts if other is not attempt and other.phase is not None]
    processes_of_others = [runner.watched.sources.processes for runner in runners if runner is not None]
    attempt.idle_servers[:] = [processes for processes in processes_of_others if processes is not None]
    try:
        with held([processes.pid for processes in attempt.idle_servers]) as stop_new:
            while attempt.advance():
                if attempt.phase in phases:
                    return True
                stop_new()
                time.sleep(POLL_S)
        return False
    finally:
        attempt.idle_servers.clear()


def _drive(attempts: Sequence[CellAttempt], manifest: Manifest, account: Account) -> None:
    runners = [attempt.runner for attempt in attempts if attempt.runner is not None]
    places = {subject: place for place, subject in enumerate(manifest.subjects)}
    runners.sort(key=lambda runner: places[runner.cell.subject])  # the baseline first
    sliced = [runner.sliced for runner in runners if runner.sliced is not None]
    step, sides = sliced[0][0], tuple(side for _, side in sliced)
    seed = SliceSeed(manifest.design.seed, runners[0].cell.repeat, step.name)
    orders = Orders(sides, manifest.design.slice_ms, seed, step.sliced or "time", step.cut)
    with drive(orders, account) as conductor:
        left = list(attempts)
        while left := [attempt for attempt in left if attempt.advance() and attempt.phase is not Phase.DONE]:
            _keep(conductor, runners)
            time.sleep(POLL_S)
    _keep(conductor, runners)


def _keep(conductor: SliceStream, runners: Sequence[StepRunner]) -> None:
    for slice in conductor.slices():
        if (record := runners[slice.side].slices) is not None:  # else its cell has failed
            record.add(slice)
    for runner in runners:
        if runner.slices is not None:
            runner.slices.keep()
