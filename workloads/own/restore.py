"""Restores the application's data into a fresh database, as a role that is no superuser."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.pq import abc

from workloads.connection import COMMAND_OK, TUPLES_OK, SqlError, error_of, execute, open_connection
from workloads.own.data import Data, Mapped, change, left_out, made_before, mapped, sql_commands
from workloads.own.spec import APP, PRISTINE, Spec
from workloads.own.sql import Command
from workloads.process import die_with_parent

CHUNK_BYTES = 1 << 20
MOST_JOBS = 4
LOOK_S = 0.02
UNKNOWN_PARAMETER = "42704"  # of SET: a newer pg_dump sets what an older server does not know
COPY_IN = int(pq.ExecStatus.COPY_IN)
FAILED = re.compile(r"pg_restore: error: (?:could not execute query: )?(?:ERROR:\s*)?(.*)")
# A newer pg_dump sets what an older server does not know; the same error of rows or of an index would be a loss. And
# schemas of extensions are made before.
HARMLESS = re.compile(r"pg_restore: error: could not execute query: ERROR:\s+"
                      r"(unrecognized configuration parameter .*\nCommand was: SET |"
                      r"schema .* already exists\nCommand was: CREATE SCHEMA )")  # fmt: skip
IGNORED = re.compile(r"errors ignored on restore: (\d+)")
LEAVE = ("--no-owner", "--no-privileges", "--no-comments", "--no-security-labels", "--no-publications",
         "--no-subscriptions", "--no-tablespaces")  # fmt: skip
Check = Callable[[], None]


class NotRestored(SqlError):
    """The data cannot be restored; the text is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__("", reason)

    def __str__(self) -> str:
        return self.message


def restore(spec: Spec, superuser: abc.PGconn, check: Check) -> None:
    """Restore into the connection's database, and into one to be cloned. Raises NotRestored, SqlError or Stopped."""
    if why := change(spec.data):
        raise NotRestored(why)
    execute(superuser, f"CREATE ROLE {APP} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE".encode())
    own = superuser.db.decode()
    databases = [own, *([PRISTINE] if spec.cloned else [])]
    for name in databases:
        dsn = make_conninfo(spec.dsn, dbname=name)
        if name != own:
            execute(superuser, f'CREATE DATABASE "{name}"'.encode())
        execute(superuser, f'ALTER DATABASE "{name}" OWNER TO {APP}'.encode())
        session = superuser if name == own else open_connection(dsn)
        try:
            _prepare(session, spec.data)
            as_app = make_conninfo(dsn, user=APP)
            if spec.data.archive:
                _archive(spec, as_app, check)
            else:
                _scripts(spec.data, as_app, check)
            # A vacuum, too, or one by the server's own choice would change plans in the middle of the run.
            execute(session, b"VACUUM (ANALYZE)")
        finally:
            if session is not superuser:
                session.finish()
        check()
    execute(superuser, b"CHECKPOINT")


def _prepare(session: abc.PGconn, data: Data) -> None:
    for name in data.extensions:
        into, schema = "", data.schemas.get(name, "")
        if schema:
            into = f" WITH SCHEMA {_quoted(schema)}"
            if not schema.startswith("pg_"):
                execute(session, f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)} AUTHORIZATION {APP}".encode())
        execute(session, f"CREATE EXTENSION IF NOT EXISTS {_quoted(name)}{into} CASCADE".encode())
    # Before 15 everybody may create in it; from 15 on only the database's owner.
    execute(session, f"GRANT ALL ON SCHEMA public TO {APP}".encode())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _archive(spec: Spec, dsn: str, check: Check) -> None:
    jobs = 1 if spec.data.format == "tar" else min(MOST_JOBS, os.cpu_count() or 1)
    parent = os.getpid()
    process = subprocess.Popen(
        [spec.pg_restore, f"--dbname={dsn}", f"--jobs={jobs}", *LEAVE, spec.data.path],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        env={"LC_ALL": "C", "PATH": os.environ.get("PATH", ""), "PGOPTIONS": "-c client_min_messages=error"},
        preexec_fn=lambda: die_with_parent(parent),
    )  # fmt: skip
    lines: list[str] = []
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    try:
        while process.poll() is None:
            lines += process.stderr.readlines()
            check()
            time.sleep(LOOK_S)
        lines += process.stderr.readlines()
    finally:
        process.kill()
        process.wait()
    if why := failure("".join(lines), process.returncode):
        raise NotRestored(f"{spec.data.name} cannot be restored: {why}")


def failure(told: str, code: int) -> str:
    """What pg_restore says of errors that matter, by its messages and its exit code; empty without any.

    It continues after an error, and its processes write at the same time, so that a message may be torn: what it counts
    must be what was found.
    """
    found = list(FAILED.finditer(told))
    errors = [match.group(1).strip() for match in found if not HARMLESS.match(told, match.start())]
    if errors:
        more = len(errors) - 1
        return errors[0] + (f" (and {more} more error{'s' if more > 1 else ''})" if more else "")
    counted = sum(int(number) for number in IGNORED.findall(told))
    if code == 1 and 0 < counted <= len(found):
        return ""
    return f"pg_restore ended with code {code}: {' '.join(told.split())[-200:]}" if code else ""


def _scripts(data: Data, dsn: str, check: Check) -> None:
    connection = open_connection(dsn)
    try:
        for path in data.files:
            with mapped(path) as text:
                try:
                    for command in sql_commands(text, path):
                        check()
                        if not left_out(command) and not made_before(command, data):
                            _run(connection, command, text, path, check)
                    if connection.transaction_status != pq.TransactionStatus.IDLE:
                        raise ValueError(
                            f"{path.name}: its last transaction has no COMMIT, so that nothing of it stays"
                        )
                except ValueError as error:
                    raise NotRestored(str(error)) from None
    finally:
        connection.finish()


def _run(connection: abc.PGconn, command: Command, text: Mapped, path: Path, check: Check) -> None:
    rows = [token for token in command.tokens if token.kind == "rows"]
    sql = b"".join(b" " if token.kind == "comment" else token.text for token in command.tokens).strip()
    result = connection.exec_(sql)
    if result.status == COPY_IN:
        if not rows:
            connection.put_copy_end(b"its rows are missing")
        else:
            for place in range(rows[0].place, rows[1].place, CHUNK_BYTES):
                connection.put_copy_data(text[place : min(place + CHUNK_BYTES, rows[1].place)])
                check()
            connection.put_copy_end()
        result = connection.get_result() or result
        while connection.get_result() is not None:
            pass
    if result.status in (COMMAND_OK, TUPLES_OK):
        return
    error = error_of(connection, result)
    if error.sqlstate == UNKNOWN_PARAMETER and command.words[:1] == ("set",):
        return
    raise NotRestored(f"{path.name}:{command.line}: {error}")
