"""The engine's own sessions: every connection attempt and every statement has a limit and is given up by a stop.

psycopg waits for an answer as long as the server likes to take: for a standby, for a lock, or because it is stopped.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, ClassVar, TypeVar

import psycopg
from psycopg import waiting as psycopg_waiting

from engine.core.clock import patient
from engine.core.text import visible
from engine.postgres.waiting import NOBODY, LimitedWait, Waiting

ANSWER_S = patient(600.0)
INTERVAL_S = 0.1  # between checks whether an answer is still wanted
SHOWN = 60  # characters of a statement
NO_HOST = "no host has this name: a part between its dots is empty or longer than 63 characters"

T = TypeVar("T")


class ServerSession(psycopg.Connection[Any]):
    """A connection to `server`, which reports to `waiting` while an answer is awaited; see `connect`."""

    server: ClassVar[str] = ""
    answer_s: ClassVar[float] = ANSWER_S
    waiting: ClassVar[Waiting] = NOBODY
    _statement = ""

    @classmethod
    def _connect_gen(cls, *args: Any, **kwargs: Any) -> Any:
        # The limit of each address is psycopg's own.
        wait = LimitedWait(f"connecting to {cls.server}", math.inf, cls.waiting)
        return _relayed(super()._connect_gen(*args, **kwargs), wait)

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> psycopg.Cursor[Any]:
        self._statement = shown(query, self)
        return super().execute(query, *args, **kwargs)

    def wait(self, gen: Generator[Any, Any, T], *_: Any, **__: Any) -> T:
        wait = LimitedWait(f"waiting for {self._statement} on {self.server}", self.answer_s, self.waiting)
        try:
            return psycopg_waiting.wait(_relayed(gen, wait), self.pgconn.socket, INTERVAL_S)
        except TimeoutError:
            self.pgconn.finish()  # later messages would answer nothing
            raise psycopg.OperationalError(f"no answer within {self.answer_s:g} s to: {self._statement}") from None
        except psycopg.Error:
            raise
        except BaseException:  # a stop, or Ctrl-C: psycopg would ask the server to cancel, and wait for that
            self.pgconn.finish()
            raise


def connect(
    conninfo: str,
    server: str = "",
    waiting: Waiting = NOBODY,
    *,
    answer_s: float = ANSWER_S,
    application_name: str = "pgbed",
    **parameters: Any,
) -> ServerSession:
    """An autocommit session, named so that samplers can tell it from the workload's. Raises psycopg.Error."""

    class Bound(ServerSession):  # psycopg connects in a method of the class
        pass

    Bound.server, Bound.answer_s, Bound.waiting = server or "the server", answer_s, waiting
    try:
        return Bound.connect(conninfo, autocommit=True, application_name=application_name, **parameters)
    except UnicodeError:  # psycopg resolves names on its own, and does not expect this
        raise psycopg.OperationalError(NO_HOST) from None


def shown(statement: Any, connection: psycopg.Connection[Any]) -> str:
    if isinstance(statement, bytes):
        return abridged(statement.decode(errors="replace"))
    return abridged(statement if isinstance(statement, str) else statement.as_string(connection))


def abridged(statement: str) -> str:
    words = visible(" ".join(statement.split())).lstrip("- ")  # ours begin with a comment that names the query
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}…"


def _relayed(gen: Generator[Any, Any, T], wait: LimitedWait) -> Generator[Any, Any, T]:
    ready = None
    while True:
        try:
            wanted = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer
        ready = yield wanted
        if not wait.goes_on():
            raise TimeoutError
