"""Trees, revisions, patches and variants, built by Nix from a tree of PostgreSQL's shape; needs git and Nix."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.builds import derivation, from_source, resolve, user_builds
from engine.builds.nix import BuildFailed
from engine.cli import catalog, pin
from engine.core.errors import UserError
from engine.core.model import Build
from tests.support import smalltree
from tests.support.realnix import wrapper_environment

pytestmark = pytest.mark.outside


@pytest.fixture(autouse=True)
def real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    settings = wrapper_environment()
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PGBED_SERVERS", raising=False)
    monkeypatch.setenv("PGBED_CCACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return settings


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return smalltree.make_repository(tmp_path / "postgres")


@pytest.fixture
def build(tmp_path: Path) -> Callable[[str], Build]:
    def one(spec: str) -> Build:
        (found,) = resolve.resolve([spec], lambda _: None, tmp_path / "roots")
        return found

    return one


def says(build: Build) -> str:
    return subprocess.run([Path(build.prefix) / "bin" / "postgres"], capture_output=True, text=True, check=True).stdout


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_tree_is_built_as_it_is_and_kept_by_its_content(
    tree: Path,
    build: Callable[[str], Build],
    tmp_path: Path,
    new_folder: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = new_folder() / "ccache"
    compiled.mkdir()
    compiled.chmod(0o777)  # whoever builds
    monkeypatch.setenv("PGBED_CCACHE", str(compiled))
    clean = build(f"mine={tree}")
    head = smalltree.git(tree, "rev-parse", "HEAD")
    assert (clean.label, clean.version, clean.provenance) == ("mine", "18.99", "source")
    assert clean.source == f"commit {head[:12]}"
    assert says(clean) == "postgres (PostgreSQL) 18.99\n"
    assert "--enable-dtrace" in clean.flags and "-fno-omit-frame-pointer" in clean.flags
    assert "gcc" in clean.compiler.lower()
    link = tmp_path / "roots" / f"built-{clean.digest}"
    assert str(link.resolve()) == clean.prefix
    assert any(path.is_file() for path in compiled.rglob("*"))
    kept = subprocess.run(["nix-store", "--query", "--roots", clean.prefix], capture_output=True, text=True, check=True)
    assert str(link) in kept.stdout

    # Neither another name nor what counts for nothing makes another build.
    (tree / "doc" / "manual.sgml").write_text("rewritten\n")
    (tree / "config.mk").write_text("left by a build in place\n")
    assert build(f"again={tree}").prefix == clean.prefix
    assert build(f"committed=git:{tree}@v1").prefix == clean.prefix

    replaced(tree / "src/backend/postgres.c", "return 0;", 'puts("mine");\n    return 0;')
    changed = build(f"mine={tree}")
    assert says(changed).endswith("mine\n")
    assert changed.source.startswith(f"commit {head[:12]} with changes ")
    (tree / "src/backend/new.h").write_text("\n")
    another = build(f"mine={tree}")
    assert another.source != changed.source and another.prefix != changed.prefix
    assert build(f"old=git:{tree}@HEAD").prefix == clean.prefix
    assert from_source.made_here(clean, tmp_path / "roots")
    assert from_source.prune(tmp_path / "roots", {changed.digest}, age_s=-1) == 2
    assert link.is_symlink() is False and (tmp_path / "roots" / f"built-{changed.digest}").is_symlink()
    assert not from_source.made_here(clean, tmp_path / "roots")


def test_a_tree_outside_git_is_known_by_its_files(tmp_path: Path, build: Callable[[str], Build]) -> None:
    found = build(f"mine={smalltree.make_tree(tmp_path / 'unpacked')}:cassert:O3")
    assert says(found).startswith("checked\n")
    assert "--enable-cassert" in found.flags and "-O3" in found.flags
    assert found.source.startswith("a tree outside git, files ")


def test_what_does_not_compile_shows_the_compilers_words_and_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    replaced(tree / "src/backend/postgres.c", "return 0;", "return nothing;")
    said: list[str] = []
    with pytest.raises(BuildFailed, match=r"build 'mine' failed: .*postgres\.c:\d+:\d+: error: .*nothing") as raised:
        resolve.resolve([f"mine={tree}"], said.append, tmp_path / "roots")
    assert "\n" not in str(raised.value) and raised.value.log.read_text()
    assert any("error:" in line for line in raised.value.lines)
    assert [line for line in said if line.startswith("mine | ")] == [f"mine | {line}" for line in raised.value.lines]
    assert not list((tmp_path / "roots").glob("*"))
    assert not [path for path in (tmp_path / "cache" / "pgbed").iterdir() if path.is_dir() and path.name != "ccache"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mine={0}/src", "neither an install .bin/postgres. nor a source tree of PostgreSQL"),
        ("mine={0}/nowhere", "there is no folder"),
        ("mine={0}:O9", r"unknown variant ':O9' \(known: O3, lto, cassert, CFLAGS=FLAGS\)"),
        ("mine={0}/other", "is no source of PostgreSQL: its configure is another's"),
        ("mine={0}/unpacked", r"was built in place; clean it first: make -C .* distclean"),
        ("new=git:{0}@v9", r"has no revision 'v9'$"),
        ("new=git:{0}@empty", r"at empty is no source of PostgreSQL \(configure and src/backend\)"),
        ("new=git:{0}/../elsewhere@v1", "is not a git repository"),
        ("new=git:{0}/nowhere@v1", "there is no folder"),
        ("new=git:{0}-shallow@v1~1", "has no revision 'v1~1'; it is a shallow clone: git fetch --unshallow"),
        ("13.16+{0}/nowhere.patch", "there is no patch file"),
        ("17.0-prebuilt:O3", "17.0-prebuilt was built by others; only what is built here can be changed"),
        ("16.3={0}", "'16.3' is the label of another build: give .* another name"),
    ],
)
def test_what_cannot_be_built_is_one_line(tree: Path, spec: str, message: str, tmp_path: Path) -> None:
    if "other" in spec:
        smalltree.make_tree(tree / "other")
        replaced(tree / "other/configure", "PostgreSQL", "SomethingElse")
    elif "unpacked" in spec:
        (smalltree.make_tree(tree / "unpacked") / "config.status").touch()
    elif "shallow" in spec:
        smalltree.git(tree, "commit", "--quiet", "--allow-empty", "--message", "later")
        smalltree.git(tree, "tag", "--force", "v1")
        smalltree.git(tree, "clone", "--quiet", "--depth=1", f"file://{tree}", f"{tree}-shallow")
    elif "empty" in spec:
        smalltree.git(tree, "checkout", "--quiet", "--orphan", "empty")
        smalltree.git(tree, "rm", "--quiet", "-rf", "configure")
        smalltree.commit(tree, "nothing")
    elif "elsewhere" in spec:
        (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UserError, match=message) as raised:
        resolve.check(spec.format(tree))
    assert "\n" not in str(raised.value)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served as postgresql.org serves its own."""
    folder = tmp_path / "served"
    folder.mkdir()
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(folder))) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        monkeypatch.setenv("PGBED_RELEASES", f"http://127.0.0.1:{http.server_port}/")
        yield folder
        http.shutdown()


