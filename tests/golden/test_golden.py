"""Plans and comparisons are what the golden files say."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.model import Build
from tests.golden import outputs


@pytest.fixture(scope="module")
def texts(servers: dict[str, Build], new_folder: Callable[[], Path]) -> dict[str, str]:
    return outputs.texts(new_folder(), servers.values())


@pytest.mark.parametrize("name", outputs.files())
def test_a_golden_file_has_what_is_printed(name: str, texts: dict[str, str]) -> None:
    expected = (outputs.HOME / name).read_text()
    lines = difflib.unified_diff(
        expected.splitlines(), texts.get(name, "").splitlines(), f"tests/golden/{name}", "printed now", lineterm="", n=1
    )
    if difference := "\n".join(lines):
        pytest.fail(f"{difference}\nIf this is meant: {outputs.COMMAND}", pytrace=False)


def test_each_text_has_a_golden_file(texts: dict[str, str]) -> None:
    assert sorted(texts) == outputs.files()
