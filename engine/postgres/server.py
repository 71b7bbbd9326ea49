"""One PostgreSQL server over one fresh cluster: initialised, configured, started, watched, removed.

The server is a direct child of the engine and asks the kernel to shut it down (SIGQUIT) when the engine is
gone, so that not even `kill -9` of the engine leaves a server behind. It leads its own session: Ctrl-C in
the terminal does not reach it.

    with Server(build, config, cell_dir) as server:
        server.create_database()
        with server.connect("ib") as connection: ...
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from engine.core.clock import patient
from engine.core.model import Build, Config
from engine.core.route import SOCKET, Route
from engine.core.text import visible
from engine.postgres import initdb, session
from engine.postgres.cellserver import Inside
from engine.postgres.cluster import (
    CLUSTERS,
    DATA,
    FILES,
    PASSFILE,
    StopMode,
    end_processes,
    end_server,
    last_words,
    living_server,
    pidfile,
    remove_clusters,
    remove_folder,
    remove_shared_memory,
)
from engine.postgres.configs import known_to, quoted
from engine.postgres.network import Network, network_of
from engine.postgres.server_environment import environment_of
from engine.postgres.serverlog import line_prefix, log_settings
from engine.postgres.session import ServerSession
from engine.postgres.waiting import NOBODY, Waiting, wait_until
from engine.system.account import Account, bound_to_engine, make_passable, unprivileged
from engine.system.files import open_plain
from engine.system.server_folders import PORT, SOCKET_DIR_PREFIX, ServerError, check_places, socket_base
from workloads.api.base import Kit

SUPERUSER = "bench"
DATABASE = "ib"
START_TIMEOUT_S = patient(120.0)
CONNECT_TIMEOUT_S = int(patient(10))


@dataclass(eq=False)
class Server:
    """A server of `build` under `config`, its cluster in `cell_dir`/data, its log in `cell_dir`/server.log.

    `files_dir` is an initially empty folder of the server's account next to the cluster, removed with it.

    Use as a context manager, from a thread that outlives the server (see `bound_to_engine`). On exit, the server is
    stopped; the cluster is removed unless `keep`. `waiting` may end its start and every statement. `sockets` is where
    the private socket folder is made: PGBED_SOCKETS, else $XDG_RUNTIME_DIR when the server runs as the engine's own
    user, else /tmp. `route` is how clients reach it, `place` its place among the servers side by side, which need
    different ports.
    """

    build: Build
    config: Config
    cell_dir: Path
    _: KW_ONLY
    keep: bool = False
    waiting: Waiting = NOBODY
    account: Account = field(default_factory=unprivileged)
    sockets: Path | None = None
    route: Route = SOCKET
    place: int = 0

    def __post_init__(self) -> None:
        self.cell_dir = self.cell_dir.absolute()
        self.data_dir, self.files_dir = (self.cell_dir / name for name in (DATA, FILES))
        self.clusters = self.cell_dir / CLUSTERS
        self.log_path = self.cell_dir / "server.log"
        self.initdb_command = initdb.command(self.build, self.data_dir, SUPERUSER)
        self.socket_dir: Path | None = None
        self.network: Network | None = None
        self.network_record: dict[str, Any] | None = None
        self._sockets = self.sockets or socket_base(self.account)
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._initialised = False

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.close(keep=False)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close(keep=self.keep)

    # -- life cycle

    def prepare(self) -> None:
        """Initialise the cluster. Raises UserError, ServerError."""
        self._check_folders()
        make_passable(self.cell_dir)
        self._initialise()

    def start(self) -> None:
        """Configure and start it, after preparing it if need be; wait until it takes connections. Raises as that."""
        if not self._initialised:
            self.prepare()
        self._make_socket_dir()
        self._join_network()
        self._configure()
        self._launch()
        self._await_connections()
        self._set_password()

    def restart(self) -> None:
        """Stop and start it, which empties its shared buffers. Raises ServerError."""
        self.stop()
        self._launch()
        self._await_connections()

    def _launch(self) -> None:
        with self.log_path.open("ab") as log:
            command = (str(self.build.bin / "postgres"), "-D", str(self.data_dir))
            self._postmaster = self._spawn(command, log, signal.SIGQUIT)

    def _join_network(self) -> None:
        try:
            self.network = network_of(self.route, self.place)
        except OSError as error:
            raise ServerError(f"{self.route.address}: no port to listen on: {error.strerror}") from None
        if self.network is not None:
            assert self.socket_dir is not None
            self.network.write_passfile(self.socket_dir, DATABASE, SUPERUSER, self.account)
            with self._open_own("pg_hba.conf", "w") as hba:
                hba.write(self.network.hba(DATABASE, SUPERUSER))

    def _open_own(self, name: str, mode: Literal["a", "w"]) -> IO[str]:
        path = self.data_dir / name
        try:  # the folder is the account's, which could have put anything there
            fd = open_plain(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise ServerError(f"{path} cannot be written: {error.strerror}") from None
        if os.fstat(fd).st_nlink != 1:
            os.close(fd)
            raise ServerError(f"{path} cannot be written: it has another name as well")
        if mode == "w":
            os.ftruncate(fd, 0)
        return os.fdopen(fd, "a", encoding="utf-8")

    def _configure(self) -> None:
        with self._open_own("postgresql.conf", "a") as conf:
            conf.write(self._conf)

    @property
    def _conf(self) -> str:
        settings = [f"{name} = {quoted(value)}" for name, value in self.config.settings]
        ours = [f"{name} = {quoted(value)}" for name, value in self.harness_settings.items()]
        of_config = f"# config {visible(self.config.name)} ({visible(self.config.origin)})"
        return "\n".join(("", of_config, *settings, "", "# set by the bench for every server", *ours, ""))

    def kit(self) -> Kit:
        """The kit with which a step makes clusters of its own, in a folder removed with this server's."""
        try:
            self.clusters.mkdir(mode=0o700, exist_ok=True)
            self.account.chown(self.clusters)
        except OSError as error:
            raise ServerError(f"{self.clusters} cannot be made: {error.strerror}") from None
        return Kit(
            programs=str(self.build.bin),
            major=self.build.major,
            environment=environment_of(self.build, os.environ),
            initdb=(f"--username={SUPERUSER}", *initdb.ARGS, initdb.KEPT),
            provider=self.build.initdb_args,
            conf=self._conf,
            folder=str(self.clusters),
        )

    @property
    def harness_settings(self) -> dict[str, str]:
        """Settings appended after the config: private socket, no network except for clients, a machine-readable log."""
        return {
            "unix_socket_directories": str(self.socket_dir or ""),
            "unix_socket_permissions": "0700",
            "listen_addresses": "",
            "port": str(self.port),
            **(self.network.settings if self.network else {}),
            "log_destination": "stderr",
            "log_line_prefix": line_prefix(self.build.major),
            "logging_collector": "off",
            "lc_messages": "C",
            **log_settings(self.build.major, dict(self.config.settings), lambda: known_to(self.build.bin / "postgres")),
        }

    def record(self) -> dict[str, Any]:
        return {
            "initdb": list(self.initdb_command),
            "harness_settings": self.harness_settings,
            "settings": dict(self.config.settings),
            "settings_dropped": list(self.config.dropped),
            "device": dict(self.config.device),
            "account": self.account.name,
            "data_dir": str(self.data_dir),
            "kept": self.keep,
            "network": self.network_record,
        }

    def create_database(self, name: str = DATABASE) -> None:
        """Create a database for the workload, with the build's extensions, and pgstattuple if this build ships it."""
        with self.connect("template1") as connection:
            if connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pgstattuple'").fetchone():
                connection.execute("CREATE EXTENSION IF NOT EXISTS pgstattuple")
            for extension in filter(None, (extension.name for extension in self.build.extensions)):
                create = sql.SQL("CREATE EXTENSION IF NOT EXISTS {} CASCADE").format(sql.Identifier(extension))
                try:
                    connection.execute(create)
                except psycopg.Error as error:
                    words = " ".join(str(error).split())
                    raise ServerError(f"{self.build.label}: extension {extension}: {words}") from None
        with self.connect("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and wait; if it does not end in time, stop it immediately, then kill it."""
        if self._postmaster is not None:
            end_server(self._postmaster, mode, self.data_dir, self.build, self.waiting)

    def close(self, *, keep: bool) -> None:
        self.stop("fast" if keep else "immediate")  # a discarded cluster needs no shutdown checkpoint
        remove_clusters(self.clusters, self.build.bin, self.account.uid)
        if self.socket_dir is not None:
            shutil.rmtree(self.socket_dir, ignore_errors=True)
            (self.cell_dir / "socket").unlink(missing_ok=True)
            self.socket_dir = None
        if self._initialised:
            end_processes(self.data_dir, self.build.bin)
            remove_shared_memory(self.data_dir, self.account.uid)
        if self._initialised and not keep:
            for folder in (self.data_dir, self.files_dir):
                remove_folder(folder, self.waiting)
            self._initialised = False

    # -- while it runs

    def dsn(self, dbname: str = DATABASE) -> str:
        if self.socket_dir is None:
            raise ServerError(f"server {self.build.label} is not running")
        return make_conninfo(host=str(self.socket_dir), port=self.port, user=SUPERUSER, dbname=dbname)

    def client_dsn(self, passfile: str = "") -> str:
        if self.network is None:
            return self.dsn()
        return self.network.dsn(DATABASE, SUPERUSER, passfile or f"{self.socket_dir}/{PASSFILE}")

    @property
    def pass_line(self) -> str:
        return self.network.pass_line(DATABASE, SUPERUSER) if self.network else ""

    @property
    def port(self) -> int:
        return self.network.port if self.network else PORT

    def connect(self, dbname: str = DATABASE) -> ServerSession:
        return session.connect(self.dsn(dbname), self.build.label, self.waiting, connect_timeout=CONNECT_TIMEOUT_S)

    # -- as a CellServer
    @property
    def data_folder(self) -> Path:
        return self.files_dir

    client_fds: ClassVar[tuple[int, ...]] = ()
    may_checkpoint: ClassVar[bool] = True
    left: ClassVar[str] = ""

    @property
    def inside(self) -> Inside:
        return Inside(self.pid, self.data_dir, self.log_path)

    @property
    def folder(self) -> Path:
        """The socket folder, in which clients may write, too."""
        assert self.socket_dir is not None
        return self.socket_dir

    @property
    def pid(self) -> int:
        if self._postmaster is None:
            raise ServerError(f"server {self.build.label} is not running")
        return self._postmaster.pid

    def alive(self) -> bool:
        return self._postmaster is not None and self._postmaster.poll() is None

    def died_reason(self) -> str | None:
        """The end of the postmaster and its last log lines; None before the start and while it is alive."""
        status = self._postmaster.poll() if self._postmaster is not None else None
        if status is None:
            return None
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"server {self.build.label} {how}: {last_words(self.log_path)} (log: {self.log_path})"

    # -- the parts of start

    def _check_folders(self) -> None:
        owner = living_server(self.data_dir)
        if owner is not None:
            raise ServerError(f"{self.data_dir} is in use by a running server (process {owner}); stop it first")
        if self.data_dir.exists() and any(self.data_dir.iterdir()):
            raise ServerError(f"{self.data_dir} already contains a cluster; remove it or choose another --out")
        check_places(self.build, self.account, self.cell_dir, self._sockets)

    def _initialise(self) -> None:
        initdb.make_folders((self.files_dir, self.data_dir), self.account)
        self._initialised = True
        with self.log_path.open("wb") as log:
            # SIGKILL: at SIGTERM initdb would tidy up while the folder is being removed from here
            child = self._spawn(self.initdb_command, log, signal.SIGKILL)
            initdb.await_end(child, self.build.label, self.log_path, self.waiting)

    def _make_socket_dir(self) -> None:
        try:
            self.socket_dir = Path(tempfile.mkdtemp(prefix=SOCKET_DIR_PREFIX, dir=self._sockets)).absolute()
            link = self.cell_dir / "socket"  # by it `kill_leftover` finds the folder after a crash
            link.unlink(missing_ok=True)
            link.symlink_to(self.socket_dir)
            self.account.chown(self.socket_dir)
        except OSError as error:
            raise ServerError(f"no socket folder can be made in {self._sockets}: {error.strerror}") from None

    def _spawn(self, command: tuple[str, ...], log: IO[bytes], death: signal.Signals) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.data_dir,  # by it `processes_in` finds initdb too
            env=environment_of(self.build, os.environ),
            umask=0o077,
            start_new_session=True,
            preexec_fn=bound_to_engine(death),
            **self.account.identity(),
        )

    def _await_connections(self) -> None:
        def ready() -> bool:
            if not self.alive():
                raise ServerError(str(self.died_reason()))
            return pidfile(self.data_dir)[7:8] == ["ready"]

        what = f"waiting for server {self.build.label} to accept connections"
        if not wait_until(ready, START_TIMEOUT_S, what, self.waiting):
            raise ServerError(
                f"server {self.build.label} accepts no connections after {START_TIMEOUT_S:.0f} s: "
                f"{last_words(self.log_path)} (log: {self.log_path})"
            )

    def _set_password(self) -> None:
        try:
            with self.connect("postgres") as connection:
                if self.network is not None:
                    self.network_record = self.network.set_password(connection, SUPERUSER)
        except psycopg.OperationalError as error:
            raise ServerError(f"server {self.build.label} refuses connections: {str(error).splitlines()[0]}") from None
