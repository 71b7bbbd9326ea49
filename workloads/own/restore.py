"""Restores the application's data into a fresh database, as a role without superuser rights."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from psycopg.conninfo import make_conninfo
from psycopg.pq import abc

from workloads.client.connection import SqlError, execute, open_connection
from workloads.client.process import die_with_parent
from workloads.own import psql
from workloads.own.data import Data, change, reported_by
from workloads.own.left_out import TRUST, Sorting, entry_left_out
from workloads.own.spec import APP, PRISTINE, OwnSpec

MOST_JOBS = 4
LOOK_S = 0.02
FAILED = re.compile(r"pg_restore: error: (?:could not execute query: )?(?:ERROR:\s*)?(.*)")
# A newer pg_dump sets what an older server does not know; the same error of rows or of an index would be a loss. And
# schemas of extensions are made before.
HARMLESS = re.compile(r"pg_restore: error: could not execute query: ERROR:\s+"
                      r"(unrecognized configuration parameter .*\nCommand was: SET |"
                      r"schema .* already exists\nCommand was: CREATE SCHEMA )")  # fmt: skip
MISMATCH = "server version mismatch"
IGNORED = re.compile(r"errors ignored on restore: (\d+)")
LEAVE = ("--no-owner", "--no-privileges", "--no-tablespaces")
Check = Callable[[], None]


class NotRestored(SqlError):
    """The data cannot be restored; the text is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__("", reason)

    def __str__(self) -> str:
        return self.message


def restore(spec: OwnSpec, superuser: abc.PGconn, check: Check) -> None:
    """Restore into the connection's database, and into one to be cloned. Raises NotRestored, SqlError or Stopped."""
    if why := change(spec.data):
        raise NotRestored(why)
    execute(superuser, f"CREATE ROLE {APP} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE".encode())
    database = superuser.db.decode()
    databases = [database, *([PRISTINE] if spec.cloned else [])]
    for name in databases:
        dsn = make_conninfo(spec.dsn, dbname=name)
        if name != database:
            execute(superuser, f'CREATE DATABASE "{name}"'.encode())
        execute(superuser, f'ALTER DATABASE "{name}" OWNER TO {APP}'.encode())
        session = superuser if name == database else open_connection(dsn)
        try:
            _prepare(session, spec.data)
            as_app = make_conninfo(dsn, user=APP)
            if spec.options.trust_dump:
                execute(superuser, f"ALTER ROLE {APP} SUPERUSER".encode())
            if spec.data.archive:
                _archive(spec, session, as_app, check)
            else:
                _scripts(spec, session, as_app, check)
            execute(superuser, f"ALTER ROLE {APP} NOSUPERUSER".encode())
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


def _archive(spec: OwnSpec, superuser: abc.PGconn, dsn: str, check: Check) -> None:
    jobs = 1 if spec.data.format == "tar" else min(MOST_JOBS, os.cpu_count() or 1)
    with tempfile.NamedTemporaryFile("w", suffix=".list") as kept:
        listed = reported_by(spec.pg_restore, spec.data, "--list")
        kept.write("\n".join(line for line in listed.splitlines() if not entry_left_out(line)))
        kept.flush()
        common = [f"--use-list={kept.name}", *LEAVE, spec.data.path]
        try:
            _restored([spec.pg_restore, f"--dbname={dsn}", f"--jobs={jobs}", *common], spec.data.name, check)
        except NotRestored as error:
            if MISMATCH not in str(error):
                raise
            # It connects to no server newer than itself, but psql does.
            with tempfile.NamedTemporaryFile(suffix=".sql", dir=spec.folder) as script:
                _restored([spec.pg_restore, f"--file={script.name}", *common], spec.data.name, check)
                _script(spec, superuser, Path(script.name), dsn, _sorting(spec), check)


def _restored(command: list[str], name: str, check: Check) -> None:
    parent = os.getpid()
    process = subprocess.Popen(
        command,
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
        if "permission denied" in why or "must be " in why:
            why += f"; {TRUST}"
        raise NotRestored(f"{name} cannot be restored: {why}")


def failure(messages: str, code: int) -> str:
    """The errors of pg_restore that matter, by its messages and its exit code; empty without any.

    It continues after an error, and its processes write at the same time, so that a message may be torn: its count
    must equal the number found.
    """
    matches = list(FAILED.finditer(messages))
    errors = [match.group(1).strip() for match in matches if not HARMLESS.match(messages, match.start())]
    if errors:
        more = len(errors) - 1
        return errors[0] + (f" (and {more} more error{'s' if more > 1 else ''})" if more else "")
    counted = sum(int(number) for number in IGNORED.findall(messages))
    if code == 1 and 0 < counted <= len(matches):
        return ""
    return f"pg_restore ended with code {code}: {' '.join(messages.split())[-200:]}" if code else ""


def _scripts(spec: OwnSpec, superuser: abc.PGconn, dsn: str, check: Check) -> None:
    sorting = _sorting(spec)
    for path in spec.data.files:
        _script(spec, superuser, path, dsn, sorting, check)


def _sorting(spec: OwnSpec) -> Sorting:
    return Sorting(schemas=tuple(spec.data.schemas.values()))


def _script(spec: OwnSpec, superuser: abc.PGconn, path: Path, dsn: str, sorting: Sorting, check: Check) -> None:
    @cache
    def knows(setting: str) -> bool:
        answer = superuser.exec_params(b"SELECT current_setting($1, true) IS NOT NULL", [setting.encode()])
        return answer.get_value(0, 0) != b"f"

    try:
        why = psql.restore(spec.psql, path, dsn, sorting, knows, check)
    except ValueError as error:
        why = f"{path.name}: {error}"
    if why:
        raise NotRestored(why)
