import pytest

from workloads.own.sql import SqlSyntax, commands

SPLIT = [
    (b"select 1; select 2", ["select 1", "select 2"]),
    (b"select ';', \"a;b\", E'\\';', $$;$$, $x$ $$;$x$; select 2", ["select ';', \"a;b\", E'\\';', $$;$$, $x$ $$;$x$",
                                                                    "select 2"]),
    (b"select 1 -- ; no end\n; select 2", ["select 1 -- ; no end", "select 2"]),
    (b"select /* ; /* ; */ ; */ 1", ["select /* ; /* ; */ ; */ 1"]),
    (b";;\n-- nothing\n;", []),
    (b"select a$b$c; select 2", ["select a$b$c", "select 2"]),
    (b"select U&\"d;\", n'it''s;'", ["select U&\"d;\", n'it''s;'"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SPLIT, ids=range(len(SPLIT)))
def test_commands_end_where_a_server_ends_them(text: bytes, expected: list[str]) -> None:
    assert [command.text.decode() for command in commands(text)] == expected


def test_only_a_name_after_a_colon_is_a_parameter() -> None:
    text = b"select :a, b::text, c[1:2], ':d', $$:e$$, \"f:g\", h := :i /* :j */ -- :k"
    (command,) = commands(text)
    assert [token.text for token in command.tokens if token.kind == "parameter"] == [b":a", b":i"]


@pytest.mark.parametrize("text", [b"select 'x", b'select "x', b"select $a$ x $b$", b"/* x", b"select E'x\\'"])
def test_what_has_no_end_is_named_with_its_line(text: bytes) -> None:
    with pytest.raises(SqlSyntax, match=r"line 3: the .* has no end"):
        list(commands(b"select 1;\n\n" + text))


def test_a_backslash_command_ends_with_its_line() -> None:
    assert [command.text for command in commands(b"\\set a 1\nselect 1")] == [b"\\set a 1", b"select 1"]
    assert [command.line for command in commands(b"select\n1;\n\nselect 2")] == [1, 4]
