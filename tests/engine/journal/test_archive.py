"""A run as one file: packed files are read again, and nothing else is taken from another user's file."""

from __future__ import annotations

import io
import lzma
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.journal.archive import pack, unpack
from engine.journal.manifest import read_manifest
from engine.tracing import stacks
from tests.support.journal import make_run


def rows(run: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(run / "journal.db")) as journal:
        tables = [name for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [row for name in sorted(tables) for row in journal.execute(f"SELECT * FROM {name}")]


def test_what_is_packed_is_read_again_without_logs(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", repeats=1)
    cell = read_manifest(run).cells[0].id
    stacks.write_folded(run / "cells" / cell, "l.i1", "insert", {"main;exec": 3})
    stacks.write_folded(run / "cells" / cell, "l.i1", "insert", {"[disk];fsync": 7}, "offcpu")
    (run / "cells" / cell / "server.log").write_text("secret")
    packed = tmp_path / "packed.tar.xz"
    assert pack(run, packed) == packed.stat().st_size
    pack(run, tmp_path / "again.tar.xz")
    assert (tmp_path / "again.tar.xz").read_bytes() == packed.read_bytes()
    (tmp_path / "out").mkdir()
    unpacked = unpack(packed.read_bytes(), "it", tmp_path / "out")
    assert unpacked == tmp_path / "out" / read_manifest(run).run
    assert rows(unpacked) == rows(run)
    assert stacks.parse(unpacked / "cells" / cell / "stacks" / "l.i1.insert.folded") == {"main;exec": 3}
    assert stacks.parse(unpacked / "cells" / cell / "offcpu" / "l.i1.insert.folded") == {"[disk];fsync": 7}
    assert not list(unpacked.rglob("*.log"))
    with pytest.raises(UserError, match="is there already"):
        unpack(packed.read_bytes(), "it", tmp_path / "out")


def packed_of(*members: tuple[str, bytes, bytes], comment: int = 0, sparse: bool = False) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz", preset=0) as file:
        for name, data, kind in members:
            member = tarfile.TarInfo(name)
            member.pax_headers = {"comment": "x" * comment} if comment else {}
            if sparse:
                member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}
            member.size, member.type, member.linkname = len(data), kind, "/etc/passwd"
            file.addfile(member, io.BytesIO(data))
    return archive.getvalue()


ONE = ("manifest.json", b"{}", tarfile.REGTYPE)


@pytest.mark.parametrize(
    ("pack", "said"),
    [
        (lambda: b"", "no packed run"),
        (lambda: lzma.compress(b"x" * 2000), "no packed run"),
        (lambda: packed_of(("../manifest.json", b"{}", tarfile.REGTYPE)), "is no file of a run"),
        (lambda: packed_of(("/manifest.json", b"{}", tarfile.REGTYPE)), "is no file of a run"),
        (lambda: packed_of(("manifest.json", b"", tarfile.SYMTYPE)), "is no file of a run"),
        (lambda: packed_of(("cells/../stacks/x.folded", b"", tarfile.REGTYPE)), "is no file of a run"),
        (lambda: packed_of(("cells/a/stacks/.folded", b"", tarfile.FIFOTYPE)), "is no file of a run"),
        (lambda: packed_of(ONE, ONE), "is no file of a run"),
        (lambda: packed_of(("journal.db", bytes(65 << 20), tarfile.REGTYPE)), "more than 64 MiB"),
        (lambda: packed_of(ONE, comment=65 << 20), "more than 64 MiB"),
        (lambda: packed_of(ONE, sparse=True), "is no file of a run"),
        (lambda: packed_of(ONE)[:-40], "it ends too early"),
        (lambda: packed_of(ONE), "journal.db is missing"),
    ],
)
def test_what_is_no_run_is_one_line_and_leaves_nothing(tmp_path: Path, pack: Callable[[], bytes], said: str) -> None:
    with pytest.raises(UserError, match=said):
        unpack(pack(), "it", tmp_path)
    assert list(tmp_path.iterdir()) == []
