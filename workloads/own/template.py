"""A dump of a database that is in use: made once before a run, read-only and in one snapshot."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import tempfile
from pathlib import Path

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from workloads.api.base import UNBEGUN
from workloads.own.data import Data, of_dump
from workloads.own.survey import surveyed

PLACE = re.compile(r"[A-Za-z0-9_.:/@-]*/[A-Za-z0-9_$-]+")
DUMP_S = 24 * 3600
KEPT = ("PGPASSFILE", "PGPASSWORD", "PGSERVICEFILE", "PGSSLROOTCERT", "PGHOST", "PGPORT", "PGUSER")


def planned(text: str) -> Data:
    """The data of HOST/DB or a connection string, not yet dumped. Raises ValueError."""
    if "=" not in text and "://" not in text:
        if not PLACE.fullmatch(text):
            raise ValueError(f"--template {text}: give HOST/DB or a connection string")
        place, _, name = text.rpartition("/")
        host, _, port = place.partition(":")
        given = {"host": host, "port": port, "dbname": name}
        text = make_conninfo(**{key: value for key, value in given.items() if value})
    try:
        known = conninfo_to_dict(text)
    except psycopg.Error as error:
        raise ValueError(f"--template: {' '.join(str(error).split())}") from None
    if "password" in known:
        raise ValueError("--template: a password would stand in the run's record; put it into ~/.pgpass")
    return Data(path="", format="custom", template=make_conninfo(**{name: str(value) for name, value in known.items()}))


def dumped(data: Data, pg_dump: str, pg_restore: str, folder: Path, *, trusted: bool = False) -> Data:
    """Dump into a file in a folder, and survey it. Raises ValueError in one line, and leaves no file then."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / UNBEGUN, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)  # released by the end of this process, of whatever kind
    handle, name = tempfile.mkstemp(suffix=".dump", dir=folder)
    os.close(handle)
    try:
        _dump(data.template, pg_dump, name)
        data_of_dump = msgspec.structs.replace(of_dump(name, "--template"), template=data.template)
        return surveyed(data_of_dump, pg_restore, trusted=trusted)
    except BaseException:  # Ctrl-C, too: the copy may be confidential
        Path(name).unlink(missing_ok=True)
        (folder / UNBEGUN).unlink(missing_ok=True)
        os.close(lock)
        raise


def _dump(template: str, pg_dump: str, name: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PG") or key in KEPT}
    # pg_dump reads in one transaction that sees one snapshot.
    environment |= {"PGOPTIONS": "-c default_transaction_read_only=on", "PGCONNECT_TIMEOUT": "10", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [pg_dump, "--format=custom", "--compress=1", f"--file={name}", f"--dbname={template}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=DUMP_S, check=False,
            env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"--template {template}: {pg_dump}: {error}") from None
    if done.returncode:
        raise ValueError(f"--template {template}: {' '.join(done.stderr.split()).removeprefix('pg_dump: error: ')}")
