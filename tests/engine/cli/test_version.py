"""The text of `bench --version`: of a wrapper's, of an installer's, and of a source tree's."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from engine.cli import version
from engine.cli.version import version_line

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGBED_CHECKOUT", "PGBED_PACKAGES", "PGBED_REVISION"):
        monkeypatch.delenv(name, raising=False)


def test_a_wrapper_names_the_revision_and_the_package_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBED_PACKAGES", "nixpkgs 25.11.20260510.8fd9daa")
    assert version_line().endswith(
        ", revision unknown (changed files or other inputs), package set nixpkgs 25.11.20260510.8fd9daa"
    )
    monkeypatch.setenv("PGBED_REVISION", "540265a9")
    assert ", revision 540265a9, package set nixpkgs" in version_line()


@pytest.mark.parametrize(
    ("origin", "revision"),
    [
        ({"url": "https://x/pgbed.git", "vcs_info": {"vcs": "git", "commit_id": "540265a9"}}, "from revision 540265a9"),
        ({"url": "file:///pgbed", "dir_info": {}}, "of no known revision"),
        (None, "of no known revision"),
    ],
)
def test_an_installation_may_have_a_revision_but_no_package_set(
    origin: object, revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "pgbed-9.8.dist-info"
    left.mkdir()
    (left / "METADATA").write_text("Metadata-Version: 2.1\nName: pgbed\nVersion: 9.8\n")
    (left / "INSTALLER").write_text("uv\n")
    if origin:
        (left / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(tmp_path)
    assert version_line() == f"bench 9.8, installed by uv, {revision}, no package set (not built by Nix)"


def test_the_version_is_in_one_place_and_licences_are_listed() -> None:
    assert version_line().startswith(f"bench {PROJECT['version']}, ")
    bundled = (Path(version.__file__).parents[1] / "report" / "vendor" / "README.md").read_text()
    named = {line.split("|")[3].strip() for line in bundled.splitlines() if line.startswith("| `")}
    assert {name.replace(" ", "-") for name in named} | {"PostgreSQL"} == set(PROJECT["license"].split(" AND "))
