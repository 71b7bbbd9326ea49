"""Parts of a dump that no server is given, or that only a superuser may restore: one list for SQL and archives."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from workloads.own.dump_statements import DumpStatement


@dataclass(frozen=True, slots=True)
class Kind:
    """The parts that are left out: statements by their words, entries of an archive by their types."""

    one: str
    many: str
    statements: re.Pattern[str]
    entries: tuple[str, ...] = ()


def _kind(one: str, many: str, statements: str, *entries: str) -> Kind:
    return Kind(one, many, re.compile(f"(?:{statements})(?: .*)?"), entries)


# None of it changes a plan of the one role that owns the data and runs the statements. The first kind that fits counts.
KINDS = (
    _kind("event trigger", "event triggers", r"(?:create|alter|drop) event trigger", "EVENT TRIGGER"),
    _kind("publication", "publications", r"(?:create|alter|drop) publication",
          "PUBLICATION", "PUBLICATION TABLE", "PUBLICATION TABLES IN SCHEMA"),
    _kind("subscription", "subscriptions", r"(?:create|alter|drop) subscription", "SUBSCRIPTION", "SUBSCRIPTION TABLE"),
    _kind("comment", "comments", r"comment on", "COMMENT"),
    _kind("security label", "security labels", r"security label", "SECURITY LABEL"),
    _kind("user mapping", "user mappings", r"(?:create|alter|drop) user mapping", "USER MAPPING"),
    _kind("database property", "database properties",
          r"(?:create|alter|drop) database|update (?:pg_catalog )?pg_database", "DATABASE", "DATABASE PROPERTIES"),
    _kind("tablespace", "tablespaces", r"(?:create|alter|drop) tablespace|set default_tablespace", "TABLESPACE"),
    _kind("role", "roles", r"(?:create|alter|drop) (?:role|user|group)"),
    _kind("owner", "owners", r"alter (?!.* rename (?:\w+ )?owner to)(?:.* )?owner to(?: \w+)?$|reassign owned|"
          r"(?:re)?set (?:session |local )?(?:role|session authorization|session_authorization)"),
    _kind("privilege", "privileges", r"grant|revoke|alter default privileges", "ACL", "DEFAULT ACL"),
    _kind("policy", "policies", r"(?:create|alter|drop) policy|alter table .*row level security",
          "POLICY", "ROW SECURITY"),
    _kind("setting", "settings", r"set transaction_timeout"),
    # The servers make their own, by ANALYZE.
    _kind("statistic", "statistics",
          r"select (?:from )?(?:pg_catalog )?pg_restore_(?:relation|attribute|extended)_stats", "STATISTICS DATA"),
)  # fmt: skip
CLEANED = Kind("DROP", "DROPs", re.compile(
    r"drop .*|alter .* (?:drop|detach) .*|create or replace view .*|select (?:pg_catalog )?lo_unlink.*"
))  # fmt: skip
MADE_BEFORE = re.compile(r"(?:create|alter|drop) extension .*")
TRUST = "--trust-dump restores the dump as a superuser, if you trust its author"
MAKING = ("create", "copy", "insert")
BUILTIN_TYPE = re.compile(
    r"as|int(?:eger|2|4|8)?|bigint|smallint|text|(?:var)?char|character|varying|numeric|decimal|real|double|precision|"
    r"float[48]|bool(?:ean)?|date|timestamp(?:tz)?|time|with|without|zone|interval|uuid|jsonb?|bytea|xml|oid|inet|cidr|name"
)
SUPERUSERS = (
    ("an operator class or family", re.compile(r"(?:create|alter) operator (?:class|family) .*")),
    ("a foreign server or table", re.compile(
        r"(?:create|alter) (?:server|foreign table|foreign data wrapper) .*|import foreign schema .*")),
    ("an access method", re.compile(r"create access method .*")),
    ("a language", re.compile(r"create (?:or replace )?(?:trusted )?(?:procedural )?language .*")),
    ("a parser or template of text search", re.compile(r"create text search (?:parser|template) .*")),
    ("a transform", re.compile(r"create (?:or replace )?transform .*")),
    ("a cast without a function", re.compile(r"create cast .* without function.*")),
    ("the replication role of a session", re.compile(r"set (?:session |local )?session_replication_role.*")),
)  # fmt: skip
FUNCTION = re.compile(r"(?:create (?:or replace )?|alter )(?:function|procedure|routine) .*")
UNTRUSTED = re.compile("c|internal|pl.*u")


def superuser(statement: DumpStatement) -> str:
    """The part of a statement that only a superuser may execute, or ""."""
    words, tokens = statement.words, statement.tokens
    for what, pattern in SUPERUSERS:
        if pattern.fullmatch(words):
            return what
    if FUNCTION.fullmatch(words):
        for word, after in pairwise(tokens):
            if word == "language" and UNTRUSTED.fullmatch(name := unquoted(after).lower()):
                return f"a function in the language {name}"
        if any(word != "not" and after == "leakproof" for word, after in pairwise(tokens)):
            return "a function that is LEAKPROOF"
    if tokens[:2] == ("create", "type") and (len(tokens) <= 5 or ("input", "=") in pairwise(tokens)):
        return "a base type"
    if tokens[:2] == ("create", "cast") and ")" in tokens:
        types = [token for token in tokens[3 : tokens.index(")")] if token not in ("(", ",") and not token.isdigit()]
        if all(map(BUILTIN_TYPE.fullmatch, types)):
            return "a cast between types of PostgreSQL"
    return ""


@dataclass(slots=True)
class Sorting:
    """The statements of a dump that are left out, one after the other in their order.

    `schemas` exist before: extensions' schemas, and `public`. `counts` has the number left out by kind.
    """

    schemas: Collection[str] = ()
    counts: dict[str, int] = field(default_factory=dict)
    database: str = ""
    making: list[str] = field(default_factory=list)  # the databases of the dump that something is made in

    def keeps(self, statement: DumpStatement) -> bool:
        """Raises ValueError for a command of psql."""
        if statement.is_command:
            return self._obeys(statement.tokens[0])
        if MADE_BEFORE.fullmatch(words := statement.words) or self._makes_what_is_there(statement):
            return False
        kind = next((kind for kind in KINDS if kind.statements.fullmatch(words)), None)
        if kind is None and not self.making and CLEANED.statements.fullmatch(words):
            # `--clean` first drops objects that do not exist yet. Until then only it replaces views.
            kind = CLEANED if not words.startswith("create") or CLEANED.one in self.counts else None
        if statement.tokens[:2] == ("alter", "table") and "," in statement.tokens and kind is not CLEANED:
            kind = None  # several actions: to leave out all would lose a column or a key
        if kind:
            self.counts[kind.one] = self.counts.get(kind.one, 0) + 1
            return False
        if statement.tokens[:1] and statement.tokens[0] in MAKING and self.database not in self.making:
            self.making.append(self.database)
        return True

    def _obeys(self, command: str) -> bool:
        name, _, rest = command.partition(" ")
        if name in ("\\connect", "\\c"):
            self.database = rest.strip()
        elif name not in ("\\restrict", "\\unrestrict"):
            raise ValueError(f"{name} is a command of psql, not SQL: leave it out")
        return False

    def _makes_what_is_there(self, statement: DumpStatement) -> bool:
        """Whether it creates a schema that is there already."""
        if statement.tokens[:2] != ("create", "schema"):
            return False
        name, *rest = names_after(statement, 2)
        return name in ("public", *self.schemas) and rest[:1] in ([], ["authorization"])


def names_after(statement: DumpStatement, count: int) -> list[str]:
    """The words after the first `count`, names without quotation marks."""
    tokens = [token for token in statement.tokens[count:] if token[0].isalpha() or token[0] in "_\"'"]
    if tokens[:3] == ["if", "not", "exists"]:
        tokens = tokens[3:]
    return [unquoted(token) for token in tokens] or [""]


def unquoted(token: str) -> str:
    return token[1:-1].replace('""', '"') if token[:1] == '"' else token.strip("'")


def entry_left_out(entry: str) -> Kind | None:
    """The kind of an entry of an archive's list ("215; 1259 16391 TABLE public item postgres"), if it is left out."""
    match = ENTRY.match(entry)
    return ENTRIES[match[1]] if match else None


ENTRIES = {name: kind for kind in KINDS for name in kind.entries}
ENTRY = re.compile(rf"\d+; \d+ \d+ ({'|'.join(sorted(ENTRIES, key=len, reverse=True))}) ")


def summary(counts: Mapping[str, int]) -> str:
    """ "3 comments, 1 event trigger"; "" if nothing was left out."""
    many = {kind.one: kind.many for kind in (*KINDS, CLEANED)}
    return ", ".join(f"{count:,} {name if count == 1 else many.get(name, name)}" for name, count in counts.items())
