from pathlib import Path

import pytest

from workloads.own import data
from workloads.own.data import of_dump, of_schema
from workloads.own.survey import left_out, surveyed

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
    ("-- é".encode("utf-16"), "it is UTF-16, as > of PowerShell writes: convert it (iconv"),
    ("--\n--".encode("utf-16-be"), "it is UTF-16"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_is_no_dump_is_refused(folder: Path, text: bytes, why: str) -> None:
    (file := folder / "a.dump").write_bytes(text)
    with pytest.raises(ValueError) as refused:
        of_dump(str(file))
    assert why in str(refused.value)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["without", "with"])
def test_versions_and_extensions_are_read_from_sql_not_rows(folder: Path, mark: bytes) -> None:
    (file := folder / "a.sql").write_bytes(mark + DUMP)
    dump = surveyed(of_dump(str(file)))
    assert dump.format == "sql" and dump.major == 13 and dump.extensions == ("uuid-ossp", "hstore")
    assert dump.schemas == {"uuid-ossp": "My ext"}
    assert left_out(dump) == "left out of a.sql: 1 setting, 1 owner" and dump.demands == ()
    assert dump.bytes == len(mark + DUMP) and len(dump.digest) == 64 and not data.change(dump)
    file.write_bytes(mark + DUMP + b"CREATE INDEX i ON t (a);\n" * 99)
    assert "has changed since the run was planned" in data.change(dump)
    assert left_out(surveyed(of_dump(str(file)))) == left_out(dump)


COLLATIONS = b"""CREATE COLLATION app.german (provider = icu, locale = 'de');
CREATE COLLATION dutch (locale = 'nl_NL');
CREATE TABLE t (
    a text COLLATE app.german, b text COLLATE "C", c text COLLATE pg_catalog."en_US.utf8", d text COLLATE "de-x-icu"
);
INSERT INTO t VALUES ('x' COLLATE "xx_XX");
CREATE COLLATION belgian FROM "nl_BE";
CREATE COLLATION flemish FROM dutch;
"""


def test_collations_are_demanded_unless_the_dump_makes_them(folder: Path) -> None:
    (file := folder / "a.sql").write_bytes(COLLATIONS)
    assert surveyed(of_dump(str(file))).demands == (
        f"icu {file}:1: german", f"locale {file}:2: nl_NL", f"collation {file}:3: en_US.utf8",
        f"collation {file}:3: de-x-icu", f"collation {file}:7: nl_BE",
    )  # fmt: skip


def test_a_dump_for_superusers_is_refused_unless_trusted(folder: Path) -> None:
    (file := folder / "a.sql").write_bytes(b"SELECT 1;\nCREATE SERVER s\n FOREIGN DATA WRAPPER postgres_fdw;")
    with pytest.raises(ValueError, match=r"a.sql:2: a foreign server or table needs a superuser .*: --trust-dump"):
        surveyed(of_dump(str(file)))
    assert surveyed(of_dump(str(file)), trusted=True).demands == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (DUMP[:-20], "it is cut short: the last line of a dump is missing"),
        (b"COPY t FROM stdin;\n1\n2\n", "a.sql:1: it is cut short: the rows of COPY have no end"),
        (b"select 1;\n\\! rm -r /\n", "a.sql:2: \\! is a command of psql"),
        (b"select 1;\nselect 'a;\n", "a.sql:2: the text after ' has no end"),
        (b"select 1;\nselect '\xe9';\n", "a.sql:2: it is not UTF-8, and nothing in it names another encoding"),
        (b"\nSET client_encoding = 'MULE_INTERNAL';\n", "a.sql:2: no server converts client_encoding MULE_INTERNAL"),
        (b"\\connect a\nCREATE TABLE t ();\n\\connect b\nCREATE TABLE t ();\n", "the data of several databases (a, b)"),
    ],
)
def test_sql_that_is_cut_short_or_psqls_is_refused(folder: Path, text: bytes, why: str) -> None:
    (file := folder / "a.sql").write_bytes(text)
    with pytest.raises(ValueError) as refused:
        surveyed(of_dump(str(file)))
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "named", [b"SET client_encoding = 'LATIN1'", b"set names latin1", b"SET client_encoding TO latin1"]
)
def test_another_encoding_is_read_once_the_dump_names_it(folder: Path, named: bytes) -> None:
    (file := folder / "a.sql").write_bytes(named + b";\nselect '\xe9';\n")
    assert surveyed(of_dump(str(file))).left_out == {}


def test_a_schema_is_two_files(folder: Path) -> None:
    for name in ("s.sql", "r.sql"):
        (folder / name).write_text("select 1")
    schema = of_schema(str(folder / "s.sql"), str(folder / "r.sql"))
    assert [file.name for file in schema.files] == ["s.sql", "r.sql"] and schema.bytes == 16
    (folder / "b.sql").write_text("select 1", "utf-16-le")
    with pytest.raises(ValueError, match=r"--rows-from .*b.sql: neither an archive by pg_dump nor SQL"):
        of_schema(str(folder / "s.sql"), str(folder / "b.sql"))
    with pytest.raises(ValueError, match=r"--rows-from .* No such file"):
        of_schema(str(folder / "s.sql"), str(folder / "none.sql"))


@pytest.mark.outside  # by root, in a folder that everybody may enter
def test_a_file_only_for_root_is_refused_before_the_run(folder: Path) -> None:
    (file := folder / "a.sql").write_bytes(DUMP)
    dump = of_dump(str(file))
    file.chmod(0o600)
    with pytest.raises(ValueError, match=r"who has no privileges, may not enter or read .*a.sql"):
        surveyed(dump)
    file.unlink()
    with pytest.raises(ValueError, match=r"a.sql: No such file"):
        surveyed(dump)