def released(served: Path, tree: Path, version: str) -> Path:
    """The tree as a tarball where releases are, with its checksum."""
    folder = served / f"v{version}"
    folder.mkdir()
    tarball = folder / f"postgresql-{version}.tar.bz2"
    with tarfile.open(tarball, "w:bz2") as packed:
        packed.add(tree, f"postgresql-{version}")
    checksum = hashlib.sha256(tarball.read_bytes()).hexdigest()
    tarball.with_name(tarball.name + ".sha256").write_text(f"{checksum}  {tarball.name}\n")
    return tarball


def test_a_release_is_pinned_by_its_published_checksum_then_patched(
    server: Path, tmp_path: Path, build: Callable[[str], Build], monkeypatch: pytest.MonkeyPatch
) -> None:
    tarball = released(server, smalltree.make_tree(tmp_path / "unpacked"), "18.99")
    pinned = CliRunner().invoke(pin.pin, ["18.99"])
    assert pinned.exit_code == 0, pinned.output
    table = user_builds.table_path().read_text()
    assert b64encode(hashlib.sha256(tarball.read_bytes()).digest()).decode() in table
    assert "is known already" in CliRunner().invoke(pin.pin, ["18.99"]).output
    labels = [entry.label for entry in resolve.catalog()]
    assert labels[-2:] == ["18.99", "18.99-builtin"]

    shutil.copy(tarball, tmp_path)
    monkeypatch.setenv("BENCH_TARBALLS", str(tmp_path))
    plain, builtin = build("18.99"), build("18.99-builtin")
    assert (plain.version, plain.source, plain.initdb_args) == ("18.99", "", ())
    assert (builtin.label, builtin.initdb_args) == ("18.99-builtin", from_source.BUILTIN_ARGS)
    assert builtin.prefix == plain.prefix == build("mine=18.99").prefix
    assert says(plain) == "postgres (PostgreSQL) 18.99\n"

    user_builds.table_path().write_text(f'{table}\n[builds."18.99-O3"]\nfrom = "18.99"\ncflags = ["-O3"]\n')
    patch = tmp_path / "say more.patch"
    patch.write_text("--- a/Makefile\n+++ b/Makefile\n@@ -1,1 +1,1 @@\n-include config.mk\n+include ./config.mk\n")
    patched = build(f"18.99-O3+{patch}")
    assert (patched.label, patched.patches) == ("18.99-O3-say-more", ("say-more.patch",))
    assert "-O3" in patched.flags and patched.prefix != plain.prefix
    patch.write_text(patch.read_text().replace("-include config.mk", "-include another.mk"))
    with pytest.raises(BuildFailed, match=r"'18\.99-say-more' failed: .*FAILED at 1"):
        build(f"18.99+{patch}")


