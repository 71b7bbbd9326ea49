"""Asking `bench` for values that the journal lacks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.core.errors import UserError
from tui import bench


@pytest.fixture(autouse=True)
def asked() -> None:
    """Here it is processes with interpreters of their own, as it is for a user."""


def test_an_answer_that_is_no_json_is_one_line_for_the_user() -> None:
    with pytest.raises(UserError, match="answered no JSON but 'Usage: "):
        asyncio.run(bench.ask_json("run", "--help"))


def test_a_refusal_is_told_in_the_words_of_bench(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run 'that': there are no runs in "):
        asyncio.run(bench.ask_json("compare", "that", "--out", str(tmp_path)))
