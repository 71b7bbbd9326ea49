"""`bench doctor`: faults are printed with reason and remedy, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.cli import doctor
from engine.cli.doctor import NEEDS
from engine.host.doctor import DoctorCheck, examine
from engine.tracing import selection
from probes import helper
from probes.requirements import Facts


@pytest.mark.slow
def test_this_machine_can_run_the_tests(new_folder: Any) -> None:
    checks = examine(new_folder(), NEEDS)
    assert {"servers' user", "free space", "socket folder", "schedstat", "CPU", "kernel"} <= {c.name for c in checks}
    assert [check for check in checks if check.status == "fail"] == []
    assert all(bool(check.reason) == bool(check.remedy) == (check.status != "ok") for check in checks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("/nonexistent", "warn", "counters"),
        ("/nix/store/a-perf.drv", "ok", "the first run with --counters fetches perf"),
        (shutil.which("false") or "", "warn", "perf stat: it ended without a word"),
    ],
)
def test_it_says_what_can_be_counted(
    new_folder: Any, monkeypatch: pytest.MonkeyPatch, program: str, status: str, words: str
) -> None:
    monkeypatch.setenv("PGBED_PERF", program)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    (counters,) = (check for check in examine(new_folder(), NEEDS) if check.name == "counters")
    assert counters.status == status and words in f"{counters.name} {counters.found} {counters.reason}"


def test_table_and_json_hold_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = (
        DoctorCheck("one", "ok", "fine"),
        DoctorCheck("two", "warn", "so so", "because of this", "do that"),
        DoctorCheck("three", "fail", "no", "it is gone", "bring it back"),
    )
    monkeypatch.setattr(doctor, "examine", lambda *_: checks)
    called = CliRunner().invoke(doctor.doctor, ["--json"])
    assert [record["status"] for record in json.loads(called.output)] == ["ok", "warn", "fail"]
    assert called.exit_code == 1
    called = CliRunner().invoke(doctor.doctor)
    order = [called.output.index(mark) for mark in ("✓ ok", "! warn", "✗ fail", "1 failed")]
    assert order == sorted(order)
    for text in ("because of this", "→ do that", "bring it back", "1 failed, 1 warning\n"):
        assert text in called.output
    assert called.exit_code == 1
    monkeypatch.setattr(doctor, "examine", lambda *_: checks[:2])
    assert CliRunner().invoke(doctor.doctor).exit_code == 0


@pytest.mark.outside
def test_a_helper_that_others_may_change_is_a_warning(monkeypatch: pytest.MonkeyPatch, new_folder: Any) -> None:
    package = new_folder() / "probes"
    shutil.copytree(Path(helper.__file__).parent, package)
    monkeypatch.setattr(doctor, "direct_command", lambda: ("/usr/bin/python3", "-I", str(package / "helper.py")))

    def said() -> list[tuple[str, str]]:
        return [(check.status, check.found) for check in doctor.of_probes() if check.name == "probe helper"]

    assert said() == []  # root needs no sudo
    monkeypatch.setattr(selection, "by_sudo", lambda: True)
    assert said() == [("ok", f"{package / 'helper.py'}, started by sudo")]
    for loose in (package / "elf.py", package, package.parent):
        mode = loose.stat().st_mode
        loose.chmod(0o777)
        assert said() == [("warn", f"{loose} can be changed by users other than root")]
        loose.chmod(mode)
    os.chown(package / "table.py", 65534, -1)
    assert said() == [("warn", f"{package / 'table.py'} can be changed by users other than root")]


@pytest.mark.slow
def test_a_program_that_workloads_call_is_missed_by_name(new_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBED_HYPERFINE", "/none")
    (check,) = (check for check in examine(new_folder(), NEEDS) if check.name == "hyperfine")
    assert (check.status, check.found) == ("warn", "/none: no such program") and "hyperfine" in check.remedy
    monkeypatch.delenv("PGBED_HYPERFINE")
    monkeypatch.setenv("PATH", "/none")
    (check,) = (check for check in examine(new_folder(), NEEDS) if check.name == "hyperfine")
    assert (check.status, check.found) == ("warn", "none") and "cannot run" in check.reason


@pytest.mark.parametrize("uid", [0, 1000])
def test_doctor_and_the_list_of_probes_say_the_same(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """The helper of root mounts the tracing file system: while it is not mounted, other users' probes run."""
    machine = Facts(linux=True, kernel=(6, 12), bpftrace=(0, 21), uid=uid, capabilities=0, sudo=True, tracefs=False,
                  tracepoints=None, btf=True, uprobes=True)  # fmt: skip
    monkeypatch.setattr(selection, "facts", lambda: machine)
    off = {name for check in doctor.of_probes() if check.found.startswith("off: ")
           for name in check.found.removeprefix("off: ").split(", ")}  # fmt: skip
    listed = {row["probe"] for row in selection.listing() if row["state"] not in ("ready", "always on")}
    assert off == listed and (not off) == (uid == 0)
