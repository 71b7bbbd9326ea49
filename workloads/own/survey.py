"""Requirements of an application's files on a server and on the user, read before anything runs."""

from __future__ import annotations

import codecs
import os
import re
import tempfile
from itertools import pairwise
from pathlib import Path

import msgspec

from workloads.own.data import Data, check_readable, reported_by
from workloads.own.dump_statements import CHUNK, DumpStatement, LineNumbers, NoEnd, Source, line_of, mapped, statements
from workloads.own.left_out import TRUST, Sorting, entry_left_out, names_after, summary, superuser, unquoted

HEADING = b"-- PostgreSQL database dump"
TRAILER = HEADING + b" complete"
FROM_VERSION = re.compile(r"[Dd]umped from database version:? +([0-9]+)")
VERSION_BYTES = 64 << 10
HAS_ROWS = re.compile(r"\d+; \d+ \d+ (TABLE DATA|BLOB)")
# Bytes of 0 that follow the last rows: a block of length 0, the end of a tar archive.
ENDS = {"custom": 5, "tar": 1024}
SHOWN = 60
EVERYWHERE = ("default", "c", "posix", "ucs_basic", "unicode", "pg_c_utf8", "pg_unicode_fast")  # collations
# The encodings of clients that servers convert, without punctuation.
ENCODINGS = re.compile(
    r"utf8|unicode|sqlascii|big5|euc(?:cn|jis2004|jp|kr|tw)|gb18030|gbk|johab|uhc|s(?:hift)?jis(?:2004)?|mskanji|"
    r"koi8[ru]?|iso8859\d{1,2}|latin(?:\d|10)|win(?:dows)?(?:125\d|866|874|932|936|949|950)?|alt|abc|tcvn(?:5712)?|vscii"
)
AS_UTF8 = frozenset({"utf8", "unicode", "sqlascii"})


def surveyed(data: Data, pg_restore: str = "", *, trusted: bool = False) -> Data:
    """The data with extensions, demands, parts left out, and its server's version. Raises ValueError in one line."""
    survey = Survey(trusted=trusted)
    try:
        if not data.template:  # the engine gives that to the user
            check_readable(data)
        if data.archive:
            survey.archive(data, pg_restore)
        else:
            for path in data.files:
                with mapped(path) as text:
                    survey.file(text, path)
    except OSError as error:
        raise ValueError(f"{data.path}: {error.strerror}") from None
    return survey.of(data)


