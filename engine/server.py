"""One PostgreSQL server over one fresh cluster: initialised, configured, started, watched, removed.

The server is a direct child of the engine and asks the kernel to shut it down (SIGQUIT) when the engine is
gone, so that not even `kill -9` of the engine leaves a server behind. It leads its own session: Ctrl-C in
the terminal does not reach it.

    with Server(build, config, cell_dir) as server:
        server.create_database()
        with server.connect("ib") as connection: ...
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from engine.account import Account, bound_to_engine, make_passable, unprivileged
from engine.cluster import (
    PATIENCE_S,
    SOCKET_DIR_PREFIX,
    Progress,
    end_processes,
    last_words,
    living_server,
    pidfile,
    remove_folder,
)
from engine.configs import quoted
from engine.errors import UserError
from engine.model import Build, Config
from engine.serverlog import line_prefix

StopMode = Literal["smart", "fast", "immediate"]

SUPERUSER = "bench"
DATABASE = "ib"
PORT = 5432
START_TIMEOUT_S = 120.0
IMMEDIATE_TIMEOUT_S = 10.0  # then it is killed: a server that was stopped by a signal obeys no other
CONNECT_TIMEOUT_S = 10
SOCKET_PATH_MAX = 107  # sun_path holds 108 bytes with the closing zero

# The reference takes the locale from the environment; here it is fixed, so that two machines get one cluster.
INITDB_ARGS = ("--data-checksums", "--encoding=UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=reject")
# What the bench reads from the log; a config may say otherwise. Defaults differ by version, and so would the record.
OBSERVED = {"log_checkpoints": "on", "log_autovacuum_min_duration": "0", "log_lock_waits": "on"}
_KEPT_ENVIRONMENT = ("PATH", "LOCALE_ARCHIVE", "LD_LIBRARY_PATH")
_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class ServerError(UserError):
    """A server that does not start, or is no more; holds its last words."""


class Server:
    """A server of `build` under `config`, its cluster in `cell_dir`/data, its log in `cell_dir`/server.log.

    Use as a context manager, from a thread that outlives the server (see `bound_to_engine`). On leaving, the
    server is stopped; the cluster is removed unless `keep`. `progress` is told what is waited for when that
    takes longer than two seconds; `check` is called while it starts, and may raise to give it up. `sockets` is the
    folder in which the private socket folder is made:
    PGBED_SOCKETS, else $XDG_RUNTIME_DIR when the server runs as the engine's own user, else /tmp.
    """

    def __init__(
        self,
        build: Build,
        config: Config,
        cell_dir: Path,
        *,
        keep: bool = False,
        progress: Progress = lambda _: None,
        check: Callable[[], None] = lambda: None,
        account: Account | None = None,
        sockets: Path | None = None,
    ) -> None:
        self.build = build
        self.config = config
        self.cell_dir = cell_dir.absolute()
        self.data_dir = self.cell_dir / "data"
        self.log_path = self.cell_dir / "server.log"
        self.keep = keep
        self.account = account or unprivileged()
        self.initdb_command = (
            str(build.bin / "initdb"),
            f"--pgdata={self.data_dir}",
            f"--username={SUPERUSER}",
            *INITDB_ARGS,
            *build.initdb_args,
        )
        self.socket_dir: Path | None = None
        self._sockets = sockets or socket_base(self.account)
        self._progress = progress
        self._check = check
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._initialised = False

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.close(keep=False)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(keep=self.keep)

    # -- life cycle

    def start(self) -> None:
        """Initialise the cluster, configure it, start the server and wait until it takes connections.

        Raises UserError when a folder cannot be used, ServerError when initdb fails or the server does not start.
        """
        self._check_folders()
        make_passable(self.cell_dir)
        self._initialise()
        self._make_socket_dir()
        with (self.data_dir / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write(f"\n# config {self.config.name} ({self.config.origin})\n")
            conf.writelines(f"{name} = {quoted(value)}\n" for name, value in self.config.settings)
            conf.write("\n# set by the bench for every server\n")
            conf.writelines(f"{name} = {quoted(value)}\n" for name, value in self.harness_settings.items())
        with self.log_path.open("ab") as log:
            self._postmaster = self._spawn(
                (str(self.build.bin / "postgres"), "-D", str(self.data_dir)), log, signal.SIGQUIT, lead=True
            )
        self._await_connections()

    @property
    def harness_settings(self) -> dict[str, str]:
        """What is appended after the config: private socket, no network, a log that can be read by machine."""
        return {
            "unix_socket_directories": str(self.socket_dir or ""),
            "unix_socket_permissions": "0700",
            "listen_addresses": "",
            "port": str(PORT),
            "log_destination": "stderr",
            "log_line_prefix": line_prefix(self.build.major),
            "logging_collector": "off",
            "lc_messages": "C",
            **{name: value for name, value in OBSERVED.items() if name not in dict(self.config.settings)},
        }

    def record(self) -> dict[str, Any]:
        """How the cluster was made and is run, for the journal (JSON)."""
        return {
            "initdb": list(self.initdb_command),
            "harness_settings": self.harness_settings,
            "settings": dict(self.config.settings),
            "settings_dropped": list(self.config.dropped),
            "account": self.account.name,
            "data_dir": str(self.data_dir),
            "kept": self.keep,
        }

    def create_database(self, name: str = DATABASE) -> None:
        """Create a database for the workload; template1 gets pgstattuple first if this build ships it."""
        with self.connect("template1") as connection:
            if connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pgstattuple'").fetchone():
                connection.execute("CREATE EXTENSION IF NOT EXISTS pgstattuple")
        with self.connect("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def stop(self, mode: StopMode = "fast", timeout_s: float = 600.0) -> None:
        """Stop the server and wait for it; one that does not go in time is stopped at once, then killed."""
        if self._postmaster is None or self._postmaster.poll() is not None:
            return
        self._postmaster.send_signal(_SIGNALS[mode])
        if self._gone_within(timeout_s, f"stopping {self.build.label} ({mode})"):
            return
        self._postmaster.send_signal(signal.SIGQUIT)
        if not self._gone_within(IMMEDIATE_TIMEOUT_S, f"stopping {self.build.label} (immediate)"):
            end_processes(self.data_dir)
            self._postmaster.wait()

    def close(self, *, keep: bool) -> None:
        """Stop the server and remove its socket folder and, unless `keep`, its cluster."""
        # a cluster that is thrown away needs no shutdown checkpoint
        if keep:
            self.stop("fast")
        else:
            self.stop("immediate", IMMEDIATE_TIMEOUT_S)
        if self.socket_dir is not None:
            shutil.rmtree(self.socket_dir, ignore_errors=True)
            (self.cell_dir / "socket").unlink(missing_ok=True)
            self.socket_dir = None
        if self._initialised and not keep:
            end_processes(self.data_dir)
            remove_folder(self.data_dir, self._progress)
            self._initialised = False

    # -- while it runs

    def dsn(self, dbname: str = DATABASE) -> str:
        """Connection string of a database, for the superuser over the private socket."""
        if self.socket_dir is None:
            raise ServerError(f"server {self.build.label} is not running")
        return make_conninfo(host=str(self.socket_dir), port=PORT, user=SUPERUSER, dbname=dbname)

    def connect(self, dbname: str = DATABASE) -> psycopg.Connection[Any]:
        """An autocommit connection, named pgbed so that samplers can tell it from the workload's."""
        return psycopg.connect(
            self.dsn(dbname), autocommit=True, application_name="pgbed", connect_timeout=CONNECT_TIMEOUT_S
        )

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        if self._postmaster is None:
            raise ServerError(f"server {self.build.label} is not running")
        return self._postmaster.pid

    def alive(self) -> bool:
        """Whether the postmaster runs."""
        return self._postmaster is not None and self._postmaster.poll() is None

    def died_reason(self) -> str | None:
        """How the postmaster ended and its last log lines; None while it is alive."""
        if self.alive():
            return None
        status = self._postmaster.returncode if self._postmaster is not None else None
        if status is None:
            how = "was not started"
        elif status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        return f"server {self.build.label} {how}: {last_words(self.log_path)} (log: {self.log_path})"

    # -- the parts of start

    def _check_folders(self) -> None:
        owner = living_server(self.data_dir)
        if owner is not None:
            raise ServerError(f"{self.data_dir} is in use by a running server (process {owner}); stop it first")
        if self.data_dir.exists() and any(self.data_dir.iterdir()):
            raise ServerError(f"{self.data_dir} already holds a cluster; remove it or choose another folder with --out")
        check_places(self.build, self.account, self.cell_dir, self._sockets)

    def _initialise(self) -> None:
        try:
            self.data_dir.mkdir(mode=0o700, exist_ok=True)
            self.account.own(self.data_dir)
        except OSError as error:
            raise ServerError(f"{self.data_dir} cannot be made: {error.strerror}") from None
        self._initialised = True
        with self.log_path.open("wb") as log:
            # SIGKILL: at SIGTERM initdb would tidy up while the folder is being removed from here
            child = self._spawn(self.initdb_command, log, signal.SIGKILL, lead=False)
            try:
                self._gone_within(START_TIMEOUT_S, f"initialising the cluster of {self.build.label}", child)
            finally:
                child.kill()
                child.wait()
        if child.returncode != 0:
            said = last_words(self.log_path)
            raise ServerError(f"initdb of {self.build.label} failed: {said} (log: {self.log_path})")

    def _make_socket_dir(self) -> None:
        try:
            self.socket_dir = Path(tempfile.mkdtemp(prefix=SOCKET_DIR_PREFIX, dir=self._sockets)).absolute()
            link = self.cell_dir / "socket"  # by it `kill_leftover` finds the folder after a crash
            link.unlink(missing_ok=True)
            link.symlink_to(self.socket_dir)
            self.account.own(self.socket_dir)
        except OSError as error:
            raise ServerError(f"no socket folder can be made in {self._sockets}: {error.strerror}") from None

    def _spawn(
        self, command: tuple[str, ...], log: IO[bytes], death: signal.Signals, *, lead: bool
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.data_dir,  # by it `processes_in` finds initdb too
            env=_environment(os.environ),
            umask=0o077,
            start_new_session=lead,
            preexec_fn=bound_to_engine(death),
            **self.account.identity(),
        )

    def _await_connections(self) -> None:
        begun = told = time.monotonic()
        while True:
            now = time.monotonic()
            if not self.alive():
                raise ServerError(f"{self.died_reason()}")
            if pidfile(self.data_dir)[7:8] == ["ready"]:
                break
            if now - begun > START_TIMEOUT_S:
                raise ServerError(
                    f"server {self.build.label} takes no connections after {START_TIMEOUT_S:.0f} s: "
                    f"{last_words(self.log_path)} (log: {self.log_path})"
                )
            if now - told > PATIENCE_S:
                told = now
                self._progress(f"waiting for server {self.build.label} to take connections ({now - begun:.0f} s)")
            self._check()
            time.sleep(0.02)
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError as error:
            raise ServerError(f"server {self.build.label} refuses connections: {str(error).splitlines()[0]}") from None

    def _gone_within(self, timeout_s: float, what: str, child: subprocess.Popen[bytes] | None = None) -> bool:
        process = child or self._postmaster
        if process is None:
            return True
        begun = told = time.monotonic()
        while process.poll() is None and (now := time.monotonic()) - begun < timeout_s:
            if child is not None:
                self._check()  # while it starts; a stop is seen through
            if now - told > PATIENCE_S:
                told = now
                self._progress(f"{what} ({now - begun:.0f} s)")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        return process.poll() is not None


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What servers see: nothing that could change a cluster (PG*, LC_*, TZ) comes from the user's shell."""
    kept = {name: environ[name] for name in _KEPT_ENVIRONMENT if name in environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def check_places(build: Build, account: Account, folder: Path, sockets: Path) -> None:
    """Raises ServerError when `account` could not run `build` over a cluster in `folder`, which need not exist yet."""
    barred = account.barred_at(folder)
    if barred is not None:
        raise ServerError(
            f"user {account.name}, who runs the server, may not enter {barred}: "
            f"choose another folder with --out, or name another user in PGBED_USER"
        )
    for program in ("initdb", "postgres"):
        if not account.may_execute(build.bin / program):
            raise ServerError(
                f"build {build.label}: user {account.name} cannot run {build.bin / program}; "
                f"is it there, and may that user enter every folder on the way?"
            )
    check_sockets(sockets)


def check_sockets(base: Path) -> None:
    """Raises ServerError when no private socket folder can be made in `base`, or its path would be too long."""
    if not base.is_dir():
        raise ServerError(f"folder for sockets {base} does not exist; set PGBED_SOCKETS to one that does")
    length = len(os.fsencode(f"{base.absolute()}/{SOCKET_DIR_PREFIX}xxxxxxxx/.s.PGSQL.{PORT}"))
    if length > SOCKET_PATH_MAX:
        raise ServerError(
            f"the server's socket in {base} would have a path of {length} bytes, more than the "
            f"{SOCKET_PATH_MAX} that a Unix socket may have; set PGBED_SOCKETS to a shorter folder"
        )


def socket_base(account: Account) -> Path:
    """The folder in which private socket folders are made; see `Server`."""
    chosen = os.environ.get("PGBED_SOCKETS")
    if chosen:
        return Path(chosen)
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
    usable = not account.switch and os.access(runtime, os.W_OK) and len(os.fsencode(runtime)) < 60
    return runtime if usable else Path("/tmp")
