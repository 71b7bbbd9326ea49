"""How the servers of an observation are named, and its plan."""

from __future__ import annotations

import re

import pytest

from engine.core.errors import UserError
from engine.plan.observation import named


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("postgresql://me@db1.example/shop", "db1.example"),
        ("postgresql://me:secret@db1:5433/shop", "db1-5433"),
        ("host=/run/postgresql user=me", "local"),
        ("user=me", "local"),
        ("host=[::1] port=5432", "1"),
        ("host=a,b port=5432,5433", "a"),
        ("service=prod", "prod"),
        ("old=postgresql://me@db1/shop", "old"),
        ("old=host=db1 user=me", "old"),
    ],
)
def test_a_server_is_called_by_its_name_or_its_host(text: str, name: str) -> None:
    ((found, conninfo),) = named([text]).items()
    assert found == name and conninfo == text.removeprefix(f"{name}=" if text.startswith("old=") else "")


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["nonsense"], "the server: not a connection string: missing"),
        (["postgresql://me:sec ret@h:x/y"], "the server: not a connection string"),
        (["host=db1 options=-cfoo=1"], "the server: options is not supported"),
        (["postgresql://db1/", "postgresql://db1/other"], "two servers would be called db1: name them"),
        (["../a=postgresql://db1/"], "a server's name has letters"),
        (["host=a", "host=b", "host=c"], "3 servers: one can be watched, or two"),
    ],
)
def test_what_is_no_server_is_refused_in_words_that_do_not_quote_it(texts: list[str], why: str) -> None:
    with pytest.raises(UserError, match=re.escape(why)) as raised:
        named(texts)
    assert "sec" not in str(raised.value).replace("second", "")
