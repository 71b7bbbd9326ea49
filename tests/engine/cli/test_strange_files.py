"""Files that a user names and that are no regular ones: none is read, whatever it is named for, and all are refused."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.builds import resolve, source_tree, user_builds
from engine.cli import settings
from engine.core.errors import UserError
from engine.farm import nix_builders
from engine.guest import kernels
from engine.plan import planfile
from engine.postgres import configs
from workloads.own import observed, statements
from workloads.own.data import of_dump, of_schema
from workloads.pgbench import scripts

Reader = Callable[[Path, pytest.MonkeyPatch], object]


def _of_own_folder(name: str, read: Callable[[], object]) -> Reader:
    """The reader of a file in ~/.config/pgbed, which is a link to the file here."""

    def reader(path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
        folder = path.parent / f"{path.name}-config"
        (folder / "pgbed").mkdir(parents=True)
        (folder / "pgbed" / name).symlink_to(path)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
        return read()

    return reader


def _of_tree(path: Path, _: object) -> object:
    tree = path.parent / f"{path.name}-tree"
    tree.mkdir()
    (tree / "configure").symlink_to(path)
    return source_tree.tree_at("x", tree)


READERS: dict[str, Reader] = {
    "plan": lambda path, _: planfile.read(path),
    "config": lambda path, _: configs.resolve([str(path)]),
    "settings": _of_own_folder("config.toml", settings.apply),
    "builds": _of_own_folder("builds.toml", user_builds.own_builds),
    "patch": lambda path, _: resolve.check_patch("x", str(path)),
    "configure": _of_tree,
    "kernel": lambda path, _: kernels.release_of(path),
    "builders": lambda path, _: nix_builders.lines(f"@{path}"),
    "statements": lambda path, _: statements.read(path),
    "export": lambda path, _: observed.statements(_named_csv(path), 5, None),
    "dump": lambda path, _: of_dump(str(path)),
    "schema": lambda path, _: of_schema(str(path), None),
    "rows": lambda path, _: of_schema(__file__, str(path)),
    "script": lambda path, _: scripts.read(str(path)),
}


def _named_csv(path: Path) -> str:
    link = path.parent / f"{path.name}.csv"
    link.symlink_to(path)
    return str(link)


@pytest.fixture
def strange(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A link to a file of the wanted kind."""
    link = tmp_path / "strange"
    reading, writing = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        os.mkfifo(tmp_path / "fifo")
        listener.bind(str(tmp_path / "socket"))
        places = {"fifo": tmp_path / "fifo", "socket": tmp_path / "socket", "pipe": Path(f"/proc/self/fd/{reading}")}
        link.symlink_to(places.get(request.param, Path(request.param)))
        yield link
    os.close(reading)
    os.close(writing)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("strange", ["fifo", "pipe", "socket", "/dev/zero", "/proc/kmsg", "/proc/self/maps"],
                         indirect=True)  # fmt: skip
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_not_regular_is_refused_unread(
    reader: str, strange: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises((UserError, ValueError)) as refused:
        READERS[reader](strange, monkeypatch)
    assert "not a regular file" in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_device_is_not_even_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    really_open = os.open

    def recording(path: str | Path, *arguments: int) -> int:
        opened.append(str(path))
        return really_open(path, *arguments)

    monkeypatch.setattr(os, "open", recording)
    with pytest.raises(UserError, match="not a regular file; write its content to one first"):
        planfile.read(Path("/dev/zero"))
    assert "/dev/zero" not in opened
