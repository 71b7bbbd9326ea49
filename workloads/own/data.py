"""The data of an application as files: what they are, how large, their digest, and what a server must have for them.

Nothing in them is believed: an archive is listed by pg_restore, SQL is read as text.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
from psycopg.conninfo import conninfo_to_dict

from workloads.files import open_plain
from workloads.own.sql import Command, SqlSyntax, Token, next_command

Mapped = mmap.mmap | bytes
Format = Literal["custom", "directory", "tar", "sql", "schema"]
HEAD_BYTES = 1024
CHUNK = 1 << 20
ENCRYPTED = (b"Salted__", b"age-encryption.org", b"-----BEGIN PGP", b"-----BEGIN AGE", b"\x85", b"\x8c", b"\x84")
COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ": "unxz", b"BZh": "bunzip2"}
HEADING = b"-- PostgreSQL database dump"
TRAILER = b"-- PostgreSQL database dump complete"
FROM_VERSION = re.compile(r"[Dd]umped from database version:? +([0-9]+)")
LIST_S = 60
# Entries of an archive's list: "215; 3079 16391 EXTENSION - pgcrypto".
EXTENSION = re.compile(r"\d+; \d+ \d+ EXTENSION - ")
HAS_ROWS = re.compile(r"\d+; \d+ \d+ (TABLE DATA|BLOB)")
# What the last rows are followed by, in bytes that are 0: a block of length 0, the end of a tar archive.
ENDS = {"custom": 5, "tar": 1024}
# Commands of a dump that need a superuser, or roles of another server: what they say does not change a plan.
LEFT_OUT = (
    ("create", "extension"),
    ("comment", "on", "extension"),
    ("grant",),
    ("revoke",),
    ("security", "label"),
    ("create", "publication"),
    ("create", "subscription"),
    ("alter", "default", "privileges"),
    ("set", "session", "authorization"),
    ("set", "default_tablespace"),
)
OWNER = re.compile(r"alter (?:.* )?(?<!rename )(?<!rename column )owner to(?: \w+)?")
RESTRICT = re.compile(rb"\\(un)?restrict [A-Za-z0-9]+\s*")


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is absolute; `rows_from` is the second file of a schema. `bytes` and `digest` are those of all files.

    `extensions`, the `schemas` of those that name one, and `major` (of the server that was dumped; 0: unknown) are
    known once the files have been surveyed.
    """

    path: str
    format: Format
    rows_from: str = ""
    bytes: int = 0
    digest: str = ""
    extensions: tuple[str, ...] = ()
    schemas: dict[str, str] = {}
    major: int = 0
    template: str = ""  # the database that it is a dump of, made for this run

    @property
    def files(self) -> tuple[Path, ...]:
        own = Path(self.path)
        if self.format == "directory":
            return tuple(sorted(file for file in own.iterdir() if file.is_file()))
        return (own, *((Path(self.rows_from),) if self.rows_from else ()))

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
    """Raises ValueError for what is no dump, or one that cannot be restored as it is."""
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
    if b"\0" in head:
        raise ValueError(f"{option} {text}: neither an archive by pg_dump nor SQL; is it encrypted or damaged?")
    return _sized(Data(path=str(path), format="sql"), option)


def of_schema(schema: str, rows_from: str | None) -> Data:
    files = [user_path(text).absolute() for text in (schema, *([rows_from] if rows_from else []))]
    for option, path in zip(("--schema", "--rows-from"), files, strict=False):
        try:
            os.close(open_plain(path, follow=True))
        except OSError as error:
            raise ValueError(f"{option} {path}: {error.strerror}") from None
    found = Data(path=str(files[0]), format="schema", rows_from=str(files[1]) if rows_from else "")
    return _sized(found, "--schema")


def _sized(data: Data, option: str) -> Data:
    try:
        states = tuple((str(file), (state := file.stat()).st_size, state.st_mtime_ns) for file in data.files)
        digest = _digest(states)
    except OSError as error:
        raise ValueError(f"{option} {data.path}: {error.strerror}") from None
    return msgspec.structs.replace(data, bytes=sum(size for _, size, _ in states), digest=digest)


