"""Recorded runs, and settings that are nobody's."""

from __future__ import annotations

import gzip
import shutil
import time
from pathlib import Path

import pytest
from driving import STOPPED, check_screen, drive  # kept here for those that look for them here

HERE = Path(__file__).parent
__all__ = ["STOPPED", "check_screen", "drive"]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A run of 14.10 and 16.3, three repeats, with stalls and probes; a copy of one's own."""
    run = tmp_path / "20261120-131303-14.10_prebuilt-16.3_prebuilt"
    shutil.copytree(HERE / "recordings" / "two-builds", run)
    (run / "cells").mkdir()
    packed = run / "journal.db.gz"
    (run / "journal.db").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    return run


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the keys of who runs it, nor is a screen without colour because of them."""
    monkeypatch.setenv("PGBED_KEYS", str(tmp_path / "keys.toml"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
