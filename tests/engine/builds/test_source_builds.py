"""Trees, revisions, patches and variants, built by Nix from a tree of PostgreSQL's shape; needs git and Nix."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from engine.builds import resolve
from engine.builds.nix import BuildFailed
from engine.core.errors import UserError
from engine.core.model import Build
from tests.support import smalltree
from tests.support.compiled import compiled_here
from tests.support.realnix import says

pytestmark = [pytest.mark.outside, pytest.mark.usefixtures("real")]


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
    assert resolve.made_here(clean, tmp_path / "roots")
    assert resolve.prune(tmp_path / "roots", {changed.digest}, age_s=-1) == 2
    assert link.is_symlink() is False and (tmp_path / "roots" / f"built-{changed.digest}").is_symlink()
    assert not resolve.made_here(clean, tmp_path / "roots")


def test_a_tree_outside_git_is_known_by_its_files(tmp_path: Path, build: Callable[[str], Build]) -> None:
    mine = build(f"mine={smalltree.make_tree(tmp_path / 'unpacked')}:cassert:O3")
    assert says(mine).startswith("checked\n")
    assert "--enable-cassert" in mine.flags and "-O3" in mine.flags
    assert mine.source.startswith("a tree outside git, files ")


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which Nix builds, if it has no daemon. In the usual one other tests build, too, and killed builds
    leave folders.
    """
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def test_what_is_built_again_is_the_same_bit_by_bit(
    tree: Path, build: Callable[[str], Build], own_folder: Path
) -> None:
    """Outside a sandbox the folder alone may differ; tests/rebuild.sh builds whole servers again."""

    def differences(of: Build) -> str:
        derived = subprocess.run(
            ["nix-store", "--query", "--deriver", of.prefix], capture_output=True, text=True, check=True
        ).stdout.strip()
        again = ["nix-store", "--realise", "--check", derived, "--option", "substituters", "", "--option", "sandbox"]
        return subprocess.run([*again, "false"], capture_output=True, text=True, check=False).stderr

    (tree / "src/backend/new.h").write_text(f"/* {own_folder} */\n")  # no such tree is in the store
    assert "error" not in differences(build(f"mine={tree}"))
    replaced(tree / "Makefile", "include config.mk", "include config.mk\nCFLAGS += -DNOW=1$(shell date +%N)")
    replaced(tree / "src/backend/postgres.c", "return 0;", 'printf("%d", NOW);\n    return 0;')
    assert "may not be deterministic" in differences(build(f"mine={tree}"))


def test_a_tree_without_configure_is_built_by_meson(tmp_path: Path, build: Callable[[str], Build]) -> None:
    mine = build(f"mine={smalltree.make_meson_tree(tmp_path / 'later')}:cassert")
    assert says(mine).startswith("checked\n") and mine.version == "18.99"
    usual = build(f"usual={smalltree.make_tree(tmp_path / 'today')}:cassert")
    assert mine.flags == usual.flags and mine.digest != usual.digest


def test_a_failed_compilation_shows_the_compilers_words(tree: Path, tmp_path: Path) -> None:
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
        (
            "mine={0}:O9",
            r"unknown variant ':O9' \(known: O2, O3, nofp, lto, cassert, jit, meson, layoutN, CFLAGS=FLAGS\)",
        ),
        (
            "mine={0}/other",
            "is not PostgreSQL's source: its configure script, or meson.build, belongs to something else",
        ),
        ("mine={0}/unpacked", r"was built in place; clean it first: make -C .* distclean"),
        ("new=git:{0}@v9", r"has no revision 'v9'$"),
        ("new=git:{0}@empty", r"at empty is not PostgreSQL's source \(configure or meson.build, and src/backend\)"),
        ("new=git:{0}/../elsewhere@v1", "is not a git repository"),
        ("new=git:{0}/nowhere@v1", "there is no folder"),
        ("new=git:{0}-shallow@v1~1", "has no revision 'v1~1'; it is a shallow clone: git fetch --unshallow"),
        ("13.16+{0}/nowhere.patch", "there is no patch file"),
        ("17.0-prebuilt:O3", "17.0-prebuilt is prebuilt; only builds that are compiled here can be changed"),
        ("13.16:O2:O3:O2", "build '13.16-O2-O3-O2': :O2 is a second variant of one kind; leave one out"),
        ("13.16:layout1:layout2", ":layout2 is a second variant of one kind; leave one out"),
        ("13.16:meson", "PostgreSQL 13 cannot be built by Meson: 16 and later can"),
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
        resolve.check([spec.format(tree)])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("label", compiled_here())
def test_a_layout_is_linked_of_the_same_objects(label: str, build: Callable[[str], Build]) -> None:
    def symbols(server: Build) -> list[str]:
        listed = ("nm", "--numeric-sort", "--format=posix", Path(server.prefix) / "bin" / "postgres")
        return [line.split()[0] for line in subprocess.run(listed, capture_output=True, text=True).stdout.splitlines()]

    one, other = (symbols(build(f"{label}:layout{number}")) for number in (1, 2))
    assert one != other and sorted(one) == sorted(other) and len(one) > 10_000
    assert build(f"a={label}:layout1").flags.startswith("layout 1, CFLAGS=")


def test_a_renamed_known_build_is_kept_for_a_resumed_run(build: Callable[[str], Build], tmp_path: Path) -> None:
    old = build("old=17.0-prebuilt")
    assert (old.label, old.prefix) == ("old", build("17.0-prebuilt").prefix)
    assert resolve.made_here(old, tmp_path / "roots")
