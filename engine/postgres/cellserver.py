"""The server of a cell as its steps use it: one that pgbed started, or an external server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.core.model import Build
from engine.postgres.session import ServerSession
from engine.postgres.waiting import Waiting
from engine.system.account import Account
from workloads.api.base import Kit


@dataclass(frozen=True, slots=True)
class Inside:
    """The inside of a server, which only its owner sees on its machine: the postmaster's pid, its cluster, its log."""

    pid: int
    data_dir: Path
    log_path: Path


class CellServer(Protocol):
    """A running server. `account` runs the cell's clients, `cell_dir` is the cell's folder in the run.

    An external server has no inside and no `data_folder`; to restart it, or to ask for its kit, raises ServerError.
    """

    build: Build
    cell_dir: Path
    account: Account

    waiting: Waiting

    @property
    def inside(self) -> Inside | None:
        """The part that is visible on the server's machine."""
        ...

    @property
    def folder(self) -> Path:
        """A private folder that clients may write to, removed with the cell."""
        ...

    @property
    def data_folder(self) -> Path | None:
        """A folder on the cluster's disk, where the server reads and writes files."""
        ...

    @property
    def client_fds(self) -> tuple[int, ...]:
        """File descriptors that clients must inherit to connect."""
        ...

    @property
    def may_checkpoint(self) -> bool: ...

    @property
    def left(self) -> str:
        """A sentence about objects that it could not drop at its end, or ""."""
        ...

    def record(self) -> dict[str, Any]: ...

    def create_database(self) -> None: ...

    def dsn(self) -> str: ...

    @property
    def pass_line(self) -> str:
        """The line of the password file that remote clients need, or ""."""
        ...

    def kit(self) -> Kit:
        """The kit with which a step makes clusters of its own."""
        ...

    def client_dsn(self, passfile: str = "") -> str:
        """The connection string of clients; their password, if they need one, is in `passfile`."""
        ...

    def restart(self) -> None:
        """Stop and start it, which empties its shared buffers."""
        ...

    def connect(self) -> ServerSession: ...

    def died_reason(self) -> str | None:
        """The end of the server, as far as known; None while it is alive."""
        ...
