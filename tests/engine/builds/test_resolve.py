"""Labels to servers: the pure parts, installs at hand, and (outside a Nix build) Nix itself."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.builds import resolve, typed_release
from engine.builds.catalog import CatalogEntry, catalog
from engine.core.errors import UserError
from engine.core.model import Build
from engine.plan import planfile
from engine.plan.prepare import prepare
from engine.system import subprocesses
from engine.system.account import unprivileged
from tests.support.benchcall import wait_for
from tests.support.realnix import derivation

RELEASED = b"what postgresql.org ships"
STORE = "/nix/store/" + "a" * 32


def entry(label: str, provenance: str, **more: object) -> dict[str, object]:
    version = label.partition("-")[0]
    attr = "postgresql-" + label.removesuffix("-builtin").replace(".", "_")
    return {"label": label, "version": version, "attr": attr, "provenance": provenance, **more}


def tarball(version: str) -> dict[str, str]:
    name = f"postgresql-{version}.tar.bz2"
    sri = "sha256-" + b64encode(hashlib.sha256(RELEASED).digest()).decode()
    return {"name": name, "hash": sri, "path": f"{STORE}-{name}"}


BUILTIN = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
CATALOG = [
    entry("16.3", "source", tarball=tarball("16.3")),
    entry("16.3-prebuilt", "prebuilt"),
    entry("16.3-limit", "source", tarball=tarball("16.3"), patches=["limit.patch"]),
    entry("17.0", "source", tarball=tarball("17.0")),
    entry("17.0-builtin", "source", tarball=tarball("17.0"), initdb_args=BUILTIN),
    entry("17.0-prebuilt", "prebuilt"),
    entry("17.0-prebuilt-builtin", "prebuilt", initdb_args=BUILTIN),
    entry("17beta1", "source", tarball=tarball("17beta1")),
]


@pytest.fixture(autouse=True)
def wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the wrapper over hostpkgs, with a small catalog and no server at hand."""
    file = tmp_path / "catalog.json"
    file.write_text(json.dumps(CATALOG))
    monkeypatch.setenv("PGBED_CATALOG", str(file))
    monkeypatch.setenv("PGBED_PACKAGE_SET", "hostpkgs")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PGBED_SERVERS", raising=False)
    monkeypatch.delenv("BENCH_TARBALLS", raising=False)


def install(prefix: Path, version: str) -> Path:
    """An install folder with programs that know their version and nothing else."""
    (prefix / "bin").mkdir(parents=True)
    for program in ("postgres", "initdb"):
        path = prefix / "bin" / program
        path.write_text(f"#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n")
        path.chmod(0o755)
    return prefix


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "servers"
    monkeypatch.setenv("PGBED_SERVERS", str(folder))
    for label in ("16.3-prebuilt", "17.0-prebuilt"):
        install(folder / label, label.removesuffix("-prebuilt"))
    return folder


def one(spec: str) -> Build:
    (build,) = resolve.resolve([spec], lambda _: None)
    return build


# -- labels --------------------------------------------------------------------------------------------------------


def test_unknown_label_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown build '16\.4-mine' \([^;]*\)$"):
        one("16.4-mine")
    for text in ("v16.3", "a=v16.3", "PostgreSQL 16.3"):
        with pytest.raises(UserError, match=r"unknown build '.*16\.3': PostgreSQL 16\.3 is '16\.3' here$"):
            one(text)


