"""Nix's commands: how they are called, and a real Nix's reports of a build, a failure and another hash."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from engine.builds import nix
from engine.builds.nix_log import FORMAT
from engine.core.errors import UserError
from probes import requirements
from tests.support.realnix import derivation

STORE = "/nix/store/" + "a" * 32


def test_over_hostpkgs_nix_sees_the_machine_and_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGBED_PACKAGE_SET", "hostpkgs")
    command = nix.realise_command(f"{STORE}-postgresql-16.3.drv", tmp_path / "link")
    drv = f"{STORE}-postgresql-16.3.drv!out"
    assert command[:7] == ["nix-store", "--realise", drv, *FORMAT, "--add-root", str(tmp_path / "link")]
    assert command[7:] == ["--option", "sandbox", "false", "--option", "substituters", ""]
    monkeypatch.setenv("PGBED_PACKAGE_SET", "nixpkgs")
    assert nix.realise_command("x.drv", None) == ["nix-store", "--realise", "x.drv!out", *FORMAT]


@pytest.mark.slow
@pytest.mark.parametrize(("announced", "version"), [("0.24.1", (0, 24)), ("", None)])
def test_a_bpftrace_that_a_run_would_fetch_is_counted_on(
    announced: str, version: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGBED_BPFTRACE_VERSION", announced)
    monkeypatch.setenv("PGBED_PROBE_HELPER", shutil.which("false") or "")
    assert requirements.facts().bpftrace == version


@pytest.mark.outside
def test_bpftrace_is_fetched_and_kept_or_its_lack_told(
    real: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    monkeypatch.setenv("PGBED_BPFTRACE_VERSION", "0.24.1")
    monkeypatch.setenv("PGBED_BPFTRACE", derivation("echo it > $out"))
    nix.fetch_bpftrace(said.append, tmp_path)
    assert (tmp_path / "bpftrace").read_text() == "it\n"
    assert "PGBED_BPFTRACE_VERSION" not in os.environ
    assert said[-1].startswith("bpftrace: ready")
    monkeypatch.setenv("PGBED_BPFTRACE", derivation("echo cannot; exit 1"))
    nix.fetch_bpftrace(said.append, tmp_path)
    assert said[-1].startswith("build 'bpftrace' failed: cannot (")


@pytest.mark.outside
def test_a_build_reports_what_it_does_and_its_log_is_for_people(real: dict[str, str], tmp_path: Path) -> None:
    said: list[str] = []
    drv = derivation("echo one; echo two >&2; read line < /dev/null; i=0; "
                     "while [ $i -lt 400000 ]; do i=$((i+1)); done; echo it > $out")  # fmt: skip
    assert nix.realise("tried", drv, said.append, tmp_path / "link").read_text() == "it\n"
    assert said[0].startswith("tried: building tried (") and said[-1].startswith("tried: ready after")
    log = (tmp_path / "cache" / "pgbed" / "build-tried.log").read_text().splitlines()
    assert "one" in log and "two" in log and not any(line.startswith("@nix") for line in log)


@pytest.mark.outside
def test_only_a_builder_that_fails_is_a_failed_build(real: dict[str, str]) -> None:
    said: list[str] = []
    with pytest.raises(nix.BuildFailed, match=r"^build 'tried' failed: a \| b \(all of it: ") as raised:
        nix.realise("tried", derivation("echo a; echo b; exit 3"), said.append, None)
    assert raised.value.lines == ("a", "b") and said[-2:] == ["tried | a", "tried | b"]
    fixed = f'outputHashMode = "flat"; outputHash = "sha256-{"A" * 43}=";'
    with pytest.raises(UserError, match=r"download of tried refused, its hash is sha256-.*=") as mismatch:
        nix.realise("tried", derivation("echo it > $out", fixed), said.append, None)
    assert not isinstance(mismatch.value, nix.BuildFailed) and f"the pinned one sha256-{'A' * 43}=" in str(
        mismatch.value
    )
    with pytest.raises(UserError, match="stopped because the machine ran short: No space left on device") as short:
        nix.realise("tried", derivation("echo 'write: No space left on device'; exit 1"), said.append, None)
    assert not isinstance(short.value, nix.BuildFailed)
    with pytest.raises(UserError, match=r"^build 'none' failed: .*-none\.drv") as unknown:
        nix.realise("none", f"{STORE}-none.drv", said.append, None)
    assert not isinstance(unknown.value, nix.BuildFailed)
