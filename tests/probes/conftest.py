"""What the probes' tests share: a compiler, and for those that need the kernel, root and the tracing file system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from observing import FUNCTIONS, Program
from programs import PLANNER, Compile, compiler

from probes import helper


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
def bpftraces(kernel: None) -> tuple[Path, ...]:
    """The bpftrace on PATH, and those that PGBED_BPFTRACES names (separated by colons) for trying other versions."""
    found = shutil.which("bpftrace")
    if found is None:
        pytest.fail("bpftrace not found on PATH; run ./check, which installs it", pytrace=False)
    more = filter(None, os.environ.get("PGBED_BPFTRACES", "").split(":"))
    return (Path(found), *map(Path, more))


@pytest.fixture
def open_folder(new_folder: Callable[[], Path]) -> Path:
    """An empty folder that other users can enter."""
    return new_folder()


@pytest.fixture
def idle(compile_c: Compile, kernel: None) -> Iterator[Program]:
    """A program that can plan, and waits."""
    with Program(compile_c("server", PLANNER, *FUNCTIONS), 0, 10, 5) as program:
        yield program
