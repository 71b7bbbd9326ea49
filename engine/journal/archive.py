"""A run packed into one small file and back: its manifest, journal and sampled stacks, without logs.

A packed file is untrusted: only plain files with a run's names are unpacked, up to a size limit.
"""

from __future__ import annotations

import io
import lzma
import re
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

from engine.core.errors import UserError
from engine.journal.database import readable
from engine.journal.manifest import read_manifest
from engine.system.files import is_name

MANIFEST, JOURNAL = "manifest.json", "journal.db"
STACKS = re.compile(r"cells/([^/]+)/(?:stacks|offcpu)/([^/]+\.folded)")
MOST_BYTES = 64 << 20


def pack(run: Path, to: Path) -> int:
    """Return the size in bytes. Raises UserError if the run is damaged."""
    folded = (path for probe in ("stacks", "offcpu") for path in run.glob(f"cells/*/{probe}/*.folded"))
    stacks = sorted(path for path in folded if path.is_file())
    with tempfile.TemporaryDirectory() as folder, readable(run):
        journal = Path(folder) / JOURNAL
        with closing(sqlite3.connect(f"file:{run / JOURNAL}?mode=ro", uri=True)) as database:
            database.execute("VACUUM INTO ?", (str(journal),))
        with (
            lzma.open(to, "wb", preset=9 | lzma.PRESET_EXTREME) as file,
            tarfile.open(fileobj=file, mode="w") as packed,
        ):
            for path, name in ((run / MANIFEST, MANIFEST), (journal, JOURNAL)):
                _add(packed, name, path.read_bytes())
            for path in stacks:
                _add(packed, str(path.relative_to(run)), path.read_bytes())
    return to.stat().st_size


def _add(packed: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # no owner or time: the same run packs to the same bytes
    member.size = len(data)
    packed.addfile(member, io.BytesIO(data))


def unpack(packed: bytes, where: str, out: Path) -> Path:
    """Unpack a run below `out`; return its folder. Raises UserError, which names `where` the file came from."""
    try:
        with tarfile.open(fileobj=io.BytesIO(_decompressed(packed)), mode="r:") as file:
            members = _members(file)
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError, ValueError) as error:
        raise UserError(f"{where}: no packed run can be read from it: {error}") from None
    if not {MANIFEST, JOURNAL} <= members.keys():
        raise UserError(f"{where}: holds no run: {MANIFEST} or {JOURNAL} is missing")
    with tempfile.TemporaryDirectory(dir=out) as folder:
        unpacked = Path(folder) / "run"
        (unpacked / "cells").mkdir(parents=True)
        for name, data in members.items():
            (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
            (unpacked / name).write_bytes(data)
        name = read_manifest(unpacked).run
        run = out / name
        if not is_name(name) or run.exists():
            raise UserError(f"{run}: is there already, or is no name for a run's folder")
        unpacked.rename(run)
    return run


def _decompressed(packed: bytes) -> bytes:
    """Raises ValueError if the archive is too large: its headers alone may claim any amount of memory."""
    decompressor = lzma.LZMADecompressor()
    archive = decompressor.decompress(packed, MOST_BYTES + 1)
    if len(archive) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
    if not decompressor.eof:
        raise EOFError("it ends too early")
    return archive


def _members(file: tarfile.TarFile) -> dict[str, bytes]:
    """The files of a run by archive path. Raises ValueError for any other file."""
    members: dict[str, bytes] = {}
    for member in file:
        stacks = STACKS.fullmatch(member.name)
        named = member.name in (MANIFEST, JOURNAL) or (stacks is not None and all(map(is_name, stacks.groups())))
        if not named or not member.isreg() or member.issparse() or member.name in members:
            raise ValueError(f"{member.name} is no file of a run")
        data = file.extractfile(member)
        assert data is not None  # it is a plain file
        members[member.name] = data.read()
    return members
