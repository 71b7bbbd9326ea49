"""The frame of launchers with pgbench: a step from standard input, run to its end, its state on the counters page."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from workloads.client.connection import SqlError
from workloads.client.counter_page import Control, Page, State, Word
from workloads.client.launcher import cancel
from workloads.client.process import Stopped, die_with_parent, name_process, stop_on_signals
from workloads.pgbench.program import PgbenchFailed


class OfStep(Protocol):
    @property
    def page_fd(self) -> int: ...

    @property
    def dsn(self) -> str: ...

    @property
    def step(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=OfStep)


def serve(of: type[S], run: Callable[[S, Page], None]) -> int:
    """Run a launcher on a step from standard input; return its exit code."""
    die_with_parent(os.getppid())
    name_process("pgbench launcher")
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=of)
    page = Page(spec.page_fd, int(spec.step.get("clients", 1)))
    stop_on_signals(page)
    state, code = State.STOPPED, 2
    try:
        run(spec, page)
        return 0
    except Stopped:
        pass
    except (PgbenchFailed, SqlError, OSError) as error:
        if not page.words[Control.STOP]:
            page.set_error(0, " ".join(str(error).split()))
            page.words[Control.STOP] = 1
            state, code = State.FAILED, 1
    for slot in range(page.roles):
        if page.word(slot, Word.STATE) != State.DONE:
            page.set_word(slot, Word.STATE, state)
    cancel(spec.dsn, page, range(page.roles))
    return code
