"""A cell on an external server: a database is created for it and dropped; nothing else is touched.

Each created object is marked: a comment names the run and holds a random word, which is also in the cell's folder.
Objects without the mark are never dropped, not even when another engine cleans up after a crash.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from engine.core.errors import UserError
from engine.core.model import Build, Config, ExternalServers
from engine.core.record import converted, parsed
from engine.postgres import external_queries, session
from engine.postgres.cellserver import Inside
from engine.postgres.external_server import ExternalServer, check_empty, check_schema, look, one_line
from engine.postgres.session import ServerSession
from engine.postgres.waiting import NOBODY, Waiting
from engine.system.account import Account, unprivileged
from engine.system.files import read_plain
from engine.system.server_folders import SOCKET_DIR_PREFIX, ServerError, socket_base
from workloads.api.base import Kit

RECORD = "database.json"  # in a cell's folder, as long as its database is there
RECORD_MAX_BYTES = 4096
MARK_TABLE = "pgbed_mark"
MADE = re.compile(r"pgbed_[0-9a-z_]{1,50}")
STATEMENT_TIMEOUT = "SET statement_timeout = '180s'"  # for creating and dropping databases
LAST_S = 1.0  # of the time for ending the run, in which nothing is dropped any more
AGAIN_S = 10.0  # how long to retry a vanished server, to drop the database
# A role's objects in schema public of a given database; indexes go with their tables.
OWN_RELATIONS = """
SELECT c.oid::regclass::text, CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                              WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END
FROM pg_class c
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND relname <> %s
  AND pg_get_userbyid(relowner) = current_user AND NOT relispartition
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                  AND d.deptype IN ('e', 'a', 'i'))
"""


class LeftBehind(UserError):
    pass


@dataclass(frozen=True, slots=True)
class Made:
    """A database, or tables in a given one, created on a server and marked with the comment `mark`."""

    build: str
    database: str
    mark: str
    given: bool = False


@dataclass(eq=False)
class ExternalCell:
    """An external server for one cell of a run. A context manager: see `CellServer`.

    `conninfo` is complete (`engine.postgres.external_server`). `note` is called with changes there since planning.
    """

    build: Build
    config: Config
    use: ExternalServers
    conninfo: str = field(repr=False)
    run: str
    cell: str
    cell_dir: Path
    _: KW_ONLY
    note: Callable[[str], None] = lambda _: None
    account: Account = field(default_factory=unprivileged)
    waiting: Waiting = NOBODY

    def __post_init__(self) -> None:
        self.left = ""  # what could not be dropped, in words
        self.database = self.use.scratch_database or database_name(self.run, self.cell)
        self._found: ExternalServer | None = None
        self._folder: Path | None = None
        self._fds: tuple[int, ...] = ()
        self._open = ""

    def __enter__(self) -> ExternalCell:
        try:
            self._found = self._look()
            self._prepare()
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._drop()
        finally:
            self._let_go()

    # -- as a CellServer

    @property
    def inside(self) -> Inside | None:
        return None

    @property
    def folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    @property
    def data_folder(self) -> None:
        return None

    @property
    def client_fds(self) -> tuple[int, ...]:
        return self._fds

    @property
    def may_checkpoint(self) -> bool:
        return self.use.checkpoint

    def record(self) -> dict[str, Any]:
        assert self._found is not None
        server = self._found
        return {
            "external": server.address,
            "version": server.facts.built,
            "started": server.facts.started,
            "role": server.role,
            "may_see_all": server.facts.may_see_all,
            "database": self.database,
            "database_given": bool(self.use.scratch_database),
            "checkpoint": self.may_checkpoint,
            "settings": dict(server.settings),
            "account": self.account.name,
        }

    def create_database(self) -> None:
        """Create and mark the cell's database; only mark a given one. Raises UserError if it exists or is not empty."""
        token = f"pgbed run {self.run}, cell {self.cell}: {secrets.token_hex(8)}"
        created = Made(self.build.label, self.database, token, bool(self.use.scratch_database))
        try:
            if created.given:
                self._mark(created)
            else:
                self._create(created)
            with self._session(self.dsn()) as connection:
                check_schema(self.build.label, connection)
        except psycopg.Error as error:
            raise UserError(f"{self.build.label}: database {self.database}: {one_line(error)}") from None

    def dsn(self) -> str:
        return make_conninfo(self._open, dbname=self.database)

    def client_dsn(self, passfile: str = "") -> str:
        return self.dsn()

    def restart(self) -> None:
        raise ServerError("an external server is not restarted")

    def kit(self) -> Kit:
        raise ServerError("an external server cannot make clusters")

    pass_line: ClassVar[str] = ""

    def connect(self) -> ServerSession:
        return session.connect(self.dsn(), self.build.label, self.waiting)

    def died_reason(self) -> str | None:
        return None  # its clients notice

    # -- the parts

    def _session(self, conninfo: str, answer_s: float | None = None) -> ServerSession:
        return external_queries.connect(conninfo, answer_s, self.waiting, self.build.label)

    def _look(self) -> ExternalServer:
        """Identify the server again; it must be the one that the run began with."""
        server, label = look(self.build.label, self.conninfo, waiting=self.waiting), self.build.label
        if server.build.digest != self.build.digest:
            raise UserError(f"{label}: this is not the server, or not the version, that the run began with")
        ours, now = dict(self.config.settings), dict(server.settings)
        changed = sorted(name for name in {*ours, *now} if ours.get(name) != now.get(name))
        if changed:
            self.note(f"settings of {label} have changed since the run was planned: {', '.join(changed)}")
        return server

    def _prepare(self) -> None:
        """Make the clients' folder, and keep the password in memory that only they inherit."""
        try:
            self._folder = Path(tempfile.mkdtemp(prefix=SOCKET_DIR_PREFIX, dir=socket_base(self.account)))
            link = self.cell_dir / "socket"  # by it `kill_leftover` finds the folder after a crash
            link.unlink(missing_ok=True)
            link.symlink_to(self._folder)
            self.account.chown(self._folder)
        except OSError as error:
            raise UserError(f"no folder for clients can be made: {error.strerror}; see PGBED_SOCKETS") from None
        parts: dict[str, Any] = {**conninfo_to_dict(self.conninfo)}
        password = parts.pop("password", None)
        if password is not None:
            fd = os.memfd_create("pgbed-pass")
            self._fds = (fd,)
            escaped = str(password).replace("\\", "\\\\").replace(":", "\\:")
            os.write(fd, f"*:*:*:*:{escaped}\n".encode())
            os.fchmod(fd, 0o600)
            if self.account.switch:
                os.fchown(fd, self.account.uid, self.account.gid)
            parts["passfile"] = f"/proc/self/fd/{fd}"
        self._open = make_conninfo(**parts, fallback_application_name="pgbed")

    def _let_go(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds = ()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            (self.cell_dir / "socket").unlink(missing_ok=True)
            self._folder = None

    def _create(self, created: Made) -> None:
        with self._session(self._open, external_queries.MAKING_S) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (created.database,)).fetchone():
                raise UserError(f"{created.build}: there is a database {created.database} that this cell did not make")
            _keep(self.cell_dir, created)
            name = sql.Identifier(created.database)
            connection.execute(STATEMENT_TIMEOUT)
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
            connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, created.mark))

    def _mark(self, created: Made) -> None:
        with self._session(self.dsn(), external_queries.MAKING_S) as connection:
            check_empty(created.build, connection, created.database)
            _keep(self.cell_dir, created)
            table = sql.Identifier(MARK_TABLE)
            with connection.transaction():
                connection.execute(sql.SQL("CREATE TABLE public.{} ()").format(table))
                connection.execute(sql.SQL("COMMENT ON TABLE public.{} IS {}").format(table, created.mark))

    def _drop(self) -> None:
        """Drop created objects, else record them in `left`. A server that has gone may come back in a moment."""
        until_s = time.monotonic() + min(AGAIN_S, self.waiting.left_s() - LAST_S)
        while True:
            try:
                clear(self.cell_dir, self.conninfo, replace(self.waiting, check=self._check_left))
                return
            except LeftBehind as error:
                if time.monotonic() > until_s or not isinstance(error.__cause__, psycopg.OperationalError):
                    self.left = f"{error}{'; bench resume drops it' if error.__cause__ else ''}"
                    return
            time.sleep(0.5)

    def _check_left(self) -> None:
        if self.waiting.left_s() < LAST_S:
            raise LeftBehind(
                f"database {self.database} on {self.build.label} was not dropped before the run had to end; "
                "bench resume drops it"
            )


