"""Builds by Nix from a tree of PostgreSQL's shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.builds import resolve
from engine.core.model import Build
from tests.support import smalltree
from tests.support.realnix import as_wrapped


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    return as_wrapped(monkeypatch, tmp_path)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return smalltree.make_repository(tmp_path / "postgres")


@pytest.fixture
def build(tmp_path: Path) -> Callable[[str], Build]:
    def one(spec: str) -> Build:
        (build,) = resolve.resolve([spec], lambda _: None, tmp_path / "roots")
        return build

    return one
