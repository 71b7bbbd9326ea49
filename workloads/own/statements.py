"""Statements of an application: read from a file in which comments give names, parameters and what to do with writes.

    -- name: orders_by_customer
    -- :customer from select id from customers order by md5(id::text) limit 1000
    select * from orders where customer_id = :customer;

A parameter's rule is `from QUERY` (its rows, on each server), `uniform LOW HIGH` or `of VALUE, VALUE, …`; several
parameters can take the columns of one query: `-- :customer, :day from …`. Further comments of a statement are
`-- writes: rollback` or `-- writes: clone`, and `-- weight: 3` for --mix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from workloads.api.files import read_plain
from workloads.own.sql import Command, SqlSyntax, commands

MAX_BYTES = 4 << 20
MOST = 1000  # statements
MOST_CHARS = 64 << 10  # of one
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}")
RESERVED = ("data", "mix", "plans")  # names of steps
ENTRY = re.compile(r"(name|writes|weight)\s*:\s*(.*)", re.I)
PARAMETER = r"(?::[A-Za-z_]\w*|\$[0-9]{1,3})"
RULE = re.compile(rf"({PARAMETER}(?:\s*,\s*{PARAMETER})*)\s+(from|uniform|of)\s+(.+)", re.S | re.I)
NUMBER = re.compile(r"-?[0-9]{1,18}")
FIRST_WORDS = frozenset({"select", "with", "values", "table", "insert", "update", "delete", "merge"})
WRITING = frozenset({"insert", "update", "delete", "merge"})
LOCKING = re.compile(r"\bfor (update|share|no key update|key share)\b")
Writes = Literal["", "rollback", "clone"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source of parameters' values; `places` count from 0. Exactly one of the last three is given."""

    places: tuple[int, ...]
    query: str = ""
    low_high: tuple[int, int] | None = None
    values: tuple[str, ...] = ()


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A statement with its parameters as `$1`, `$2`, …: `parameters` are their names, in that order."""

    name: str
    sql: str
    parameters: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    writes: Writes = ""
    weight: Annotated[int, Meta(ge=1, le=1_000_000)] = 1


def read_file(path: Path, what: str, most: int = MAX_BYTES, errors: str = "strict") -> str:
    """A text file's content. Raises ValueError in one line."""
    try:
        return read_plain(path, most, follow=True).decode("utf-8-sig", errors)
    except (OSError, ValueError) as error:  # no text, or a path with a null byte
        reason = error.strerror if isinstance(error, OSError) else "not a text file (UTF-8)"
        raise ValueError(f"{what} {path}: {reason}") from None


def read(path: Path) -> tuple[Statement, ...]:
    """The statements of a file. Raises ValueError, with the file and the line."""
    return parsed(read_file(path, "--statements"), str(path))


def parsed(text: str, where: str) -> tuple[Statement, ...]:
    statements: dict[str, Statement] = {}
    try:
        for command in commands(text.encode()):
            statement = _statement(command, where)
            if statement.name in statements:
                raise ValueError(f"{where}:{command.line}: two statements are called {statement.name}; rename one")
            statements[statement.name] = statement
    except SqlSyntax as error:
        raise ValueError(f"{where}:{error.line}: {error.reason}") from None
    if not statements:
        raise ValueError(f"{where}: there is no statement in it")
    if len(statements) > MOST:
        raise ValueError(f"{where}: {len(statements):,} statements are more than {MOST:,}")
    return tuple(statements.values())


def _statement(command: Command, where: str) -> Statement:
    entries: dict[str, str] = {}
    rules: list[tuple[list[str], str, str]] = []
    place = f"{where}:{command.line}"
    if command.tokens[-1].kind == "backslash":
        command_name = command.tokens[-1].text.decode(errors="replace").split()[0]
        raise ValueError(f"{place}: {command_name} is a command of psql, not SQL: leave it out")
    for comment in command.comments:
        if entry := ENTRY.fullmatch(comment):
            key = entry.group(1).lower()
            if key in entries:
                raise ValueError(f"{place}: {key} is given twice for one statement; end each statement with ;")
            entries[key] = entry.group(2).strip()
        elif rule := RULE.fullmatch(comment):
            names = [name.strip() for name in rule.group(1).split(",")]
            rules.append((names, rule.group(2).lower(), rule.group(3).strip()))
        elif re.match(PARAMETER, comment):
            raise ValueError(f"{place}: '{comment}': a rule is `:NAME from QUERY`, `:NAME uniform LOW HIGH` or "
                             "`:NAME of VALUE, …`")  # fmt: skip
    name = entries.get("name", "")
    if not NAME.fullmatch(name) or name in RESERVED:
        what = f"'{name}' is no name for a statement" if name else "a statement without a name"
        raise ValueError(f"{place}: {what}: put `-- name: WORD` before it, of letters, digits, _ . -")
    place = f"{place}: {name}"
    writes, weight = entries.get("writes", ""), entries.get("weight", "1")
    if writes not in ("", "rollback", "clone"):
        raise ValueError(f"{place}: writes: {writes}: give rollback or clone")
    if not re.fullmatch("[1-9][0-9]{0,5}", weight):
        raise ValueError(f"{place}: weight: {weight}: give a whole number from 1 to 999999")
    sql, parameters = numbered(command, place)
    if why := unsuitable(command, writes):
        raise ValueError(f"{place}: {why}")
    return Statement(
        name=name,
        sql=sql,
        parameters=parameters,
        rules=bind(rules, parameters, place),
        writes=writes,  # type: ignore[arg-type]
        weight=int(weight),
    )


