"""What root runs at every boot is what root alone can change, whoever began the run."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.host import resume_unit

pytestmark = pytest.mark.outside  # as root
SOMEBODY = 64801
Harm = Callable[[Path, pytest.MonkeyPatch], None]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's alone; tests' own are below one that others can write to."""
    folder = Path(tempfile.mkdtemp(prefix="pgbed-test-", dir="/run"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def began(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Begins a run with a PATH of root's; the script that every boot runs."""
    monkeypatch.setenv("PATH", f"{place}/bin:/usr/bin")
    monkeypatch.setenv("HOME", "/root")
    for name in [name for name in os.environ if name.startswith("PGBED_")]:
        monkeypatch.delenv(name)
    for folder in ("bin", "etc/systemd/system", "run"):
        (place / folder).mkdir(parents=True)

    def install() -> str:
        resume_unit.check_code()
        resume_unit.install(place / "run", ["-m", "engine"], place / "run/engine.log", place)
        return (place / resume_unit.SCRIPT).read_text()

    return install


def _given(path: Path) -> Path:
    os.chown(path, SOMEBODY, SOMEBODY)
    return path


def _program(place: Path, _: pytest.MonkeyPatch) -> None:
    place.joinpath("bin").chmod(0o775)


def _above(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "home/bin").mkdir(parents=True)
    _given(place / "home")
    monkeypatch.setenv("PATH", f"/usr/bin:{place}/home/bin")


def _linked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "home").mkdir()
    (_given(place / "home") / "own").mkdir()
    (place / "link").symlink_to("home/../home/own")
    monkeypatch.setenv("PGBED_SERVERS", f"{place}/link/16.3")


def _interpreter(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(Path("/bin/sh").resolve(), place / "python")
    _given(place / "python")
    (place / "through").symlink_to(place / "python")
    monkeypatch.setattr(sys, "executable", str(place / "through"))


def _module(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "code/engine").mkdir(parents=True)
    _given(place / "code/engine").joinpath("new.py").touch()
    monkeypatch.setattr(resume_unit, "CODE", place / "code")


def _home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "bob").mkdir()
    monkeypatch.setenv("HOME", str(_given(place / "bob")))


def _sticky(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBED_PGBENCH", "/var/tmp/pgbench")


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (_program, "{}/bin"), (_above, "{}/home"), (_linked, "{}/home"), (_interpreter, "{}/python"),
        (_module, "{}/code/engine"), (_home, "{}/bob"), (_sticky, "/var/tmp"),
    ],
)  # fmt: skip
def test_what_others_could_change_is_refused_by_its_name(
    place: Path, began: Callable[[], str], monkeypatch: pytest.MonkeyPatch, harm: Harm, named: str
) -> None:
    began()
    harm(place, monkeypatch)
    with pytest.raises(UserError) as raised:
        began()
    assert str(raised.value).startswith(
        f"{named.format(place)}: users other than root can change it, and root would run it"
    )


@pytest.mark.parametrize("path", ["bin:/nowhere", "/nowhere:", "/nowhere:~/bin"])
def test_a_path_that_is_another_in_each_folder_is_refused(
    began: Callable[[], str], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("PATH", path)
    with pytest.raises(UserError, match=r"^PATH holds (bin|an empty part|~/bin), which depends on the working folder"):
        began()


def test_what_python_was_told_to_load_is_left_out(
    place: Path, began: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "LD_PRELOAD", "BASH_ENV"):
        monkeypatch.setenv(name, "/tmp/theirs" if name == "PYTHONPATH" else "")
    monkeypatch.setenv("PGBED_OUT", "/var/tmp/pgbed")
    script = began()
    assert "theirs" not in script and "LD_PRELOAD" not in script and "export PGBED_OUT=/var/tmp/pgbed" in script
    assert f"export PYTHONPATH={resume_unit.CODE}\n" in script and "export PYTHONSAFEPATH=1\n" in script
    loop = place / "loop"
    loop.symlink_to("loop")
    monkeypatch.setenv("PGBED_SERVERS", str(loop))
    began()


def test_all_that_leads_to_a_place_is_looked_at(place: Path) -> None:
    (place / "real/deep").mkdir(parents=True)
    (place / "one").symlink_to("two/../two")
    (place / "two").symlink_to(place / "real")
    found = list(resume_unit._way(place / "one/deep/none/more"))
    assert found[-1] == place / "real/deep" and {place, place / "real", Path("/run"), Path("/")} <= set(found)
