"""What a record names is not started before its user has confirmed it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.journal.manifest import read_manifest
from engine.plan.confirm import _confirm_perf
from tests.support.journal import make_run


def test_only_the_perf_of_this_machine_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "perf"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("PGBED_PERF", str(own))
    manifest = dataclasses.replace(
        read_manifest(make_run(tmp_path / "run")), perf={"path": "/home/m/x", "version": "6"}
    )
    with pytest.raises(UserError, match="counts events by /home/m/x, which is not the perf of this machine"):
        _confirm_perf(manifest, tmp_path, print)
    _confirm_perf(dataclasses.replace(manifest, perf={"path": str(own), "version": "6"}), tmp_path, print)
