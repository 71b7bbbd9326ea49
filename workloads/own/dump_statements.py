r"""Places where the statements of a dump begin and end, so that some can be left out; psql restores the others as is.

The rules are psql's own lexer's: quotes, dollar quotes, nested comments, parentheses, BEGIN ATOMIC … END of
functions, COPY … FROM stdin with its rows, backslashes in strings once standard_conforming_strings is off. Nothing
safe depends on them: psql runs in its restricted mode, as a role without privileges.

A file is mapped, never read whole, and runs of INSERT are passed over by one regular expression.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from workloads.api.files import open_plain

Source = bytes | mmap.mmap

BOM = b"\xef\xbb\xbf"
CHUNK = 1 << 20
MOST_TOKENS = 20_000  # of one statement that are kept
MOST_BYTES = 200  # of a quoted token that are kept
# No possessive groups: in Python 3.11.2 one that fails in its middle has consumed what it had matched.
TOKEN = re.compile(
    rb"""(?P<space>\s++|--[^\n\r]*+)
    |(?P<block>/\*)
    |(?P<escaped>[eE]')
    |(?P<string>(?:[bBxXnN]|[uU]&)?')
    |(?P<name>(?:[uU]&)?")
    |(?P<dollar>\$(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$)
    |(?P<word>[A-Za-z_\x80-\xff][\w$\x80-\xff]*+)
    |(?P<number>[0-9][\w.]*+)
    |(?P<joined>\\[;:])
    |(?P<backslash>\\)
    |(?P<end>;)
    |(?P<other>.)""",
    re.S | re.X,
)
ESCAPES = re.compile(rb"(?:[^'\\]++|\\.|''){1,1000}", re.S)
# Many INSERTs without anything that needs a closer look.
INSERTS = {
    backslashes: re.compile(
        rb"""(?:(?:\s++|--[^\n\r]*+){0,100}INSERT\s++INTO\s(?>(?:
        [^'"$;\\/eE-]++
        |(?<![\w$\x80-\xff])[eE]'(?>(?:[^'\\]++|\\.|''){0,1000})'
        |[eE](?!')
        |(?<=[\w$\x80-\xff])[eE]
        |%s
        |"[^"]*+"
        |-(?!-)
        |/(?!\*)
        ){0,500000});){1,100}"""
        % (rb"'[^'\\]*+'" if backslashes else rb"'[^']*+'"),
        re.I | re.S | re.X,
    )
    for backslashes in (False, True)
}
COMMENT_EDGE = re.compile(rb"/\*|\*/")
ROWS_END = re.compile(rb"\\\.(?:\r?\n|\r?\Z)")
HEADS = {"create": "c", "or": "o", "replace": "r", "function": "f", "procedure": "p"}


@dataclass(frozen=True, slots=True)
class DumpStatement:
    """A statement's place, with the rows of COPY, and its tokens: words in lower case, quoted ones with their quotes.

    A command of psql, which ends with its line, has one token, and that begins with a backslash.
    """

    begin: int
    end: int
    tokens: tuple[str, ...]

    @property
    def words(self) -> str:
        """Its unquoted words in lower case, a space between two."""
        return " ".join(token for token in self.tokens if token[0].isalpha() or token[0] == "_")

    @property
    def is_command(self) -> bool:
        return self.tokens[:1] != () and self.tokens[0].startswith("\\")


class NoEnd(ValueError):
    """A statement of a dump without an end, and the place where it begins; the text is one line."""

    def __init__(self, place: int, what: str) -> None:
        super().__init__(what)
        self.place = place


def statements(text: Source) -> Iterator[DumpStatement]:
    """The statements in their order. Raises NoEnd."""
    place = len(BOM) if text[: len(BOM)] == BOM else 0
    backslashes = False
    while True:
        if run := INSERTS[backslashes].match(text, place):
            yield DumpStatement(place, run.end(), ("insert", "into"))
            place = run.end()
            continue
        statement = _next(text, place, backslashes)
        if statement is None:
            return
        yield statement
        place = statement.end
        if statement.tokens[:2] == ("set", "standard_conforming_strings"):
            backslashes = statement.tokens[-1].strip("'") in ("off", "false", "0", "no")


def _next(text: Source, place: int, backslashes: bool) -> DumpStatement | None:
    size = len(text)
    tokens: list[str] = []
    begin, parentheses, blocks, heads = -1, 0, 0, ""
    while place < size:
        match = TOKEN.match(text, place)
        assert match is not None
        kind, start, place = str(match.lastgroup), place, match.end()
        if kind == "space":
            continue
        if kind == "block":
            place = _comment_end(text, start)
            continue
        if begin < 0:
            begin = start
        if kind in ("escaped", "string", "name", "dollar"):
            quote = match.group() if kind == "dollar" else match.group()[-1:]
            if kind == "escaped" or (kind == "string" and backslashes):
                while escapes := ESCAPES.match(text, place):
                    place = escapes.end()
            closing = text.find(quote, place)
            if closing < 0:
                raise NoEnd(start, f"the text after {match.group().decode(errors='replace')} has no end")
            place = closing + len(quote)  # a doubled quote is two tokens
        elif kind == "end" and not parentheses and not blocks:
            if tokens[:1] == ["copy"] and ("from", "stdin") in pairwise(tokens):
                place = _rows_end(text, begin, place)
            return DumpStatement(begin, place, tuple(tokens))
        elif kind == "backslash":
            stop = text.find(b"\n", start)
            stop = size if stop < 0 else stop
            # psql ends what came before it, which it would refuse.
            return DumpStatement(start, stop, (_decoded(text, start, stop).strip(),))
        shown = _decoded(text, start, min(place, start + MOST_BYTES))
        if kind == "word":
            shown = shown.lower()
            if len(heads) < 4:
                heads += HEADS.get(shown, "-")
            if not parentheses and heads.startswith(("cf", "cp", "corf", "corp")):
                if shown == "begin" or (shown == "case" and blocks):
                    blocks += 1
                elif shown == "end" and blocks:
                    blocks -= 1
        elif kind == "other":
            parentheses = max(0, parentheses + (shown == "(") - (shown == ")"))
        if len(tokens) < MOST_TOKENS:
            tokens.append(shown)
    return DumpStatement(begin, size, tuple(tokens)) if begin >= 0 else None


def _rows_end(text: Source, begin: int, place: int) -> int:
    """The place after the rows of a COPY, whose line `\\.` ends them, with CR LF or without."""
    rows = text.find(b"\n", place)
    while rows >= 0:
        if end := ROWS_END.match(text, rows + 1):
            return end.end()
        rows = text.find(b"\n\\.", rows + 1)
    raise NoEnd(begin, "it is cut short: the rows of COPY have no end")


def _comment_end(text: Source, place: int) -> int:
    """Comments nest."""
    depth, at = 1, place + 2
    while depth:
        edge = COMMENT_EDGE.search(text, at)
        if edge is None:
            raise NoEnd(place, "the comment after /* has no end")
        depth += 1 if edge.group() == b"/*" else -1
        at = edge.end()
    return at


def _decoded(text: Source, begin: int, end: int) -> str:
    return bytes(text[begin:end]).decode(errors="replace")


class LineNumbers:
    """The numbers of the lines of places in a text, from 1; each place is at the last one or after it."""

    def __init__(self, text: Source) -> None:
        self._text, self._place, self._line = text, 0, 1

    def of(self, place: int) -> int:
        for at in range(self._place, place, CHUNK):
            self._line += self._text[at : min(at + CHUNK, place)].count(b"\n")
        self._place = place
        return self._line


def line_of(text: Source, place: int) -> int:
    return LineNumbers(text).of(place)


class mapped:
    """A file's bytes, mapped while the context lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Source:
        with os.fdopen(open_plain(self._path, follow=True), "rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            self._map: Source = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map

    def __exit__(self, *_: object) -> None:
        if isinstance(self._map, mmap.mmap):
            self._map.close()
