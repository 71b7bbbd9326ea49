"""Whether this machine can be booted into another kernel, and what continues a run after a boot."""

from __future__ import annotations

import configparser
import os
import subprocess
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.host import kexec, resume_unit


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The files of a machine that can be."""
    for name in ("run/systemd/system", "sys/kernel/security", "proc/sys/kernel", "etc/systemd/system"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sys/kernel/kexec_loaded").write_text("0\n")
    (tmp_path / "sys/kernel/security/lockdown").write_text("[none] integrity confidentiality\n")
    (tmp_path / "proc/sys/kernel/kexec_load_disabled").write_text("0\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("sys/kernel/security/lockdown", "none [integrity] confidentiality", "secure boot"),
        ("proc/sys/kernel/kexec_load_disabled", "1\n", "kexec_load_disabled is 1"),
        (".dockerenv", "", "this is a container"),
        ("sys/kernel/kexec_loaded", None, "without CONFIG_KEXEC"),
        ("run/systemd/system", None, "systemd does not run here"),
    ],
)
def test_what_hinders_a_boot_is_named(machine: Path, name: str, text: str | None, why: str) -> None:
    rest = kexec.hindrance(machine)
    assert rest == ("" if os.geteuid() == 0 else "only root may boot another kernel: start bench as root")
    place = machine / name
    if text is not None:
        place.write_text(text)
    elif place.is_dir():
        place.rmdir()
    else:
        place.unlink()
    assert why in kexec.hindrance(machine)


def test_the_unit_runs_the_command_with_the_same_environment_until_it_is_removed(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = machine / "a run's"
    run.mkdir()
    monkeypatch.setenv("PGBED_USER", "no'body")
    resume_unit.install(run, ["-c", "import os; print(os.environ['PGBED_USER'])"], run / "engine.log", machine)
    assert resume_unit.run_of(machine) == run and (machine / resume_unit.UNIT).read_text() == resume_unit.TEXT
    subprocess.run(["/bin/sh", machine / resume_unit.SCRIPT], env={}, check=True)
    assert (run / "engine.log").read_text() == "no'body\n"
    (machine / resume_unit.UNIT).write_text("another's, as the module of NixOS makes it")
    other = machine / "another"
    other.mkdir()
    (run / "manifest.json").touch()
    script = (machine / resume_unit.SCRIPT).read_text()
    with pytest.raises(UserError, match=r"the run .*/a run's continues at the next boot.*: end it first: bench stop"):
        resume_unit.install(other, ["-c", ""], other / "engine.log", machine)
    resume_unit.remove(other, machine)
    assert resume_unit.run_of(machine) == run and (machine / resume_unit.SCRIPT).read_text() == script
    resume_unit.remove(run, machine)
    assert resume_unit.run_of(machine) is None and (machine / resume_unit.UNIT).exists()
    assert not (machine / resume_unit.SCRIPT).exists()
    resume_unit.install(run, ["-c", ""], run / "engine.log", machine)
    (run / "manifest.json").unlink()
    resume_unit.check_free(other, machine)  # a run that was deleted keeps nobody off


def test_the_unit_is_one_that_systemd_reads() -> None:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(resume_unit.TEXT)
    assert unit["Unit"]["ConditionPathExists"] == f"/{resume_unit.SCRIPT}"
    assert unit["Service"]["ExecStart"] == f"/bin/sh /{resume_unit.SCRIPT}"
    assert unit["Service"]["ExecStartPre"] == '/bin/sh -c "sleep 30"'
    assert unit["Install"]["WantedBy"] == unit["Unit"]["After"] == "multi-user.target"


def test_a_kernel_that_is_not_there_any_more_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the kernel has been removed"):
        kexec.load(tmp_path / "vmlinuz", tmp_path / "initrd", "quiet")
