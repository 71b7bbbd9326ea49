"""Records of runs as they come from a broken disk or from somebody hostile, and all that reads them.

Whatever a record holds: a command ends in time, without a traceback, with one line where it refuses; nothing of the
record acts on the terminal; nothing outside the run is written or removed, and nothing that it names is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from engine.core.model import Cell
from engine.observe.stalls import Stall
from tests.faults.call import Case, call, faults
from tests.support.benchcall import processes_of
from tests.support.journal import make_run

RUN = "made"
CELL = "001-16.3-auto-r1"
FLAME = ("flame", RUN, "--step", "l.i1", "--role", "insert", "--to", "out")
# Commands that read a record, and the one place in the folder that each may change.
COMMANDS: Mapping[tuple[str, ...], str] = {
    ("compare", RUN): "",
    ("compare", RUN, "--csv"): "",
    ("compare", RUN, "--md", "--published"): "",
    ("compare", RUN, "--json"): "",
    FLAME: "out",
    ("watch", RUN, "--once"): "",
    ("watch", RUN, "--once", "--json"): "",
    ("watch", RUN, "--plain"): "",
    ("list", "runs"): "",
    ("list", "runs", "--json"): "",
    ("list", "choices"): "",
    ("list", "probes"): "",
    ("mark", "word", RUN): "",
    ("stop", RUN): "",
    ("tag", "word", RUN): f"runs/{RUN}/tags.json",
    ("delete", RUN): "",
    ("delete", RUN, "--yes"): f"runs/{RUN}",
    ("resume", RUN, "--plain"): f"runs/{RUN}",
}
ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b2J\r\u202e[/red]\nnext"
NAMES: Mapping[str, str] = {
    "parents": "../../../outside",
    "absolute": "BOX/outside",
    "parent": "..",
    "here": ".",
    "empty": "",
    "nested": "a/b",
    "long": "x" * 300,
    "longer": "x" * 70_000,
    "escapes": ESCAPES,
    "zero byte": "a\0b",
    "half a character": "a\ud800",
    "formula": "=cmd()|' /C calc'!A0",
    "option": "-rf",
    "format": "{0}%s%n$(id)",
}
# The meaning of a name in a record, and where the journal has it besides the manifest.
NAMED: Mapping[str, tuple[str, str]] = {
    CELL: ("attempt", "cell"),
    "16.3": ("meta", "value"),
    "auto": ("meta", "value"),
    "l.i1": ("step", "name"),
    "insert": ("role", "name"),
    RUN: ("meta", "value"),
    "insert ": ("sample", "source"),
}
VALUES: Mapping[str, Any] = {
    "null": None, "true": True, "text": "text", "escapes": ESCAPES, "minus one": -1, "zero": 0, "huge": 10**300,
    "infinite": float("inf"), "no number": float("nan"), "list": [], "lists": [[[]]], "table": {}, "numbers": [1, 2.5],
    "nested": {"a": {"b": [{"c": ESCAPES}]}}, "long": "x" * 100_000,
}  # fmt: skip
CELLS_OF_TABLES: Sequence[Any] = (
    None,
    "",
    "text",
    "[",
    "{}",
    "[1]",
    "null",
    b"\xff\xfe\x00",
    -1,
    2**62,
    1e308,
    ESCAPES,
)

Damage = Callable[[Path, Path], None]  # of a run, in a folder


def template(folder: Path) -> Path:
    """A finished run of two builds, with one of everything that a record can hold, below `folder`."""

    def stalls(cell: Cell, step: str, started_ns: int) -> list[Stall]:
        causes = ({"name": "lock", "text": "waits for a lock"},)
        return [Stall("insert", 1, started_ns, started_ns + 10**9, "rate", 0.01, 1.0, 10**9, 5, 200.0, causes)]

    run = make_run(folder / RUN, repeats=1, stalls=stalls)
    stacks = run / "cells" / CELL / "stacks"
    stacks.mkdir(parents=True)
    (stacks / "l.i1.insert.folded").write_text("PostgresMain;exec_simple_query 10\nPostgresMain;heap_insert 5\n")
    for path in (run / "engine.log", run / "cells" / CELL / "server.log", run / "cells" / CELL / "clients.log"):
        path.write_text("LOG:  ready\n")
    with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
        row = journal.execute("SELECT attempt_id, id, started_ns FROM step WHERE name = 'l.i1'").fetchone()
        for kind, data in (("mark", {"text": "here"}), ("probe", {"probe": "sched", "text": "lost"})):
            journal.execute(
                "INSERT INTO event (attempt_id, step_id, started_ns, kind, data) VALUES (?, ?, ?, ?, ?)",
                (*row, kind, json.dumps(data)),
            )
    return run


def attempt(source: Path, damage: Damage, arguments: Sequence[str]) -> Iterator[str]:
    """Damages a copy of a run, calls a command on it, and describes the faults of its behaviour."""
    with tempfile.TemporaryDirectory(prefix="pgbed-faults-", dir="/tmp") as name:
        box = Path(name)
        box.chmod(0o755)
        (box / "outside").mkdir()
        (box / "outside" / "file").write_text("somebody's\n")
        shutil.copytree(source, box / "runs" / RUN, symlinks=True)
        damage(box / "runs" / RUN, box)
        before = contents(box)
        outcome = call((*arguments, "--out", "runs"), box)
        for process, _ in processes_of(box):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        yield from faults(outcome)
        allowed = COMMANDS[tuple(arguments)]
        after = contents(box)
        for path in sorted(before.keys() | after.keys()):
            inside = allowed and (path == allowed or path.startswith(f"{allowed}/"))
            if before.get(path) != after.get(path) and not inside:
                yield f"{path} was {'changed' if path in before and path in after else 'made or removed'}"


def contents(folder: Path) -> dict[str, str]:
    """Contents of a folder: paths, and the state of each file."""
    digests = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            digests[str(path.relative_to(folder))] = str(path.readlink())
        elif path.is_file():
            digests[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            digests[str(path.relative_to(folder))] = "no file"
    return digests


# -- hostile records


def hostile(source: Path) -> Iterator[Case]:
    """Names that lead elsewhere, binaries of the record's own, links and devices in place of files, escapes."""
    for arguments in COMMANDS:
        for what, damage in _hostile():
            yield Case(f"{what}: bench {' '.join(arguments)}", partial(attempt, source, damage, arguments))


