"""Plays the engine's part for one step of the OLTP tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tests.support import steprun
from tests.support.steprun import StepResult, StepRun
from workloads.client.counter_page import Page
from workloads.oltp.options import Options
from workloads.oltp.spec import OltpSpec, role_list
from workloads.oltp.workload import WORKLOAD


@contextmanager
def running(dsn: str, step: dict[str, Any], options: Options, seed: int = 1) -> Iterator[StepRun]:
    """A step whose roles are being started; whatever is left of it is killed at the end."""
    roles = role_list(step["kind"], options)
    page = Page.create(len(roles))
    spec = OltpSpec(page_fd=page.fd, dsn=dsn, step=step, options=options, seed=seed, repeat=0)
    launcher = steprun.start_launcher("workloads.oltp.launch", page.fd, msgspec.json.encode(spec))
    try:
        yield StepRun(step["name"], page, roles, launcher)
    finally:
        launcher.kill()
        launcher.wait()


def run_step(dsn: str, step: dict[str, Any], options: Options, seed: int = 1) -> StepResult:
    with running(dsn, step, options, seed) as run:
        run.start()
        return run.finish()


def steps(options: Options) -> dict[str, dict[str, Any]]:
    """The steps of a plan, by name."""
    return {step["name"]: step for step in WORKLOAD.plan(options).record["steps"]}
