"""External servers: who they are, what their role may do there, and whether a run can use them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from engine.core.errors import UserError
from engine.core.model import Build, Config, ExternalServers
from engine.postgres import external_queries
from engine.postgres.pgstat import question
from engine.postgres.waiting import NOBODY, Waiting

OLDEST = 12
CONNECT_TIMEOUT_S = 10
CONFIG = "as-is"  # the config's name for an external server
NEEDED_BESIDES = 5  # connections: the monitor's, one that makes the database, those that cancel
# Parts of a connection string that are not passed on: other servers', or set for each connection.
LEFT_OUT = frozenset(
    {"application_name", "client_encoding", "fallback_application_name", "load_balance_hosts", "options", "passfile",
     "password", "replication", "service", "servicefile", "target_session_attrs"}
)  # fmt: skip
SECRET = frozenset({"oauth_client_secret", "scram_client_key", "scram_server_key", "sslpassword"})
SHOWN = ("host", "hostaddr", "port", "user", "dbname")
# Otherwise a vanished peer would keep a step waiting for hours.
KEEPALIVES = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3",
              "tcp_user_timeout": "60000"}  # fmt: skip
# libpq quotes text that it cannot parse, which may be a password.
_NAMES_OPTION = re.compile(r'(option|parameter:) "[a-z_]+"$')
_QUOTED = re.compile(r'".*"')
_VERSION = re.compile(r"\d[\w.+-]{0,40}", re.ASCII)
_COMPILED = re.compile(r"compiled by (.+?)(?:, \d+-bit)?$")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The state of a server and the rights of the role there. `free_connections` are left for the role now."""

    version: str
    built: str
    started: str
    backend: str
    standby: bool
    read_only: bool
    may_create: bool
    may_checkpoint: bool
    may_see_all: bool
    free_connections: int
    max_connections: int


@dataclass(frozen=True, slots=True)
class ExternalServer:
    """An external server. `conninfo` is complete and may hold a password; `address` is for printing.

    The cluster's `identifier`, if the role may see it, and the postmaster's start tell whether two connection strings
    lead to one server.
    """

    name: str
    conninfo: str = field(repr=False)
    address: str
    version: str
    identifier: str
    role: str
    facts: ServerFacts
    settings: tuple[tuple[str, str], ...]

    @property
    def build(self) -> Build:
        compiler = _COMPILED.search(self.facts.built)
        return Build(
            label=self.name,
            version=self.version,
            prefix="",
            digest=hashlib.sha256(f"{self.identifier} {self.facts.built}".encode()).hexdigest()[:32],
            provenance="external",
            compiler=compiler.group(1) if compiler else "unknown",
            server=self.address,
        )

    @property
    def config(self) -> Config:
        """Its settings, as far as they differ from the defaults and the role may see them."""
        return Config(CONFIG, self.settings, "the server's own")

    def check(self, use: ExternalServers, connections: int) -> None:
        """Raise UserError if the plan cannot run here with this many connections."""
        needed = connections + NEEDED_BESIDES
        if self.facts.free_connections < needed:
            raise UserError(
                f"{self.name}: this plan needs {needed} connections, and {max(0, self.facts.free_connections)} are "
                f"free for role {self.role} (max_connections is {self.facts.max_connections}): use fewer --clients"
            )
        if use.scratch_database:
            check_scratch(self.name, self.conninfo, use.scratch_database)
        elif not self.facts.may_create:
            raise UserError(
                f"{self.name}: role {self.role} may not create databases: ALTER ROLE … CREATEDB, or name an "
                "empty database with --scratch-database"
            )


def look(name: str, conninfo: str, *, waiting: Waiting = NOBODY) -> ExternalServer:
    """Connect to a server and identify it. Raises UserError, in one line, if it cannot be compared."""
    given = {"connect_timeout": CONNECT_TIMEOUT_S} | _parsed(name, conninfo)
    full_conninfo = make_conninfo(**given, options="")  # else PGOPTIONS would set settings here, and nowhere else
    try:
        with external_queries.connect(full_conninfo, waiting=waiting, server=name) as connection:
            return _asked(name, connection)
    except psycopg.Error as error:
        raise UserError(f"{name}: {one_line(error)}") from None


def without_password(conninfo: str) -> str:
    given = {key: str(value) for key, value in conninfo_to_dict(conninfo).items() if key != "password"}
    return make_conninfo("", **given)


def refuse_doubles(servers: list[ExternalServer]) -> None:
    """Raise UserError if two names lead to one server."""
    by_server: dict[tuple[str, str], ExternalServer] = {}
    for server in servers:
        other = by_server.setdefault((server.identifier, server.facts.started), server)
        if other is not server:
            raise UserError(
                f"{other.name} and {server.name} are the same server ({server.address}); "
                "use --aa to compare it with itself"
            )