@lru_cache(maxsize=8)
def _digest(states: tuple[tuple[str, int, int], ...]) -> str:
    """Of names and contents; files that have not changed since are not read again."""
    whole = hashlib.sha256()
    for path, size, _ in states:
        whole.update(f"{Path(path).name} {size}\n".encode() if len(states) > 1 else b"")
        with os.fdopen(open_plain(Path(path), follow=True), "rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def change(data: Data) -> str:
    """Why the files are not those that were planned, or ""."""
    try:
        same = _sized(data, "").digest == data.digest
    except ValueError as error:
        return str(error).strip()
    return "" if same else f"{data.path} has changed since the run was planned"


def surveyed(data: Data, pg_restore: str) -> Data:
    """With its extensions, and the version of the server that it came from. Raises ValueError in one line."""
    extensions: dict[str, str] = {}
    majors = [0]
    try:
        if not data.template:  # the engine gives that to the user
            _check_readable(data)
        if data.archive:
            return _of_archive(data, pg_restore)
        for path in data.files:
            with mapped(path) as text:
                if text.find(HEADING) >= 0 and text.rfind(TRAILER, max(0, len(text) - HEAD_BYTES)) < 0:
                    raise ValueError(f"{path}: it is cut short: the last line of a dump is missing")
                head = bytes(text[:HEAD_BYTES]).decode(errors="replace")
                majors += [int(major) for major in FROM_VERSION.findall(head)]
                for command in sql_commands(text, path):
                    extensions |= _extension(command)
    except OSError as error:
        raise ValueError(f"{data.path}: {error.strerror}") from None
    return _with_extensions(data, extensions, max(majors))


def _of_archive(data: Data, pg_restore: str) -> Data:
    listed = _said_by(pg_restore, data, "--list")
    entries = listed.splitlines()
    if any(map(HAS_ROWS.match, entries)) and _last(data, ENDS.get(data.format, 0)).strip(b"\0"):
        raise ValueError(f"--dump {data.path}: it is cut short: the end of its last rows is missing")
    if data.format == "directory":
        for entry in filter(HAS_ROWS.match, entries):
            name = f"{entry.partition(';')[0]}.dat"
            if "TABLE DATA" in entry and not any(file.name.startswith(name) for file in data.files):
                raise ValueError(f"--dump {data.path}: it is cut short: its file {name} is missing")
    extensions: dict[str, str] = {}
    if named := [line for line in entries if EXTENSION.match(line)]:
        with tempfile.NamedTemporaryFile("w", suffix=".list") as file:
            file.write("\n".join(named))
            file.flush()
            text = _said_by(pg_restore, data, f"--use-list={file.name}", "--file=-")
        for command in sql_commands(text.encode(), Path(data.path)):
            extensions |= _extension(command)
    major = FROM_VERSION.search(listed)
    return _with_extensions(data, extensions, int(major.group(1)) if major else 0)


def _last(data: Data, count: int) -> bytes:
    if not count:
        return b""
    with Path(data.path).open("rb") as file:
        file.seek(-count, os.SEEK_END)
        return file.read()


def _said_by(pg_restore: str, data: Data, *arguments: str) -> str:
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


def _with_extensions(data: Data, extensions: dict[str, str], major: int) -> Data:
    schemas = {name: schema for name, schema in extensions.items() if schema}
    return msgspec.structs.replace(data, extensions=tuple(extensions), schemas=schemas, major=major)


def _extension(command: Command) -> dict[str, str]:
    """The extension that a command creates, and the schema that it is put into, if one is named."""
    if command.words[:2] != ("create", "extension"):
        return {}
    name, *rest = _named(command)
    schema = rest[rest.index("schema") + 1 :] if "schema" in rest else []
    return {name: schema[0] if schema else ""} if name else {}


def _named(command: Command) -> list[str]:
    """What follows the first two words: names, without quotation marks, and further words."""
    found = [token.text.decode(errors="replace") for token in command.tokens if token.kind in ("word", "quoted")][2:]
    names = [text[1:-1].replace('""', '"') if text[0] == '"' else text.lower() for text in found]
    return (names[3:] if names[:3] == ["if", "not", "exists"] else names) or [""]


def made_before(command: Command, data: Data) -> bool:
    """Whether it creates a schema that is there already: that of an extension, or `public`."""
    if command.words[:2] != ("create", "schema"):
        return False
    name, *rest = _named(command)
    return name in ("public", *data.schemas.values()) and rest[:1] in ([], ["authorization"])


class mapped:
    """A file's bytes, mapped while the context lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Mapped:
        with os.fdopen(open_plain(self._path, follow=True), "rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            self._map: Mapped = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map

    def __exit__(self, *_: object) -> None:
        if isinstance(self._map, mmap.mmap):
            self._map.close()


def sql_commands(text: Mapped, path: Path) -> Iterator[Command]:
    """The commands of a script. That of COPY … FROM stdin has its rows as a last token, of kind `rows`.

    Raises ValueError for psql's commands other than those that pg_dump writes, and for rows without an end.
    """
    place, line = 0, 1
    while True:
        try:
            command, place, line = next_command(text, place, line)
        except SqlSyntax as error:
            raise ValueError(f"{path}:{error.line}: {error.reason}") from None
        if command is None:
            return
        if command.tokens[-1].kind == "backslash":
            if not RESTRICT.fullmatch(command.tokens[-1].text):
                own = command.tokens[-1].text.decode(errors="replace").split()[0]
                raise ValueError(f"{path}:{command.line}: {own} is a command of psql, not SQL: leave it out")
            continue
        if command.words[:1] == ("copy",) and ("from", "stdin") in pairwise(command.words):
            begin = text.find(b"\n", place) + 1
            none = text[begin : begin + 3] == b"\\.\n"
            end = begin if none else text.find(b"\n\\.\n", begin) + 1
            if not begin or end <= 0:
                raise ValueError(f"{path}:{command.line}: it is cut short: the rows of COPY have no end")
            yield Command((*command.tokens, Token("rows", b"", begin), Token("rows", b"", end)), command.line)
            line += 2 + sum(text[chunk : min(chunk + CHUNK, end)].count(b"\n") for chunk in range(begin, end, CHUNK))
            place = end + 3
            continue
        yield command


def left_out(command: Command) -> bool:
    words = command.words
    return any(words[: len(out)] == out for out in LEFT_OUT) or OWNER.fullmatch(" ".join(words)) is not None


def _check_readable(data: Data) -> None:
    """As root, whether a user without privileges, who restores it, can read it. Raises ValueError."""
    if os.geteuid() != 0:
        return
    for file in data.files:
        for place in (*reversed(file.resolve().parents), file):
            mode = place.stat().st_mode
            if not mode & (0o001 if place.is_dir() else 0o004):
                raise ValueError(f"{data.path}: the user that restores it, who has no privileges, may not enter or "
                                 f"read {place}; move it, or change that mode")  # fmt: skip
