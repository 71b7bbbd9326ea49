"""Labels to servers: the pure parts, installs at hand, and (outside a Nix build) Nix itself."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from base64 import b64encode
from pathlib import Path

import pytest

from engine import builds, nix
from engine.errors import UserError

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
    """As the wrapper sets things over hostpkgs, with a small catalogue and no server at hand."""
    catalogue = tmp_path / "catalog.json"
    catalogue.write_text(json.dumps(CATALOG))
    monkeypatch.setenv("PGBED_CATALOG", str(catalogue))
    monkeypatch.setenv("PGBED_FLAKE", "/nix/store/flake")
    monkeypatch.setenv("PGBED_PACKAGE_SET", "hostpkgs")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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


def one(spec: str) -> builds.Build:
    (build,) = builds.resolve([spec], lambda _: None)
    return build


# -- labels --------------------------------------------------------------------------------------------------------


def test_unknown_label_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown build '16\.4' .*16\.3"):
        one("16.4")


def test_without_the_wrapper_the_error_says_how_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGBED_CATALOG")
    with pytest.raises(UserError, match=r"nix run \.#bench"):
        builds.catalog()


def test_unreadable_catalogue_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "catalog.json").write_text("[{]")
    with pytest.raises(UserError, match=r"cannot be read"):
        builds.catalog()


def test_prebuilt_label_keeps_the_locale_provider() -> None:
    labels = {known.label: known.prebuilt_label for known in builds.catalog()}
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
    plain, builtin = builds.resolve(["17.0-prebuilt", "17.0-prebuilt-builtin"], lambda _: None)
    assert (plain.prefix, plain.digest) == (builtin.prefix, builtin.digest)
    assert plain.initdb_args == ()
    assert builtin.initdb_args == tuple(BUILTIN)


def test_source_not_at_hand_is_replaced_by_its_prebuilt_and_labelled_so(servers: Path) -> None:
    said: list[str] = []
    (build,) = builds.resolve(["17.0-builtin"], said.append)
    assert build.label == "17.0-prebuilt-builtin"
    assert build.provenance == "prebuilt"
    assert said == ["17.0-builtin: its source is not at hand (BENCH_TARBALLS); taking 17.0-prebuilt-builtin"]


def test_two_specs_that_come_down_to_one_build_give_one(servers: Path) -> None:
    assert len(builds.resolve(["16.3", "16.3-prebuilt"], lambda _: None)) == 1


@pytest.mark.parametrize("label", ["17beta1", "16.3-limit"])
def test_build_that_cannot_be_had_says_why_in_one_line(servers: Path, label: str) -> None:
    with pytest.raises(UserError) as raised:
        one(label)
    message = str(raised.value)
    assert message.startswith(f"build '{label}' cannot be had here: ")
    assert "BENCH_TARBALLS" in message
    assert "\n" not in message


# -- the user's own installs ---------------------------------------------------------------------------------------


def test_local_install_is_asked_for_its_version(tmp_path: Path) -> None:
    prefix = install(tmp_path / "mine", "18devel")
    build = one(f"mine={prefix}")
    server = (prefix / "bin" / "postgres").read_bytes()
    assert (build.label, build.version, build.provenance) == ("mine", "18devel", "local")
    assert build.digest == hashlib.sha256(server).hexdigest()


def test_local_install_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"bin/postgres is not an executable file"):
        one(f"mine={tmp_path}")


@pytest.mark.parametrize("name", ["", "a b", "../up", "-x"])
def test_local_name_must_be_a_label(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"cannot name a build"):
        one(f"{name}={tmp_path}")


def test_local_name_must_not_be_another_builds_label(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'16\.3' is the label of another build"):
        one(f"16.3={install(tmp_path / 'mine', '16.3')}")


def test_local_program_that_is_no_postgres_is_refused(tmp_path: Path) -> None:
    prefix = install(tmp_path / "mine", "1")
    (prefix / "bin" / "postgres").write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(UserError, match=r"says 'hello', not a PostgreSQL version"):
        one(f"mine={prefix}")


# -- sources -------------------------------------------------------------------------------------------------------


def test_supplied_tarball_with_another_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_TARBALLS", str(tmp_path))
    (tmp_path / "postgresql-17beta1.tar.bz2").write_bytes(b"something else")
    with pytest.raises(UserError, match=r"postgresql-17beta1\.tar\.bz2 refused: its sha256 is [0-9a-f]{64}, that of"):
        one("17beta1")


def test_tarball_folder_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_TARBALLS", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"BENCH_TARBALLS names .*nowhere, which is not a folder"):
        one("17beta1")


# -- Nix's words ---------------------------------------------------------------------------------------------------


def test_hash_mismatch_becomes_one_line() -> None:
    log = f"""building '{STORE}-postgresql-16.3.tar.bz2.drv'...