def _hostile() -> Iterator[tuple[str, Damage]]:
    for old in NAMED:
        for what, name in NAMES.items():
            yield f"{old} is called {what}", partial(_renamed, old, name)
    for table, column in TEXTS:
        yield f"{table}.{column} holds escapes", partial(_set, table, column, ESCAPES)
        yield f"{table}.{column} holds JSON with escapes", partial(_set, table, column, _json(VALUES["nested"]))
    for path in FILES:
        for what, replace in REPLACED.items():
            yield f"{path} is {what}", partial(_replaced, path, replace)
    yield "a binary of its own", _own_binary
    yield "nested too deep", lambda run, _: _write(run, "manifest.json", b"[" * 200_000)
    yield "a number too long", lambda run, _: _write(run, "manifest.json", b'{"schema": [' + b"1" * 9000 + b"]}")
    yield "not UTF-8", lambda run, _: _write(run, "manifest.json", b'{"schema": [1, 2], "run": "\xff\xfe"}')


TEXTS = (
    ("attempt", "reason"), ("attempt", "origin"), ("attempt", "cell"), ("attempt", "state"), ("setting", "name"),
    ("setting", "value"), ("step", "name"), ("step", "kind"), ("step", "state"), ("step", "plan"), ("step", "totals"),
    ("role", "name"), ("role_second", "wait_event"), ("role_second", "service"), ("sample", "data"), ("event", "kind"),
    ("event", "role"), ("event", "data"), ("difference", "view"), ("difference", "object"), ("difference", "data"),
    ("size", "relation"), ("meta", "value"), ("session", "boot_id"),
)  # fmt: skip
FILES = (
    "manifest.json", "journal.db", "journal.db-wal", "engine.lock", "engine.log", "tags.json", "cells", f"cells/{CELL}",
    f"cells/{CELL}/data", f"cells/{CELL}/socket", f"cells/{CELL}/server.log", f"cells/{CELL}/stacks/l.i1.insert.folded",
)  # fmt: skip
REPLACED: Mapping[str, Callable[[Path, Path], object]] = {
    "a FIFO": lambda path, _: os.mkfifo(path),
    "a link to a device without end": lambda path, _: path.symlink_to("/dev/zero"),
    "a link to somebody's folder": lambda path, box: path.symlink_to(box / "outside"),
    "a link to somebody's file": lambda path, box: path.symlink_to(box / "outside" / "file"),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
    "a folder": lambda path, _: path.mkdir(),
    "empty": lambda path, _: path.write_bytes(b""),
    "no text": lambda path, _: path.write_bytes(os.urandom(4096)),
    "missing": lambda path, _: None,
}


def _renamed(old: str, name: str, run: Path, box: Path) -> None:
    new = name.replace("BOX", str(box))
    manifest = _manifest(run)
    _write(run, "manifest.json", json.dumps(_replaced_in(manifest, old, new)).encode())
    table, column = NAMED[old]
    if table != "meta":
        value = new.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
            journal.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (value, old))


def _replaced_in(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        pairs = ((key.replace(old, new) if "/" in key else key, item) for key, item in value.items())
        return {key: _replaced_in(item, old, new) for key, item in pairs}
    if isinstance(value, list):
        return [_replaced_in(item, old, new) for item in value]
    return new if value == old else value


def _set(table: str, column: str, value: object, run: Path, _: Path) -> None:
    with closing(sqlite3.connect(run / "journal.db")) as journal, suppress(sqlite3.IntegrityError), journal:
        journal.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))


def _replaced(name: str, replace: Callable[[Path, Path], object], run: Path, box: Path) -> None:
    path = run / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if path.parent.is_dir():
        replace(path, box)


