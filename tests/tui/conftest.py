"""Settings that are nobody's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support import asking, warm
from tests.support.screens import STOPPED, check_screen, drive
from tui import bench

__all__ = ["STOPPED", "check_screen", "drive"]


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the keys of who runs it, nor is a screen without colour because of them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls by screens start no interpreter; a module that has its own `asked` pays that."""
    warm.ready()  # an application that waits for it shows nothing meanwhile
    monkeypatch.setattr(bench, "run", asking.run)
