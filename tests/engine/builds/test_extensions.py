"""Extensions as labels name them: what is refused, and what contrib of a server at hand has."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engine.builds import extensions, resolve
from engine.core.errors import UserError
from tests.support.smallextension import make_extension


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the wrapper names it over hostpkgs."""
    file = tmp_path / "extensions.json"
    file.write_text(json.dumps({"names": ["pgvector"], "sources": [], "drv": "/nix/store/none.drv"}))
    monkeypatch.setenv("PGBED_EXTENSIONS", str(file))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pg_trmg", r"build 'b': unknown extension 'pg_trmg' \(nearest: pg_trgm, .*\); the source of another"),
        ("pgvektor", r"unknown extension .pgvektor. \(nearest: pgvector, "),
        ("pgvector", r"the source of extension pgvector comes with nixpkgs, .* name it as \+pgvector=PATH$"),
        ("pg_walinspect", "pg_walinspect came with PostgreSQL 15, and this is 14$"),
        ("pg_overexplain", "pg_overexplain came with PostgreSQL 18, and this is 14$"),
        ("own={0}/nowhere", "extension own: .*/nowhere is not a folder$"),
        ("own={0}/no-makefile", "has no Makefile that uses PGXS"),
        ("own={0}/no-control", r"has no control file \(own.control\), so CREATE EXTENSION would not find it$"),
    ],
)
def test_what_is_no_extension_is_one_line(tmp_path: Path, word: str, message: str) -> None:
    make_extension(tmp_path / "no-makefile").joinpath("Makefile").write_text("all:\n")
    make_extension(tmp_path / "no-control").joinpath("counting.control").unlink()
    with pytest.raises(UserError, match=message) as raised:
        extensions.check("b", word.format(tmp_path), 14, compiled=True)
    assert "\n" not in str(raised.value)


def test_an_extension_of_a_tree_needs_a_server_that_is_compiled_here(tmp_path: Path) -> None:
    word = f"own={make_extension(tmp_path / 'own')}"
    extensions.check("b", word, 18, compiled=True)
    with pytest.raises(UserError, match="extension own cannot be built, because this server came without headers"):
        resolve.check([f"16.3-prebuilt+{word}"])


def test_contrib_comes_with_every_server() -> None:
    (build,) = resolve.resolve(["16.3-prebuilt+pg_trgm+auto_explain"], lambda _: None)
    assert (build.label, build.extensions) == (
        "16.3-prebuilt-pg_trgm-auto_explain",
        ("pg_trgm of contrib", "auto_explain of contrib"),
    )
    assert build.prefix == str((Path(os.environ["PGBED_SERVERS"]) / "16.3-prebuilt").resolve())
    with pytest.raises(UserError, match="went with PostgreSQL 17, and this is 18"):
        resolve.check(["18.6-prebuilt+adminpack"])
    with pytest.raises(UserError, match="extension pg_trgm given twice"):
        resolve.check(["16.3-prebuilt+pg_trgm+pg_trgm"])


def test_a_server_without_one_of_contrib_is_named(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    with pytest.raises(UserError, match=f"the server in {tmp_path} came without the extension pg_trgm"):
        extensions.check_contrib("b", ["pg_trgm"], tmp_path)
