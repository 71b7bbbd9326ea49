"""The pgbench that drives the servers: the newest available."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.builds import client_programs
from engine.core.errors import UserError
from engine.core.model import Build


def pgbench(folder: Path, version: str) -> Path:
    path = folder / "bin" / "pgbench"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'pgbench (PostgreSQL) {version}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("build", "on_path", "system", "expected"),
    [
        ("16.3", "18.6 (Debian 18.6-1.pgdg130+1)", "17", "18.6"),
        ("16.10", "16.9", "15", "16.10"),
        ("12.11", "15.18", "17", "17"),
        ("12.11", "unheard of", "", "12.11"),
        ("18.6", "18.6", "18", "18.6"),
        ("17beta1", "17.0", "16", "17.0"),
        ("16.3", "18.6\nUse it well.", "", "18.6"),
    ],
)
def test_the_newest_is_taken_wherever_it_is(
    new_folder: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    build: str,
    on_path: str,
    system: str,
    expected: str,
) -> None:
    folder = new_folder()
    pgbench(folder / "build", build)
    pgbench(folder / "path", on_path)
    if system:
        pgbench(folder / "system" / system, system)
    monkeypatch.delenv("PGBED_PGBENCH", raising=False)
    monkeypatch.setenv("PATH", f"{folder}/path/bin:/usr/bin:/bin")
    monkeypatch.setattr(client_programs, "DEBIAN", folder / "system")
    of_run = Build("mine", build, str(folder / "build"), "", "local")
    program = client_programs.find(("pgbench",), (of_run,), lambda _: None, folder / "roots")["pgbench"]
    assert program["version"].startswith(f"pgbench (PostgreSQL) {expected}")
    assert "\n" not in program["version"]
    assert ("/build/" in program["path"]) == (build == expected)  # which goes before others of its version


@pytest.mark.slow
def test_a_program_of_nobodys_build_is_taken_from_the_path(
    new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = new_folder()
    for place in ("path", "build/bin"):
        (folder / place).mkdir(parents=True)
        (folder / place / "hyperfine").write_text("#!/bin/sh\necho 'hyperfine 1.19.0'\n")
        (folder / place / "hyperfine").chmod(0o755)
    monkeypatch.delenv("PGBED_HYPERFINE", raising=False)
    monkeypatch.setenv("PATH", f"{folder}/path:/usr/bin:/bin")
    of_run = (Build("mine", "16.3", str(folder / "build"), "", "local"),)
    programs, absent = client_programs.seek(("hyperfine", "pg_dump"), ("pg_dump",), of_run, lambda _: None, folder)
    assert programs["hyperfine"]["path"] == f"{folder}/path/hyperfine" == client_programs.place("hyperfine")
    assert programs["hyperfine"]["version"] == "hyperfine 1.19.0" and {*programs, *absent} == {"hyperfine", "pg_dump"}
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(UserError, match="not on PATH: start bench from its flake, or set hyperfine"):
        client_programs.seek(("hyperfine",), (), of_run, lambda _: None, folder)
    monkeypatch.setenv("PGBED_HYPERFINE", "/nix/store/x.drv")
    assert client_programs.place("hyperfine") == "fetched or built by Nix on demand"


def test_without_any_the_ways_to_get_one_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGBED_PGBENCH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(client_programs, "DEBIAN", tmp_path)
    with pytest.raises(UserError, match=r"set pgbench in config\.toml"):
        client_programs.find(("pgbench",), (), lambda _: None, tmp_path)
