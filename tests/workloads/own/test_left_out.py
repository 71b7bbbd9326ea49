"""Ends of the statements of dumps, and the statements that no server is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.own import psql
from workloads.own.dump_statements import NoEnd, line_of, statements
from workloads.own.left_out import KINDS, Sorting, entry_left_out, summary, superuser

ATOMIC = """CREATE OR REPLACE PROCEDURE p(IN i integer)
    LANGUAGE sql
    BEGIN ATOMIC
 INSERT INTO t SELECT CASE WHEN (i > 0) THEN CASE i WHEN 1 THEN 2 END ELSE 3 END;
 DROP TABLE t;
END;"""
KEPT = (
    ATOMIC,
    "CREATE FUNCTION f(n numeric) RETURNS numeric LANGUAGE sql RETURN (n * 1.19);",
    "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $_$ BEGIN EXECUTE $$COMMENT ON TABLE t IS ';';$$; END; $_$;",
    "CREATE RULE r AS ON INSERT TO t DO ( DELETE FROM u; COMMENT ON TABLE t IS 'x'; NOTIFY t; );",
    "COPY t (a, b) FROM stdin;\n1\tGRANT ALL;\n$$\t'\n\\\\.\t\\N\n\\.\n",
    "COPY t FROM stdin WITH (FORMAT csv, DELIMITER ';');\r\na;it's\r\n\\.\r\n",
    "COPY t FROM stdin;\n\\.\n",
    "INSERT INTO t VALUES (1, 'it''s; \\', \"a;b\".c, E'\\';', DATE'2020-01-01', -1, 2/3);",
    "INSERT INTO t VALUES ($$;$$, U&'d;', x'00');\nINSERT INTO t VALUES (1);",
    "ALTER TABLE ONLY public.repos ADD CONSTRAINT repos_owner_key UNIQUE (owner);",
    "ALTER TABLE ONLY repos ADD CONSTRAINT r FOREIGN KEY (owner) REFERENCES users(id);",
    "ALTER TABLE repos RENAME owner TO boss;",
    "ALTER TABLE repos RENAME COLUMN owner TO boss;",
    "ALTER TABLE t ADD PRIMARY KEY (id), OWNER TO bob;",
    "ALTER TABLE t ADD COLUMN tenant int, ENABLE ROW LEVEL SECURITY;",
    "ALTER TYPE c RENAME ATTRIBUTE owner TO boss;",
    "ALTER TABLE repos RENAME CONSTRAINT owner TO boss;",
    "ALTER TABLE t ADD COLUMN comment text, DISABLE TRIGGER x;",
    "ALTER SEQUENCE s OWNED BY repos.id;",
    "CREATE SCHEMA app;",
    "CREATE SCHEMA EXT CREATE TABLE t (id int);",
    "SELECT pg_catalog.setval('s', 1, true);",
    '/* a; /* b; */ c; */ CREATE TABLE comment ("grant" int); -- ;',
    "BEGIN;",
    "COMMIT;",
)
GONE = {
    "event trigger": ("CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f();",
                      "ALTER EVENT TRIGGER e DISABLE;"),
    "publication": ("CREATE PUBLICATION p\nWITH (publish = 'insert;');", "ALTER PUBLICATION p ADD TABLE ONLY t;"),
    "subscription": ("CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p;", "ALTER SUBSCRIPTION s DISABLE;"),
    "comment": ("COMMENT ON SCHEMA public IS 'a;\nb';", "comment on column t.a is $$x;$$;"),
    "security label": ("SECURITY LABEL FOR x ON TABLE t IS 'y';",),
    "user mapping": ("CREATE USER MAPPING FOR a SERVER s OPTIONS (\n\"user\" 'r'\n);",),
    "database property": ("CREATE DATABASE shop;", "ALTER DATABASE shop OWNER TO postgres;",
                          "UPDATE pg_catalog.pg_database SET datistemplate = false WHERE datname = 'shop';"),
    "tablespace": ("CREATE TABLESPACE t OWNER a LOCATION '/x';", "SET default_tablespace = '';"),
    "role": ("CREATE ROLE a;", "ALTER ROLE a WITH SUPERUSER PASSWORD ';';", "DROP ROLE a;", "CREATE USER b;"),
    "owner": ('ALTER TABLE public.t OWNER TO "Some Body";', "ALTER FUNCTION f(int) OWNER TO bob;",
              "ALTER TABLE t OWNER TO CURRENT_USER;", "SET SESSION AUTHORIZATION 'bob';", "SET ROLE bob;"),
    "privilege": ("GRANT ALL ON TABLE t TO PUBLIC;", "REVOKE ALL ON SCHEMA public FROM bob;", "GRANT a TO b;",
                  "ALTER DEFAULT PRIVILEGES FOR ROLE a GRANT ALL ON TABLES TO b;"),
    "policy": ("CREATE POLICY p ON t TO reader USING ((owner = CURRENT_USER));",
               "ALTER TABLE public.t ENABLE ROW LEVEL SECURITY;"),
    "setting": ("SET transaction_timeout = 0;",),
    "statistic": ("SELECT * FROM pg_catalog.pg_restore_relation_stats('relname', 't');",
                  "SELECT * FROM pg_catalog.pg_restore_attribute_stats('relname', 't', 'avg_width', '4'::integer);"),
}  # fmt: skip
UNCOUNTED = (
    "\\restrict abc\n", "\\unrestrict abc\n", "\\connect shop\n", "CREATE EXTENSION IF NOT EXISTS x WITH SCHEMA ext;",
    "CREATE SCHEMA public;", 'CREATE SCHEMA IF NOT EXISTS "My ext" AUTHORIZATION me;', "ALTER EXTENSION x UPDATE;",
)  # fmt: skip
BETWEEN = st.sampled_from(["\n", "\n\n-- a comment; it's\n", "\r\n", " /* ; */\n"])
PARTS = st.one_of(
    st.sampled_from([(text, None) for text in KEPT]),
    st.sampled_from([(text, kind) for kind, texts in GONE.items() for text in texts]),
    st.sampled_from([(text, "") for text in UNCOUNTED]),
)


@given(st.lists(st.tuples(PARTS, BETWEEN), max_size=12))
def test_exactly_the_listed_parts_are_left_out(parts: list[tuple[tuple[str, str | None], str]]) -> None:
    text = "".join(part + between for (part, _), between in parts).encode()
    sorting = Sorting(schemas=("My ext", "ext"), database="a", making=["a", "\\connect"])
    left, place = [], 0
    for statement in statements(text):
        assert place <= statement.begin < statement.end <= len(text)
        place = statement.end
        if not sorting.keeps(statement):
            left.append(text[statement.begin : statement.end].decode().strip())
    expected = [part.strip() for (part, kind), _ in parts if kind is not None]
    assert left == expected
    assert sum(sorting.counts.values()) == sum(bool(kind) for (_, kind), _ in parts)
    assert all(sorting.counts[kind] for (_, kind), _ in parts if kind)


@given(st.lists(st.tuples(PARTS, BETWEEN), max_size=12))
def test_lines_keep_their_numbers_for_psql(chosen: list[tuple[tuple[str, str | None], str]]) -> None:
    text = "".join(part + between for (part, _), between in chosen).encode()
    sorting = Sorting(schemas=("My ext", "ext"), database="a", making=["a", "\\connect"])
    first, sent = b"".join(psql.parts(text, sorting, lambda _: True)).removesuffix(psql.LAST).split(b"\n", 1)
    assert first.startswith(b"\\restrict ") and len(first) > 64
    sorting = Sorting(schemas=("My ext", "ext"), database="a", making=["a", "\\connect"])
    expected = text.decode()
    for statement in statements(text):
        if not sorting.keeps(statement):
            part = text[statement.begin : statement.end].decode()
            expected = expected.replace(part, "\n" * part.count("\n"), 1)
    assert sent.decode().count("\n") == text.count(b"\n")
    assert sent.decode() == expected


WARNED = 'psql:<stdin>:3: WARNING:  01000: permission denied to analyze "pg_authid", skipping it\nLOCATION:  vacuum.c\n'
FAILED = 'psql:<stdin>:3: ERROR:  42704: type "x" does not exist\nLINE 1: b\nLOCATION:  parse_type.c\n'


@pytest.mark.parametrize(
    ("reported", "code", "why"),
    [
        (WARNED, 0, ""),
        (WARNED + FAILED, 3, 'a.sql:2: 42704 type "x" does not exist, in: b;'),
        ("psql:<stdin>:3: error: backslash commands are restricted\n", 3, "a.sql:2: backslash commands are restricted"),
        (WARNED, 2, "psql ended with code 2"),
    ],
)
def test_what_psql_warns_of_fails_no_restore(reported: str, code: int, why: str) -> None:
    reason = psql.failure(reported, code, b"a;\nb;\n", Path("a.sql"))
    assert why in reason and bool(reason) == bool(why)


def test_backslashes_escape_in_strings_once_they_are_said_to() -> None:
    text = b"SET standard_conforming_strings = off;\nINSERT INTO t VALUES ('a\\';');\nCOMMENT ON TABLE t IS 'x\\';';\n"
    assert [text[part.end - 1 : part.end] for part in statements(text)] == [b";"] * 3
    assert [part.words for part in statements(text)][2] == "comment on table t is"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("select 'x", "the text after '"),
        ('select "x', 'the text after "'),
        ("select $a$ x $b$", "the text after $a$"),
        ("/* x /* y */", "the comment after /*"),
        ("COPY t FROM stdin;\n1\n2\n", "the rows of COPY"),
        ("COPY t FROM stdin;", "the rows of COPY"),
    ],
)
def test_what_has_no_end_is_found_with_its_line(text: str, what: str) -> None:
    text_of_file = b"select 1;\n\n" + text.encode()
    with pytest.raises(NoEnd) as raised:
        list(statements(text_of_file))
    assert what in str(raised.value) and line_of(text_of_file, raised.value.place) == 3


def test_drops_are_left_out_until_something_is_made() -> None:
    text = b"""ALTER TABLE IF EXISTS ONLY public.t DROP CONSTRAINT t_pkey;
