"""The wheel of an installer: every module and every file that the code reads, working without Nix."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.journal import make_run

pytestmark = pytest.mark.screens  # which a wheel holds, too
HOME = Path(__file__).parents[2]
PACKAGES = ("engine", "probes", "tui", "workloads")
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def needed(home: Path) -> set[str]:
    """All files of the packages, by their path."""
    files = (path for package in PACKAGES for path in (home / package).rglob("*") if path.is_file())
    return {str(path.relative_to(home)) for path in files if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of a wheel, built as an installer would."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(HOME / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HOME / "pyproject.toml", source)
    (source / "README.md").touch()
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder / "installed")
    return folder / "installed"


def bench(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`bench` of the wheel, in an environment without Nix and without the flake's wrapper."""
    environment = {"PATH": "/nonexistent", "HOME": "/nonexistent", "PYTHONPATH": str(installed), "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-c", "from engine.cli.main import main; main()", *arguments]
    return subprocess.run(command, cwd=installed.parent, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_wheel_has_every_file_of_the_packages(installed: Path) -> None:
    assert needed(installed) == needed(HOME)


def test_a_run_is_compared_and_listed_without_nix(installed: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    out = ("--out", str(tmp_path))
    for command in (("compare", "run", *out), ("list", "runs", *out), ("list", "configs")):
        done = bench(installed, *command)
        assert done.returncode == 0, done.stderr
        assert done.stdout


@pytest.mark.slow
def test_the_terminal_starts_without_nix(installed: Path) -> None:
    done = bench(installed, "watch", "--help")
    assert done.returncode == 0, done.stderr
    screens = [sys.executable, "-c", "import tui.app; import tui.__main__"]
    subprocess.run(screens, cwd=installed.parent, env={"PYTHONPATH": str(installed)}, check=True)


@pytest.mark.slow
def test_servers_are_refused_in_one_line_that_names_nix(installed: Path, tmp_path: Path) -> None:
    done = bench(installed, "run", "--pg", "16.3", "--out", str(tmp_path / "runs"))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("bench: servers are built with Nix: ")
