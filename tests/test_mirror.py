"""Each module has a test file of its name, or is named with the file that tests it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mirror

HOME = Path(__file__).parents[1]


@pytest.mark.screens
def test_no_module_is_without_tests() -> None:
    assert list(mirror.complaints(HOME)) == []


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    for path in (*("engine/" + name for name in ("a.py", "b.py", "c.py", "__init__.py")), "tests/engine/test_a.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    entries = {"engine/a.py": "tests/engine/test_a.py", "engine/b.py": "tests/none.py", "engine/d.py": "tests/none.py"}
    (tmp_path / "tests" / "mirror.toml").write_text("\n".join(f'"{name}" = "{file}"' for name, file in entries.items()))
    assert [complaint.partition(":")[0].partition(" ")[0] for complaint in mirror.complaints(tmp_path)] == [
        "engine/a.py", "engine/b.py", "engine/c.py", "engine/d.py",
    ]  # fmt: skip
