"""A journal's SQLite file: its path, creation, schema check and errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

from engine.core.errors import UserError
from engine.core.model import SCHEMA
from engine.host import disk
from engine.system.files import open_plain

SQLITE_PATH_MAX = 511 - len("-journal")
WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


@contextmanager
def readable(run: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line for the user, keeping unreadable apart from damaged."""
    try:
        with disk.named_when_full(run):
            yield
    except UnicodeDecodeError as error:  # SQLite's message quotes a damaged schema
        path = run / "journal.db"
        raise UserError(f"{path}: damaged or truncated; try sqlite3's .recover on a copy of the folder") from error
    except sqlite3.DatabaseError as error:
        text = str(error)[:200]  # SQLite would quote a damaged schema's statement whole
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the low byte is the primary result code
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY:
                why = f"not permitted ({text}); ask its owner, or copy the run's folder"
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                why = f"another program has locked it ({text})"
            case sqlite3.SQLITE_IOERR if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_IOERR_SHORT_READ:
                why = f"cannot be read or written: {text}"
            case _:
                why = f"damaged or truncated ({text}); try sqlite3's .recover on a copy of the folder"
        raise UserError(f"{run / 'journal.db'}: {why}") from error


def database_path(run: Path) -> Path:
    """Raises UserError if the path is a symlink, or longer than SQLite takes."""
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
    """Whether a file begins like a write-ahead log. SQLite deletes anything else found under the log's name."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            return file.read(4) in WAL_MAGIC
    except OSError:
        return False


def check_schema(connection: sqlite3.Connection, run: Path) -> None:
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    refuse_schema(run, str(row[0]) if row else "none")


def refuse_schema(run: Path, schema: str) -> None:
    """Raise UserError unless this is the schema that this pgbed reads."""
    if schema != SCHEMA:
        raise UserError(f"{run}: schema {schema}, this pgbed reads {SCHEMA}; use the pgbed that made it")


def make_database(path: Path) -> None:
    """Create an empty journal beside a manifest. It gets its name only when complete: readers may be waiting for it."""
    if path.exists():
        return
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with closing(sqlite3.connect(part, isolation_level=None)) as connection:
        for name in ("schema.sql", "views.sql"):
            connection.executescript((files("engine.journal") / name).read_text("utf-8"))
        manifest = path.with_name("manifest.json").read_text("utf-8")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", (("schema", SCHEMA), ("manifest", manifest)))
    part.rename(path)