def unsuitable(command: Command, writes: str = "rollback") -> str:
    """The reason why a command cannot be a step, or ""."""
    words = command.words
    first = words[0] if words else ""
    if len(command.text) > MOST_CHARS:
        return f"longer than {MOST_CHARS >> 10} KiB"
    if first not in FIRST_WORDS:
        return f"{first.upper() or 'it'} cannot be prepared: only queries, INSERT, UPDATE, DELETE and MERGE can"
    writing = WRITING.intersection(words[:1] if first in WRITING else words if first == "with" else ())
    if not writes and LOCKING.search(" ".join(words)):
        return "it locks rows, which is a write: add `-- writes: rollback` or `-- writes: clone`"
    if writing and not writes:
        return "it writes: add `-- writes: rollback` or `-- writes: clone`"
    return ""


def numbered(command: Command, place: str) -> tuple[str, tuple[str, ...]]:
    """A command with its parameters as `$1`, …, without comments, and their names. Raises ValueError."""
    names: list[str] = []
    kinds = {token.kind for token in command.tokens}
    if "psql" in kinds:
        raise ValueError(f"{place}: :'NAME' and :\"NAME\" are psql's; write :NAME, which is a value")
    if {"parameter", "numbered"} <= kinds:
        raise ValueError(f"{place}: it has parameters of both forms, :NAME and $1; use one")
    if "numbered" in kinds:
        most = max(int(token.text[1:]) for token in command.tokens if token.kind == "numbered")
        if most > 999:
            raise ValueError(f"{place}: ${most}: at most 999 parameters")
        names = [f"${number}" for number in range(1, most + 1)]
    parts = []
    for token in command.tokens:
        text = token.text.decode(errors="replace")
        if token.kind == "parameter":
            if text not in names:
                names.append(text)
            text = f"${names.index(text) + 1}"
        elif token.kind == "comment":
            text = " "
        elif token.kind == "backslash":
            raise ValueError(f"{place}: a backslash outside quotes is no SQL")
        parts.append(text)
    return "".join(parts).strip(), tuple(names)


def bind(rules: Iterable[tuple[Sequence[str], str, str]], parameters: Sequence[str], place: str) -> tuple[Rule, ...]:
    """The rules of a statement's parameters. Raises ValueError for a parameter with none, or with two."""
    parsed_rules: list[Rule] = []
    ruled: set[str] = set()
    for names, kind, text in rules:
        for name in names:
            if name not in parameters:
                raise ValueError(f"{place}: there is no parameter {name} in it")
            if name in ruled:
                raise ValueError(f"{place}: parameter {name} has two rules")
            ruled.add(name)
        parsed_rules.append(
            _rule(tuple(parameters.index(name) for name in names), kind, text, f"{place}: {', '.join(names)}")
        )
    if without := [name for name in parameters if name not in ruled]:
        raise ValueError(
            f"{place}: parameter {', '.join(without)} has no rule; add `-- {without[0]} from SELECT …`, "
            f"`-- {without[0]} uniform 1 1000` or `-- {without[0]} of 'a', 'b'`"
        )
    return tuple(parsed_rules)


def _rule(places: tuple[int, ...], kind: str, text: str, place: str) -> Rule:
    if kind == "from":
        try:
            query = list(commands(text.encode()))
        except SqlSyntax as error:
            raise ValueError(f"{place}: from {text}: {error.reason}") from None
        if len(query) != 1 or not query[0].words or query[0].words[0] not in ("select", "with", "values", "table"):
            raise ValueError(f"{place}: from {text}: give one query")
        return Rule(places=places, query=query[0].text.decode())
    if len(places) > 1:
        raise ValueError(f"{place}: only `from QUERY` gives several parameters")
    if kind == "uniform":
        bounds = text.split()
        if len(bounds) != 2 or not all(map(NUMBER.fullmatch, bounds)) or int(bounds[0]) > int(bounds[1]):
            raise ValueError(f"{place}: uniform {text}: give two whole numbers, the lower one first")
        return Rule(places=places, low_high=(int(bounds[0]), int(bounds[1])))
    values = [value.strip() for value in text.split(",")]
    return Rule(places=places, values=tuple(_value(value) for value in values))


def _value(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def rules_of(text: str, where: str) -> Mapping[str, tuple[tuple[Sequence[str], str, str], ...]]:
    """The rules of a --params file, by statement: `-- name: NAME`, then rules; `*` is every statement."""
    rules_by_name: dict[str, list[tuple[Sequence[str], str, str]]] = {}
    name = "*"
    for number, line in enumerate(text.splitlines(), 1):
        comment = line.strip().removeprefix("--").strip()
        if not comment:
            continue
        entry, rule = ENTRY.fullmatch(comment), RULE.fullmatch(comment)
        if entry and entry.group(1).lower() == "name":
            name = entry.group(2).strip()
        elif rule:
            names = [name.strip() for name in rule.group(1).split(",")]
            rules_by_name.setdefault(name, []).append((names, rule.group(2).lower(), rule.group(3).strip()))
        else:
            raise ValueError(f"{where}:{number}: '{comment[:40]}': give `-- name: NAME` and rules such as "
                             "`-- $1 from SELECT …`")  # fmt: skip
    return {name: tuple(rules) for name, rules in rules_by_name.items()}
