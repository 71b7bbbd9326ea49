"""A journal's SQLite file: where it is, how it is made, which schema it has, what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

from engine.core.errors import UserError
from engine.core.model import SCHEMA
from engine.host.files import open_plain

SQLITE_PATH_MAX = 511 - len("-journal")
# By later minor versions; those of new journals: schema.sql.
ADDED_COLUMNS = tuple(("slice", name, "INTEGER NOT NULL DEFAULT 0") for name in ("ragged_ns", "early_ns", "early_ops"))
WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


@contextmanager
def readable(run: Path) -> Iterator[None]:
    """Turns SQLite's complaints into one line for the user: a file that may not be read is not a damaged one."""
    try:
        yield
    except UnicodeDecodeError as error:  # a message of SQLite that quotes a damaged schema
        path = run / "journal.db"
        raise UserError(f"{path}: damaged or truncated; try sqlite3's .recover on a copy of the folder") from error
    except sqlite3.DatabaseError as error:
        text = str(error)[:200]  # a damaged schema's statement would be quoted whole
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the low byte; SQLite's own complaints have one
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY:
                why = f"not permitted ({text}); ask its owner, or copy the run's folder"
            case sqlite3.SQLITE_FULL:
                why = f"cannot be written: {text}"
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                why = f"another program has locked it ({text})"
            case sqlite3.SQLITE_IOERR if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_IOERR_SHORT_READ:
                why = f"cannot be read or written: {text}"
            case _:
                why = f"damaged or truncated ({text}); try sqlite3's .recover on a copy of the folder"
        raise UserError(f"{run / 'journal.db'}: {why}") from error


def database_path(run: Path) -> Path:
    """The file that holds a run's journal. Raises UserError when its path is longer than SQLite takes."""
    path = run.resolve() / "journal.db"
    length = len(os.fsencode(path))
    if os.path.islink(path):  # noqa: PTH114 (false, however long)
        raise UserError(f"{path}: a symlink, which is not followed; put the journal itself there")
    if length > SQLITE_PATH_MAX:
        raise UserError(
            f"{run}: its journal has a path of {length} bytes, and SQLite takes at most {SQLITE_PATH_MAX}; "
            f"use a folder with a shorter path"
        )
    return path


def is_log(path: Path) -> bool:
    """Whether a file begins as SQLite's write-ahead log does. SQLite removes anything else that stands in its place."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            return file.read(4) in WAL_MAGIC
    except OSError:
        return False


def check_schema(connection: sqlite3.Connection, run: Path) -> None:
    """Refuses a journal of another major schema with a UserError; newer minor ones are read."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_major'").fetchone()
    found = str(row[0]) if row else "none"
    if found != str(SCHEMA[0]):
        raise UserError(f"{run}: journal schema {found}, this pgbed reads {SCHEMA[0]}; use the pgbed that made it")


def make_database(path: Path) -> None:
    """Makes an empty journal, which appears under its name only when it is whole: readers may be waiting for it."""
    if path.exists():
        return
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with closing(sqlite3.connect(part, isolation_level=None)) as connection:
        connection.executescript((files("engine.journal") / "schema.sql").read_text())
        versions = zip(("schema_major", "schema_minor"), SCHEMA, strict=True)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", versions)
    part.rename(path)


def upgrade(connection: sqlite3.Connection, run: Path) -> None:
    """Adds what a journal of an older minor version lacks; one of a newer stays as it is."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_minor'").fetchone()
    try:
        minor = int(row[0]) if row is not None else SCHEMA[1]
    except (TypeError, ValueError):
        raise UserError(f"{run / 'journal.db'}: damaged: schema_minor is {str(row[0])!r}, no number") from None
    if minor < SCHEMA[1]:
        connection.executescript((files("engine.journal") / "schema.sql").read_text())
        for table, column, kind in ADDED_COLUMNS:
            if column not in {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_minor'", (SCHEMA[1],))