def test_what_is_newest_is_asked_only_when_asked_for(server: Path) -> None:
    notes = catalog.builds().notes
    assert notes == ("newest: of those here; --newest asks postgresql.org",)
    (server / "versions.json").write_text(
        '[{"major": "18", "latestMinor": "77", "supported": true},'
        ' {"major": "13", "latestMinor": "16", "supported": false},'
        ' {"major": "9.6", "latestMinor": "24", "supported": false}]'
    )
    listing = catalog.builds(ask=True)
    assert listing.notes == ("18.77 is released: bench pin 18.77 adds it",)
    assert {row["newest"] for row in listing.rows if row["version"].startswith("18")} == {"18.77"}


@pytest.mark.parametrize(
    ("version", "published", "message"),
    [
        ("18.98", None, "there is no such release"),
        ("18.98", "0" * 64 + "  postgresql-18.97.tar.bz2\n", "holds no checksum of postgresql-18.98.tar.bz2"),
        ("18.98", "<html>", "holds no checksum"),
        ("../18", None, "is no release of PostgreSQL"),
    ],
)
def test_a_release_without_a_checksum_is_not_pinned(
    server: Path, version: str, published: str | None, message: str
) -> None:
    if published is not None:
        (server / f"v{version}").mkdir()
        (server / f"v{version}" / f"postgresql-{version}.tar.bz2.sha256").write_text(published)
    with pytest.raises(UserError, match=message):
        user_builds.pin(version)
    assert not user_builds.table_path().exists()


def test_where_nothing_is_reached_a_checksum_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBED_RELEASES", "http://127.0.0.1:1")
    with pytest.raises(
        UserError, match=r"cannot be reached: .*refused; PGBED_RELEASES names a mirror, and --sha256 HEX"
    ):
        user_builds.pin("18.98")
    user_builds.pin("18.98", "AB" * 32)
    assert user_builds.own_builds()["18.98"].source.startswith("sha256-q6ur")


def test_a_known_build_under_another_name_is_kept_for_a_run_that_goes_on(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    old = build("old=17.0-prebuilt")
    assert (old.label, old.prefix) == ("old", build("17.0-prebuilt").prefix)
    assert from_source.made_here(old, tmp_path / "roots")


def test_a_derivation_without_a_change_is_the_same() -> None:
    known = next(entry for entry in resolve.catalog() if entry.label == "13.16")
    same = derivation.derive(known.drv, derivation.Change())
    assert (same.drv, same.out) == (known.drv, known.out)


def test_flags_for_this_machine_only_reach_the_compiler() -> None:
    known = derivation.read_derivation(Path(next(entry for entry in resolve.catalog() if entry.label == "13.16").drv))
    plain, native = (
        derivation._request(known, derivation.Change(cflags=(flag,)))["env"] for flag in ("-O3", "-march=native")
    )
    assert {name: native[name] for name in native.keys() - plain.keys()}["NIX_ENFORCE_NO_NATIVE"] == "0"
    assert (native["preferLocalBuild"], native["allowSubstitutes"]) == (True, False)


def test_a_derivation_as_nixpkgs_writes_it_comes_out_the_same() -> None:
    expression = """
      let source = builtins.toFile "a-source" "it"; in derivation {
        name = "tried"; system = "x86_64-linux"; builder = "/bin/sh"; outputs = [ "dev" "out" ];
        args = [ "-c" "cat ${source}" ]; __structuredAttrs = false; strictDeps = true; patches = "";
        buildPhase = "tab\\there \\"quoted\\" \\\\back\\nline $x \\${y}"; buildRecord = "{\\"patches\\":[]}";
        buildInputs = [ (derivation { name = "input"; system = "x86_64-linux"; builder = "/bin/sh"; }) ];
      }
    """
    made = subprocess.run(["nix-instantiate", "--expr", expression], capture_output=True, text=True, check=True)
    drv = made.stdout.strip().partition("!")[0]
    assert derivation.derive(drv, derivation.Change()).drv == drv