def _own_binary(run: Path, box: Path) -> None:
    """An unfinished record whose build is a script that leaves a trace."""
    prefix = box / "theirs"
    (prefix / "bin").mkdir(parents=True)
    for program in ("postgres", "initdb", "psql"):
        (prefix / "bin" / program).write_text(f"#!/bin/sh\ntouch {box}/executed\n")
        (prefix / "bin" / program).chmod(0o755)
    manifest = _manifest(run)
    for build in manifest["builds"]:
        build["prefix"] = str(prefix)
    _write(run, "manifest.json", json.dumps(manifest).encode())
    _set("attempt", "state", "failed", run, box)


# -- manifests


def manifests(source: Path, count: int, number: int) -> Iterator[Case]:
    """Manifests with an entry replaced, removed or doubled, as hypothesis chooses."""
    json_values = st.recursive(
        st.sampled_from([*VALUES.values(), *NAMES.values()]) | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    )
    manifest = _manifest(source)
    places = list(_places(manifest))
    drawn: list[tuple[tuple[Any, ...], str, Any]] = []

    @seed(number)
    @settings(
        max_examples=count, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.sampled_from(places), st.sampled_from(("is", "is", "is", "is missing", "is there twice")), json_values)
    def draw(place: tuple[Any, ...], how: str, value: Any) -> None:
        drawn.append((place, how, value))

    draw()
    commands = list(COMMANDS)
    for turn, (place, how, value) in enumerate(drawn):
        arguments = commands[turn % len(commands)]
        what = f"{'.'.join(map(str, place))} {how}" + (f" {value!r}"[:120] if how == "is" else "")
        damage = partial(_manifest_with, place, how, value)
        yield Case(
            f"manifest {turn} seed {number}: {what}: bench {' '.join(arguments)}",
            partial(attempt, source, damage, arguments),
        )


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _manifest_with(place: tuple[Any, ...], how: str, value: Any, run: Path, _: Path) -> None:
    manifest = _manifest(run)
    holder = manifest
    for key in place[:-1]:
        holder = holder[key]
    if how == "is":
        holder[place[-1]] = value
    elif how == "is missing":
        del holder[place[-1]]
    elif isinstance(holder, list):
        holder.append(holder[place[-1]])
    else:
        holder[f"{place[-1]}2"] = holder[place[-1]]
    _write(run, "manifest.json", json.dumps(manifest).encode())


# -- journals


def journals(source: Path, count: int, number: int) -> Iterator[Case]:
    """Journals with flipped bits, cut, with pages that are empty or in each other's place, with other values."""
    commands = list(COMMANDS)
    for turn in range(count):
        name, damage = list(JOURNALS.items())[turn % len(JOURNALS)]
        arguments = commands[turn // len(JOURNALS) % len(commands)]
        chosen = f"{number}-{turn}"
        yield Case(
            f"journal {name} seed {chosen}: bench {' '.join(arguments)}",
            partial(attempt, source, partial(_journal_with, damage, chosen), arguments),
        )


def _journal_with(damage: Callable[[Path, random.Random], None], chosen: str, run: Path, _: Path) -> None:
    damage(run / "journal.db", random.Random(chosen))


def _flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 3, 20, 200))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _cut(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def _pages(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    one, other = (chance.randrange(len(data) // 4096) * 4096 for _ in range(2))
    page = data[other : other + 4096]
    data[other : other + 4096] = data[one : one + 4096] if chance.random() < 0.7 else bytes(4096)
    data[one : one + 4096] = page
    path.write_bytes(data)


def _bits_of_text(path: Path, chance: random.Random) -> None:
    """A flipped bit inside JSON, which SQLite cannot notice."""
    data = bytearray(path.read_bytes())
    texts = [at for at in range(0, len(data) - 2) if data[at : at + 2] == b'":']
    data[chance.choice(texts) - chance.randrange(1, 8)] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _values(path: Path, chance: random.Random) -> None:
    with closing(sqlite3.connect(path)) as journal, suppress(sqlite3.IntegrityError), journal:
        tables = [name for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = chance.choice(tables)
        columns = [row[1] for row in journal.execute(f"PRAGMA table_info({table})") if row[1] != "id"]
        value = chance.choice((*CELLS_OF_TABLES, *map(_json, VALUES.values())))
        rows = "1" if chance.random() < 0.5 else "rowid % 3 = 0" if "role_second" not in table else "t_ns % 3 = 0"
        with suppress(sqlite3.OperationalError):
            journal.execute(f"UPDATE OR IGNORE {table} SET {chance.choice(columns)} = ? WHERE {rows}", (value,))


JOURNALS: Mapping[str, Callable[[Path, random.Random], None]] = {
    "bits": _flip, "cut": _cut, "pages": _pages, "bits of text": _bits_of_text, "values": _values,
}  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value)


def _manifest(run: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((run / "manifest.json").read_text())
    return manifest


def _write(run: Path, name: str, data: bytes) -> None:
    (run / name).write_bytes(data)