ALTER TABLE public.t ALTER COLUMN id DROP DEFAULT;
DROP TABLE public.t;
CREATE OR REPLACE VIEW v AS SELECT NULL::int AS id;
DROP EXTENSION hstore;
SELECT pg_catalog.lo_unlink('4711');
CREATE TABLE t (id int);
DROP TABLE t;
CREATE OR REPLACE VIEW v AS SELECT 1;
"""
    sorting = Sorting()
    kept = [statement.words for statement in statements(text) if sorting.keeps(statement)]
    assert kept == ["create table t id int", "drop table t", "create or replace view v as select"]
    assert summary(sorting.counts) == "5 DROPs"


@pytest.mark.parametrize(
    "command", ["\\! rm -r /", "\\o /tmp/x", "\\copy t from '/etc/passwd'", "\\i x.sql", "\\g |cat"]
)
def test_commands_of_psql_are_refused(command: str) -> None:
    (_, statement) = statements(f"SELECT 1; {command}\n".encode())
    with pytest.raises(ValueError, match=r"is a command of psql, not SQL"):
        Sorting().keeps(statement)


def test_entries_of_archives_are_left_out_by_the_same_list() -> None:
    for kind in KINDS:
        for name in kind.entries:
            assert entry_left_out(f"3412; 0 16391 {name} public COMMENT postgres") is kind
    for entry in ("TABLE public COMMENT postgres", "TABLE DATA public t postgres", "TRIGGER public t x postgres"):
        assert entry_left_out(f"215; 1259 16391 {entry}") is None
    assert entry_left_out("; Archive created at") is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("CREATE FUNCTION f(language text) RETURNS int LANGUAGE c AS 'x', 'y'", "a function in the language c"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE 'C' AS 'x'", "a function in the language c"),
        ("CREATE FUNCTION f() RETURNS int AS 'int4up' LANGUAGE internal", "a function in the language internal"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE plpython3u AS $$LEAKPROOF$$", "the language plpython3u"),
        ("CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql LEAKPROOF AS ''", "LEAKPROOF"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql NOT LEAKPROOF AS 'LANGUAGE c'", ""),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS ''", ""),
        ("CREATE OPERATOR CLASS o FOR TYPE int USING btree AS STORAGE int", "operator class"),
        ("CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = f)", ""),
        ("CREATE SERVER s FOREIGN DATA WRAPPER w", "foreign server"),
        ("CREATE TYPE public.t", "a base type"),
        ("CREATE TYPE t (\nINPUT = i, OUTPUT = o)", "a base type"),
        ("CREATE TYPE t AS (a int)", ""),
        ("CREATE TYPE t AS ENUM ('input')", ""),
        ("CREATE CAST (text AS integer) WITH INOUT AS IMPLICIT", "a cast between types of PostgreSQL"),
        ("CREATE CAST (public.a AS integer) WITH FUNCTION f(public.a)", ""),
        ("CREATE CAST (public.a AS bigint) WITHOUT FUNCTION", "a cast without a function"),
        ("SET session_replication_role = replica", "replication role"),
    ],
)
def test_what_only_a_superuser_makes_is_known(text: str, what: str) -> None:
    (statement,) = statements(text.encode())
    assert what in superuser(statement) and bool(what) == bool(superuser(statement))