def database_name(run: str, cell: str) -> str:
    """The run's start, a hash, and the cell's number."""
    began, number = re.sub(r"\D", "_", run[:15]), re.sub(r"\D", "", cell.partition("-")[0])
    return f"pgbed_{began}_{hashlib.sha256(run.encode()).hexdigest()[:8]}_{number}"


def left_in(run: Path) -> dict[Path, Made]:
    """Objects that cells of a run created and did not drop, by the cells' folders. Raises UserError."""
    return {path.parent: _made(path) for path in sorted((run / "cells").glob(f"*/{RECORD}"))}


def clear(cell_dir: Path, conninfo: str, waiting: Waiting = NOBODY) -> str:
    """Drop an object of a cell, if it bears the cell's mark; returns a description or "". Raises LeftBehind."""
    path = cell_dir / RECORD
    if not path.exists():
        return ""
    created = _made(path)
    database = created.database if created.given else conninfo_to_dict(conninfo).get("dbname")
    try:
        with external_queries.connect(
            make_conninfo(conninfo, dbname=database), external_queries.MAKING_S, waiting, created.build
        ) as connection:
            connection.execute(STATEMENT_TIMEOUT)
            dropped = _clear_given(connection, created) if created.given else _drop_database(connection, created)
    except psycopg.Error as error:
        what = f"tables in database {created.database}" if created.given else f"database {created.database}"
        raise LeftBehind(f"{what} on {created.build} cannot be dropped: {one_line(error)}") from error
    path.unlink(missing_ok=True)
    return dropped


