"""The user's own table of builds: releases pinned by their checksum, then patched; needs git and Nix."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.builds import user_builds
from engine.builds.catalog import BUILTIN_ARGS
from engine.builds.catalog import catalog as entries
from engine.builds.nix import BuildFailed
from engine.cli import lists, pin
from engine.core.errors import UserError
from engine.core.model import Build
from tests.support import smalltree
from tests.support.realnix import says

pytestmark = [pytest.mark.outside, pytest.mark.usefixtures("real")]


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


def test_a_release_is_pinned_by_its_published_checksum(
    server: Path, tmp_path: Path, build: Callable[[str], Build], monkeypatch: pytest.MonkeyPatch
) -> None:
    tarball = released(server, smalltree.make_tree(tmp_path / "unpacked"), "18.99")
    pinned = CliRunner().invoke(pin.pin, ["18.99"])
    assert pinned.exit_code == 0, pinned.output
    table = user_builds.table_path().read_text()
    assert b64encode(hashlib.sha256(tarball.read_bytes()).digest()).decode() in table
    assert "is known already" in CliRunner().invoke(pin.pin, ["18.99"]).output
    labels = [entry.label for entry in entries()]
    assert labels.index("18.99") + 1 == labels.index("18.99-builtin")

    shutil.copy(tarball, tmp_path)
    monkeypatch.setenv("BENCH_TARBALLS", str(tmp_path))
    plain, builtin = build("18.99"), build("18.99-builtin")
    assert (plain.version, plain.source, plain.initdb_args) == ("18.99", "", ())
    assert (builtin.label, builtin.initdb_args) == ("18.99-builtin", BUILTIN_ARGS)
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
    notes = lists.builds().notes
    assert notes == ("newest: of those here; --newest asks postgresql.org",)
    (server / "versions.json").write_text(
        '[{"major": "18", "latestMinor": "77", "supported": true},'
        ' {"major": "13", "latestMinor": "16", "supported": false},'
        ' {"major": "9.6", "latestMinor": "24", "supported": false}]'
    )
    listing = lists.builds(ask=True)
    assert listing.notes == ("18.77 is released: bench pin 18.77 adds it",)
    assert {row["newest"] for row in listing.rows if row["version"].startswith("18")} == {"18.77"}


@pytest.mark.parametrize(
    ("version", "published", "message"),
    [
        ("18.98", None, "there is no such release"),
        ("18.98", "0" * 64 + "  postgresql-18.97.tar.bz2\n", "holds no checksum of postgresql-18.98.tar.bz2"),
        ("18.98", "<html>", "holds no checksum"),
        ("../18", None, "is not a release of PostgreSQL"),
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
        UserError,
        match=r"cannot be reached: .*refused; releases in config.toml names a mirror, and bench pin 18.98 --sha256 HEX",
    ):
        user_builds.pin("18.98")
    user_builds.pin("18.98", "AB" * 32)
    assert user_builds.own_builds()["18.98"].source.startswith("sha256-q6ur")
