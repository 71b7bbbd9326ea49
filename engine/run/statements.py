"""The SQL of a cell's steps: what precedes one, what runs in its background, or all that it consists of."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from engine.postgres import pgstat
from engine.postgres.cellserver import CellServer
from engine.postgres.session import abridged
from engine.postgres.statement import AsyncStatement
from engine.postgres.waiting import Waiting, wait_until
from engine.run.stop import StepFailed
from workloads.api.base import Maintenance

CHECKPOINT = "CHECKPOINT"
AVAILABLE = "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_buffercache'"
EVICT_TRIES = 50  # a background process may be writing a buffer
POLL_S = 0.02  # between checks whether statements have ended, outside measurement

Watched = TypeVar("Watched")


class StepStatements:
    """SQL statements on their own sessions; `waiting` may end them."""

    def __init__(self, server: CellServer, waiting: Waiting, opened: ExitStack) -> None:
        self._server, self._waiting, self._opened = server, waiting, opened
        self._background: list[AsyncStatement] = []

    def do(self, groups: Sequence[Sequence[str]]) -> None:
        """Run statements outside measurement: a group's at once, groups one after another."""
        for statements in groups:
            with ExitStack() as opened:
                sent = self._send(statements, opened)
                what = f"waiting for {abridged(', '.join(statements))} on {self._server.build.label}"
                wait_until(partial(_all_done, sent), math.inf, what, self._waiting)
            self._conclude(sent)

    def evict(self, server_version: int) -> bool:
        """Evict the workload's relations from shared buffers.

        False before 17, and for a build that comes without the extension that evicts.
        """
        if (sql := pgstat.question("evict", server_version)) is None:
            return False
        with self._server.connect() as connection:
            if connection.execute(AVAILABLE).fetchone() is None:
                return False
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_buffercache")
            for _ in range(EVICT_TRIES):
                (left,) = connection.execute(sql).fetchone() or (0,)
                if not left:
                    return True
                time.sleep(POLL_S)
        raise StepFailed(f"{left} buffers could not be evicted from shared buffers, as they were in use")

    def start_background(self, work: Maintenance) -> None:
        """Start statements that run during the next step; `poll_background` ends them."""
        for statements in work.background:
            for statement in statements:
                connection = self._server.connect()
                self._background.append(self._opened.enter_context(AsyncStatement(connection, statement)))
            wait_until(lambda: False, work.gap_s, f"waiting {work.gap_s:g} s before the step", self._waiting)

    def poll_background(self) -> None:
        """Close the sessions of finished background statements. Raises StepFailed if one has failed."""
        done = [statement for statement in self._background if statement.done()]
        self._background = [statement for statement in self._background if statement not in done]
        for statement in done:
            statement.close()
        self._conclude(done)

    def side_by_side(
        self, statements: Sequence[str], watch: Callable[[Callable[[], bool]], Iterator[Watched]]
    ) -> Iterator[Watched]:
        """Run statements at the same time until all are done. Raises StepFailed if one has failed."""
        with ExitStack() as opened:
            sent = self._send(statements, opened)
            yield from watch(partial(_all_done, sent))
        self._conclude(sent)

    def _send(self, statements: Sequence[str], opened: ExitStack) -> list[AsyncStatement]:
        """Send each statement on its own session, except for a CHECKPOINT that the role may not do."""
        wanted = [statement for statement in statements if statement != CHECKPOINT or self._server.may_checkpoint]
        return [opened.enter_context(AsyncStatement(self._server.connect(), statement)) for statement in wanted]

    def _conclude(self, ended: Sequence[AsyncStatement]) -> None:
        """Append the statements' messages to the cell's maintenance.log. Raises StepFailed if one has failed."""
        if ended:
            with (self._server.cell_dir / "maintenance.log").open("a") as log:
                for statement in ended:
                    log.writelines(f"{line}\n" for line in (statement.statement, *statement.notices))
        for statement in ended:
            if statement.error:
                raise StepFailed(statement.error)


def _all_done(sent: Sequence[AsyncStatement]) -> bool:
    return all(statement.done() for statement in sent)