error: hash mismatch in fixed-output derivation '{STORE}-postgresql-16.3.tar.bz2.drv':
         specified: sha256-AA=
            got:    sha256-BB=
error: 1 dependencies of derivation '{STORE}-postgresql-16.3.drv' failed to build
"""
    assert nix.explain_failure("16.3", log) == (
        "build '16.3': download of postgresql-16.3.tar.bz2 refused, "
        "its hash is sha256-BB= and the pinned one sha256-AA="
    )


def test_failure_is_told_in_the_builders_last_words() -> None:
    log = f"""building '{STORE}-postgresql-16.3.drv'...
postgresql> configure: WARNING: old
postgresql> applying limit.patch
postgresql> 1 out of 1 hunk FAILED
error: builder for '{STORE}-postgresql-16.3.drv' failed with exit code 1
"""
    message = nix.explain_failure("16.3-limit", log)
    assert message.startswith("build '16.3-limit' failed: ")
    assert message.endswith("applying limit.patch | 1 out of 1 hunk FAILED")


def test_failure_without_a_builder_is_told_in_nixs_words() -> None:
    log = "warning: dirty\nerror: cannot find flake 'flake:nixpkgs'\n"
    assert nix.explain_failure("16.3", log) == "build '16.3' failed: cannot find flake 'flake:nixpkgs'"


def test_failure_stays_one_short_line() -> None:
    message = nix.explain_failure("16.3", "postgresql> " + "x" * 5000)
    assert len(message) < 400


@pytest.mark.parametrize(
    ("log", "doing"),
    [
        ("", ""),
        (f"building '{STORE}-postgresql-13.16.drv'...\npostgresql> checking\n", "building postgresql-13.16"),
        (f"building '{STORE}-postgres-12.11.0.jar.drv'...\n", "fetching postgres-12.11.0.jar"),
        (f"copying path '{STORE}-gcc-14.3.0' from 'there'...\n", "fetching gcc-14.3.0"),
    ],
)
def test_progress_says_what_nix_is_at(log: str, doing: str) -> None:
    assert nix.doing_now(log) == doing


def test_over_nixpkgs_the_flake_is_built_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGBED_PACKAGE_SET", "nixpkgs")
    command = nix.build_command("postgresql-16_3", tmp_path)
    assert "--override-input" not in command
    assert command[-1] == "path:/nix/store/flake#postgresql-16_3"
    assert command[command.index("--out-link") + 1] == str(tmp_path / "postgresql-16_3")


def test_over_hostpkgs_the_package_set_comes_with_the_flake() -> None:
    command = nix.build_command("postgresql-16_3", None)
    assert command[command.index("--override-input") + 1 :][:2] == ["nixpkgs", "path:/nix/store/flake/nix/hostpkgs"]
    assert "--no-link" in command


def test_without_nix_the_error_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match=r"\./bench, which installs it"):
        one("16.3-prebuilt")


# -- Nix itself ----------------------------------------------------------------------------------------------------


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The environment that the installed wrapper sets; ./check names the wrapper."""
    wrapper = os.environ.get("PGBED_BENCH")
    if not wrapper or shutil.which("nix") is None:
        pytest.skip("needs Nix and the built application (PGBED_BENCH): run ./check")
    lines = (Path(wrapper).parents[1] / "share" / "pgbed" / "environment").read_text().splitlines()
    settings = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return settings


@pytest.mark.outside
def test_nix_realises_the_label_and_keeps_it(real: dict[str, str], tmp_path: Path) -> None:
    said: list[str] = []
    plain, builtin = builds.resolve(["17.0-prebuilt", "17.0-prebuilt-builtin"], said.append, tmp_path)
    assert (tmp_path / "postgresql-17_0-prebuilt").resolve() == Path(plain.prefix)
    assert Path(plain.prefix).name.startswith(plain.digest + "-")
    assert "GCC" in plain.compiler
    assert builtin.prefix == plain.prefix
    assert said[-1].startswith("17.0-prebuilt-builtin: ready")


@pytest.mark.outside
def test_nix_failure_is_one_line_and_names_its_log(
    real: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    catalogue = [entry("16.3-prebuilt", "prebuilt", attr="postgresql-of-nobody")]
    (tmp_path / "other.json").write_text(json.dumps(catalogue))
    monkeypatch.setenv("PGBED_CATALOG", str(tmp_path / "other.json"))
    with pytest.raises(UserError) as raised:
        one("16.3-prebuilt")
    message = str(raised.value)
    assert message.startswith("build '16.3-prebuilt' failed: ")
    assert "\n" not in message
    assert "build-16.3-prebuilt.log" in message


@pytest.mark.outside
def test_a_beta_cannot_be_had_without_its_source(real: dict[str, str]) -> None:
    if real["PGBED_PACKAGE_SET"] != "hostpkgs":
        pytest.skip("nixpkgs fetches it")
    with pytest.raises(UserError, match=r"build '17beta1' cannot be had here"):
        one("17beta1")