def check_scratch(name: str, conninfo: str, database: str) -> None:
    """Raise UserError unless the database is empty and the role may create tables in public."""
    try:
        with external_queries.connect(make_conninfo(conninfo, dbname=database)) as connection:
            check_empty(name, connection, database)
    except psycopg.Error as error:
        raise UserError(f"{name}: --scratch-database {database}: {one_line(error)}") from None


def check_empty(name: str, connection: psycopg.Connection[Any], database: str) -> None:
    query = question("contents", connection.info.server_version) or ""
    contents = external_queries.rows(connection, name, query, tuple[str])
    if contents:
        more = f" and {len(contents) - 1} more" if len(contents) > 1 else ""
        raise UserError(
            f"{name}: database {database} is not empty: it holds {contents[0][0]}{more}; "
            "pgbed works in empty databases only"
        )
    check_schema(name, connection)


def check_schema(name: str, connection: psycopg.Connection[Any]) -> None:
    """Raise UserError unless unqualified tables are created in schema public, and may be."""
    query = "SELECT current_schema(), has_schema_privilege(to_regnamespace('public')::oid, 'CREATE')"
    schema, may = external_queries.row(connection, name, query, tuple[str | None, bool | None])
    if schema != "public" or not may:
        why = "may not create tables there" if schema == "public" else f"its first schema is {schema}"
        role = connection.info.user
        raise UserError(f"{name}: tables must be created in schema public, but not by role {role}: {why}")


def one_line(error: Exception) -> str:
    """The message of libpq or the server, without hints."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _parsed(name: str, conninfo: str) -> dict[str, Any]:
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        message = one_line(error)
        if not _NAMES_OPTION.search(message):
            message = _QUOTED.sub('"…"', message)
        raise UserError(f"{name}: not a connection string: {message}") from None
    for key in given:
        if key in SECRET:
            raise UserError(f"{name}: {key} is not supported: other users of this machine would see it")
        if key in ("options", "replication"):
            raise UserError(f"{name}: {key} is not supported: servers are compared as they are; use ALTER ROLE … SET")
    return given


def _asked(name: str, connection: psycopg.Connection[Any]) -> ExternalServer:
    version, pgconn = connection.info.server_version, connection.pgconn
    reported = _version(name, connection.info.parameter_status("server_version") or "")
    if version < OLDEST * 10000:
        raise UserError(f"{name}: PostgreSQL {reported} is too old: {OLDEST} or later is needed")
    facts = external_queries.row(connection, name, question("external_facts", version) or "", ServerFacts)
    if facts.backend != str(connection.info.backend_pid):
        raise UserError(f"{name}: a connection pooler is in front of this server: name the server's own address")
    if facts.standby:
        raise UserError(f"{name}: a standby, which is read-only: name its primary")
    if facts.read_only:
        raise UserError(f"{name}: transactions of this role are read-only (default_transaction_read_only)")
    completed = {
        option.keyword.decode(): option.val.decode()
        for option in pgconn.info
        if option.val and option.val != option.compiled and option.keyword.decode() not in LEFT_OUT
    }
    # Of several hosts, the one that answered.
    completed |= {"host": pgconn.host.decode(), "port": pgconn.port.decode(), "user": pgconn.user.decode()}
    completed["dbname"] = connection.info.dbname
    address = make_conninfo(**{key: completed[key] for key in SHOWN if completed.get(key)})
    if not completed["host"].startswith(("/", "@")):
        completed = KEEPALIVES | completed
    password = {"password": connection.info.password} if connection.info.password else {}
    query = question("external_settings", version) or ""
    settings = external_queries.rows(connection, name, query, tuple[str, str | None, str])
    return ExternalServer(
        name=name,
        conninfo=make_conninfo(**completed, **password),
        address=address,
        version=_version(name, facts.version),
        identifier=_identifier(name, connection),
        role=connection.info.user,
        facts=facts,
        settings=tuple((name, value or "") for name, value, _ in settings),
    )


def _version(name: str, reported: str) -> str:
    word = (reported.split() or [""])[0]
    if not _VERSION.fullmatch(word):
        raise UserError(
            f"{name}: what the server reports as its version, '{reported[:40]}', is not a version of PostgreSQL"
        )
    return word


def _identifier(name: str, connection: psycopg.Connection[Any]) -> str:
    try:
        query = "SELECT system_identifier::text FROM pg_control_system()"
        return external_queries.row(connection, name, query, tuple[str])[0]
    except psycopg.ProgrammingError:  # not permitted, or no such function
        return ""