@pytest.mark.parametrize("text, said", [
    ("16", "'16' is a major version: name a release of it, such as '16.3'"),
    ("pg16:O3", "'pg16' is a major version: name a release of it, such as '16.3'"),
    *((text, f"unknown build '{text}': PostgreSQL 16.3 is '16.3' here") for text in (
        "v16.3", "V16.3", "16.3.0", "16.03", "REL_16_3", "REL16_3", "PostgreSQL 16.3", "postgres:16.3", "pg 16.3",
        "postgresql-16.3", "postgres:16.3-alpine", "release 16.3", "postgresql@16.3",
        "postgres (PostgreSQL) 16.3", "PostgreSQL 16.3 on x86_64-pc-linux-gnu", "16.3 (Debian 16.3-1.pgdg120+1)",
        "16.3-1.pgdg120+1", "docker.io/library/postgres:16.3", "refs/tags/REL_16_3")),
    ("v16.3+pg_trgm", "unknown build 'v16.3': PostgreSQL 16.3 is '16.3' here"),
    ("16.4", "unknown build '16.4' (nearest: 16.3); if it is a release, bench pin 16.4 adds it"),
    ("REL_17_RC1",
     "unknown build 'REL_17_RC1' (nearest: 17.0, 17beta1, 17.11); if it is a release, bench pin 17rc1 adds it"),
    ("19.0", "unknown build '19.0' (nearest: 19rc1); if it is a release, bench pin 19.0 adds it"),
    ("17devel", "'17devel' is a branch: build it from a repository, NAME=git:~/src/postgres@REL_17_STABLE"),
    ("master", "'master' is a branch: build it from a repository, NAME=git:~/src/postgres@master"),
    ("REL_16_STABLE", "'REL_16_STABLE' is a branch: build it from a repository, NAME=git:~/src/postgres@REL_16_STABLE"),
    ("9.6.24", "PostgreSQL 9.6 is too old: 12 is the oldest that can be compared"),
    ("11.22", "PostgreSQL 11 is too old: 12 is the oldest that can be compared"),
    ("latest", "'latest' names no release: the newest here is '18.6'"),
])  # fmt: skip
def test_a_release_typed_as_elsewhere_gets_one_hint(text: str, said: str) -> None:
    releases = ("12.11", "16.3", "17beta1", "17.0", "17.11", "18.6", "19rc1")
    entries = [CatalogEntry(label, label.partition("-")[0], "", "source") for label in (*releases, "16.3-prebuilt")]
    assert typed_release.hint(text, entries) == said


@pytest.mark.parametrize(("text", "label"), [
    ("16", "16.3"), ("17", "17.0"), ("new=17", "new=17.0"), ("17:O3", "17.0:O3"), ("a=16+my.patch", "a=16.3+my.patch"),
    ("15", "15"), ("17beta1", "17beta1"), ("a=./17", "a=./17"), ("p=postgresql://h/17", "p=postgresql://h/17"),
])  # fmt: skip
def test_a_major_version_is_its_newest_release(text: str, label: str) -> None:
    assert typed_release.with_minor(text) == label
    planned = planfile.request({"builds": [text, "16.3-prebuilt"], "base": text})
    assert planned.builds == (label, "16.3-prebuilt") and planned.base == label


def test_known_and_unlike_labels_get_no_hint_for_releases() -> None:
    entries = [CatalogEntry("16.3", "16.3", "", "source")]
    for text in (
        "16.3",
        "16.3:O9",
        "16.3+pg_trmg",
        "mine",
        "/opt/pg16.3",
        "./pg16",
        "opt/pg16.3",
        "16.3-mine",
        "1600.3",
        "\u0661\u0666",
        "",
    ):
        assert typed_release.hint(text, entries) == ""
    assert typed_release.hint("v16.3", []) == ""


@pytest.mark.slow
def test_without_the_wrapper_servers_need_nix(new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGBED_CATALOG")
    with pytest.raises(UserError, match=r"^servers are built with Nix: .*nix run \.#bench.*--pg NAME=/path") as raised:
        one("16.3")
    assert "\n" not in str(raised.value)
    assert one(f"mine={install(new_folder() / 'mine', '18devel')}").version == "18devel"


def test_unreadable_catalogue_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "catalog.json").write_text("[{]")
    with pytest.raises(UserError, match=r"cannot be read"):
        catalog()


def test_prebuilt_label_keeps_the_locale_provider() -> None:
    labels = {known.label: known.prebuilt_label for known in catalog()}
    assert labels["16.3"] == "16.3-prebuilt"
    assert labels["17.0-builtin"] == "17.0-prebuilt-builtin"


# -- servers at hand -----------------------------------------------------------------------------------------------


def test_server_at_hand_is_taken_with_what_it_says_of_itself(servers: Path) -> None:
    record = servers / "16.3-prebuilt" / "share" / "pgbed" / "build.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"compiler": "gcc 7.5.0", "flags": "-Os"}))
    build = one("16.3-prebuilt")
    assert (build.label, build.version, build.provenance) == ("16.3-prebuilt", "16.3", "prebuilt")
    assert (build.compiler, build.flags) == ("gcc 7.5.0", "-Os")
    assert build.prefix == str(servers / "16.3-prebuilt")


