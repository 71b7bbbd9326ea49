"""Extensions as labels name them: refusals, and the contrib of a server at hand."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from engine.analysis.answer.compare import compare
from engine.builds import derivation, extensions, resolve
from engine.builds.contrib import CONTRIB, lacks
from engine.builds.derivation import Change, Derivation, Derived
from engine.builds.nix import BuildFailed
from engine.core.errors import UserError
from engine.core.model import Build, Extension
from engine.journal.manifest import read_manifest
from engine.report import origins
from engine.results.ratio import CPU
from tests.support.benchcall import Bench
from tests.support.compiled import compiled_here
from tests.support.realnix import as_wrapped
from tests.support.smallextension import make_extension

VERSIONS = {"old": 1, "new": 4}  # how often each counts
LITTLE = ("--pgbench-scale", "1", "--clients", "1", "--seconds", "1", "--repeats", "1", "--warmup-seconds", "0",
          "--set", "shared_buffers=32MB", "--probes", "none")  # fmt: skip


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder as the wrapper names it over hostpkgs."""
    file = tmp_path / "extensions.json"
    file.write_text(json.dumps({"names": ["pgvector"], "sources": [], "drv": "/nix/store/none.drv"}))
    monkeypatch.setenv("PGBED_EXTENSIONS", str(file))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pg_trmg", r"build 'b': unknown extension 'pg_trmg' \(nearest: pg_trgm, .*\); the source of another"),
        ("pgvektor", r"unknown extension .pgvektor. \(nearest: pgvector, "),
        ("pgvector", r"the source of extension pgvector comes with nixpkgs, .* name it as \+pgvector=PATH$"),
        ("pg_walinspect", "pg_walinspect came with PostgreSQL 15, and this is 14$"),
        ("pg_overexplain", "pg_overexplain came with PostgreSQL 18, and this is 14$"),
        ("own={0}/nowhere", "extension own: .*/nowhere is not a folder$"),
        ("own=~nobody-of-that-name/x", "extension own: .*/~nobody-of-that-name/x is not a folder$"),
        ("own={0}/no-makefile", "has no Makefile that uses PGXS"),
        ("own={0}/no-control", r"has no control file \(own.control\), so CREATE EXTENSION would not find it$"),
    ],
)
def test_what_is_no_extension_is_one_line(tmp_path: Path, word: str, message: str) -> None:
    make_extension(tmp_path / "no-makefile").joinpath("Makefile").write_text("all:\n")
    make_extension(tmp_path / "no-control").joinpath("counting.control").unlink()
    with pytest.raises(UserError, match=message) as raised:
        extensions.check("b", word.format(tmp_path), 14, compiled=True)
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("servers")
def test_an_extension_of_a_tree_needs_a_compiled_server(tmp_path: Path) -> None:
    word = f"own={make_extension(tmp_path / 'own')}"
    extensions.check("b", word, 18, compiled=True)
    with pytest.raises(UserError, match="extension own cannot be built, because this server came without headers"):
        resolve.check([f"16.3-prebuilt+{word}"])


def test_contrib_comes_with_every_server(servers: dict[str, Build]) -> None:
    (build,) = resolve.resolve(["16.3-prebuilt+pg_trgm+auto_explain"], lambda _: None)
    assert build.label == "16.3-prebuilt-pg_trgm-auto_explain"
    assert build.extensions == (Extension("pg_trgm", "pg_trgm of contrib"), Extension("", "auto_explain of contrib"))
    assert build.prefix == servers["16.3-prebuilt"].prefix
    with pytest.raises(UserError, match="went with PostgreSQL 17, and this is 18"):
        resolve.check(["18.6-prebuilt+adminpack"])
    with pytest.raises(UserError, match="extension pg_trgm given twice"):
        resolve.check(["16.3-prebuilt+pg_trgm+pg_trgm"])


LEFT_OUT = re.compile(r"plpgsql|.*pl(perl|python|tcl).*|uuid-ossp|xml2|sslinfo")


def test_extensions_of_a_server_at_hand_come_with_its_version(servers: dict[str, Build]) -> None:
    for label, build in servers.items():
        there = {file.stem for file in (Path(build.prefix) / "share").rglob("extension/*.control")}
        names = {name for name in there if not LEFT_OUT.fullmatch(name)}
        assert len(names) > 35 and names - CONTRIB.keys() == set(), label
        assert [name for name in names if lacks(name, build.major)] == [], label


def test_a_given_build_has_the_extensions_of_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Build("16.3-v", "16.3", str(tmp_path), "0" * 32, "source", extensions=(Extension("v", "v 1.0"),))
    (tmp_path / "builds.json").write_text(json.dumps({"16.3+v=~/v": asdict(build)}))
    monkeypatch.setenv("PGBED_BUILDS", str(tmp_path / "builds.json"))
    assert resolve.resolve(["16.3+v=~/v"], lambda _: None) == (build,)


