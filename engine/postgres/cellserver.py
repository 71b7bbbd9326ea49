"""The server of a cell, as whoever runs its steps knows it: one of pgbed's own, or one that was running already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg

from engine.core.model import Build
from engine.host.account import Account
from workloads.base import Kit


@dataclass(frozen=True, slots=True)
class Inside:
    """What of a server is visible only on its machine, and to its owner: the postmaster's pid, its cluster, its log."""

    pid: int
    data_dir: Path
    log_path: Path


class CellServer(Protocol):
    """A server that is up. `account` runs the cell's clients, `cell_dir` is the cell's folder in the run."""

    build: Build
    cell_dir: Path
    account: Account

    @property
    def inside(self) -> Inside | None:
        """None of a server that was running already: nothing but what it says itself is known of it."""
        ...

    @property
    def folder(self) -> Path:
        """A private folder that the clients may write to, removed with the cell."""
        ...

    @property
    def data_folder(self) -> Path | None:
        """A folder on the disk of the cluster, where the server reads and keeps files; None where it is not ours."""
        ...

    @property
    def client_fds(self) -> tuple[int, ...]:
        """Descriptors that clients must inherit, to connect."""
        ...

    @property
    def may_checkpoint(self) -> bool:
        """Whether its role may do a CHECKPOINT."""
        ...

    def record(self) -> dict[str, Any]:
        """How it is run, for the journal."""
        ...

    def create_database(self) -> None:
        """Creates the database that the cell works in."""
        ...

    def dsn(self) -> str:
        """The connection string of that database. There is no password in it."""
        ...

    @property
    def pass_line(self) -> str:
        """The line of a password file that clients on another host need; empty where they need none."""
        ...

    def kit(self) -> Kit:
        """What a step makes clusters of its own with. Raises ServerError where it was running already."""
        ...

    def client_dsn(self, passfile: str = "") -> str:
        """The connection string of clients, with the password, where they need one, in `passfile`."""
        ...

    def connect(self) -> psycopg.Connection[Any]:
        """An autocommit connection to that database."""
        ...

    def died_reason(self) -> str | None:
        """How it ended, as far as that can be known; None while it is alive."""
        ...