def test_builtin_shares_binaries_and_differs_in_initdb(servers: Path) -> None:
    plain, builtin = resolve.resolve(["17.0-prebuilt", "17.0-prebuilt-builtin"], lambda _: None)
    assert (plain.prefix, plain.digest) == (builtin.prefix, builtin.digest)
    assert plain.initdb_args == ()
    assert builtin.initdb_args == tuple(BUILTIN)


def test_a_missing_source_is_replaced_by_its_prebuilt(servers: Path) -> None:
    said: list[str] = []
    (build,) = resolve.resolve(["17.0-builtin"], said.append)
    assert build.label == "17.0-prebuilt-builtin"
    assert build.provenance == "prebuilt"
    assert said == [
        "17.0-builtin: its source cannot be fetched here; using 17.0-prebuilt-builtin, compiled elsewhere "
        "(BENCH_TARBALLS names a folder of sources)"
    ]


def test_two_labels_that_come_down_to_one_build_are_refused(servers: Path) -> None:
    with pytest.raises(UserError, match=r"^16\.3 and 16\.3-prebuilt would both be called 16\.3-prebuilt; give one"):
        resolve.resolve(["16.3", "16.3-prebuilt"], lambda _: None)
    with pytest.raises(UserError, match=r"^prod=… and prod=… would both be called prod; give one"):
        resolve.check(["prod=postgresql://db", "prod=host=db"])


@pytest.mark.parametrize("label", ["17beta1", "16.3-limit"])
def test_build_that_is_not_available_says_why_in_one_line(servers: Path, label: str) -> None:
    with pytest.raises(UserError) as raised:
        one(label)
    message = str(raised.value)
    assert message.startswith(f"build '{label}' is not available here: ")
    assert "BENCH_TARBALLS" in message
    assert "\n" not in message


def test_unavailable_builds_are_refused_before_any_fetch(servers: Path, tmp_path: Path) -> None:
    said: list[str] = []
    request = planfile.request({"builds": ["16.3", "17beta1"]})
    with pytest.raises(UserError, match="'17beta1' is not available here"):
        prepare(request, tmp_path / "runs", said.append)
    assert said == []


# -- the user's own installs ---------------------------------------------------------------------------------------


@pytest.fixture
def prefix(new_folder: Callable[[], Path]) -> Path:
    """A place for an install that the servers' user may enter."""
    return new_folder() / "mine"


def saying(prefix: Path, script: str) -> Path:
    """An install whose programs do what a shell script says."""
    install(prefix, "1")
    for program in (prefix / "bin").iterdir():
        program.write_text(f"#!/bin/sh\n{script}\n")
    return prefix


@pytest.mark.slow
def test_local_install_is_asked_for_its_version(prefix: Path) -> None:
    install(prefix, "18devel")
    build = one(f"mine={prefix}")
    server = (prefix / "bin" / "postgres").read_bytes()
    assert (build.label, build.version, build.provenance) == ("mine", "18devel", "local")
    assert build.digest == hashlib.sha256(server).hexdigest()


@pytest.mark.slow
def test_a_distributions_version_is_taken_without_its_remark(prefix: Path) -> None:
    assert one(f"mine={install(prefix, '16.3 (Debian 16.3-1.pgdg120+1)')}").version == "16.3"


@pytest.mark.slow
def test_local_install_is_never_run_as_root(prefix: Path) -> None:
    saying(prefix, 'echo "postgres (PostgreSQL) 16.$(id -u)"')
    assert one(f"mine={prefix}").version == f"16.{unprivileged().uid}"


