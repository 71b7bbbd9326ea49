"""A run folder is its user's: signed, and neither tampered with, copied, moved to another machine nor another's."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.journal import signature
from engine.journal.manifest import read_manifest
from engine.journal.runs import planned
from engine.journal.writer import create_run
from tests.support.journal import make_run

REFUSED = r"you did not begin this run here, or it has been changed; bench run --plan \S+/manifest\.json shows"


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of this test's key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "pgbed" / "key"


@pytest.fixture
def run(key: Path, tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", repeats=1, unfinished=range(2))


def test_the_key_is_made_once_and_is_the_users_alone(key: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", repeats=1, unfinished=range(2))
    secret = key.read_bytes()
    assert len(secret) == signature.KEY_BYTES and key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700 and [path.name for path in key.parent.iterdir()] == ["key"]
    make_run(tmp_path / "other", repeats=1, unfinished=range(2))
    assert key.read_bytes() == secret
    assert planned(run, signed=True) == read_manifest(run)


def test_a_signature_is_on_the_disk_before_its_manifest_is(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    create_run(tmp_path / "run", {})
    assert synced[-2:] == [signature.NAME, "manifest.json.part"]


def _tampered(run: Path) -> Path:
    path = run / "manifest.json"
    path.write_text(path.read_text().replace("/opt/16.3", "/opt/evil"))
    return run


def _copied(run: Path) -> Path:
    shutil.copytree(run, run.parent / "elsewhere" / "run")
    return run.parent / "elsewhere" / "run"


def _copied_back(run: Path) -> Path:
    run.rename(run.parent / "old")
    shutil.copytree(run.parent / "old", run)
    return run


def _renamed(run: Path) -> Path:
    return run.rename(run.parent / "other")


def _unsigned(run: Path) -> Path:
    (run / signature.NAME).unlink()
    return run


def _of_another_run(run: Path) -> Path:
    other = make_run(run.parent / "other", repeats=1, unfinished=range(2))
    shutil.copyfile(other / signature.NAME, run / signature.NAME)
    return run


def _signed_in_jest(run: Path) -> Path:
    (run / signature.NAME).write_bytes(b"\xff" * 100)
    return run


def _by_a_link(run: Path) -> Path:
    (run / signature.NAME).rename(run.parent / "signature")
    (run / signature.NAME).symlink_to(run.parent / "signature")
    return run


def _without_a_key(run: Path) -> Path:
    signature.key_path().unlink()
    return run


def _of_another_user(run: Path) -> Path:
    signature.key_path().write_bytes(bytes(signature.KEY_BYTES))
    return run


@pytest.mark.parametrize(
    "change",
    [
        _tampered, _copied, _copied_back, _renamed, _unsigned, _of_another_run, _signed_in_jest, _by_a_link,
        _without_a_key, _of_another_user,
    ],
)  # fmt: skip
def test_what_is_not_this_users_own_run_is_refused_but_read(run: Path, change: Callable[[Path], Path]) -> None:
    changed = change(run)
    with pytest.raises(UserError, match=REFUSED):
        planned(changed, signed=True)
    assert planned(changed).cells


def test_a_run_of_another_machine_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "machine-id").write_text("another\n")
    monkeypatch.setattr(signature, "MACHINE_ID", tmp_path / "machine-id")
    with pytest.raises(UserError, match=REFUSED):
        planned(run, signed=True)


@pytest.mark.parametrize("written", [b"", b"\n", b"\xff\n"])
def test_a_machine_without_an_id_is_told_from_others_by_its_name(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch, written: bytes
) -> None:
    (tmp_path / "machine-id").write_bytes(written)
    monkeypatch.setattr(signature, "MACHINE_ID", tmp_path / "machine-id")
    monkeypatch.setattr(platform, "node", lambda: "here")
    run = make_run(tmp_path / "run", repeats=1, unfinished=range(2))
    assert planned(run, signed=True)
    monkeypatch.setattr(platform, "node", lambda: "there")
    with pytest.raises(UserError, match=REFUSED):
        planned(run, signed=True)


def test_a_key_that_others_can_read_is_refused(run: Path, key: Path, tmp_path: Path) -> None:
    key.chmod(0o640)
    for use in (lambda: planned(run, signed=True), lambda: make_run(tmp_path / "new", unfinished=range(6))):
        with pytest.raises(UserError, match="others can read or own this key"):
            use()


def test_a_folder_where_others_can_exchange_the_key_is_refused(run: Path, key: Path) -> None:
    key.parent.chmod(0o777)
    with pytest.raises(UserError, match="others can change what is in it"):
        planned(run, signed=True)


def test_a_key_that_is_a_link_or_too_short_is_refused(run: Path, key: Path, tmp_path: Path) -> None:
    key.rename(tmp_path / "key")
    key.symlink_to(tmp_path / "key")
    with pytest.raises(UserError, match=REFUSED):
        planned(run, signed=True)
    with pytest.raises(UserError, match="the key that signs your runs cannot be made"):
        make_run(tmp_path / "new", unfinished=range(6))
    key.unlink()
    key.touch(0o600)
    with pytest.raises(UserError, match="not a key of 32 bytes"):
        planned(run, signed=True)


@pytest.mark.outside  # only root can give a file to another user
def test_a_key_of_another_user_is_refused(run: Path, key: Path) -> None:
    os.chown(key, 65534, 65534)
    with pytest.raises(UserError, match="others can read or own this key"):
        planned(run, signed=True)


def test_a_user_without_a_home_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(UserError, match="this user has no home"):
        signature.key_path()