class Survey:
    """The findings in the files of one dump, one after the other."""

    def __init__(self, *, trusted: bool) -> None:
        self.trusted, self.sorting, self.major = trusted, Sorting(), 0
        self.extensions: dict[str, str] = {}  # the schema of each, or ""
        self.demands: dict[str, None] = {}
        self.collations = set(EVERYWHERE)

    def of(self, data: Data) -> Data:
        schemas = {name: schema for name, schema in self.extensions.items() if schema}
        return msgspec.structs.replace(
            data, extensions=tuple(self.extensions), schemas=schemas, major=self.major,
            left_out=dict(self.sorting.counts), demands=tuple(self.demands),
        )  # fmt: skip

    def file(self, text: Source, path: Path) -> None:
        # More may follow: another dump, or statements by hand.
        if (last := text.rfind(HEADING)) >= 0 and text[last : last + len(TRAILER)] != TRAILER:
            raise ValueError(f"{path}: it is cut short: the last line of a dump is missing")
        versions = FROM_VERSION.findall(bytes(text[:VERSION_BYTES]).decode(errors="replace"))
        self.major = max([self.major, *map(int, versions)])
        encodings = self._statements(text, str(path))
        if encodings <= AS_UTF8 and (place := _not_utf8(text)) >= 0:
            raise ValueError(
                f"{path}:{line_of(text, place)}: it is not UTF-8, and nothing in it names another encoding: put "
                "SET client_encoding = 'LATIN1'; (or its own) at its beginning, or convert it: iconv -t UTF-8"
            )

    def archive(self, data: Data, pg_restore: str) -> None:
        listed = reported_by(pg_restore, data, "--list")
        entries = listed.splitlines()
        if any(map(HAS_ROWS.match, entries)) and _last(data, ENDS.get(data.format, 0)).strip(b"\0"):
            raise ValueError(f"--dump {data.path}: it is cut short: the end of its last rows is missing")
        if data.format == "directory":
            for entry in filter(HAS_ROWS.match, entries):
                name = f"{entry.partition(';')[0]}.dat"
                if "TABLE DATA" in entry and not any(file.name.startswith(name) for file in data.files):
                    raise ValueError(f"--dump {data.path}: it is cut short: its file {name} is missing")
        counts = self.sorting.counts
        for kind in filter(None, map(entry_left_out, entries)):
            counts[kind.one] = counts.get(kind.one, 0) + 1
        with tempfile.NamedTemporaryFile("w", suffix=".list") as kept:
            kept.write("\n".join(entry for entry in entries if not entry_left_out(entry)))
            kept.flush()
            text = reported_by(
                pg_restore, data, "--schema-only", "--no-owner", "--no-tablespaces", f"--use-list={kept.name}",
                "--file=-",
            )  # fmt: skip
        counts = dict(counts)
        self._statements(text.encode(errors="replace"), data.path, lines=False)
        self.sorting.counts = counts  # what pg_restore itself writes is its own affair
        if major := FROM_VERSION.search(listed):
            self.major = int(major[1])

    def _statements(self, text: Source, where: str, *, lines: bool = True) -> frozenset[str]:
        """Read them; return the encodings that they are in."""
        encodings: set[str] = set()
        numbers = LineNumbers(text)
        try:
            for statement in statements(text):
                place = f"{where}:{numbers.of(statement.begin)}" if lines and _matters(statement) else where
                try:
                    self._statement(statement, place, kept=self.sorting.keeps(statement))
                except ValueError as error:
                    raise ValueError(f"{place}: {error}") from None
                if encoding := _encoding(statement):
                    encodings.add(_plain(encoding))
        except NoEnd as error:
            at = f"{where}:{line_of(text, error.place)}" if lines else where
            raise ValueError(f"{at}: {error}") from None
        if len(self.sorting.making) > 1:
            names = ", ".join(name or "the first" for name in self.sorting.making)
            raise ValueError(f"{where}: it has the data of several databases ({names}); dump one of them, with pg_dump")
        return frozenset(encodings)

    def _statement(self, statement: DumpStatement, place: str, *, kept: bool) -> None:
        tokens = statement.tokens
        if tokens[:2] == ("create", "extension"):
            name, *rest = names_after(statement, 2)
            self.extensions[name] = rest[rest.index("schema") + 1] if "schema" in rest[:-1] else ""
        if not kept or not _matters(statement):
            return
        if not self.trusted and (what := superuser(statement)):
            raise ValueError(f"{what} needs a superuser ({_shown(statement)}): {TRUST}; or dump without it")
        if (encoding := _encoding(statement)) and not ENCODINGS.fullmatch(_plain(encoding)):
            raise ValueError(f"no server converts client_encoding {encoding}: use pg_dump --encoding=UTF8")
        if tokens[:2] == ("create", "collation"):
            self._makes_collation(statement, place)
        words = ("collate", "from") if tokens[:2] == ("create", "collation") else ("collate",)
        for at, word in enumerate(tokens):
            if word in words and (name := _named(tokens[at + 1 : at + 4])).lower() not in self.collations and name:
                self.demands[f"collation {place}: {name}"] = None

    def _makes_collation(self, statement: DumpStatement, place: str) -> None:
        tokens = statement.tokens[5:] if statement.tokens[2:5] == ("if", "not", "exists") else statement.tokens[2:]
        self.collations.add(_named(tokens[:3]).lower())
        options = {word: unquoted(tokens[at + 2]) for at, (word, equals) in enumerate(pairwise(tokens[:-1]))
                   if equals == "="}  # fmt: skip
        if options.get("provider") == "icu":
            self.demands[f"icu {place}: {_named(tokens[:3])}"] = None
        elif options.get("provider", "libc") == "libc":
            for option in ("locale", "lc_collate", "lc_ctype"):
                if (name := options.get(option, "C")).lower() not in self.collations:
                    self.demands[f"locale {place}: {name}"] = None


def left_out(data: Data) -> str:
    """The line on parts that no server is given, or ""."""
    return f"left out of {data.name}: {text}" if (text := summary(data.left_out)) else ""


def _matters(statement: DumpStatement) -> bool:
    """Whether it may need something: not rows, of which there are millions."""
    return statement.tokens[:1] not in (("insert",), ("copy",), ("select",), ())


def _named(tokens: tuple[str, ...]) -> str:
    """The last part of a name, such as pg_catalog."en_US"."""
    return unquoted(tokens[2] if tokens[1:2] == (".",) and len(tokens) > 2 else tokens[0] if tokens else "")


def _encoding(statement: DumpStatement) -> str:
    """The encoding that a SET names, or ""."""
    tokens = statement.tokens
    named = (
        tokens[2:] if tokens[:2] == ("set", "names") else tokens[3:] if tokens[:2] == ("set", "client_encoding") else ()
    )
    return unquoted(named[0]) if named else ""


def _plain(encoding: str) -> str:
    return "".join(filter(str.isalnum, encoding.lower()))


def _shown(statement: DumpStatement) -> str:
    text = " ".join(statement.tokens).replace(" . ", ".")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _not_utf8(text: Source) -> int:
    """The place of the first byte that is not UTF-8, or -1."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for place in range(0, len(text), CHUNK):
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(text[place : place + CHUNK], final=place + CHUNK >= len(text))
        except UnicodeDecodeError as error:
            return place - pending + error.start
    return -1


def _last(data: Data, count: int) -> bytes:
    if not count:
        return b""
    with Path(data.path).open("rb") as file:
        file.seek(-count, os.SEEK_END)
        return file.read()