def test_a_server_without_one_of_contrib_is_named(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    with pytest.raises(UserError, match=f"the server in {tmp_path} came without the extension pg_trgm"):
        extensions.of_contrib("b", "pg_trgm", tmp_path)


@pytest.mark.slow
def test_an_install_of_debian_has_its_extensions_elsewhere(new_folder: Callable[[], Path]) -> None:
    prefix, share = new_folder(), new_folder()
    (prefix / "bin").mkdir()
    (prefix / "bin" / "pg_config").write_text(f"#!/bin/sh\necho {share}\n")
    (prefix / "bin" / "pg_config").chmod(0o755)
    (share / "extension").mkdir()
    (share / "extension" / "pg_trgm.control").touch()
    assert extensions.of_contrib("b", "pg_trgm", prefix).name == "pg_trgm"
    assert extensions.has(prefix, "pg_trgm") and not extensions.has(prefix, "*") and not extensions.has(prefix, "x")


def test_an_extension_of_a_native_server_is_compiled_native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = "/nix/store/" + "a" * 32
    asked: list[Change] = []

    def derive(drv: str, change: Change) -> Derived:
        asked.append(change)
        return Derived(f"{store}-e.drv", f"{store}-e", "", f"{store}-source")

    monkeypatch.setattr(derivation, "derive", derive)
    for value in ("0", "1"):
        file = tmp_path / f"{value}.drv"
        env = f'[("NIX_ENFORCE_NO_NATIVE","{value}"),("src","")]'
        file.write_text(f'Derive([("out","{store}-s","","")],[],[],"x86_64-linux","/bin/sh",[],{env})')
        server = derivation.known(str(file))
        extensions.added("b", [f"own={make_extension(tmp_path / value)}"], server, server, "18.6-own")
    recipe = Derivation({"out": f"{store}-e"}, {}, (), (), {"src": ""})
    native, plain = (derivation.arguments(recipe, change)["env"] for change in asked)
    assert native["NIX_ENFORCE_NO_NATIVE"] == "0" and native["allowSubstitutes"] is False
    assert "NIX_ENFORCE_NO_NATIVE" not in plain


@pytest.mark.outside
@pytest.mark.first
@pytest.mark.parametrize("label", compiled_here())
def test_two_versions_of_an_extension_are_compared(
    label: str, bench: Bench, new_folder: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_wrapped(monkeypatch, tmp_path)
    builds = [f"{name}={label}+v={make_extension(tmp_path / name, times)}+pg_trgm" for name, times in VERSIONS.items()]
    script = new_folder() / "counting.sql"
    script.write_text("SELECT counted(200000), similarity('a', 'b');\n")
    done = bench("--pg", ",".join(builds), "--workload", f"pgbench:{script}", *LITTLE)
    assert done.returncode == 0, done.stderr
    old, new = read_manifest(bench.run).builds
    assert old.extensions[0] == Extension("pg_trgm", "pg_trgm of contrib") and old.digest != new.digest
    titles = [build.extensions[1].title for build in (old, new)]
    assert all(title.startswith("v 1.0, a tree outside git, files ") for title in titles) and titles[0] != titles[1]
    comparison = json.loads(bench("compare", "--json").stdout)
    (ratio,) = (row for row in comparison["ratios"] if row["step"] == "script.c1" and row["metric"] == CPU)
    assert 2 < ratio["ratio"] < 6  # of CPU time, which others on this machine hardly change
    reported = origins.builds(compare([bench.run])).rows
    assert any(titles[1] in str(row.values[-1]) for row in reported), "and the report says so"
    closure = subprocess.run(["nix-store", "-qR", new.prefix], capture_output=True, text=True, check=True).stdout
    assert f"postgresql-{label}\n" in closure and "-dev" not in closure
    assert not (Path(new.prefix) / "include").exists()


@pytest.mark.outside
@pytest.mark.parametrize("label", compiled_here())
def test_a_tree_named_like_one_of_contrib_replaces_it(
    label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_wrapped(monkeypatch, tmp_path)
    tree = make_extension(tmp_path / "mine", name="hstore")
    (build,) = resolve.resolve([f"{label}+hstore={tree}"], lambda _: None, tmp_path / "roots")
    (extension,) = build.extensions
    assert extension.name == "hstore" and extension.title.startswith("hstore 1.0, a tree outside git, files ")
    (control,) = (Path(build.prefix) / "share").rglob("hstore.control")
    assert control.read_text() == (tree / "hstore.control").read_text()


FOREIGN = """
#include "postgres.h"
#include "fmgr.h"
extern PGDLLEXPORT const Pg_magic_struct *Pg_magic_func(void);
const Pg_magic_struct *
Pg_magic_func(void)
{
    static Pg_magic_struct data = PG_MODULE_MAGIC_DATA;
    data.version = 1000;
    return &data;
}
"""


@pytest.mark.outside
@pytest.mark.parametrize("label", compiled_here())
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (FOREIGN, "incompatible library .*counting.so.*: version mismatch"),
        ("int x = nothing;\n", r"counting\.c:1:9: error: .*nothing"),
    ],
)
def test_what_does_not_become_an_extension_shows_the_last_words(
    label: str, source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_wrapped(monkeypatch, tmp_path)
    tree = make_extension(tmp_path / "bad")
    (tree / "counting.c").write_text(source)
    with pytest.raises(BuildFailed, match=message) as raised:
        resolve.resolve([f"{label}+bad={tree}"], lambda _: None, tmp_path / "roots")
    assert "\n" not in str(raised.value) and not list((tmp_path / "roots").glob("*"))
