"""Parts shared by the probes' tests: a compiler, and for the kernel, root and the tracing file system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from probes import bpftrace, helper, tracer
from probes.errors import ProbeError
from tests.support.observing import FUNCTIONS, Helper, Program, helper_with
from tests.support.programs import PLANNER, Compile, compiler


@pytest.fixture
def compile_c(tmp_path: Path) -> Compile:
    """Compiles C text to a program: compile_c(name, source, *flags)."""
    return compiler(tmp_path)


@pytest.fixture(scope="session")
def kernel() -> None:
    """Root and the tracing file system; fails without, as a suite that skips these tests says nothing."""
    if os.geteuid() != 0:
        pytest.fail("the probes' tests need root; run ./check as root", pytrace=False)
    helper.mount_tracefs()


@pytest.fixture(scope="session")
def helpers(kernel: None, new_folder: Callable[[], Path]) -> tuple[Helper, ...]:
    """The helper, and one for each bpftrace that PGBED_BPFTRACES names, separated by colons. Fails without bpftrace."""
    try:
        bpftrace.find()
    except ProbeError as error:
        pytest.fail(f"{error}; or run ./check, which installs it", pytrace=False)
    more = filter(None, os.environ.get("PGBED_BPFTRACES", "").split(":"))
    return (tracer.direct_command(), *(helper_with(Path(one), new_folder()) for one in more))


@pytest.fixture
def idle(compile_c: Compile, kernel: None) -> Iterator[Program]:
    """A program that can plan, and waits."""
    with Program(compile_c("server", PLANNER, *FUNCTIONS), 0, 10, 5) as program:
        yield program
