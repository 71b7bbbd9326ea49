from pathlib import Path

import pytest

from workloads.own import data
from workloads.own.data import Data, left_out, made_before, of_dump, of_schema, sql_commands, surveyed

DUMP = b"""--
-- PostgreSQL database dump
--
-- Dumped from database version 13.16
\\restrict abc
SET transaction_timeout = 0;
CREATE SCHEMA "My ext";
CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA "My ext";
CREATE EXTENSION hstore;
COPY public.t (a) FROM stdin;
CREATE EXTENSION never;
it's
\\.
COPY public.t (a) FROM stdin;
\\.
ALTER TABLE public.t OWNER TO somebody;
\\unrestrict abc
-- PostgreSQL database dump complete
"""

REFUSED = [
    (b"", "it is empty"),
    (b"Salted__abc", "it looks encrypted"),
    (b"\x1f\x8b\x08", "unpack it first (gunzip)"),
    (b"abc\0def", "neither an archive by pg_dump nor SQL"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_is_no_dump_is_refused(folder: Path, text: bytes, why: str) -> None:
    (file := folder / "a.dump").write_bytes(text)
    with pytest.raises(ValueError) as refused:
        of_dump(str(file))
    assert why in str(refused.value)


def test_sql_says_its_version_and_its_extensions_but_rows_say_nothing(folder: Path) -> None:
    (file := folder / "a.sql").write_bytes(DUMP)
    found = surveyed(of_dump(str(file)), "")
    assert found.format == "sql" and found.major == 13 and found.extensions == ("uuid-ossp", "hstore")
    assert found.schemas == {"uuid-ossp": "My ext"}
    assert found.bytes == len(DUMP) and len(found.digest) == 64 and not data.change(found)
    file.write_bytes(DUMP + b"\n")
    assert "has changed since the run was planned" in data.change(found)


def test_commands_that_need_a_superuser_are_left_out_and_rows_are_found() -> None:
    kept = [command for command in sql_commands(DUMP, Path("a.sql")) if not left_out(command)]
    assert [command.words[0] for command in kept] == ["set", "create", "copy", "copy"]
    kept.pop(1)
    begin, end = (token.place for token in kept[1].tokens if token.kind == "rows")
    assert DUMP[begin:end] == b"CREATE EXTENSION never;\nit's\n"
    begin, end = (token.place for token in kept[2].tokens if token.kind == "rows")
    assert begin == end


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ('CREATE SCHEMA "My ext"', True),
        ("CREATE SCHEMA IF NOT EXISTS ext AUTHORIZATION me", True),
        ("CREATE SCHEMA public", True),
        ("CREATE SCHEMA EXT CREATE TABLE t (id int)", False),
        ("CREATE SCHEMA app", False),
        ("CREATE TABLE ext (id int)", False),
    ],
)
def test_schemas_of_extensions_are_made_before(text: str, before: bool) -> None:
    (command,) = sql_commands(text.encode(), Path("a.sql"))
    assert made_before(command, Data(path="", format="sql", schemas={"a": "My ext", "b": "ext"})) == before


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE ONLY public.repos ADD CONSTRAINT repos_owner_key UNIQUE (owner)",
        "ALTER TABLE ONLY repos ADD CONSTRAINT r FOREIGN KEY (owner) REFERENCES users(id)",
        "ALTER TABLE repos ADD COLUMN owner text",
        "ALTER TABLE repos RENAME owner TO boss",
        "ALTER TABLE repos RENAME COLUMN owner TO boss",
        "ALTER SEQUENCE s OWNED BY repos.id",
    ],
)
def test_a_column_that_is_called_owner_keeps_its_keys(text: str) -> None:
    (command,) = sql_commands(text.encode(), Path("a.sql"))
    assert not left_out(command)


@pytest.mark.parametrize(
    "text", ['TABLE public.t OWNER TO "Some Body"', "FUNCTION f(int) OWNER TO bob", "TABLE t OWNER TO CURRENT_USER"]
)
def test_owners_are_left_out(text: str) -> None:
    (command,) = sql_commands(f"ALTER {text}".encode(), Path("a.sql"))
    assert left_out(command)


def test_rows_are_found_whatever_their_format_is() -> None:
    text = b"COPY t (a) FROM stdin WITH (FORMAT csv, HEADER true, DELIMITER ';');\na\nit's\n\\.\nSELECT 1"
    first, second = sql_commands(text, Path("a.sql"))
    begin, end = (token.place for token in first.tokens if token.kind == "rows")
    assert text[begin:end] == b"a\nit's\n" and (second.words, second.line) == (("select",), 5)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (DUMP[:-20], "it is cut short: the last line of a dump is missing"),
        (b"COPY t FROM stdin;\n1\n2\n", "a.sql:1: it is cut short: the rows of COPY have no end"),
        (b"select 1;\n\\! rm -r /\n", "a.sql:2: \\! is a command of psql"),
    ],
)
def test_sql_that_is_cut_short_or_psqls_is_refused(folder: Path, text: bytes, why: str) -> None:
    (file := folder / "a.sql").write_bytes(text)
    with pytest.raises(ValueError) as refused:
        surveyed(of_dump(str(file)), "")
    assert why in str(refused.value)


def test_a_schema_is_two_files(folder: Path) -> None:
    for name in ("s.sql", "r.sql"):
        (folder / name).write_text("select 1")
    found = of_schema(str(folder / "s.sql"), str(folder / "r.sql"))
    assert [file.name for file in found.files] == ["s.sql", "r.sql"] and found.bytes == 16
    with pytest.raises(ValueError, match=r"--rows-from .* No such file"):
        of_schema(str(folder / "s.sql"), str(folder / "none.sql"))


@pytest.mark.outside  # by root, in a folder that everybody may enter
def test_a_file_that_only_root_may_read_is_refused_before_anything_runs(folder: Path) -> None:
    (file := folder / "a.sql").write_bytes(DUMP)
    found = of_dump(str(file))
    file.chmod(0o600)
    with pytest.raises(ValueError, match=r"who has no privileges, may not enter or read .*a.sql"):
        surveyed(found, "")
    file.unlink()
    with pytest.raises(ValueError, match=r"a.sql: No such file"):
        surveyed(found, "")
