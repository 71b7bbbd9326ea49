"""The data of an application as files: their kinds, sizes and digest, and their demands on a server.

Nothing in them is believed: an archive is listed by pg_restore, SQL is read as text.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from psycopg.conninfo import conninfo_to_dict

from workloads.api.files import open_plain

Format = Literal["custom", "directory", "tar", "sql", "schema"]
HEAD_BYTES = 1024
ENCRYPTED = (b"Salted__", b"age-encryption.org", b"-----BEGIN PGP", b"-----BEGIN AGE", b"\x85", b"\x8c", b"\x84")
COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ": "unxz", b"BZh": "bunzip2"}
UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"-\0-\0", b"\0-\0-")  # with its mark, or as a dump begins
LIST_S = 60


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is absolute; `rows_from` is the second file of a schema. `bytes` and `digest` cover all files.

    `extensions`, the `schemas` of those that name one, `major` (of the server that was dumped; 0: unknown), further
    `demands` (see `workloads.api.base.Surveying`) and how many of each kind are `left_out` are known once the files
    have been surveyed.
    """

    path: str
    format: Format
    rows_from: str = ""
    bytes: int = 0
    digest: str = ""
    extensions: tuple[str, ...] = ()
    schemas: dict[str, str] = {}
    major: int = 0
    demands: tuple[str, ...] = ()
    left_out: dict[str, int] = {}
    template: str = ""  # the database that it is a dump of, made for this run

    @property
    def files(self) -> tuple[Path, ...]:
        path = Path(self.path)
        if self.format == "directory":
            return tuple(sorted(file for file in path.iterdir() if file.is_file()))
        return (path, *((Path(self.rows_from),) if self.rows_from else ()))

    @property
    def archive(self) -> bool:
        return self.format not in ("sql", "schema")

    @property
    def name(self) -> str:
        if not self.template:
            return Path(self.path).name
        known = conninfo_to_dict(self.template)
        return f"{known.get('host', '')}/{known.get('dbname', '')}"


def user_path(text: str) -> Path:
    """The path that a user has typed. `~NAME` without such a user stays as it is, as in a shell."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 (pathlib's raises for it)


def of_dump(text: str, option: str = "--dump") -> Data:
    """Raises ValueError for a file that is not a dump, or cannot be restored as it is."""
    path = user_path(text).absolute()
    try:
        if path.is_dir():
            if not (path / "toc.dat").is_file():
                raise ValueError(f"{option} {text}: a folder without toc.dat is no dump by pg_dump --format=directory")
            return _sized(Data(path=str(path), format="directory"), option)
        with os.fdopen(open_plain(path, follow=True), "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise ValueError(f"{option} {text}: {error.strerror}") from None
    if not head:
        raise ValueError(f"{option} {text}: it is empty")
    if head.startswith(ENCRYPTED):
        raise ValueError(f"{option} {text}: it looks encrypted; decrypt it first")
    for magic, program in COMPRESSED.items():
        if head.startswith(magic):
            raise ValueError(f"{option} {text}: it is compressed as a whole; unpack it first ({program})")
    if head.startswith(b"PGDMP"):
        return _sized(Data(path=str(path), format="custom"), option)
    if head[257:262] == b"ustar" and head.startswith(b"toc.dat\0"):
        return _sized(Data(path=str(path), format="tar"), option)
    _check_text(head, f"{option} {text}")
    return _sized(Data(path=str(path), format="sql"), option)


def of_schema(schema: str, rows_from: str | None) -> Data:
    files = [user_path(text).absolute() for text in (schema, *([rows_from] if rows_from else []))]
    for option, path in zip(("--schema", "--rows-from"), files, strict=False):
        try:
            with os.fdopen(open_plain(path, follow=True), "rb") as file:
                _check_text(file.read(HEAD_BYTES), f"{option} {path}")
        except OSError as error:
            raise ValueError(f"{option} {path}: {error.strerror}") from None
    data = Data(path=str(files[0]), format="schema", rows_from=str(files[1]) if rows_from else "")
    return _sized(data, "--schema")


def _check_text(head: bytes, what: str) -> None:
    if head.startswith(UTF_16):
        raise ValueError(
            f"{what}: it is UTF-16, as > of PowerShell writes: convert it (iconv -f UTF-16 -t UTF-8), or dump with "
            "pg_dump --file"
        )
    if b"\0" in head:
        raise ValueError(f"{what}: neither an archive by pg_dump nor SQL; is it encrypted or damaged?")


def _sized(data: Data, option: str) -> Data:
    try:
        states = tuple((str(file), (state := file.stat()).st_size, state.st_mtime_ns) for file in data.files)
        digest = _digest(states)
    except OSError as error:
        raise ValueError(f"{option} {data.path}: {error.strerror}") from None
    return msgspec.structs.replace(data, bytes=sum(size for _, size, _ in states), digest=digest)


@lru_cache(maxsize=8)
def _digest(states: tuple[tuple[str, int, int], ...]) -> str:
    """The digest of names and contents; files that have not changed since are not read again."""
    digest = hashlib.sha256()
    for path, size, _ in states:
        digest.update(f"{Path(path).name} {size}\n".encode() if len(states) > 1 else b"")
        with os.fdopen(open_plain(Path(path), follow=True), "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def change(data: Data) -> str:
    """The reason why the files are not those that were planned, or ""."""
    try:
        same = _sized(data, "").digest == data.digest
    except ValueError as error:
        return str(error).strip()
    return "" if same else f"{data.path} has changed since the run was planned"


def reported_by(pg_restore: str, data: Data, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [pg_restore, *arguments, data.path], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=LIST_S, check=False, env={"LC_ALL": "C", "PATH": os.environ.get("PATH", "")},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"{pg_restore} cannot list {data.path}: {error}") from None
    if done.returncode:
        why = " ".join(done.stderr.split()).removeprefix("pg_restore: error: ")
        if "unsupported version" in why:
            why = f"a newer pg_dump made it than {pg_restore} can read ({why}); set pg_restore in config.toml"
        raise ValueError(f"--dump {data.path}: cut short, damaged, or not by pg_dump: {why}" if "newer" not in why
                         else f"--dump {data.path}: {why}")  # fmt: skip
    return done.stdout


def check_readable(data: Data) -> None:
    """Check, as root, that a user without privileges, who restores it, can read it. Raises ValueError."""
    if os.geteuid() != 0:
        return
    for file in data.files:
        for place in (*reversed(file.resolve().parents), file):
            mode = place.stat().st_mode
            if not mode & (0o001 if place.is_dir() else 0o004):
                raise ValueError(f"{data.path}: the user that restores it, who has no privileges, may not enter or "
                                 f"read {place}; move it, or change that mode")  # fmt: skip