@pytest.mark.slow
def test_local_install_may_be_named_from_the_working_folder(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(prefix, "18devel")
    monkeypatch.chdir(prefix.parent)
    build = one("mine=mine")
    assert (build.version, build.prefix) == ("18devel", str(prefix.resolve()))


def test_local_install_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is neither an install \(bin/postgres\) nor a source tree"):
        one(f"mine={tmp_path}")


@pytest.mark.parametrize("name", ["", "a b", "../up", "-x", "x" * 62, "\x1b[2J"])
def test_local_name_must_be_a_label(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"is not a valid build name"):
        one(f"{name}={tmp_path}")


def test_local_name_must_not_be_another_builds_label(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'16\.3' is the label of another build"):
        one(f"16.3={install(tmp_path / 'mine', '16.3')}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo hello", r"prints 'hello', not a PostgreSQL version"),
        ("echo 'postgres (PostgreSQL) banana'", "not a PostgreSQL version"),
        ("printf '\\377\\376\\033[2J'", "not a PostgreSQL version"),
        ("echo 'postgres (PostgreSQL) 16.3'; exit 3", "ended with status 3"),
        ("cat /dev/zero", "produces endless output"),
        ("exec yes", "produces endless output"),
        ("exit 0", "prints 'nothing'"),
    ],
)
def test_local_program_that_is_no_postgres_is_one_line(prefix: Path, script: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        one(f"mine={saying(prefix, script)}")


@pytest.mark.slow
@pytest.mark.parametrize("script", ["sleep 1000 & sleep 1000", "while :; do sleep 1000 & sleep 0.1; done"])
def test_a_hanging_program_is_stopped_with_its_children(prefix: Path, script: str) -> None:
    marker = prefix.parent.name
    saying(prefix, f"MARK={marker}; export MARK; {script}")
    with pytest.raises(UserError, match=r"did not exit within 1 s and was stopped"):
        subprocesses.ask((str(prefix / "bin" / "postgres"), "--version"), unprivileged(), timeout_s=1)
    mark = f"MARK={marker}".encode()
    wait_for(lambda: not any(mark in environ_of(folder) for folder in Path("/proc").glob("[0-9]*")), "all of it to go")


@pytest.mark.slow
def test_a_program_that_leaves_another_running_is_not_waited_for(prefix: Path) -> None:
    saying(prefix, "sleep 1000 & echo 'postgres (PostgreSQL) 16.3'")
    assert one(f"mine={prefix}").version == "16.3"


def environ_of(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


# -- sources -------------------------------------------------------------------------------------------------------


def test_supplied_tarball_with_another_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_TARBALLS", str(tmp_path))
    (tmp_path / "postgresql-17beta1.tar.bz2").write_bytes(b"something else")
    with pytest.raises(
        UserError, match=r"postgresql-17beta1\.tar\.bz2 refused: its sha256 is [0-9a-f]{64}; the released "
    ):
        one("17beta1")


def test_tarball_folder_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_TARBALLS", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"BENCH_TARBALLS names .*nowhere, which is not a folder"):
        one("17beta1")


# -- Nix -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_nix_the_error_has_the_installing_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match=r"\./bench, which installs it"):
        one("16.3-prebuilt")


# -- Nix itself ----------------------------------------------------------------------------------------------------


@pytest.mark.outside
def test_nix_realises_the_label_and_keeps_it(real: dict[str, str], tmp_path: Path) -> None:
    said: list[str] = []
    plain, builtin = resolve.resolve(["17.0-prebuilt", "17.0-prebuilt-builtin"], said.append, tmp_path)
    assert (tmp_path / "postgresql-17_0-prebuilt").resolve() == Path(plain.prefix)
    assert plain.prefix == next(known.out for known in catalog() if known.label == plain.label)
    assert Path(plain.prefix).name.startswith(plain.digest + "-")
    assert "GCC" in plain.compiler
    assert builtin.prefix == plain.prefix
    assert said[-1].startswith("17.0-prebuilt-builtin: ready")


@pytest.mark.outside
def test_what_the_store_has_is_taken_without_the_network(real: dict[str, str]) -> None:
    prefix = one("17.0-prebuilt").prefix
    again = "from engine.builds import resolve; print(resolve.resolve(['17.0-prebuilt'], lambda _: None)[0].prefix)"
    command = ["unshare", "--net", sys.executable, "-c", again]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, prefix), done.stderr


@pytest.mark.outside
def test_nix_failure_is_one_line_and_names_its_log(
    real: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entries = [entry("16.3-prebuilt", "prebuilt", drv=derivation("echo no such luck; exit 3"))]
    (tmp_path / "other.json").write_text(json.dumps(entries))
    monkeypatch.setenv("PGBED_CATALOG", str(tmp_path / "other.json"))
    with pytest.raises(UserError) as raised:
        one("16.3-prebuilt")
    message = str(raised.value)
    assert message.startswith("build '16.3-prebuilt' failed: no such luck (")
    assert "\n" not in message
    assert "build-16.3-prebuilt.log" in message


@pytest.mark.outside
def test_a_beta_is_not_available_without_its_source(real: dict[str, str]) -> None:
    if real["PGBED_PACKAGE_SET"] != "hostpkgs":
        pytest.skip("nixpkgs fetches it")
    with pytest.raises(UserError, match=r"build '17beta1' is not available here"):
        one("17beta1")