def _drop_database(connection: psycopg.Connection[Any], created: Made) -> str:
    statement = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
    row = connection.execute(statement, (created.database,)).fetchone()
    if row is None:
        return ""
    if row[0] != created.mark:
        raise LeftBehind(
            f"database {created.database} on {created.build} does not bear this run's mark, so it is not dropped: "
            f"look into it, drop it yourself, and remove {RECORD} in the cell's folder"
        )
    # Not WITH (FORCE), which a role may not use while autovacuum is at work there; without it, DROP ends autovacuum.
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pg_has_role(usesysid, 'MEMBER')",
        (created.database,),
    )
    connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(created.database)))
    return f"database {created.database} on {created.build}"


def _clear_given(connection: psycopg.Connection[Any], created: Made) -> str:
    row = connection.execute(
        "SELECT obj_description(to_regclass(%s), 'pg_class')", (f"public.{MARK_TABLE}",)
    ).fetchone()
    if row is None or row[0] is None:
        return ""
    if row[0] != created.mark:
        raise LeftBehind(
            f"database {created.database} on {created.build} bears another run's mark: its tables are not dropped"
        )
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid() "
        "AND application_name ~ '^pgbed'"
    )
    for name, kind in connection.execute(OWN_RELATIONS, (MARK_TABLE,)).fetchall():
        connection.execute(f"DROP {kind} IF EXISTS {name} CASCADE")  # as the server quotes it
    connection.execute(sql.SQL("DROP TABLE public.{}").format(sql.Identifier(MARK_TABLE)))
    return f"tables in database {created.database} on {created.build}"


def _made(path: Path) -> Made:
    try:
        created = converted(parsed(read_plain(path, RECORD_MAX_BYTES), str(path)), Made, str(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if not created.given and not MADE.fullmatch(created.database):
        raise UserError(f"{path}: database {created.database} was not made by pgbed")
    return created


def _keep(cell_dir: Path, created: Made) -> None:
    """Record an object that is about to be created, so that any clean-up knows of it."""
    path = cell_dir / RECORD
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.write(msgspec.json.encode(created))
        file.flush()
        os.fsync(file.fileno())
