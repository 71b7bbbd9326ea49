"""SQL as tokens: the ends of statements, their parameters, and commands that must not reach a server.

Small on purpose: it knows quotes, dollar quotes, comments, parameters (`:name`, `$1`) and psql's backslash commands,
and nothing of the grammar. Dumps are restored by psql instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    rb"""(?P<space>\s+)
    |(?P<comment>--[^\n]*)
    |(?P<block>/\*)
    |(?P<quoted>[eE]'(?:[^'\\]|\\.|'')*'|(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*'|(?:[uU]&)?"(?:[^"]|"")*")
    |(?P<unended>(?:[eEbBxXnN]|[uU]&)?'|(?:[uU]&)?")
    |(?P<dollar>\$(?P<tag>(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?)\$)
    |(?P<numbered>\$[0-9]{1,5})
    |(?P<word>[A-Za-z_\x80-\xff][\w$\x80-\xff]*)
    |(?P<number>[0-9.][\w.]*)
    |(?P<cast>::|:=)
    |(?P<parameter>:[A-Za-z_]\w*)
    |(?P<psql>:(?=['"{]))
    |(?P<backslash>\\)
    |(?P<end>;)
    |(?P<other>.)""",
    re.S | re.X,
)
COMMENT_EDGE = re.compile(rb"/\*|\*/")


class SqlSyntax(ValueError):
    """Text that cannot be split into tokens; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is space, comment, quoted, word, number, numbered, parameter, psql, backslash, cast, end or other."""

    kind: str
    text: bytes
    place: int

    @property
    def after(self) -> int:
        return self.place + len(self.text)


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its tokens without the semicolon, and the line of the first that is neither space nor comment."""

    tokens: tuple[Token, ...]
    line: int

    @property
    def text(self) -> bytes:
        return b"".join(token.text for token in self.tokens).strip()

    @property
    def words(self) -> tuple[str, ...]:
        """Its words in lower case, without quoted ones, in order."""
        return tuple(token.text.decode(errors="replace").lower() for token in self.tokens if token.kind == "word")

    @property
    def comments(self) -> tuple[str, ...]:
        """Its line comments, without their dashes."""
        return tuple(
            token.text.decode(errors="replace")[2:].strip()
            for token in self.tokens
            if token.kind == "comment" and token.text.startswith(b"--")
        )


def tokens(text: bytes, place: int = 0) -> Iterator[Token]:
    """Raises SqlSyntax for a quote or comment without an end."""
    while place < len(text):
        match = TOKEN.match(text, place)
        assert match is not None
        kind, end = str(match.lastgroup), match.end()
        if kind == "block":
            kind, end = "comment", _comment_end(text, place)
        elif kind == "dollar":
            closing = text.find(match.group(), end)
            if closing < 0:
                raise SqlSyntax(line_of(text, place), f"the text after {_shown(match.group())} has no end")
            kind, end = "quoted", closing + len(match.group())
        elif kind == "unended":
            raise SqlSyntax(line_of(text, place), f"the text after {_shown(match.group())} has no end")
        yield Token(kind, bytes(text[place:end]), place)
        place = end


def commands(text: bytes) -> Iterator[Command]:
    """The commands of a text. A backslash command, to the end of its line, is a command of its own."""
    place, line = 0, 1
    while True:
        tokens, place, line = _next_command(text, place, line)
        if tokens is None:
            return
        yield tokens


def _next_command(text: bytes, place: int, line: int) -> tuple[Command | None, int, int]:
    """The next command from a place in a text and on its line; with it the place and line after it.

    None if only space and comments are left.
    """
    command: list[Token] = []
    begun = 0
    for token in tokens(text, place):
        if token.kind == "end":
            if begun:
                return Command(tuple(command), begun), token.after, line
            command, place = [], token.after
            continue
        if token.kind == "backslash" and not begun:
            stop = text.find(b"\n", token.place)
            stop = len(text) if stop < 0 else stop
            backslash = Token("backslash", bytes(text[token.place : stop]), token.place)
            return Command((*command, backslash), line), stop, line
        if not begun and token.kind not in ("space", "comment"):
            begun = line
        command.append(token)
        line += token.text.count(b"\n")
    return (Command(tuple(command), begun) if begun else None), len(text), line


def line_of(text: bytes, place: int) -> int:
    return bytes(text[:place]).count(b"\n") + 1


def _comment_end(text: bytes, place: int) -> int:
    """Comments nest."""
    depth, at = 1, place + 2
    while depth:
        edge = COMMENT_EDGE.search(text, at)
        if edge is None:
            raise SqlSyntax(line_of(text, place), "the comment after /* has no end")
        depth += 1 if edge.group() == b"/*" else -1
        at = edge.end()
    return at


def _shown(quote: bytes) -> str:
    return quote.decode(errors="replace")
